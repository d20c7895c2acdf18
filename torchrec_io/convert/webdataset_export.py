"""Export of TFRecord files to WebDataset: tar files in which a sample is several files.

The files of a sample have the same name up to the suffix.
"""

from __future__ import annotations

import io
import json
import os
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from typing import Any, NamedTuple, Unpack

import numpy as np
import numpy.typing as npt

from .._schema.dtypes import is_integer_dtype
from .._schema.feature import Feature
from .._schema.schema import Schema
from .._schema.specs import FixedLenFeature, VarLenFeature
from .._storage.local import StrPath
from .._storage.location import Location
from .._writing.output_group import OutputGroup
from .._writing.shards import find_shards, refuse_shards
from ..checks import check_integer
from ..errors import DecodeError
from ..tools.options import InputOptions
from ..tools.outputs import check_file_name, refuse_inputs
from ..tools.report import Result
from .export import Export
from .file_names import name_of, suffix_of

_SHARD_SUFFIX = re.compile(r"-\d{6}\.tar")
# WebDataset's tar_file_iterator skips files with such names, and group_by_keys uses them itself.
_RESERVED_NAME = re.compile(r"__[^/]*__($|/)")
# Sizes that tar pads files, and the whole archive, to a multiple of.
_BLOCK_BYTES = tarfile.BLOCKSIZE
_TAPE_BYTES = tarfile.RECORDSIZE


def to_webdataset(
    paths: StrPath | Iterable[StrPath],
    name: StrPath,
    *,
    schema: Schema | Mapping[str, Any] | None = None,
    key: str | None = None,
    extensions: Mapping[str, str] | None = None,
    max_bytes: int | None = None,
    force: bool = False,
    **options: Unpack[InputOptions],
) -> Result:
    """Write records as samples of ``name-000000.tar``, ``name-000001.tar`` and so on.

    A feature ``image/encoded`` becomes the file ``KEY.image.encoded.jpg``: its name in lower case,
    with dots in place of characters other than letters, digits, ``_`` and ``-``. The suffix selects
    one of WebDataset's decoders:

    | feature | suffix |
    | --- | --- |
    | one bytes value | by content: ``jpg``, ``wav`` and so on; ``txt`` for text, else ``bin`` |
    | several bytes values | the same, with a number each: ``KEY.frames.0.jpg`` |
    | feature list of bytes | the same, with the step: ``KEY.frames.3.0.jpg`` |
    | one integer | ``cls``: decimal |
    | one float, or several numbers | ``npy``: with the shape of the schema |
    | feature list of numbers | ``json``: a list of lists |

    Equal records give equal tar files, byte by byte.

    Args:
        paths: Files, glob patterns, directories or URLs. Compression is detected from the content.
        name: Common start of the paths of the tar files.
        schema: Features to read from each record. By default all records are inspected first, and
            the schema fits all of them. :attr:`Result.left_out` counts features that a schema
            leaves out.
        key: Name of the feature whose value is KEY, without its last suffix and with ``_`` for
            other dots: one integer, or bytes that are a valid file name. By default KEY is the
            number of the record, in nine digits.
        extensions: Extensions of files by feature name: ``{"image/encoded": "jpg"}`` gives
            ``KEY.jpg``. An extension of numbers must end with ``txt``, ``npy``, ``json`` or, for
            an integer, ``cls``.
        max_bytes: Largest size of a tar file in bytes, unless a single sample is larger. By default
            there is one tar file.
        force: Whether outputs that exist are replaced. By default they are refused.
        options: Keyword options, see :class:`torchrec_io.tools.InputOptions`:
            ``on_error``, ``allow_missing``, ``jobs``, ``watcher`` and ``storage_options``.

    Returns:
        Paths, numbers of records and other facts of the outputs.

    Raises:
        SchemaError: If there is no record to infer a schema from, a feature has values that no spec
            reads, or a spec reads several features.
        DecodeError: If a record does not fit the schema, its key is not a valid file name, or an
            earlier record of the same tar file has the same key, unless it is skipped.
        CorruptRecordError: If a record is damaged, unless it is skipped.
        TruncatedFileError: If a file is truncated, unless its rest is skipped.
        FileNotFoundError: If a path matches no file, or shards are missing.
        FileExistsError: If there are tar files with such names, unless they may be replaced.
        ValueError: If an argument is invalid, two features have the same extension, or an output is
            an input.
    """
    start = check_file_name(name, options.get("storage_options"))
    if max_bytes is not None:
        max_bytes = check_integer("max_bytes", max_bytes, 1)
    if not force:
        refuse_shards(start, _SHARD_SUFFIX)
    export = Export(paths, options)
    export.choose(schema)
    for feature in (*(extensions or {}), *([] if key is None else [key])):
        if feature not in export.schema:
            raise ValueError(
                f"the schema has no feature {feature!r}; its features are "
                + ", ".join(export.schema)
            )
    if key is not None:
        _check_key(key, export.schema[key])
    members = _members(export.schema, extensions or {})
    with (
        OutputGroup(force=force) as group,
        closing(_TarFiles(group, start, max_bytes)) as tars,
    ):

        def write(number: int, values: Mapping[str, Any]) -> None:
            files = [file for each in members for file in each.files(values[each.feature])]
            tars.add(f"{number:09d}" if key is None else _key_of(values[key], key), files, key)

        export.write_each(write)
        tars.close()
        others = find_shards(start, _SHARD_SUFFIX, tars.files)
        refuse_inputs(export.files.locations, [*tars.files, *others])
        if force:
            group.remove(others)
    return export.result(tars.files, tars.counts)


