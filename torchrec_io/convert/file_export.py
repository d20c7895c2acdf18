"""Export of TFRecord files to plain files, one per record, in folders by class if requested."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from contextlib import closing
from typing import NamedTuple

import numpy as np

from .._schema.dtypes import is_integer_dtype
from .._schema.feature import Feature
from .._schema.schema import Schema
from .._schema.specs import FixedLenFeature, VarLenFeature
from .._storage.local import StrPath
from .._storage.location import Location
from .._storage.ordered_pool import OrderedPool
from .._storage.remote.options import StorageOptions
from .._writing.named_file import open_named
from .._writing.output_group import OutputGroup
from ..tools.record_files import RecordFiles
from ..tools.report import JobReport, OnError, Result, Watcher
from .file_names import UsedPaths, checked_path, suffix_of
from .stored_columns import StoredBlock, StoredReader, infer_schema

_REMEDY = 'every record must have one value; skip other records with on_error="skip"'


def to_files(
    paths: StrPath | Iterable[StrPath],
    folder: StrPath,
    feature: str,
    *,
    name_from: str | None = None,
    by_class: str | None = None,
    on_error: OnError = "raise",
    allow_missing: bool = False,
    jobs: int = 1,
    watcher: Watcher | None = None,
    storage_options: StorageOptions = None,
) -> Result:
    """Write a bytes feature of each record as a separate file.

    The folder appears when all files are in it. Names from the data are validated: it is an error
    if a name leads out of the folder, is a folder or device on some system, or is also the name of
    an earlier record.

    Args:
        paths: Files, glob patterns, directories or URLs. Compression is detected from the content.
        folder: Path of the output folder, which must be new or empty; no URL of a store.
        feature: Name of the feature with the content of the file: one bytes value in each record.
        name_from: Name of the feature with the name of the file: one bytes value in each record. It
            may contain folders. A name without a suffix gets the suffix of the content. By default
            the name is the number of the record, in nine digits.
        by_class: Name of a feature with the folder of the file: one bytes value or integer in each
            record.
        on_error: ``"raise"``, or ``"skip"`` to skip and count records that are damaged, lack a
            feature or have no valid name.
        allow_missing: Read the files that exist, even if their names ``name-00001-of-00003`` say
            that a directory or pattern lacks some.
        jobs: Number of threads that read and write. The output does not depend on it.
        watcher: Receiver of progress messages.
        storage_options: Options of remote inputs, as for :class:`TFRecordDataset`.

    Returns:
        Path of the folder, number of records and other facts of the output.

    Raises:
        DecodeError: If a record lacks a feature or has no valid name, unless it is skipped.
        CorruptRecordError: If a record is damaged, unless it is skipped.
        TruncatedFileError: If a file is truncated, unless its rest is skipped.
        FileNotFoundError: If a path matches no file, or shards are missing.
        FileExistsError: If the folder exists and is not empty.
        ValueError: If an argument is invalid.
    """
    output = Location.of(folder, storage_options)
    if output.local_path is None:
        raise ValueError(
            f"the output must be a folder of this machine, got {os.fspath(folder)!r}; upload it "
            "with the tool of the store"
        )
    target = os.path.realpath(output)  # it may be a link to an empty folder
    if os.path.lexists(target) and (not os.path.isdir(target) or os.listdir(target)):
        raise FileExistsError(errno.EEXIST, "the output must be a new or empty folder", target)
    report = JobReport(on_error, watcher)
    files = RecordFiles(paths, report, allow_missing=allow_missing, storage_options=storage_options)
    report.watcher.started(2 * files.size)
    seen = infer_schema(files, jobs)
    schema = _schema(Schema(**seen.parts), feature, name_from, by_class)
    reader = StoredReader(files, schema, survey=seen.survey, remedy=_REMEDY)
    namer = _Namer(reader, feature, name_from, by_class)
    with OutputGroup() as group:
        temporary = group.open_folder(Location(target))
        blocks = reader.blocks(files.all, jobs)

        def write(files: list[_ExportedFile]) -> list[int]:
            for path, data in files:
                inside = os.path.join(temporary, path)
                os.makedirs(os.path.dirname(inside), exist_ok=True)
                # "x" because the file system may treat two names as the same.
                with open_named(inside, os.path.join(target, path), "xb") as file:
                    file.write(data)
            return [len(data) for _, data in files]

        size = 0
        with OrderedPool(write, jobs) as pool, closing(blocks):
            for sizes in pool.map(map(namer.named, blocks)):
                report.add(len(sizes), 0)
                size += sum(sizes)
    return report.result([output], [report.records], file_bytes=size)


class _ExportedFile(NamedTuple):
    path: str
    data: bytes


class _Namer:
    """Names the files in the order of the records."""

    def __init__(
        self, reader: StoredReader, feature: str, name_from: str | None, by_class: str | None
    ) -> None:
        self._reader = reader
        self._feature = feature
        self._name_from = name_from
        self._by_class = by_class
        self._used = UsedPaths()

    def named(self, rows: StoredBlock) -> list[_ExportedFile]:
        """Return the files of some records, without those that have no valid name."""
        found = []
        for position in range(len(rows.block)):
            [data] = rows.columns[self._feature].row(position)
            feature = self._by_class
            try:
                folder = self._folder(rows, position)
                feature = self._name_from
                path = folder + self._name(rows, position, data)
                self._used.add(path)
            except ValueError as error:
                self._reader.skip(int(rows.block.numbers[position]), str(error), feature)
            else:
                found.append(_ExportedFile(path, data))
        return found

    def _folder(self, rows: StoredBlock, position: int) -> str:
        if self._by_class is None:
            return ""
        value = rows.columns[self._by_class].row(position)
        if isinstance(value, np.ndarray):
            return f"{int(value)}/"
        return checked_path(value[0]) + "/"

    def _name(self, rows: StoredBlock, position: int, data: bytes) -> str:
        if self._name_from is None:
            return f"{rows.block.numbers[position]:09d}.{suffix_of(data)}"
        [value] = rows.columns[self._name_from].row(position)
        name = checked_path(value)
        return name if os.path.splitext(name)[1] else f"{name}.{suffix_of(data)}"


def _schema(seen: Schema, feature: str, name_from: str | None, by_class: str | None) -> Schema:
    """Return a schema of these features, each with one value in every record."""
    specs: dict[str, Feature] = {}
    for name in filter(None, (feature, name_from, by_class)):
        if name not in seen.context:
            raise ValueError(f"there is no feature {name!r}; the features are {', '.join(seen)}")
        spec = seen.context[name]
        dtype = spec.dtype if isinstance(spec, (FixedLenFeature, VarLenFeature)) else "string"
        if dtype != "string" and (name != by_class or not is_integer_dtype(dtype)):
            kinds = "a bytes value or an integer" if name == by_class else "a bytes value"
            raise ValueError(f"the feature {name!r} must be {kinds}, got {dtype}")
        specs[name] = FixedLenFeature([], dtype)
    return Schema(specs)
