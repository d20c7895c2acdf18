"""Tools that rewrite each file compressed or uncompressed, with the same records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from .._storage.compression import COMPRESSIONS, SUFFIXES, Compression, without_suffix
from .._storage.local import StrPath
from .._storage.location import Location
from .._storage.ordered_pool import OrderedPool
from .._storage.paths import expand_paths
from .._storage.remote.options import StorageOptions
from .._writing.output_group import OutputGroup
from ..checks import check_choice, counted
from .outputs import copy_records, refuse_inputs
from .record_files import RecordFiles
from .report import JobReport, OnError, Result, Watcher


def compress(
    paths: StrPath | Iterable[StrPath],
    folder: StrPath,
    compression: Compression = "gzip",
    *,
    index: bool = True,
    force: bool = False,
    on_error: OnError = "raise",
    allow_missing: bool = False,
    jobs: int = 1,
    watcher: Watcher | None = None,
    storage_options: StorageOptions = None,
) -> Result:
    """Write each file compressed: ``a.tfrecord`` as ``folder/a.tfrecord.gz``.

    The suffix is ``.zz`` for zlib, and ``.zst`` for zstd. Compressed files are compressed again.
    All outputs appear together at the end.

    Args:
        paths: Files, glob patterns, directories or URLs. Compression is detected from the content.
        folder: Output folder, which is created if it is missing. If the inputs are in the same
            folder, reading the whole folder is an error, as it has every record twice.
        compression: Compression of the outputs: ``"gzip"``, ``"zlib"`` or ``"zstd"``.
        index: Whether each output gets an index ``.tfidx``.
        force: Whether outputs that exist are replaced. By default they are refused.
        on_error: ``"raise"``, or ``"skip"`` to skip and count damaged records. After a damaged
            length the rest of a file is lost.
        allow_missing: Read the files that exist, even if their names ``name-00001-of-00003`` say
            that a directory or pattern lacks some.
        jobs: Number of files that are rewritten at the same time. The output does not depend on it.
        watcher: Receiver of progress messages.
        storage_options: Options of remote objects, of inputs and outputs, as for
            :class:`TFRecordDataset`.

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
    report = JobReport(on_error, watcher)
    inputs = expand_paths(paths, allow_missing=allow_missing, storage_options=storage_options)
    target = Location.of(folder, storage_options)
    return _rewrite(inputs, target, compression, report, index=index, force=force, jobs=jobs)


def decompress(
    paths: StrPath | Iterable[StrPath],
    folder: StrPath,
    *,
    index: bool = True,
    force: bool = False,
    on_error: OnError = "raise",
    allow_missing: bool = False,
    jobs: int = 1,
    watcher: Watcher | None = None,
    storage_options: StorageOptions = None,
) -> Result:
    """Write each file uncompressed, without the suffix ``.gz``, ``.zz`` or ``.zst`` in its name.

    Uncompressed files are copied. All outputs appear together at the end.

    Args:
        paths: Files, glob patterns, directories or URLs. Compression is detected from the content.
        folder: Output folder, which is created if it is missing. If the inputs are in the same
            folder, reading the whole folder is an error, as it has every record twice.
        index: Whether each output gets an index ``.tfidx``.
        force: Whether outputs that exist are replaced. By default they are refused.
        on_error: ``"raise"``, or ``"skip"`` to skip and count damaged records. After a damaged
            length the rest of a file is lost.
        allow_missing: Read the files that exist, even if their names ``name-00001-of-00003`` say
            that a directory or pattern lacks some.
        jobs: Number of files that are rewritten at the same time. The output does not depend on it.
        watcher: Receiver of progress messages.
        storage_options: Options of remote objects, of inputs and outputs, as for
            :class:`TFRecordDataset`.

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
    report = JobReport(on_error, watcher)
    inputs = expand_paths(paths, allow_missing=allow_missing, storage_options=storage_options)
    target = Location.of(folder, storage_options)
    return _rewrite(inputs, target, None, report, index=index, force=force, jobs=jobs)


def _rewrite(
    inputs: Sequence[Location],
    folder: Location,
    compression: Compression | None,
    report: JobReport,
    *,
    index: bool,
    force: bool,
    jobs: int,
) -> Result:
    outputs = [folder.child(_output_name(each, compression)) for each in inputs]
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
        writer = group.open_records(output, compression, index=index)
        copy_records(blocks, writer.write)
        writer.prepare()
        return own, source.stamp().size

    counts = []
    report.watcher.started(sum(each.stamp().size for each in inputs))
    with (
        OutputGroup(force=force) as group,
        OrderedPool(rewrite, jobs, max_items=len(inputs)) as pool,
    ):
        for own, size in pool.map(zip(inputs, outputs, strict=True)):
            report.add(own.records, size, own.errors)
            report.skipped += own.skipped - len(own.errors)  # it keeps only the first errors
            counts.append(own.records)
    return report.result(outputs, counts)


def _output_name(source: Location, compression: Compression | None) -> str:
    name = without_suffix(source.basename)
    return name + ("" if compression is None else SUFFIXES[compression])