def _check_key(key: str, spec: Feature) -> None:
    is_one = isinstance(spec, FixedLenFeature) and spec.count == 1
    if not is_one or not (spec.dtype == "string" or is_integer_dtype(spec.dtype)):
        raise ValueError(
            f"the key feature {key!r} must have one integer or one bytes value in every record"
        )


def _key_of(value: Any, feature: str) -> str:
    folder, base = os.path.split(name_of(value, feature))
    # In WebDataset the suffix begins at the first dot of the last part.
    return os.path.join(folder, os.path.splitext(base)[0].replace(".", "_"))


# ---- the files of a sample ----


class _Member(NamedTuple):
    """The files of a sample that store one feature.

    Attributes:
        feature: Name of the feature.
        extension: Extension of the files.
        has_suffix: Whether the extension is complete. Otherwise the suffix of the content is added.
        is_single: Whether each record has one value.
        encode: Function that encodes the numbers of a record, or None for bytes.
    """

    feature: str
    extension: str
    has_suffix: bool
    is_single: bool
    encode: Callable[[Any], bytes] | None

    def files(self, value: Any) -> Iterator[tuple[str, bytes]]:
        """Yield the extension and content of each file that stores the value of a record."""
        if self.encode is not None:
            yield self.extension, self.encode(value)
            return
        for number, data in [("", value[0])] if self.is_single else _numbered(value):
            if self.has_suffix:
                yield f"{number}.{self.extension}".lstrip("."), data
            else:
                yield f"{self.extension}{number}.{suffix_of(data)}", data


def _members(schema: Schema, extensions: Mapping[str, str]) -> list[_Member]:
    members = [_member(schema, name, extensions.get(name)) for name in schema]
    owners: dict[str, str] = {}
    for member in members:
        other = owners.setdefault(member.extension, member.feature)
        if other != member.feature:
            raise ValueError(
                f"the features {other!r} and {member.feature!r} have the same extension "
                f"{member.extension!r}; use extensions to give one of them another"
            )
    return members


