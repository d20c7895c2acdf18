"""Export of TFRecord files to plain files, one per record, in folders by class if requested."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Unpack

from .._schema.dtypes import is_integer_dtype
from .._schema.feature import Feature
from .._schema.schema import Schema
from .._schema.specs import FixedLenFeature, VarLenFeature
from .._storage.local import StrPath
from .._storage.location import Location
from .._writing.named_file import open_named
from .._writing.output_group import OutputGroup
from ..errors import DecodeError
from ..tools.options import InputOptions
from ..tools.report import Result
from .export import Export
from .file_names import name_of, suffix_of

_REMEDY = 'every record must have one value; skip other records with on_error="skip"'


def to_files(
    paths: StrPath | Iterable[StrPath],
    folder: StrPath,
    feature: str,
    *,
    name_from: str | None = None,
    by_class: str | None = None,
    **options: Unpack[InputOptions],
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
        options: Keyword options, see :class:`torchrec_io.tools.InputOptions`:
            ``on_error``, ``allow_missing``, ``jobs``, ``watcher`` and ``storage_options``.

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
    output = Location.of(folder, options.get("storage_options"))
    if output.local_path is None:
        raise ValueError(
            f"the output must be a folder of this machine, got {os.fspath(folder)!r}; upload it "
            "with the tool of the store"
        )
    target = os.path.realpath(output)  # it may be a link to an empty folder
    if os.path.lexists(target) and (not os.path.isdir(target) or os.listdir(target)):
        raise FileExistsError(errno.EEXIST, "the output must be a new or empty folder", target)
    export = Export(paths, options)
    schema = _schema(Schema(**export.infer().parts), feature, name_from, by_class)
    export.use(schema, _REMEDY)
    sizes = []
    with OutputGroup() as group:
        temporary = group.open_folder(Location(target))

        def write(number: int, values: Mapping[str, Any]) -> None:
            [data] = values[feature]
            name = f"{number:09d}"
            if name_from is not None:
                name = name_of(values[name_from], name_from)
            if not os.path.splitext(name)[1]:
                name = f"{name}.{suffix_of(data)}"
            if by_class is not None:
                name = f"{name_of(values[by_class], by_class)}/{name}"
            _write_new(temporary, target, name, data, name_from)
            sizes.append(len(data))

        export.write_each(write)
    found = export.report.result([output], [export.report.records])
    return replace(found, file_bytes=sum(sizes))  # of the files in the folder


def _write_new(folder: str, target: str, path: str, data: bytes, feature: str | None) -> None:
    """Write a new file.

    Args:
        folder: Path of the folder until all files are in it.
        target: Path of the folder then, for error messages.
        path: Path in the folder.
        data: Content of the file.
        feature: Name of the feature that has the name, for the error message.

    Raises:
        DecodeError: If there is a file of this name, or of the name of its folder, also where the
            file system does not distinguish two names.
    """
    inside = os.path.join(folder, path)
    try:
        os.makedirs(os.path.dirname(inside), exist_ok=True)
        file = open_named(inside, os.path.join(target, path), "xb")
    except (FileExistsError, NotADirectoryError):
        reason = (
            f"an earlier record has the file name {path!r}, or a part of it; by_class puts files "
            "in folders"
        )
        raise DecodeError(reason, feature=feature) from None
    with file:
        file.write(data)


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
