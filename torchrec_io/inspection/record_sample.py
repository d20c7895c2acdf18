"""The records to inspect of some files: all of them, or some from all parts of all files."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

import numpy as np

from .._records.index import RecordIndex
from .._records.opening import find_indexes
from .._records.scan import blocks_by_number
from .._records.scanned_block import Gap, ScannedBlock
from .._records.sequential import iter_blocks
from .._records.stream_window import UNKNOWN_END
from .._storage.byte_source import Ints
from .._storage.location import Location, threads_for
from .._storage.thread_pool import map_in_threads
from ..checks import check_integer
from ..errors import CorruptRecordError, TruncatedFileError

MaxRecords: TypeAlias = int | Literal["auto"] | None
# Function that yields some records of a file, in order. Each is called by one thread.
Piece: TypeAlias = Callable[[], Iterator[ScannedBlock]]

# All records are read of files of at most this size, or with at most that many records, if their
# indexes tell so. That many are read of other files.
WHOLE_BYTES = 256 << 20
WHOLE_RECORDS = 100_000
# Files with few records may still be large.
_WHOLE_INDEXED_BYTES = 4 << 30
# Files without an index are scanned for the number of their records if they are this small.
_SCANNED_BYTES = 16 << 20

_RUNS = 16
_PIECE_BYTES = 32 << 20


@dataclass(frozen=True)
class RecordSample:
    """The records to inspect.

    Attributes:
        pieces: Parts of the records, in order.
        total: Number of all records of the files; None if it is unknown, or if all are inspected.
        is_all: Whether these are all records.
    """

    pieces: Sequence[Piece]
    total: int | None
    is_all: bool


def choose_records(files: Sequence[Location], max_records: MaxRecords) -> RecordSample:
    """Choose records to inspect. The choice depends only on the files and their indexes.

    No index is written.

    Args:
        files: The files.
        max_records: Largest number of records, "auto", or None for all.

    Raises:
        ValueError: If ``max_records`` is neither a positive integer nor one of the above.
    """
    if max_records not in ("auto", None):
        max_records = check_integer("max_records", max_records, 1)
    sizes = map_in_threads(_size_of, files, threads_for(files))
    size = sum(sizes)
    indexes = find_indexes(files)
    if max_records is None or (max_records == "auto" and size <= WHOLE_BYTES):
        return _all_of(files, indexes)
    unknown = (each for each, index in zip(sizes, indexes, strict=True) if index is None)
    if sum(unknown) <= _SCANNED_BYTES:
        indexes = map_in_threads(_with_index, [*zip(files, indexes, strict=True)])
    total = sum(map(_count, indexes))
    if max_records == "auto":
        is_small = total <= WHOLE_RECORDS and size <= _WHOLE_INDEXED_BYTES
        most, most_bytes = WHOLE_RECORDS, WHOLE_BYTES
    else:
        is_small = total <= max_records
        most, most_bytes = max_records, None
    return _all_of(files, indexes) if is_small else _sample(files, indexes, most, most_bytes)


def all_records(indexes: Sequence[RecordIndex]) -> RecordSample:
    """Return all records of indexed files."""
    return _all_of([index.location for index in indexes], indexes)


def _size_of(file: Location) -> float:
    return file.stamp().size if file.is_seekable() else math.inf


def _with_index(file: tuple[Location, RecordIndex | None]) -> RecordIndex | None:
    """Return the index of a file, which is built if it is None."""
    location, index = file
    return RecordIndex.build(location, allow_damage=True) if index is None else index


def _count(index: RecordIndex | None) -> float:
    """Return the number of records of a file; infinite if it is unknown."""
    return math.inf if index is None else len(index)


# ---- all records ----


def _all_of(files: Iterable[Location], indexes: Iterable[RecordIndex | None]) -> RecordSample:
    pieces = map(_pieces_of, files, indexes)
    return RecordSample([*itertools.chain(*pieces)], None, is_all=True)


def _pieces_of(file: Location, index: RecordIndex | None) -> list[Piece]:
    """Return pieces of all records of a file, with its damage."""
    if index is None or index.damage is not None:
        return [partial(_front, file)]
    return _split(index, range(len(index)))


def _split(index: RecordIndex, numbers: range | Ints) -> list[Piece]:
    """Return pieces of some records of a file."""
    parts = 1  # of a compressed file, which is read from start to end
    if index.compression is None:
        size = index.facts.data_bytes * len(numbers) / max(1, len(index))
        parts = max(1, min(len(numbers), round(size / _PIECE_BYTES)))
    bounds = [len(numbers) * part // parts for part in range(parts + 1)]
    ranges = itertools.pairwise(bounds)
    return [partial(blocks_by_number, index, numbers[begin:end]) for begin, end in ranges]


# ---- some records ----


def _sample(
    files: Sequence[Location],
    indexes: Sequence[RecordIndex | None],
    max_records: int,
    max_bytes: int | None,
) -> RecordSample:
    counts = [*map(_count, indexes)]
    total = sum(counts)
    if max_bytes is not None and total < math.inf:
        # Records may be so large that fewer suffice.
        size = sum(index.stream_end for index in indexes if index is not None)
        max_records = max(1, min(max_records, int(total * max_bytes / max(size, 1))))
        max_bytes = None
    shares = _shares(counts, max_records)
    read = sum(share > 0 for share in shares)
    bytes_per_file = UNKNOWN_END if max_bytes is None else max_bytes // max(read, 1)
    pieces: list[Piece] = []
    for file, index, share in zip(files, indexes, shares, strict=True):
        if share == 0:
            continue
        if index is None or index.compression is not None:
            pieces.append(partial(_front, file, share, bytes_per_file))
        elif share == len(index):
            pieces += _pieces_of(file, index)
        else:
            pieces += _split(index, spread_numbers(len(index), share))
    return RecordSample(pieces, int(total) if total < math.inf else None, is_all=False)


def _shares(counts: Sequence[float], budget: int) -> list[int]:
    """Divide a number of records between files: the same for each, more where others have fewer.

    Of more files than records, those at equal distances get one.
    """
    shares = [0] * len(counts)
    files = [file for file, count in enumerate(counts) if count > 0]
    if len(files) > budget:
        for position in range(budget):
            shares[files[position * len(files) // budget]] = 1
        return shares
    files.sort(key=counts.__getitem__)
    for position, file in enumerate(files):
        shares[file] = int(min(counts[file], budget // (len(files) - position)))
        budget -= shares[file]
    return shares


def spread_numbers(count: int, share: int) -> Ints:
    """Return the numbers of some of the records of a file: runs from its first to its last one."""
    runs = min(share, _RUNS)
    taken = np.arange(share)
    run_of = taken * runs // share
    return taken + (count - share) * run_of // max(1, runs - 1)


def _front(
    location: Location, max_records: float = math.inf, max_bytes: int = UNKNOWN_END
) -> Iterator[ScannedBlock]:
    """Yield the first records of a file, those that start in its first ``max_bytes``.

    Damage that ends the file is a gap.
    """
    left = max_records
    with closing(location.open_stream()) as source:
        try:
            for block in iter_blocks(source):
                damaged = np.array([gap.offset for gap in block.gaps], np.int64)
                starts = np.sort(np.concatenate([block.offsets, damaged]))
                stop = max_bytes if len(starts) <= left else min(max_bytes, int(starts[int(left)]))
                yield block.before(stop)
                left -= len(starts)
                if left <= 0 or starts[-1] >= max_bytes:
                    return
        except (CorruptRecordError, TruncatedFileError) as error:
            yield ScannedBlock.of_gap(source.path, Gap(error, error.offset or 0, 0))
