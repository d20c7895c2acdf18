"""Parts that have the records of every shard together, from which shards are written.

A spill is a file of records with a table of offsets beside it. Its records are in runs, each of
which fits in memory. The records of a run are sorted by shard, and keep their order in a shard.

Record ``i`` of a spill belongs to bucket ``i % buckets``. So a spill does not depend on the number
of records before it: a shard takes another bucket of each spill.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import accumulate

import numpy as np

from .._records.formats import TFRECORD
from .._records.sequential import iter_blocks
from .._storage.byte_source import Ints, read_bytes
from .._storage.location import Location
from .._storage.outputs import write_output
from ..errors import CorruptRecordError

# Memory for the records of a run.
RUN_BYTES = 256 << 20
_TABLE = ".offsets"
_SIZES = ".sizes"
_NO_LIMIT = 1 << 62


def spilled(records: Iterable[bytes], file: Location, buckets: int) -> Iterator[bytes]:
    """Yield records in the order of a spill, and write its table when they end.

    Args:
        records: Records of the part.
        file: Location of the spill.
        buckets: Number of buckets.
    """
    table: list[Ints] = []
    run: list[list[bytes]] = [[] for _ in range(buckets)]
    size = end = 0
    for number, record in enumerate(records):
        run[number % buckets].append(record)
        size += len(record) + TFRECORD.overhead_bytes
        if size >= RUN_BYTES:
            table.append(_offsets(run, end))
            yield from _emptied(run)
            end, size = end + size, 0
    table.append(_offsets(run, end))
    yield from _emptied(run)
    write_table(file, np.concatenate(table))


def write_table(file: Location, offsets: Ints) -> None:
    """Write the table of a spill: for each run, the offset of each bucket and the end."""
    write_output(file.beside(_TABLE), offsets.tobytes())


def _offsets(run: Sequence[Sequence[bytes]], begin: int) -> Ints:
    """Return the offset of each bucket of a run, and the end."""
    sizes = (sum(map(len, bucket)) + len(bucket) * TFRECORD.overhead_bytes for bucket in run)
    return np.fromiter(accumulate(sizes, initial=begin), np.int64, len(run) + 1)


def _emptied(run: list[list[bytes]]) -> Iterator[bytes]:
    for bucket in run:
        yield from bucket
        bucket.clear()


def read_bucket(file: Location, bucket: int, buckets: int) -> Iterator[bytes]:
    """Yield the records of a bucket of a spill.

    From a store, they take four requests: two for the table, and two for the records.

    Raises:
        CorruptRecordError: If the spill is damaged.
        OSError: If it cannot be read.
    """
    row_bytes = (buckets + 1) * 8
    with closing(file.beside(_TABLE).open_now()) as table:
        ends = [
            np.frombuffer(read_bytes(table, row * row_bytes + bucket * 8, 16), np.int64).tolist()
            for row in range(table.stamp.size // row_bytes)
        ]
    slices = [(begin, end) for begin, end in ends if begin < end]
    if slices:
        yield from read_slices(file, slices)


def measured(records: Iterable[bytes], file: Location) -> Iterator[bytes]:
    """Yield records, and write the sizes of their frames when they end.

    Args:
        records: Records of the part.
        file: Location of the part.
    """
    sizes = array("q")
    for record in records:
        sizes.append(len(record) + TFRECORD.overhead_bytes)
        yield record
    write_output(file.beside(_SIZES), sizes.tobytes())


def read_sizes(file: Location) -> Ints:
    """Return the sizes of the frames of a part."""
    with closing(file.beside(_SIZES).open_now()) as sizes:
        return np.frombuffer(read_bytes(sizes, 0, sizes.stamp.size), np.int64)


def read_slices(file: Location, slices: Sequence[tuple[int, int]]) -> Iterator[bytes]:
    """Yield the records between two offsets of a file, several times.

    Args:
        file: The file.
        slices: Offset of the first frame and after the last of each slice.

    Raises:
        CorruptRecordError, TruncatedFileError: If a record is damaged.
        OSError: If the file cannot be read.
    """
    with closing(file.open_now()) as source:
        for begin, end in slices:
            for block in iter_blocks(source, start=begin, end=end, max_record_bytes=_NO_LIMIT):
                for error in block.errors:
                    raise CorruptRecordError(error.reason, path=file.name, offset=error.offset)
                for _, record in block.records():
                    yield record
