"""TFRecord to WebDataset: tar files in which the files of one name, less its suffix, are a sample.

Which file holds which feature is settled by :class:`_Member`; see :func:`to_webdataset`.
"""

from __future__ import annotations

import io
import json
import os
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..schema.dtypes import is_integer_dtype
from ..schema.schema import Schema
from ..schema.specs import FixedLenFeature, VarLenFeature
from ..storage.local import StrPath
from ..tools.record_files import RecordFiles
from ..writing.sharded import refuse_other_shards
from .jobs import OnError, Tally, Watcher
from .naming import checked_path, suffix_of
from .outputs import Written, check_shards_name, refuse_inputs
from .staging import StagedFiles, open_output
from .stored import StoredBlock, StoredReader

_SHARD = re.compile(r"-\d{6}\.tar")
# WebDataset's tar_file_iterator passes over files called so, and group_by_keys has keys of its own.
_PASSED_OVER = re.compile(r"__[^/]*__($|/)")
# What tar pads files to, and in the end itself.
_BLOCK_BYTES = tarfile.BLOCKSIZE
_TAPE_BYTES = tarfile.RECORDSIZE
# What is read at a time.
_MOST_RECORDS = 1 << 12
_MOST_BYTES = 1 << 24


def to_webdataset(
    paths: StrPath | Iterable[StrPath],
    name: StrPath,
    *,
    schema: Schema | Mapping[str, Any] | None = None,
    key: str | None = None,
    extensions: Mapping[str, str] | None = None,
    max_bytes: int | None = None,
    on_error: OnError = "raise",
    jobs: int = 1,
    watcher: Watcher | None = None,
) -> Written:
    """Writes records as samples of ``name-000000.tar``, ``name-000001.tar`` and so on.

    A feature ``image/encoded`` is the file ``KEY.image.encoded.jpg``: its name in lower case, with
    dots in place of what is no letter, digit, ``_`` or ``-``. The suffix says how it is stored, as
    WebDataset's decoders have it:

    | a feature of | has the suffix |
    | --- | --- |
    | one bytes value | by content: ``jpg``, ``wav`` and so on; ``txt`` for text, else ``bin`` |
    | several bytes values | the same, one by one: ``KEY.frames.0.jpg`` |
    | a feature list of bytes | by step, too: ``KEY.frames.3.0.jpg`` |
    | one integer | ``cls``: in decimal |
    | one float, or several numbers | ``npy``: of the shape that the schema says |
    | a feature list of numbers | ``json``: a list of lists |

    Tar files are the same, byte by byte, whenever they are written.

    Args:
        paths: Files, patterns or directories; compressed or not is told by content.
        name: How the tar files begin.
        schema: What to read of each record; by default it is inferred from 1,000 of them, and
            features that only others have are not written.
        key: The feature whose value is KEY, less its last suffix, and with ``_`` for other dots: an
            integer, or bytes that may be used as a file name. By default the number of the record,
            in nine digits.
        extensions: What files of features are called instead: ``{"image/encoded": "jpg"}`` makes
            it ``KEY.jpg``. Numbers need one that ends in ``txt``, ``npy``, ``json`` or, of an
            integer, ``cls``.
        max_bytes: Begins another tar file before one becomes larger than that. By default there is
            one.
        on_error: ``"raise"``, or ``"skip"``: records that are damaged, do not fit the schema or
            have no good key are left out, and counted.
        jobs: Threads that read. The result does not depend on it.
        watcher: Is told how it gets on.

    Raises:
        SchemaError: there is nothing to infer a schema from, or a feature that no spec reads; or a
            spec reads several features.
        DecodeError: a record does not fit the schema, its key is no file name, or an earlier record
            of the same tar file has it; unless that is skipped.
        CorruptRecordError, TruncatedFileError: a file is damaged, unless that is skipped.
        FileNotFoundError: a path stands for no file.
        FileExistsError: other tar files have such names already.
        ValueError: an argument is none of its choices, two features would have one file, or an
            output is an input.
    """
    check_shards_name(name)
    if max_bytes is not None and max_bytes < 1:
        raise ValueError(f"max_bytes must be positive, not {max_bytes}")
    tally = Tally(on_error, watcher)
    files = RecordFiles(paths, tally)
    reader = StoredReader(files, schema, tally)
    members = _members(reader.schema, extensions or {}, key)
    tally.watcher.started(files.size)
    blocks = reader.blocks(files.all, jobs, most_records=_MOST_RECORDS, most_bytes=_MOST_BYTES)
    with (
        StagedFiles() as staged,
        _Shards(staged, os.fspath(name), max_bytes) as shards,
        closing(blocks),
    ):
        for rows in blocks:
            count = 0
            for position in range(len(rows.block)):
                try:
                    shards.add(_key_of(rows, position, key), _sample(members, rows, position))
                    count += 1
                except ValueError as error:
                    tally.skip(reader.error(rows.block, position, str(error), key))
            tally.add(count, 0)
        shards.close()
        refuse_inputs(files.paths, shards.paths)
        refuse_other_shards(name, _SHARD, shards.paths)
    return Written.of(shards.paths, tally, shards.counts)