def _member(schema: Schema, name: str, extension: str | None) -> _Member:
    spec = schema[name]
    assert isinstance(spec, (FixedLenFeature, VarLenFeature))  # a schema of stored columns
    is_single = isinstance(spec, FixedLenFeature) and spec.shape == ()
    if extension is not None and not re.fullmatch(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*", extension):
        raise ValueError(
            "an extension must consist of lower-case letters, digits, _, - and dots, got "
            f"{extension!r}"
        )
    if extension is not None and _RESERVED_NAME.fullmatch(extension):
        raise ValueError(f"the extension {extension!r} is reserved by WebDataset; use another one")
    full = extension or re.sub(r"[^a-z0-9_-]+", ".", name.lower()).strip(".") or "feature"
    if spec.dtype == "string":
        return _Member(name, full, extension is not None, is_single, None)
    suffixes = ["npy", "json"]  # the first one is the default
    if name in (schema.sequence or {}):
        suffixes = ["json"]
    elif is_single:
        suffixes = ["cls", *suffixes, "txt"] if is_integer_dtype(spec.dtype) else [*suffixes, "txt"]
    if extension is None:
        full = f"{full}.{suffixes[0]}"
    suffix = full.rpartition(".")[2]
    if suffix not in suffixes:
        raise ValueError(
            f"the extension of the feature {name!r} must end with "
            f"{' or '.join(map(repr, suffixes))}, got {extension!r}"
        )
    return _Member(name, full, True, is_single, _ENCODERS[suffix])


def _numbered(value: list[Any]) -> Iterator[tuple[str, bytes]]:
    """Yield the number and bytes of each value: ``.0``, or ``.3.0`` with the step of a list."""
    for number, item in enumerate(value):
        if isinstance(item, bytes):
            yield f".{number}", item
        else:
            yield from ((f".{number}{inner}", data) for inner, data in _numbered(item))


def _as_text(value: npt.NDArray[Any]) -> bytes:
    number = value.item()
    return str(int(number) if isinstance(number, bool) else number).encode()


def _as_npy(value: npt.NDArray[Any]) -> bytes:
    out = io.BytesIO()
    np.save(out, value, allow_pickle=False)
    return out.getvalue()


def _as_json(value: npt.NDArray[Any] | list[npt.NDArray[Any]]) -> bytes:
    steps = [step.tolist() for step in value] if isinstance(value, list) else value.tolist()
    return json.dumps(steps).encode()


_ENCODERS: dict[str, Callable[[Any], bytes]] = {
    "cls": _as_text,
    "txt": _as_text,
    "npy": _as_npy,
    "json": _as_json,
}


# ---- tar files ----


class _TarFiles:
    """A writer of samples to one tar file after another.

    Attributes:
        files: The tar files so far.
        counts: Number of samples in each.
    """

    def __init__(self, group: OutputGroup, name: Location, max_bytes: int | None) -> None:
        self.files: list[Location] = []
        self.counts: list[int] = []
        self._group = group
        self._name = name
        self._max_bytes = max_bytes
        self._stack = ExitStack()
        self._begin()

    def close(self) -> None:
        """Finish the last tar file."""
        self._stack.close()

    def add(self, key: str, sample: Sequence[tuple[str, bytes]], feature: str | None) -> None:
        """Write a sample.

        Args:
            key: Key of the sample.
            sample: Extension and content of each file.
            feature: Name of the feature that has the key.

        Raises:
            DecodeError: If the tar file has a sample with this key, or the sample has no files or
                several files of the same name.
        """
        files = {f"{key}.{extension}": data for extension, data in sample}
        reserved = next(filter(_RESERVED_NAME.match, files), None)
        if reserved is not None:
            reason = f"WebDataset would skip the file {reserved!r}, whose name is reserved"
            raise DecodeError(reason, feature=feature)
        if not files or len(files) < len(sample):
            raise DecodeError("the sample has no files, or several files of the same name")
        members = [(_info(name, data), data) for name, data in files.items()]
        if self.counts[-1] and not self._has_room(sum(_size_in_tar(each) for each, _ in members)):
            self._begin()
        if key in self._keys:
            reason = f"an earlier record of the tar file has the key {key!r}"
            raise DecodeError(reason, feature=feature)
        self._keys.add(key)
        for info, data in members:
            self._tar.addfile(info, io.BytesIO(data))
        self.counts[-1] += 1

    def _has_room(self, size: int) -> bool:
        end = self._tar.offset + size + 2 * _BLOCK_BYTES  # a tar file ends with two empty blocks
        return self._max_bytes is None or -(-end // _TAPE_BYTES) * _TAPE_BYTES <= self._max_bytes

    def _begin(self) -> None:
        self._stack.close()
        self.files.append(self._name.beside(f"-{len(self.files):06d}.tar"))
        self.counts.append(0)
        self._keys: set[str] = set()
        file = self._stack.enter_context(self._group.open_file(self.files[-1]))
        self._tar = self._stack.enter_context(
            tarfile.TarFile(fileobj=file, mode="w", format=tarfile.PAX_FORMAT)
        )


def _info(name: str, data: bytes) -> tarfile.TarInfo:
    """Return a header without time and owner, so that equal data gives equal tar files."""
    info = tarfile.TarInfo(name)
    info.size = len(data)
    info.mode = 0o444
    return info


def _size_in_tar(info: tarfile.TarInfo) -> int:
    header = len(info.tobuf(tarfile.PAX_FORMAT))
    return header + -(-info.size // _BLOCK_BYTES) * _BLOCK_BYTES
