"""The function that makes a report."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version
from typing import NamedTuple

from .._order.selection import Selection
from .._schema.feature_mapping import FeatureMapping
from .._storage.file_sets import set_name
from .._storage.folders import has_file
from .._storage.local import StrPath
from .._storage.location import Location
from .._storage.paths import expand_sets
from .._storage.remote.options import StorageOptions
from ..checks import check_integer, counted
from ..errors import TorchRecIOError
from ..inspection.features import RecordKind
from ..inspection.record_sample import MaxRecords
from ..presets.recognition import AnySchema, Preset, infer_any, recognize_schema
from ..tfds.features_json import FEATURES_FILE
from ..tools.record_files import RecordFiles
from ..tools.report import JobReport, Watcher
from .class_names import read_facts
from .code import MOST_SPECS, paths_source, training_loop
from .collector import Collector
from .content import NumberSummary
from .extra import import_extra
from .file_damage import Faults, report_files
from .found_kinds import WITH_FEATURES, find_kinds
from .number_statistics import NumberStatistics
from .record_choice import choose_records, read_preview
from .results import Report

_MOST_RECORDS = 10_000
_TITLE_NAMES = 3


def report(
    paths: StrPath | Iterable[StrPath],
    *,
    max_records: int | None = _MOST_RECORDS,
    label: str | None = None,
    duplicates: bool = False,
    jobs: int = 1,
    allow_missing: bool = False,
    watcher: Watcher | None = None,
    storage_options: StorageOptions = None,
) -> Report:
    """Find out what files hold and whether they are valid, as a page to look at.

    Numbers and sizes of records are always exact, because the files are indexed. The values of
    features are read from some records, chosen evenly from all files and from all parts of them, or
    from all records with ``max_records=None``. Memory is bounded: where there is more than fits,
    quantiles and frequent values are estimated by sketches, and the report says so.

    If a directory has several sets of files, such as ``train-*`` and ``val-*``, each set is
    reported by itself: the training set, or the first, in the report, and the others in its
    ``other_sets``.

    Args:
        paths: Files, glob patterns or directories.
        max_records: Largest number of records whose values are read; None for all. Fewer are read
            if they are large: 256 MiB in all.
        label: Feature that is the label. By default it is found by its name.
        duplicates: Whether to find records with the same content. This reads all records.
        jobs: Number of threads.
        allow_missing: Whether shards of a set may be missing.
        watcher: Receiver of progress messages.
        storage_options: Options of remote objects, as for :class:`TFRecordDataset`.

    Returns:
        The report; ``report(paths).save("report.html")`` writes the page.

    Raises:
        ImportError: If an optional package is missing: ``pip install torchrec-io[report]``.
        FileNotFoundError: If a path matches no file, or shards are missing.
        OSError: If a file is a pipe or cannot be read.
        ValueError: If an argument is invalid, or the label is not a feature with one value.
    """
    return report_sets(
        expand_sets(paths, allow_missing=allow_missing, storage_options=storage_options),
        max_records=max_records,
        label=label,
        duplicates=duplicates,
        jobs=jobs,
        watcher=watcher,
    )


class _Set(NamedTuple):
    """A set of files that is reported by itself.

    Attributes:
        title: Title of its report.
        files: Records of the files.
        selection: Records whose values are read.
        faults: Errors found.
    """

    title: str
    files: RecordFiles
    selection: Selection
    faults: Faults

    @property
    def size(self) -> int:
        """About the size of the records whose values are read, in bytes."""
        return self.files.size * len(self.selection) // max(1, len(self.files))


def report_sets(
    sets: Sequence[Sequence[Location]],
    *,
    max_records: int | None,
    label: str | None,
    duplicates: bool,
    jobs: int,
    watcher: Watcher | None,
) -> Report:
    """Report each set of files by itself; see :func:`report`."""
    import_extra("datasketches")
    import_extra("jinja2")
    if max_records is not None:
        check_integer("max_records", max_records, 1)
    check_integer("jobs", jobs, 1)
    # A sort is stable: of several sets for training, the first stays the first.
    ordered = sorted(sets, key=lambda files: "train" not in files[0].basename.lower())
    titles = [_title(files) for files in ordered]
    if len({*titles}) < len(titles):
        titles = [_title_of_set(files) for files in ordered]
    opened = []
    receiver = watcher or Watcher()
    unread = file_bytes = sum(file.stamp().size for files in ordered for file in files)
    lock = threading.Lock()

    def indexed(size: int) -> None:
        nonlocal unread
        with lock:
            unread -= size
            receiver.advanced(size, 0)

    receiver.started(file_bytes)
    for locations, title in zip(ordered, titles, strict=True):
        job = JobReport("skip")
        files = RecordFiles(locations, job, advanced=indexed)
        job.watcher = faults = Faults(receiver)
        selection = choose_records(files, None if duplicates else max_records)
        opened.append(_Set(title, files, selection, faults))
    indexed(unread)  # of files that had indexes
    receiver.started(file_bytes + sum(each.size for each in opened))
    first, *others = [_report(each, label, jobs, compares=duplicates) for each in opened]
    return dataclasses.replace(first, other_sets=tuple(others))


def _report(each: _Set, label: str | None, jobs: int, *, compares: bool) -> Report:
    began = time.perf_counter()
    title, files, selection, faults = each
    is_exact = len(selection) == len(files)
    preview = read_preview(files, selection)
    kinds = find_kinds(preview)
    inferred = _infer(files, kinds.main, None if is_exact else "auto")
    collector = Collector(
        files,
        inferred.schema,
        preview,
        facts=read_facts(files.locations[0]),
        label=label,
        duplicates=compares,
    )
    collector.run(selection, jobs, faults)
    order = collector.label_order()
    shuffle = order.shuffle if order is not None else "True"
    reports = report_files(files.reader.indexes, faults)
    is_damaged = faults.unfit > 0 or not all(report.is_valid for report in reports)
    schema_python, schema_json, loop = _write_code(
        files, inferred, shuffle, collector.label, is_damaged=is_damaged
    )
    return Report(
        title=title,
        kind="no records" if kinds.main is None else kinds.main.name,
        files=reports,
        records=len(files),
        inspected=collector.read,
        is_exact=is_exact,
        unfit=faults.unfit,
        record_sizes=_record_sizes(files),
        features=collector.features(),
        structures=collector.structures(),
        others=kinds.others,
        label=collector.label,
        label_order=order,
        duplicates=collector.duplicates(),
        notes=tuple(_notes(files, inferred, faults)),
        schema_python=schema_python,
        schema_json=schema_json,
        loop=loop,
        schema_class="Schema" if inferred.schema is None else inferred.schema.public_name,
        seconds=time.perf_counter() - began,
        version=version("torchrec-io"),
    )


def _title(files: Sequence[Location]) -> str:
    if len(files) == 1:
        return files[0].basename or files[0].name
    names = {set_name(file.basename) for file in files}
    folder = files[0].absolute().parent.basename
    return ", ".join(sorted(names)) if len(names) <= _TITLE_NAMES else folder


def _title_of_set(files: Sequence[Location]) -> str:
    """Return a title that is different for each set of files of a directory."""
    name = files[0].basename
    return name if len(files) == 1 else f"{name} and {counted(len(files) - 1, 'other file')}"


def _record_sizes(files: RecordFiles) -> NumberSummary:
    sizes = NumberStatistics()
    for index in files.reader.indexes:
        sizes.add(index.lengths)
    return sizes.summary()


# ---- schemas and code ----


class _Inferred(NamedTuple):
    """The schema of some records.

    Attributes:
        schema: Inferred schema; None if there is none.
        preset: Preset that fits, or None.
        problem: Reason why there is no schema; or "".
    """

    schema: AnySchema | None
    preset: Preset | None = None
    problem: str = ""


def _infer(files: RecordFiles, kind: RecordKind | None, max_records: MaxRecords) -> _Inferred:
    if kind not in WITH_FEATURES:
        return _Inferred(None)
    try:
        schema = infer_any(files.locations, max_records, "skip")
    except TorchRecIOError as error:
        return _Inferred(None, None, str(error))
    return _Inferred(schema, recognize_schema(schema))


def _write_code(
    files: RecordFiles, inferred: _Inferred, shuffle: str, label: str | None, *, is_damaged: bool
) -> tuple[str, str, str]:
    """Return the schema as Python and as JSON, and a training loop; "" for what there is not."""
    if not len(files):
        return "", "", ""
    schema = inferred.schema if inferred.preset is None else inferred.preset.schema
    if schema is None:
        known, code = None, ("", "")
    else:
        known = label if label in schema else None
        code = (inferred.preset or schema).to_python(), schema.to_json(indent=2)
    source: str | None = code[0] or None
    if schema is not None and inferred.preset is None and len(schema) > MOST_SPECS:
        source = _source_of_inferred(files.paths, schema)
    loop = training_loop(files.paths, source, shuffle=shuffle, label=known, is_damaged=is_damaged)
    return *code, loop


def _source_of_inferred(paths: Sequence[str], schema: FeatureMapping) -> str:
    """Return source that infers a schema, for one that is too long to be copied."""
    name = f"{schema.public_name}.infer({paths_source(paths)})"
    return f"import torchrec_io as tio\n\nschema = tio.{name}"


def _notes(files: RecordFiles, inferred: _Inferred, faults: Faults) -> Iterator[str]:
    if inferred.problem:
        yield f"No schema could be inferred: {inferred.problem}."
    if inferred.preset is not None:
        yield (
            f"The preset tio.presets.{inferred.preset.name} reads these records: "
            f"{inferred.preset.why}."
        )
    if faults.unfit:
        yield (
            f"{counted(faults.unfit, 'inspected record')} could not be parsed and "
            f"{'is' if faults.unfit == 1 else 'are'} not in the statistics. The first error: "
            f"{faults.first_reason}."
        )
    if has_file(files.locations[0].parent.child(FEATURES_FILE)):
        yield (
            "The files are in a directory of TensorFlow Datasets: tio.TFRecordDataset.from_tfds "
            "reads them as its features.json says."
        )