def _key_of(rows: StoredBlock, position: int, key: str | None) -> str:
    if key is None:
        return f"{rows.block.numbers[position]:09d}"
    value = rows.columns[key].row(position)
    if isinstance(value, np.ndarray):
        return str(int(value))
    folder, base = os.path.split(checked_path(value[0]))
    # WebDataset takes what follows the first dot of the last part for the suffix.
    return os.path.join(folder, os.path.splitext(base)[0].replace(".", "_"))


# ---- the files of a sample ----


class _Member(NamedTuple):
    """How a feature is stored: what its files are called, and what is in them."""

    extension: str
    has_suffix: bool  # or it is still to come, by content
    is_single: bool
    encode: Callable[[Any], bytes] | None  # None for bytes


def _members(schema: Schema, extensions: Mapping[str, str], key: str | None) -> dict[str, _Member]:
    for name in [*extensions, *([] if key is None else [key])]:
        if name not in schema:
            raise ValueError(f"the schema has no feature {name!r}; it has {', '.join(schema)}")
    if key is not None and not _is_key(schema[key]):
        raise ValueError(f"the key {key!r} must be one integer or bytes value in every record")
    members = {name: _member(schema, name, extensions.get(name)) for name in schema}
    owners: dict[str, str] = {}
    for name, member in members.items():
        other = owners.setdefault(member.extension, name)
        if other != name:
            raise ValueError(
                f"the features {other!r} and {name!r} would both be files .{member.extension}; "
                "name another extension for one of them"
            )
    return members


def _is_key(spec: Any) -> bool:
    is_one = isinstance(spec, FixedLenFeature) and spec.count == 1
    return is_one and (spec.dtype == "string" or is_integer_dtype(spec.dtype))


