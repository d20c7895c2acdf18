"""A global shuffle on a cluster, in two passes over the data, with bounded memory.

The order of the records is a function of the seed: a record has a position, and the position a
shard. So each task knows where its records go, and the result does not depend on the tasks.

A task of the first pass reads a part of the input, and writes the records to one file, sorted by
buckets. A bucket is a range of positions of one shard. A task of the second pass writes one shard:
it collects one bucket after another from all those files, and sorts each in memory.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from contextlib import closing

from .._order.shuffle import check_seed
from .._records.index import RecordIndex
from .._records.scanned_block import with_loss
from .._storage.compression import Compression
from .._storage.digest import digest_text
from .._storage.local import StrPath
from .._storage.remote.options import StorageOptions
from .._writing.shards import buffer_bytes_of
from ..checks import check_integer, counted
from ..tools.outputs import check_file_name, refuse_shard_inputs
from ..tools.report import JobReport, OnError, Result, Watcher
from .bucket_files import BucketFiles, BucketLayout
from .division import DividedRecords
from .extra import import_ray
from .parts import JobPart, PartFolder
from .shard_job import Output, run_parts
from .shared_indexes import open_shared_indexes
from .shared_paths import expand_shared_paths

_MIN_TASK_BYTES = 256 << 20
# Mean number of bytes that a task of the second pass reads at once, of data of more than 1 TiB.
_READ_BYTES = 64 << 10


def shuffle(
    paths: StrPath | Iterable[StrPath],
    name: StrPath,
    *,
    num_shards: int,
    seed: int = 0,
    compression: Compression | None = None,
    index: bool = True,
    force: bool = False,
    on_error: OnError = "raise",
    allow_missing: bool = False,
    task_bytes: int | None = None,
    watcher: Watcher | None = None,
    storage_options: StorageOptions = None,
) -> Result:
    """Write the records of all files to shards, in a uniform random order, on a Ray cluster.

    The shards are those of :func:`torchrec_io.tools.shuffle` with the same arguments. They depend
    on the inputs, ``num_shards`` and ``seed`` alone, not on the number of tasks or machines.

    There are two passes over the data. The first one writes a copy of it to a hidden folder beside
    the shards, sorted by shards. The second one writes each shard in one task, so there should be
    at least as many shards as CPUs. A task needs memory for twice ``task_bytes``, 64 bytes for
    each of its records, and 16 MiB. The shards get their names together, when all are complete. A
    job that was interrupted and is started again with the same arguments continues where it was.

    Args:
        paths: Files, glob patterns, directories or URLs that all machines can read.
        name: Common start of the paths of the shards, ``name-00000-of-00008`` and so on, or of the
            URLs of objects. All machines of the cluster must share the folder.
        num_shards: Number of shards.
        seed: Seed of the order.
        compression: Compression of the shards: ``None``, ``"gzip"``, ``"zlib"`` or
            ``"zstd"``.
        index: Whether each shard gets an index ``.tfidx``.
        force: Whether shards of this name that exist are replaced. By default they are refused.
        on_error: ``"raise"``, or ``"skip"`` to skip and count damaged records. After a damaged
            length the rest of a file without an index is lost.
        allow_missing: Read the files that exist, even if their names ``name-00001-of-00003`` say
            that a directory or pattern lacks some.
        task_bytes: Number of bytes of records that a task holds in memory. A larger record is held
            alone. Default: 256 MiB, and for data of more than 1 TiB the square root of its size
            times 64 KiB: 2.4 GiB for 100 TB.
        watcher: Receiver of progress messages.
        storage_options: Options of remote inputs and outputs, as for :class:`TFRecordDataset`.
            Secrets in them are not sent to other machines: give these in the environment of all
            machines.

    Returns:
        Paths, numbers of records and other facts of the shards.

    Raises:
        ImportError: If Ray is not installed: ``pip install torchrec-io[cluster]``.
        CorruptRecordError: If a record is damaged, unless it is skipped.
        TruncatedFileError: If a file is truncated, unless its rest is skipped.
        FileNotFoundError: If a path matches no file, shards are missing, or machines do not share
            the folder of the outputs.
        BlockingIOError: If another process runs the same job.
        FileExistsError: If there are shards of this name, unless they may be replaced.
        OSError: If a file cannot be read or written, or the name is a URL of HTTP.
        ValueError: If an argument is invalid, the name is a folder, an input could be a shard, or
            shards would have more than the 5 GiB that a store copies.
    """
    import_ray()
    start = check_file_name(name, storage_options)
    report = JobReport(on_error, watcher)
    num_shards = check_integer("num_shards", num_shards, 1)
    output = Output(start, num_shards, None, compression, index, force)
    files = expand_shared_paths(paths, allow_missing=allow_missing, storage_options=storage_options)
    refuse_shard_inputs(files, start, None if force else num_shards)
    indexes, errors = open_shared_indexes(files)
    for error in errors:
        report.skip(with_loss(error))
    records = DividedRecords(indexes)
    output.check_sizes(records.size)
    if task_bytes is None:
        task_bytes = max(_MIN_TASK_BYTES, math.isqrt(records.size * _READ_BYTES))
    task_bytes = check_integer("task_bytes", task_bytes, 1)
    layout = BucketLayout.of(len(records), records.size, num_shards, check_seed(seed), task_bytes)
    arguments = ["shuffle", _identity(indexes), repr(layout), str(task_bytes)]
    output.check_new(arguments)
    report.watcher.started(2 * records.size)
    with output.open_folder(arguments) as folder:
        buckets = BucketFiles(folder.stage("buckets"), layout)
        _fill(buckets, records, task_bytes, report)
        outputs = folder.find_outputs()
        parts = _write_shards(
            folder, buckets, records.size, report, is_complete=outputs is not None
        )
        outputs = outputs or output.commit(folder, parts)
    return report.result(outputs, [part.records for part in parts])


def _identity(indexes: Sequence[RecordIndex]) -> str:
    """Return a digest of the input."""
    parts = [
        (
            index.data_path,
            index.identity,
            index.data_stamp if index.location.local_path is None else None,
        )
        for index in indexes
    ]
    return digest_text(repr(parts), size=16)


def _fill(
    buckets: BucketFiles, records: DividedRecords, task_bytes: int, report: JobReport
) -> None:
    """Do the first pass."""
    divided = records.divide(-(-records.size // task_bytes))
    sizes = [sum(piece.end - piece.begin for piece in pieces) for pieces in divided]
    # The name of the folder identifies the job.
    keys = [f"bucket file {number}" for number in range(len(divided))]
    parts = []
    with closing(run_parts(buckets.folder, buckets.fill, divided, keys, sizes)) as done:
        for part, size in zip(done, sizes, strict=True):
            report.add(0, size, part.errors, part.more_errors)
            parts.append(part)
    buckets.finish(parts)


def _write_shards(
    folder: PartFolder, buckets: BucketFiles, size: int, report: JobReport, *, is_complete: bool
) -> list[JobPart]:
    """Do the second pass, and return the shards, whose files may have moved if it was complete.

    Raises:
        RuntimeError: If the shards lack records, or have others.
    """
    num_shards = buckets.layout.num_shards
    sizes = [
        size * (shard + 1) // num_shards - size * shard // num_shards for shard in range(num_shards)
    ]
    work = functools.partial(_write_shard, buckets=buckets)
    keys = [f"shard {shard}" for shard in range(num_shards)]
    parts = []
    with closing(
        run_parts(folder, work, range(num_shards), keys, sizes, is_complete=is_complete)
    ) as done:
        for part, shard_bytes in zip(done, sizes, strict=True):
            report.add(part.records, shard_bytes)
            parts.append(part)
    if report.records != buckets.records:
        raise RuntimeError(
            f"the shards have {counted(report.records, 'record')} instead of {buckets.records:,}: "
            "files of the job were changed while it ran"
        )
    return parts


def _write_shard(
    folder: PartFolder, number: int, key: str, shard: int, *, buckets: BucketFiles
) -> JobPart:
    buffer_bytes = buffer_bytes_of(buckets.layout.num_shards)
    return folder.write(number, buckets.records_of(shard), key=key, buffer_bytes=buffer_bytes)
