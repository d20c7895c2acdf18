"""TFRecord to plain files: one a record, in folders by class where that is asked for."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

import numpy as np

from ..schema.dtypes import is_integer_dtype
from ..schema.feature import Feature
from ..schema.schema import Schema
from ..schema.specs import FixedLenFeature, VarLenFeature
from ..storage.local import StrPath, sync_folder
from ..tools.record_files import RecordFiles
from .jobs import Jobs, OnError, Tally, Watcher
from .naming import Taken, checked_path, suffix_of
from .outputs import Written, make_folder_of
from .staging import open_output
from .stored import StoredBlock, StoredReader, infer_schema

# What is read, and written, at a time.
_MOST_RECORDS = 1 << 10
_MOST_BYTES = 1 << 24


def to_files(
    paths: StrPath | Iterable[StrPath],
    folder: StrPath,
    feature: str,
    *,
    name_from: str | None = None,
    by_class: str | None = None,
    on_error: OnError = "raise",
    jobs: int = 1,
    watcher: Watcher | None = None,
) -> Written:
    """Writes a bytes feature of each record as a file of its own.

    The folder appears when all files are in it. Names that come from the data are checked: one that
    leads out of the folder, that is a folder or device on some system, or that an earlier record
    has, is an error.

    Args:
        paths: Files, patterns or directories; compressed or not is told by content.
        folder: A new folder, or an empty one.
        feature: Of one bytes value in every record: the content of its file.
        name_from: Of one bytes value: the name of its file, which may have folders in it. One
            without a suffix gets that of the content. By default the number of the record, in nine
            digits.
        by_class: Of one bytes value or integer: a folder that the file is put in.
        on_error: ``"raise"``, or ``"skip"``: records that are damaged, lack a feature or have no
            good name are left out, and counted.
        jobs: Threads that read and write. The result does not depend on it.
        watcher: Is told how it gets on.

    Returns:
        Its ``paths`` is the folder.

    Raises:
        DecodeError: a record lacks a feature, or has no good name, unless that is skipped.
        CorruptRecordError, TruncatedFileError: a file is damaged, unless that is skipped.
        FileNotFoundError: a path stands for no file.
        FileExistsError: the folder is there, and not empty.
        ValueError: an argument is none of its choices.
    """
    target = os.path.realpath(folder)  # an empty folder may be a link to one
    _refuse_full(target)
    tally = Tally(on_error, watcher)
    files = RecordFiles(paths, tally)
    reader = StoredReader(
        files, _schema(infer_schema(files, tally), feature, name_from, by_class), tally
    )
    namer = _Namer(reader, feature, name_from, by_class, tally)
    tally.watcher.started(files.size)
    make_folder_of(target)
    with _pending_folder(target) as pending:
        blocks = reader.blocks(files.all, jobs, most_records=_MOST_RECORDS, most_bytes=_MOST_BYTES)

        def write(contents: list[_File]) -> list[int]:
            for path, data in contents:
                _write(os.path.join(pending, path), os.path.join(target, path), data)
            return [len(data) for _, data in contents]

        size = 0
        with Jobs(write, jobs) as crew, closing(blocks):
            for sizes in crew.map(map(namer.named, blocks)):
                tally.add(len(sizes), 0)
                size += sum(sizes)
    return Written.of([os.fspath(folder)], tally, [tally.records], size)


class _File(NamedTuple):
    path: str
    data: bytes


class _Namer:
    """Finds the names of files, in the order of the records."""

    def __init__(
        self,
        reader: StoredReader,
        feature: str,
        name_from: str | None,
        by_class: str | None,
        tally: Tally,
    ) -> None:
        self._reader = reader
        self._feature = feature
        self._name_from = name_from
        self._by_class = by_class
        self._tally = tally
        self._taken = Taken()

    def named(self, rows: StoredBlock) -> list[_File]:
        """The files of some records, less those that have no good name."""
        found = []
        for position in range(len(rows.block)):
            [data] = rows.columns[self._feature].row(position)
            blamed = self._by_class
            try:
                folder = self._folder(rows, position)
                blamed = self._name_from
                path = folder + self._name(rows, position, data)
                self._taken.take(path)
            except ValueError as error:
                self._tally.skip(self._reader.error(rows.block, position, str(error), blamed))
            else:
                found.append(_File(path, data))
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
    """Of these features, each of one value in every record."""
    specs: dict[str, Feature] = {}
    for name in filter(None, (feature, name_from, by_class)):
        if name not in seen.context:
            raise ValueError(f"there is no feature {name!r} to read; there are {', '.join(seen)}")
        spec = seen.context[name]
        dtype = spec.dtype if isinstance(spec, (FixedLenFeature, VarLenFeature)) else "string"
        if dtype != "string" and (name != by_class or not is_integer_dtype(dtype)):
            needed = "a bytes value or an integer" if name == by_class else "a bytes value"
            raise ValueError(f"the feature {name!r} must be {needed}, not {dtype}")
        specs[name] = FixedLenFeature([], dtype)
    return Schema(specs)


# ---- on disk ----


def _refuse_full(target: str) -> None:
    if os.path.lexists(target) and (not os.path.isdir(target) or os.listdir(target)):
        raise FileExistsError(errno.EEXIST, "it is there, and no empty folder", target)


@contextmanager
def _pending_folder(target: str) -> Iterator[str]:
    """A folder that has its name at the end of the block, or is removed."""
    parent, base = os.path.split(target)
    pending = tempfile.mkdtemp(prefix=f".{base[:50]}-", dir=parent)
    try:
        # mkdtemp makes folders private; give it the mode that mkdir() would have.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(pending, 0o777 & ~umask)
        yield pending
        os.sync()  # once for all files, which may be very many
        os.rename(pending, target)
        sync_folder(parent)
    except BaseException:
        shutil.rmtree(pending, ignore_errors=True)
        raise


def _write(temporary: str, path: str, data: bytes) -> None:
    os.makedirs(os.path.dirname(temporary), exist_ok=True)
    with open_output(temporary, path, "xb") as file:  # "x": two names may be one here
        file.write(data)
