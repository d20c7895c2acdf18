"""Tools that rewrite each file compressed or uncompressed, with the same records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Unpack

from .._storage.compression import COMPRESSIONS, SUFFIXES, Compression, without_suffix
from .._storage.local import StrPath
from .._storage.location import Location
from .._storage.ordered_pool import OrderedPool
from .._storage.paths import expand_paths
from .._writing.output_group import OutputGroup
from ..checks import check_choice, counted
from .options import RewriteOptions, with_defaults
from .outputs import copy_records, refuse_inputs
from .record_files import RecordFiles
from .report import JobReport, Result


def compress(
    paths: StrPath | Iterable[StrPath],
    folder: StrPath,
    compression: Compression = "gzip",
    **options: Unpack[RewriteOptions],
) -> Result:
    """Write each file compressed: ``a.tfrecord`` as ``folder/a.tfrecord.gz``.

    The suffix is ``.zz`` for zlib, and ``.zst`` for zstd. Compressed files are compressed again.
    All outputs appear together at the end.

    Args:
        paths: Files, glob patterns, directories or URLs. Compression is detected from the content.
        folder: Output folder, which is created if it is missing. If the inputs are in the same
            folder, reading the whole folder is an error, as it has every record twice.
        compression: Compression of the outputs: ``"gzip"``, ``"zlib"`` or ``"zstd"``.
        options: Keyword options, see :class:`RewriteOptions`: ``index``, ``force``, ``on_error``,
            ``allow_missing``, ``jobs``, ``watcher`` and ``storage_options``.

    Returns:
        Paths, numbers of records and other facts of the outputs.

    Raises:
        CorruptRecordError: If a record is damaged, unless it is skipped.
        TruncatedFileError: If a file is truncated, unless its rest is skipped.
        FileNotFoundError: If a path matches no file, or shards are missing.
        FileExistsError: If an output exists, unless it may be replaced.
        ValueError: If an argument is invalid, two outputs have the same name, or an output is an
            input.
    """
    check_choice("compression", compression, COMPRESSIONS)
    return _rewrite(paths, folder, compression, options)


def decompress(
    paths: StrPath | Iterable[StrPath],
    folder: StrPath,
    **options: Unpack[RewriteOptions],
) -> Result:
    """Write each file uncompressed, without the suffix ``.gz``, ``.zz`` or ``.zst`` in its name.

    Uncompressed files are copied. All outputs appear together at the end.

    Args:
        paths: Files, glob patterns, directories or URLs. Compression is detected from the content.
        folder: Output folder, which is created if it is missing. If the inputs are in the same
            folder, reading the whole folder is an error, as it has every record twice.
        options: Keyword options, see :class:`RewriteOptions`: ``index``, ``force``, ``on_error``,
            ``allow_missing``, ``jobs``, ``watcher`` and ``storage_options``.

    Returns:
        Paths, numbers of records and other facts of the outputs.

    Raises:
        CorruptRecordError: If a record is damaged, unless it is skipped.
        TruncatedFileError: If a file is truncated, unless its rest is skipped.
        FileNotFoundError: If a path matches no file, or shards are missing.
        FileExistsError: If an output exists, unless it may be replaced.
        ValueError: If an argument is invalid, two outputs have the same name, or an output is an
            input.
    """
    return _rewrite(paths, folder, None, options)


def _rewrite(
    paths: StrPath | Iterable[StrPath],
    folder: StrPath,
    compression: Compression | None,
    options: RewriteOptions,
) -> Result:
    given = with_defaults(options, RewriteOptions)
    report = JobReport(given["on_error"], given["watcher"])
    inputs = expand_paths(
        paths,
        allow_missing=given["allow_missing"],
        storage_options=given["storage_options"],
    )
    target = Location.of(folder, given["storage_options"])
    outputs = [target.child(_output_name(each, compression)) for each in inputs]
    for output, count in Counter(outputs).items():
        if count > 1:
            raise ValueError(
                f"{counted(count, 'file')} would be written to {output!r}; give each its own folder"
            )
    refuse_inputs(inputs, outputs)

    def rewrite(pair: tuple[Location, Location]) -> tuple[JobReport, int]:
        source, output = pair
        own = JobReport(report.on_error)
        files = RecordFiles(source, own)
        blocks = files.blocks(files.all, is_stopped=lambda: pool.is_stopped)
        writer = group.open_records(output, compression, index=given["index"])
        copy_records(blocks, writer.write)
        writer.prepare()
        return own, source.stamp().size

    counts = []
    report.watcher.started(sum(each.stamp().size for each in inputs))
    with (
        OutputGroup(force=given["force"]) as group,
        OrderedPool(rewrite, given["jobs"], max_items=len(inputs)) as pool,
    ):
        for own, size in pool.map(zip(inputs, outputs, strict=True)):
            report.add(own.records, size, own.errors)
            report.skipped += own.skipped - len(own.errors)  # it keeps only the first errors
            counts.append(own.records)
    return report.result(outputs, counts)


def _output_name(source: Location, compression: Compression | None) -> str:
    name = without_suffix(source.basename)
    return name + ("" if compression is None else SUFFIXES[compression])
