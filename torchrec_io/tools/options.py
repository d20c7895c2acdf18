"""Keyword options of tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypedDict

from .._storage.compression import Compression
from .._storage.local import StrPath
from .._storage.location import Location
from .._storage.remote.options import StorageOptions
from .._writing.output_group import OutputGroup
from .._writing.shards import ShardFiles
from .record_files import RecordFiles
from .report import JobReport, OnError, Watcher


class InputOptions(TypedDict, total=False):
    """Keyword options of functions that read TFRecord files: tools and conversions to others.

    The defaults are ``on_error="raise"``, ``allow_missing=False`` and ``jobs=1``.

    Attributes:
        on_error: ``"raise"``, or ``"skip"`` to skip and count records that are damaged or cannot be
            converted. After a damaged length the rest of a file is lost.
        allow_missing: Read the files that exist, even if their names ``name-00001-of-00003`` say
            that a directory or pattern lacks some.
        jobs: Number of threads that read, or of files that are compressed or decompressed at the
            same time. The output does not depend on it.
        watcher: Receiver of progress messages, a :class:`Watcher`.
        storage_options: CopyOptions of remote objects, of inputs and outputs, as for
            :class:`TFRecordDataset`.
    """

    on_error: OnError
    allow_missing: bool
    jobs: int
    watcher: Watcher | None
    storage_options: StorageOptions


class RewriteOptions(InputOptions, total=False):
    """Keyword options of tools that rewrite TFRecord files, besides :class:`InputOptions`.

    The defaults are ``index=True`` and ``force=False``.

    Attributes:
        index: Whether each output gets an index ``.tfidx``.
        force: Whether outputs that exist are replaced, with all shards of the same name. By default
            they are refused.
    """

    index: bool
    force: bool


class CopyOptions(RewriteOptions, total=False):
    """Keyword options of tools that copy records, besides :class:`RewriteOptions`.

    Attributes:
        compression: Compression of the outputs: ``None`` (the default), ``"gzip"``, ``"zlib"`` or
            ``"zstd"``.
    """

    compression: Compression | None


DEFAULTS = CopyOptions(
    on_error="raise",
    allow_missing=False,
    jobs=1,
    watcher=None,
    storage_options=None,
    index=True,
    force=False,
    compression=None,
)


def with_defaults(options: InputOptions, known: type = CopyOptions) -> CopyOptions:
    """Return the options of a tool, with the defaults of those that are not given.

    Args:
        options: CopyOptions that are given.
        known: TypedDict of the options that the tool has.

    Raises:
        TypeError: If an option is unknown.
    """
    check_options(options, known)
    return {**DEFAULTS, **options}


def check_options(options: Mapping[str, object], known: type) -> None:
    """Raise TypeError if an option is not an item of a TypedDict."""
    unknown = set(options) - set(known.__annotations__)
    if unknown:
        allowed = ", ".join(known.__annotations__)
        raise TypeError(f"unknown option {min(unknown)!r}; the options are {allowed}")


def open_inputs(paths: StrPath | Iterable[StrPath], given: CopyOptions) -> RecordFiles:
    """Return the records of the inputs of a tool, with a report of the job.

    Args:
        paths: Files, glob patterns or directories.
        given: All options.

    Raises:
        ValueError: If there are no paths, or ``on_error`` is invalid.
        OSError, TorchRecIOError: As for :class:`RecordFiles`.
    """
    return RecordFiles(
        paths,
        JobReport(given["on_error"], given["watcher"]),
        allow_missing=given["allow_missing"],
        storage_options=given["storage_options"],
    )


def open_shards(
    group: OutputGroup,
    name: Location,
    num_shards: int | None,
    max_bytes: int | None,
    given: CopyOptions,
) -> ShardFiles:
    """Return the shards that a tool writes; with ``force`` they replace all of their name.

    Raises:
        ValueError, OSError: As for :class:`ShardFiles`.
    """
    return ShardFiles(
        group,
        name,
        num_shards,
        max_bytes=max_bytes,
        compression=given["compression"],
        index=given["index"],
        replaces_others=given["force"],
    )
