"""Record files in a uniform random order, in two passes over the data and bounded memory.

Reading records here and there in the order they are written would be simpler, and is what a dataset
does. But it takes a seek for each record where storage is slow, decompresses files again and again,
and here all data is read anyway. So the records are dealt to buckets on disk, each for a stretch of
the new order, by one pass from front to back; then one bucket after another is put in order in
memory.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack, closing
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from ..convert.jobs import OnError, Tally, Watcher
from ..convert.outputs import Written
from ..convert.staging import open_output
from ..order.selection import Numbers
from ..order.shuffle import checked_seed, records_at
from ..records.formats import TFRECORD
from ..records.record_block import RecordBlock
from ..storage.compression import Compression
from ..storage.local import StrPath
from ..writing.sharded import ShardedWriter
from .rearrange import open_shards
from .record_files import RecordFiles

# A bucket has about so many bytes, unless there would be too many of them.
_BUCKET_BYTES = 1 << 25
_MOST_BUCKETS = 256


def shuffle_files(
    paths: StrPath | Iterable[StrPath],
    name: StrPath,
    *,
    num_shards: int | None = None,
    max_bytes: int | None = None,
    seed: int = 0,
    compression: Compression | None = None,
    index: bool = True,
    on_error: OnError = "raise",
    jobs: int = 1,
    watcher: Watcher | None = None,
) -> Written:
    """Writes the records of all files into shards, in a uniform random order.

    The order is that of ``TFRecordDataset(paths, shuffle=True, seed=seed)`` in its first epoch;
    by ``num_shards`` it is dealt to the shards by turns.

    Needs room for the data once more, in a hidden folder beside the shards, which is removed in the
    end; and memory for 1/256 of the data, or 32 MiB if that is more, for records of few bytes three
    times that, and 2 bytes a record, or 10 with an index.

    Args:
        paths: Files, patterns or directories; compressed or not is told by content.
        name: How the shards begin.
        num_shards: How many there are.
        max_bytes: Instead of that, how many bytes of file each may have.
        seed: Another one is another order.
        compression: Of the shards: ``None``, ``"gzip"`` or ``"zlib"``.
        index: Whether each shard gets its ``.tfidx``.
        on_error: ``"raise"``, or ``"skip"``: damaged records are left out, and counted.
        jobs: Threads that read. The result does not depend on it.
        watcher: Is told how it gets on.

    Raises:
        CorruptRecordError, TruncatedFileError: a file is damaged, unless that is skipped.
        FileNotFoundError: a path stands for no file.
        FileExistsError: another number of shards has the name already.
        ValueError: not exactly one of ``num_shards`` and ``max_bytes`` is given, the seed is no
            whole number, the name is a folder, or a shard is an input.
    """
    seed = checked_seed(seed)
    tally = Tally(on_error, watcher)
    files = RecordFiles(paths, tally)
    shards = open_shards(
        files.paths, name, num_shards, max_bytes=max_bytes, compression=compression, index=index
    )
    tally.watcher.started(2 * files.size)
    with shards, _Buckets(name, len(files), files.size, seed) as buckets:
        buckets.deal(files, tally, jobs)
        for bucket in range(len(buckets)):
            _copy(buckets.take(bucket), shards, tally)
    return Written.of(shards.paths, tally)


def _copy(block: RecordBlock, shards: ShardedWriter, tally: Tally) -> None:
    for position in range(len(block)):
        shards.write(block[position])
    tally.add(len(block), int(block.lengths.sum()) + TFRECORD.overhead_bytes * len(block))


class _Buckets:
    """Temporary files, each with the records of a stretch of the new order."""

    def __init__(self, name: StrPath, records: int, size: int, seed: int) -> None:
        count = min(_MOST_BUCKETS, max(1, -(-size // _BUCKET_BYTES)))
        self._bounds = [records * number // count for number in range(count + 1)]
        self._seed = seed
        self._name = name
        target = os.path.abspath(name)
        self._folder = tempfile.TemporaryDirectory(
            prefix=f".{os.path.basename(target)}-", dir=os.path.dirname(target)
        )

    def __enter__(self) -> _Buckets:  # noqa: PYI034  # nobody derives from it
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def deal(self, files: RecordFiles, tally: Tally, jobs: int) -> None:
        """Writes each record to its bucket."""
        bucket_of = self._bucket_of()
        # Counted in the second pass, when they are where they belong.
        blocks = files.blocks(files.all, tally, jobs, counted=False)
        with ExitStack() as stack, closing(blocks):
            opened = [stack.enter_context(open_output(path, self._name)) for path in self._paths]
            for block in blocks:
                buckets = bucket_of[block.numbers]
                for bucket in np.unique(buckets).tolist():
                    _append(opened[bucket], block, np.flatnonzero(buckets == bucket))

    def take(self, bucket: int) -> RecordBlock:
        """The records of a bucket in the new order; its file is removed."""
        path = self._paths[bucket]
        buffer = np.fromfile(path, np.uint8)
        os.unlink(path)  # its room is needed for the shards
        numbers, starts, lengths = _contents(buffer)
        wanted = self._numbers_of(bucket)
        wanted = wanted[np.isin(wanted, numbers)]  # one that is damaged is missing
        order = np.searchsorted(numbers, wanted)  # they were dealt in ascending order
        return RecordBlock(buffer, starts[order], lengths[order], wanted)

    @property
    def _paths(self) -> list[str]:
        return [os.path.join(self._folder.name, f"{i}") for i in range(len(self))]

    def _numbers_of(self, bucket: int) -> Numbers:
        """Numbers of the records of a bucket, in the new order."""
        positions = np.arange(self._bounds[bucket], self._bounds[bucket + 1])
        return records_at(positions, self._bounds[-1], True, self._seed, 0)

    def _bucket_of(self) -> npt.NDArray[np.uint16]:
        """The bucket of each record."""
        found = np.empty(self._bounds[-1], np.uint16)
        for bucket in range(len(self)):
            found[self._numbers_of(bucket)] = bucket
        return found


# A bucket's file is a chunk after another: how many records it has, their numbers, their lengths,
# all int64, and their data. One object for each record in memory would take more than most records.


def _append(file: BinaryIO, block: RecordBlock, positions: npt.NDArray[np.int64]) -> None:
    """Adds a chunk."""
    file.write(np.int64(len(positions)).tobytes())
    file.write(block.numbers[positions].tobytes())
    file.write(block.lengths[positions].tobytes())
    file.writelines(map(block.view, positions.tolist()))


def _contents(
    buffer: npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Number, place and length of each record in the file of a bucket."""
    chunks = [np.empty((3, 0), np.int64)]
    at = 0
    while at < len(buffer):
        count = int(np.frombuffer(buffer, np.int64, 1, at)[0])
        numbers, lengths = np.frombuffer(buffer, np.int64, 2 * count, at + 8).reshape(2, count)
        at += 8 + 16 * count
        ends = at + np.cumsum(lengths)
        chunks.append(np.stack([numbers, ends - lengths, lengths]))
        at = int(ends[-1])
    numbers, starts, lengths = np.concatenate(chunks, axis=1)
    return numbers, starts, lengths
