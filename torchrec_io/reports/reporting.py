"""The function that makes a report."""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import version

from .._order.selection import Selection
from .._storage.file_sets import file_sets, set_name
from .._storage.folders import has_file
from .._storage.local import StrPath
from .._storage.location import Location
from .._storage.paths import expand_paths
from .._storage.remote.options import StorageOptions
from ..checks import check_integer, counted
from ..errors import TorchRecIOError
from ..presets.recognition import AnySchema, Preset, infer_any, recognize_schema
from ..tfds.features_json import FEATURES_FILE
from ..tools.record_files import RecordFiles
from ..tools.report import JobReport, Watcher
from .class_names import read_facts
from .code import training_loop
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

    Each set of shards, such as ``train-*`` and ``val-*``, is reported by itself: the training set,
    or the first, in the report, and the others in its ``other_sets``. Files that are not shards
    are one set, unless their names tell training data from data for validation or testing.

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
    import_extra("datasketches")
    import_extra("jinja2")
    if max_records is not None:
        check_integer("max_records", max_records, 1)
    check_integer("jobs", jobs, 1)
    found = expand_paths(
        paths, allow_missing=allow_missing, one_set=False, storage_options=storage_options
    )
    files = {file.name: file for file in found}
    sets = [[files[name] for name in names] for names in file_sets([*files])]
    # A sort is stable: of several sets for training, the first stays the first.
    sets.sort(key=lambda each: "train" not in each[0].basename.lower())
    receiver = watcher or Watcher()
    unread = file_bytes = sum(file.stamp().size for each in sets for file in each)
    lock = threading.Lock()

    def indexed(size: int) -> None:
        nonlocal unread
        with lock:
            unread -= size
            receiver.advanced(size, 0)

    receiver.started(file_bytes)
    most = None if duplicates else max_records
    opened = []
    for each in sets:
        job = JobReport("skip")
        records = RecordFiles(each, job, advanced=indexed)
        job.watcher = faults = Faults(receiver)  # of the records that are read from here on
        opened.append((records, choose_records(records, most), faults))
    indexed(unread)  # of files that had indexes
    values = sum(records.size * len(some) // max(1, len(records)) for records, some, _ in opened)
    receiver.started(file_bytes + values)
    first, *others = [
        _report(title, *each, label=label, jobs=jobs, compares=duplicates)
        for title, each in zip(_titles(sets), opened, strict=True)
    ]
    return dataclasses.replace(first, other_sets=tuple(others))


def _report(
    title: str,
    files: RecordFiles,
    selection: Selection,
    faults: Faults,
    *,
    label: str | None,
    jobs: int,
    compares: bool,
) -> Report:
    began = time.perf_counter()
    is_exact = len(selection) == len(files)
    preview = read_preview(files, selection)
    kind, others = find_kinds(preview)
    schema: AnySchema | None = None
    problem = ""
    if kind in WITH_FEATURES:
        try:
            schema = infer_any(files.locations, None if is_exact else "auto", "skip")
        except TorchRecIOError as error:
            problem = str(error)
    preset = None if schema is None else recognize_schema(schema)
    facts = read_facts(files.locations[0])
    collector = Collector(files, schema, preview, facts=facts, label=label, duplicates=compares)
    collector.run(selection, jobs, faults)
    order = collector.label_order()
    reports = report_files(files.reader.indexes, faults)
    read_schema = schema if preset is None else preset.schema
    return Report(
        title=title,
        kind="no records" if kind is None else kind.name,
        files=reports,
        records=len(files),
        inspected=collector.read,
        is_exact=is_exact,
        unfit=faults.unfit,
        record_sizes=_record_sizes(files),
        features=collector.features(),
        structures=collector.structures(),
        others=others,
        label=collector.label,
        label_order=order,
        duplicates=collector.duplicates(),
        notes=tuple(_notes(files, preset, problem, faults)),
        schema_python="" if schema is None else (preset or schema).to_python(),
        schema_json="" if read_schema is None else read_schema.to_json(indent=2),
        loop=training_loop(
            [file.name for file in files.locations],
            preset or schema,
            shuffle="True" if order is None else order.shuffle,
            label=collector.label if collector.label in (read_schema or ()) else None,
            is_damaged=faults.unfit > 0 or not all(report.is_valid for report in reports),
        )
        if len(files)
        else "",
        schema_class="Schema" if schema is None else schema.public_name,
        seconds=time.perf_counter() - began,
        version=version("torchrec-io"),
    )


def _titles(sets: Sequence[Sequence[Location]]) -> list[str]:
    """Return the title of each set of files. All are different."""
    if len(sets) == len(sets[0]) == 1:
        return [sets[0][0].basename or sets[0][0].name]
    titles = [_title(files) for files in sets]
    firsts = [files[0].name for files in sets]
    start = os.path.commonprefix(firsts).rfind("/") + 1  # noqa: RUF071  # of URLs, too
    paths = [name[start:] for name in firsts]
    longer = [*map(os.path.join, map(os.path.dirname, paths), titles)]
    return next((each for each in (titles, longer) if len({*each}) == len(each)), paths)


def _title(files: Sequence[Location]) -> str:
    names = {set_name(file.basename) for file in files}
    folder = files[0].absolute().parent.basename
    return ", ".join(sorted(names)) if len(names) <= _TITLE_NAMES else folder


def _record_sizes(files: RecordFiles) -> NumberSummary:
    sizes = NumberStatistics()
    for index in files.reader.indexes:
        sizes.add(index.lengths)
    return sizes.summary()


def _notes(
    files: RecordFiles, preset: Preset | None, problem: str, faults: Faults
) -> Iterator[str]:
    if problem:
        yield f"No schema could be inferred: {problem}."
    if preset is not None:
        yield f"The preset tio.presets.{preset.name} reads these records."
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