def _member(schema: Schema, name: str, extension: str | None) -> _Member:
    spec = schema[name]
    assert isinstance(spec, (FixedLenFeature, VarLenFeature))  # as of all that are stored
    is_single = isinstance(spec, FixedLenFeature) and spec.shape == ()
    if extension is not None and not re.fullmatch(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*", extension):
        raise ValueError(
            f"an extension is of lower-case letters, digits, _, - and dots, not {extension!r}"
        )
    if extension is not None and _PASSED_OVER.fullmatch(extension):
        raise ValueError(f"WebDataset has {extension!r} for itself: choose another extension")
    stem = extension or _as_extension(name)
    if spec.dtype == "string":
        return _Member(stem, extension is not None, is_single, None)
    suffix = stem.rpartition(".")[2]
    if extension is None:
        suffix = "npy"
        if name in (schema.sequence or {}):
            suffix = "json"
        elif is_single and is_integer_dtype(spec.dtype):
            suffix = "cls"
        stem = f"{stem}.{suffix}"
    if (
        suffix not in _ENCODERS
        or (suffix in ("cls", "txt") and not is_single)
        or (suffix == "cls" and not is_integer_dtype(spec.dtype))
    ):
        raise ValueError(
            f"feature {name!r}: a number needs an extension that ends in 'txt', 'npy', 'json' or, "
            f"of an integer, 'cls', and several 'npy' or 'json', not {extension!r}"
        )
    if suffix == "npy" and name in (schema.sequence or {}):
        raise ValueError(f"feature {name!r}: a feature list of numbers is stored as 'json'")
    return _Member(stem, True, is_single, _ENCODERS[suffix])


def _as_extension(name: str) -> str:
    return re.sub(r"[^a-z0-9_-]+", ".", name.lower()).strip(".") or "feature"


def _sample(
    members: Mapping[str, _Member], rows: StoredBlock, position: int
) -> Iterator[tuple[str, bytes]]:
    """Extension and content of each file of a sample."""
    for name, member in members.items():
        value = rows.columns[name].row(position)
        if member.encode is not None:
            yield member.extension, member.encode(value)
        elif member.is_single:
            yield _with_suffix(member, "", value[0]), value[0]
        else:
            for place, data in _places(value):
                yield _with_suffix(member, place, data), data


def _with_suffix(member: _Member, place: str, data: bytes) -> str:
    if member.has_suffix:
        return f"{place.lstrip('.')}{'.' if place else ''}{member.extension}"
    return f"{member.extension}{place}.{suffix_of(data)}"


def _places(value: list[Any]) -> Iterator[tuple[str, bytes]]:
    """Each bytes value, and where it stands: ``.0``, or ``.3.0`` in a feature list."""
    for number, item in enumerate(value):
        if isinstance(item, bytes):
            yield f".{number}", item
        else:
            yield from ((f".{number}{place}", data) for place, data in _places(item))


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


class _Shards:
    """Writes samples to one tar file after another.

    Attributes:
        paths: The tar files so far.
        counts: The samples of each.
    """

    def __init__(self, staged: StagedFiles, name: str, max_bytes: int | None) -> None:
        self.paths: list[str] = []
        self.counts: list[int] = []
        self._staged = staged
        self._name = name
        self._max_bytes = max_bytes
        self._stack = ExitStack()
        self._begin()

    def __enter__(self) -> _Shards:  # noqa: PYI034  # nobody derives from it
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the last tar file."""
        self._stack.close()

    def add(self, key: str, sample: Iterable[tuple[str, bytes]]) -> None:
        """Writes a sample.

        Raises:
            ValueError: the tar file has one of that key already; or the sample is no files, or
                several of one name.
        """
        files = [(f"{key}.{extension}", data) for extension, data in sample]
        for name, _ in files:
            if _PASSED_OVER.match(name):
                raise ValueError(f"WebDataset would pass over {name!r}, as it does over metadata")
        if not files or len({name for name, _ in files}) < len(files):
            raise ValueError("no file would be written, or several of one name")
        size = sum(_size_in_tar(name, data) for name, data in files)
        if self.counts[-1] and not self._has_room(size):
            self._begin()
        if key in self._keys:
            raise ValueError(f"an earlier record of the tar file has the key {key!r} already")
        self._keys.add(key)
        for name, data in files:
            self._tar.addfile(_info(name, data), io.BytesIO(data))
        self.counts[-1] += 1

    def _has_room(self, size: int) -> bool:
        end = self._tar.offset + size + 2 * _BLOCK_BYTES  # of zeros
        return self._max_bytes is None or -(-end // _TAPE_BYTES) * _TAPE_BYTES <= self._max_bytes

    def _begin(self) -> None:
        self._stack.close()
        self.paths.append(f"{self._name}-{len(self.paths):06d}.tar")
        self.counts.append(0)
        self._keys: set[str] = set()
        path = self.paths[-1]
        file = self._stack.enter_context(open_output(self._staged.add(path), path))
        self._tar = self._stack.enter_context(
            tarfile.TarFile(fileobj=file, mode="w", format=tarfile.PAX_FORMAT)
        )


def _info(name: str, data: bytes) -> tarfile.TarInfo:
    """No time, no owner: the same data makes the same tar file."""
    info = tarfile.TarInfo(name)
    info.size = len(data)
    info.mode = 0o444
    return info


def _size_in_tar(name: str, data: bytes) -> int:
    header = len(_info(name, data).tobuf(tarfile.PAX_FORMAT))
    return header + -(-len(data) // _BLOCK_BYTES) * _BLOCK_BYTES
