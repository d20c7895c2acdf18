"""Resharding of TFRecord files on a cluster."""

from __future__ import annotations

from collections.abc import Iterable

from .._storage.compression import Compression
from .._storage.local import StrPath
from .._storage.remote.options import StorageOptions
from ..tools.outputs import check_file_name
from ..tools.report import JobReport, OnError, Result, Watcher
from .extra import import_ray
from .shard_output import ShardOutput
from .shared_paths import expand_shared_paths


def reshard(
    paths: StrPath | Iterable[StrPath],
    name: StrPath,
    *,
    num_shards: int | None = None,
    max_bytes: int | None = None,
    compression: Compression | None = None,
    index: bool = True,
    force: bool = False,
    on_error: OnError = "raise",
    allow_missing: bool = False,
    watcher: Watcher | None = None,
    storage_options: StorageOptions = None,
) -> Result:
    """Write the records of all files to shards, on a Ray cluster.

    The records keep their order from shard to shard. Exactly one of ``num_shards`` and
    ``max_bytes`` must be given.

    Each task reads the records of one shard and writes it to a hidden folder beside the shards.
    When all shards are complete, they get their names together; in a store, by copies. If the job
    fails, there is no output.

    Args:
        paths: Files, glob patterns, directories or URLs that all machines can read. Compression is
            detected from the content.
        name: Common start of the output paths, or of the URLs of objects. All machines must share
            the folder.
        num_shards: Number of shards. They have the same number of records, or one more. The tools
            for one machine write records to all shards in turn instead.
        max_bytes: Largest size of a shard in bytes. One shard after another is filled. It cannot be
            used with compression.
        compression: Compression of the outputs: ``None``, ``"gzip"``, ``"zlib"`` or
            ``"zstd"``.
        index: Whether each output gets an index ``.tfidx``.
        force: Whether outputs that exist are replaced. By default they are refused.
        on_error: ``"raise"``, or ``"skip"`` to skip and count damaged records. After a damaged
            length the rest of a file without an index is lost.
        allow_missing: Read the files that exist, even if their names ``name-00001-of-00003`` say
            that a directory or pattern lacks some.
        watcher: Receiver of progress messages.
        storage_options: Options of remote inputs and outputs, as for :class:`TFRecordDataset`.
            Secrets in them are not sent to other machines: give these in the environment of all
            machines.

    Returns:
        Paths, numbers of records and other facts of the outputs.

    Raises:
        ImportError: If Ray is not installed: ``pip install torchrec-io[cluster]``.
        CorruptRecordError: If a record is damaged, unless it is skipped.
        TruncatedFileError: If a file is truncated, unless its rest is skipped.
        FileNotFoundError: If a path matches no file, shards are missing, or machines do not share
            the folder.
        FileExistsError: If there are shards of this name, unless they may be replaced.
        ValueError: If not exactly one of ``num_shards`` and ``max_bytes`` is given, an argument is
            invalid, the name is a folder, an input could be a shard, or shards would have more than
            the 5 GiB that a store copies.
        OSError: If a file cannot be read or written, or the name is a URL of HTTP.
    """
    import_ray()
    start = check_file_name(name, storage_options)
    output = ShardOutput(start, num_shards, max_bytes, compression, index, force)
    report = JobReport(on_error, watcher)
    files = expand_shared_paths(paths, allow_missing=allow_missing, storage_options=storage_options)
    records = output.open_inputs(files, report)
    report.watcher.started(records.size)
    outputs, counts = output.write(records, report)
    return report.result(outputs, counts)
