"""A tool that writes records in a uniform random order, with bounded memory.

Reading records one by one in the new order, as a dataset does, would take a seek per record on slow
storage and decompress files again and again. A tool reads all data anyway. So a first pass reads
the files from start to end and distributes the records to buckets on disk, each for a part of the
new order. A second pass sorts one bucket after another in memory.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from typing import Unpack

import numpy as np

from .._order.shuffle import check_seed, positions_of
from .._records.formats import TFRECORD
from .._records.record_block import RecordBlock
from .._storage.local import StrPath
from .._storage.location import Location
from .._storage.temporary import make_temporary_folder
from .._writing.named_file import open_named
from .._writing.output_group import OutputGroup
from .options import CopyOptions, open_inputs, open_shards, with_defaults
from .outputs import check_file_name, refuse_shard_inputs
from .record_chunks import decode_chunks, encode_chunk
from .record_files import RecordFiles
from .report import Result

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
    **options: Unpack[CopyOptions],
) -> Result:
    """Write the records of all files to shards, in a uniform random order.

    The order is that of the first epoch of ``TFRecordDataset(paths, shuffle=True, seed=seed)``.
    With ``num_shards`` the records go to all shards in turn; a damaged record that is skipped takes
    its turn. Exactly one of ``num_shards`` and ``max_bytes`` must be given.

    The tool needs disk space for a copy of the data, in a hidden folder that is removed at the end:
    beside the shards, or in the system's folder for temporary files if these are remote. It needs
    memory for 1/256 of the data or 32 MiB, whichever is larger (three times that for records of few
    bytes), and 8 bytes per record with an index.

    Args:
        paths: Files, glob patterns, directories or URLs. Compression is detected from the content.
        name: Common start of the output paths.
        num_shards: Number of shards.
        max_bytes: Largest size of a shard in bytes. One shard after another is filled.
        seed: Seed of the order.
        options: Keyword options of all tools, see :class:`CopyOptions`: ``compression``, ``index``,
            ``force``, ``on_error``, ``allow_missing``, ``jobs``, ``watcher`` and
            ``storage_options``.

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
    given = with_defaults(options)
    start = check_file_name(name, given["storage_options"])
    seed = check_seed(seed)
    files = open_inputs(paths, given)
    report = files.report
    refuse_shard_inputs(files.locations, start, None if given["force"] else num_shards)
    with OutputGroup(force=given["force"]) as group:
        shards = open_shards(group, start, num_shards, max_bytes, given)
        report.watcher.started(2 * files.size)
        with _temporary_folder(start) as folder:
            for bucket in _fill_buckets(folder, start, files, seed, given["jobs"]):
                block = _take_sorted(bucket)
                for row, position in enumerate(block.numbers.tolist()):
                    shards.write(block[row], position % num_shards if num_shards else None)
                size = int(block.lengths.sum()) + TFRECORD.overhead_bytes * len(block)
                report.add(len(block), size)
        outputs = shards.finish()
    return report.result(outputs, shards.counts)


@contextmanager
def _temporary_folder(name: Location) -> Iterator[str]:
    if name.local_path is None:
        folder = tempfile.mkdtemp(prefix="torchrec_io-")
    else:
        folder = make_temporary_folder(name)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _fill_buckets(
    folder: str, name: Location, files: RecordFiles, seed: int, jobs: int
) -> list[str]:
    """Write each record to a temporary file with the records of one part of the new order.

    A bucket consists of chunks, in which the number of a record is its position in the new order.
    One object per record in memory would take more space than most records.

    Args:
        folder: Existing folder of the buckets.
        name: Path that errors of the system name.
        files: Records to distribute.
        seed: Seed of the order.
        jobs: Number of threads that read.

    Returns:
        Paths of the buckets, in the new order.
    """
    count = min(_MAX_BUCKETS, max(1, -(-files.size // _BUCKET_BYTES)))
    bounds = np.array([len(files) * number // count for number in range(count + 1)])
    paths = [os.path.join(folder, str(bucket)) for bucket in range(count)]
    # Records are counted in the second pass, when they are written to the shards.
    blocks = files.blocks(files.all, jobs, count_records=False)
    with ExitStack() as stack, closing(blocks):
        opened = [stack.enter_context(open_named(path, name)) for path in paths]
        for block in blocks:
            positions = positions_of(block.numbers, len(files), seed)
            placed = replace(block, numbers=positions)
            buckets = np.searchsorted(bounds, positions, side="right") - 1
            for bucket in np.unique(buckets).tolist():
                chunk = encode_chunk(placed.rows(np.flatnonzero(buckets == bucket)))
                opened[bucket].write(chunk)
    return paths


def _take_sorted(bucket: str) -> RecordBlock:
    """Return the records of a bucket in the new order, and remove its file."""
    block = decode_chunks(np.fromfile(bucket, np.uint8))
    os.unlink(bucket)  # the shards need the space
    return block.rows(np.argsort(block.numbers))
