"""Resharding of TFRecord files on a cluster."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any

from .._storage.compression import Compression
from .._storage.local import StrPath
from .._storage.location import Location
from .._storage.remote.options import StorageOptions
from .._storage.thread_pool import map_in_threads
from ..tools.outputs import check_file_name, refuse_shard_inputs
from ..tools.report import JobReport, OnError, Result, Watcher
from .extra import import_ray
from .file_parts import divide_file
from .file_piece import FilePiece
from .part_records import TaskErrors
from .shard_job import Item, Output, write_shards
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
    """Write the records of all files to shards, as ``tio.tools.reshard`` does, on a Ray cluster.

    The shards are those of one machine, byte for byte. Exactly one of ``num_shards`` and
    ``max_bytes`` must be given.

    Tasks write to a hidden folder beside the shards, which needs space for two copies of the data.
    When all shards are complete, they get their names together; in a store, by copies. If the job
    is interrupted, the folder is kept: the same call continues where it was.

    Args:
        paths: Files, glob patterns, directories or URLs that all machines can read. Compression is
            detected from the content.
        name: Common start of the output paths, or of the URLs of objects. All machines must share
            the folder.
        num_shards: Number of shards. Records go to all shards in turn.
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
        watcher: Receiver of progress messages. Each pass counts half of the bytes.
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
        BlockingIOError: If another process runs the same job.
        FileExistsError: If there are shards of this name, unless they may be replaced.
        ValueError: If not exactly one of ``num_shards`` and ``max_bytes`` is given, an argument is
            invalid, the name is a folder, an input could be a shard, or shards would have more than
            the 5 GiB that a store copies.
        OSError: If a file cannot be read or written, or the name is a URL of HTTP.
    """
    import_ray()
    if (num_shards is None) == (max_bytes is None):
        raise ValueError("exactly one of num_shards and max_bytes must be given")
    start = check_file_name(name, storage_options)
    report = JobReport(on_error, watcher)
    output = Output(start, num_shards, max_bytes, compression, index, force)
    files = expand_shared_paths(paths, allow_missing=allow_missing, storage_options=storage_options)
    refuse_shard_inputs(files, start, None if force else num_shards)
    stamps = map_in_threads(Location.stamp_now, files)
    arguments = ["reshard", *(f"{file} {stamp}" for file, stamp in zip(files, stamps, strict=True))]
    output.check_new(arguments)
    divided = map_in_threads(divide_file, files)
    items = [_item_of(piece) for pieces in divided for piece in pieces]
    report.watcher.started(sum(item.size for item in items))
    written = write_shards(items, output, arguments, report)
    return report.result(written.outputs, written.counts)


def _item_of(piece: FilePiece) -> Item:
    key = f"{piece.location} {piece.begin} {piece.end} {piece.first} {piece.count}"
    return Item(piece.stored_bytes, key, functools.partial(_records, piece))


def _records(piece: FilePiece, errors: TaskErrors, facts: dict[str, Any]) -> Iterator[bytes]:
    del facts
    for block in piece.blocks():
        errors.add(block.errors)
        for _, record in block.records():
            yield record
