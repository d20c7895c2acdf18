"""A tool that writes records in a uniform random order, with bounded memory.

Reading records one by one in the new order, as a dataset does, would take a seek per record on slow
storage and decompress files again and again. A tool reads all data anyway. So a first pass reads
the files from start to end and distributes the records to buckets on disk, each for a part of the
new order. A second pass sorts one bucket after another in memory.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from ..order.selection import Numbers
from ..order.shuffle import check_seed, records_at
from ..records.formats import TFRECORD
from ..records.record_block import RecordBlock
from ..storage.compression import Compression
from ..storage.local import StrPath
from ..storage.temporary import make_temporary_folder
from ..writing.output_group import OutputGroup, open_named
from ..writing.shards import ShardFiles
from .outputs import check_file_name, refuse_shard_inputs
from .record_files import RecordFiles
from .report import JobReport, OnError, Result, Watcher

# Approximate size of a bucket, unless that makes too many of them.
_BUCKET_BYTES = 1 << 25
_MAX_BUCKETS = 256


def shuffle(
    paths: StrPath | Iterable[StrPath],
    name: StrPath,
    *,
    num_shards: int | None = None,
    max_bytes: int | None = None,
    seed: int = 0,
    compression: Compression | None = None,
    index: bool = True,
    force: bool = False,
    on_error: OnError = "raise",
    allow_missing: bool = False,
    jobs: int = 1,
    watcher: Watcher | None = None,
) -> Result:
    """Write the records of all files to shards, in a uniform random order.

    The order is that of the first epoch of ``TFRecordDataset(paths, shuffle=True, seed=seed)``.
    With ``num_shards`` the records go to all shards in turn. Exactly one of ``num_shards`` and
    ``max_bytes`` must be given.

    The tool needs disk space for a copy of the data, in a hidden folder beside the shards that is
    removed at the end. It needs memory for 1/256 of the data or 32 MiB, whichever is larger (three
    times that for records of few bytes), and 2 bytes per record, or 10 with an index.

    Args:
        paths: Files, glob patterns or directories. Compression is detected from the content.
        name: Common start of the output paths.
        num_shards: Number of shards.
        max_bytes: Largest size of a shard in bytes. One shard after another is filled.
        seed: Seed of the order.
        compression: Compression of the outputs: ``None``, ``"gzip"`` or ``"zlib"``.
        index: Whether each output gets an index ``.tfidx``.
        force: Whether outputs that exist are replaced. By default they are refused.
        on_error: ``"raise"``, or ``"skip"`` to skip and count damaged records. After a damaged
            length the rest of a file is lost.
        allow_missing: Read the files that exist, even if their names ``name-00001-of-00003`` say
            that a directory or pattern lacks some.
        jobs: Number of threads that read. The output does not depend on it.
        watcher: Receiver of progress messages.

    Returns:
        Paths, numbers of records and other facts of the outputs.

    Raises:
        CorruptRecordError: If a record is damaged, unless it is skipped.
        TruncatedFileError: If a file is truncated, unless its rest is skipped.
        FileNotFoundError: If a path matches no file, or shards are missing.
        FileExistsError: If there are shards of this name, unless they may be replaced.
        ValueError: If not exactly one of ``num_shards`` and ``max_bytes`` is given, an argument is
            invalid, the name is a folder, or an input could be a shard.
    """
    name = check_file_name(name)
    seed = check_seed(seed)
    report = JobReport(on_error, watcher)
    files = RecordFiles(paths, report, allow_missing=allow_missing)
    refuse_shard_inputs(files.paths, name, None if force else num_shards)
    with OutputGroup(force=force) as group:
        shards = ShardFiles(
            group,
            name,
            num_shards,
            max_bytes=max_bytes,
            compression=compression,
            index=index,
            replaces_others=force,
        )
        report.watcher.started(2 * files.size)
        with _temporary_folder(name) as temporary:
            buckets = _Buckets(temporary, name, files, seed)
            buckets.fill(jobs)
            for bucket in range(len(buckets)):
                block = buckets.take(bucket)
                for position in range(len(block)):
                    shards.write(block[position])
                size = int(block.lengths.sum()) + TFRECORD.overhead_bytes * len(block)
                report.add(len(block), size)
        outputs = shards.finish()
    return report.result(outputs, shards.counts)


@contextmanager
def _temporary_folder(name: str) -> Iterator[str]:
    folder = make_temporary_folder(name)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Buckets:
    """Temporary files, each with the records of one part of the new order.

    A bucket consists of chunks: the number of records, their numbers, their lengths, all int64, and
    their data. One object per record in memory would take more space than most records.

    Args:
        folder: Existing folder of the buckets.
        name: Path that errors of the system name.
        files: Records to distribute.
        seed: Seed of the order.
    """

    def __init__(self, folder: str, name: str, files: RecordFiles, seed: int) -> None:
        count = min(_MAX_BUCKETS, max(1, -(-files.size // _BUCKET_BYTES)))
        self._bounds = [len(files) * number // count for number in range(count + 1)]
        self._paths = [os.path.join(folder, str(bucket)) for bucket in range(count)]
        self._name = name
        self._files = files
        self._seed = seed

    def __len__(self) -> int:
        return len(self._bounds) - 1

    def fill(self, jobs: int) -> None:
        """Write each record to its bucket."""
        bucket_of = self._bucket_of_each()
        # Records are counted in the second pass, when they are written to the shards.
        blocks = self._files.blocks(self._files.all, jobs, count_records=False)
        with ExitStack() as stack, closing(blocks):
            opened = [stack.enter_context(open_named(path, self._name)) for path in self._paths]
            for block in blocks:
                buckets = bucket_of[block.numbers]
                for bucket in np.unique(buckets).tolist():
                    _append_chunk(opened[bucket], block, np.flatnonzero(buckets == bucket))

    def take(self, bucket: int) -> RecordBlock:
        """Return the records of a bucket in the new order, and remove its file."""
        path = self._paths[bucket]
        buffer = np.fromfile(path, np.uint8)
        os.unlink(path)  # the shards need the space
        numbers, starts, lengths = _read_chunks(buffer)
        wanted = self._numbers_of(bucket)
        wanted = wanted[np.isin(wanted, numbers)]  # damaged records are missing
        order = np.searchsorted(numbers, wanted)  # they were written in ascending order
        return RecordBlock(buffer, starts[order], lengths[order], wanted)

    def _numbers_of(self, bucket: int) -> Numbers:
        """Return the numbers of the records of a bucket, in the new order."""
        positions = np.arange(self._bounds[bucket], self._bounds[bucket + 1])
        return records_at(positions, self._bounds[-1], True, self._seed, 0)

    def _bucket_of_each(self) -> npt.NDArray[np.uint16]:
        """Return the bucket of each record."""
        found = np.empty(self._bounds[-1], np.uint16)
        for bucket in range(len(self)):
            found[self._numbers_of(bucket)] = bucket
        return found


def _append_chunk(file: BinaryIO, block: RecordBlock, positions: npt.NDArray[np.int64]) -> None:
    file.write(np.int64(len(positions)).tobytes())
    file.write(block.numbers[positions].tobytes())
    file.write(block.lengths[positions].tobytes())
    file.writelines(map(block.view, positions.tolist()))


def _read_chunks(
    buffer: npt.NDArray[np.uint8],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the number, start and length of each record in a bucket."""
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
