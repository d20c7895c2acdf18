"""Conversion of JSON lines to TFRecord, one record per object."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .._storage.local import StrPath
from ..errors import ConversionError, TorchRecIOError
from ..tools.report import Result
from .column_kinds import ColumnKinds, FoundValue, Kind, Types, check_types
from .conversion import Conversion, ConvertedPiece, KindsOfPiece, Options, SourceFile, SourcePart
from .rows import Row, encode_rows

if TYPE_CHECKING:
    from typing_extensions import Unpack

# Size of the lines in a piece.
_PIECE_BYTES = 1 << 20
_BOM = b"\xef\xbb\xbf"
_KINDS: dict[type, Kind] = {bool: "int", int: "int", float: "float", str: "text"}


class _JsonLines(NamedTuple):
    """Some lines of a file, and the number of the first."""

    path: str
    first: int
    lines: list[bytes]

    @property
    def size(self) -> int:
        """Size of all lines in bytes."""
        return sum(map(len, self.lines))


def from_jsonl(
    sources: StrPath | Sequence[StrPath],
    destination: StrPath,
    *,
    types: Types | None = None,
    **options: Unpack[Options],
) -> Result:
    """Convert files of JSON lines to TFRecord files of ``tf.train.Example`` records.

    Each line is an object, which becomes a record. Empty lines are skipped. Each member of the
    object becomes a feature: a number, a string, true or false, or a list of those. The record has
    no feature for a member that is null or missing. The dtype of a feature follows from all of its
    values, so files are read twice: int64 for integers, true and false; float32 if a number has a
    decimal point or an exponent; string for strings.

    Args:
        sources: One file or several.
        destination: Path of the output file, or common start of the paths of the shards.
        types: Stored dtypes of some features: "int64", "float32" or "string". A line with a value
            of another kind is then an error.
        options: Keyword options of all conversions, see :class:`Options`: ``num_shards``,
            ``max_bytes``, ``compression``, ``index``, ``force``, ``jobs``, ``on_error``,
            ``watcher`` and ``storage_options``.

    Returns:
        Paths, schema, counts and errors of the conversion.

    Raises:
        ConversionError: If a line is not a JSON object, has a duplicate name, an object or list
            within a value, null in a list, or a value that does not fit its dtype, unless
            ``on_error="skip"``. Also if a feature without a type has both numbers and strings, or
            there are no records.
        FileExistsError: If an output exists, unless ``force``.
        ValueError: If an argument is invalid.
        OSError: If a file cannot be read or written.
    """
    return convert_jsonl(Conversion(destination, options), sources, types)


def convert_jsonl(
    conversion: Conversion, sources: StrPath | Sequence[StrPath], types: Types | None
) -> Result:
    """Run a conversion of JSON lines; see :func:`from_jsonl`."""
    types = check_types(types)
    files = conversion.source_files(sources)
    conversion.report.watcher.started(2 * sum(file.size for file in files))
    parts = [SourcePart(file.path, file.size, functools.partial(_pieces, file)) for file in files]
    dtypes = conversion.find_dtypes(functools.partial(_find_kinds, types=types), parts, types)
    work = functools.partial(_convert, dtypes=dtypes)
    return conversion.write(work, parts, lambda counts, records: counts.schema(dtypes, records))


def _pieces(file: SourceFile) -> Iterator[_JsonLines]:
    first = 1
    with file.open() as lines:
        while piece := lines.readlines(_PIECE_BYTES):
            yield _JsonLines(file.path, first, piece)
            first += len(piece)


# ---- in the processes ----


def _find_kinds(piece: _JsonLines, types: Types) -> KindsOfPiece:
    kinds = ColumnKinds()
    errors: list[TorchRecIOError] = []
    for number, row in _rows(piece):
        if not isinstance(row, Row):
            errors.append(row)
            continue
        for name, value in row.features.items():
            for item in value if isinstance(value, list) else [value]:
                kind = _KINDS[type(item)]
                if name not in types and not kinds.has(name, kind):
                    kinds.add(name, kind, FoundValue(piece.path, number, json.dumps(item)))
            if name in types or value == []:
                kinds.add(name, "empty", FoundValue(piece.path, number, "[]"))
    return KindsOfPiece(kinds, piece.size, errors)


def _convert(piece: _JsonLines, dtypes: Types) -> ConvertedPiece:
    rows = [row for _, row in _rows(piece)]
    for row in rows:
        if isinstance(row, Row):
            for name, value in row.features.items():
                if value == [] and name not in dtypes:
                    row.features[name] = None  # a feature without a kind
    return encode_rows(rows, dtypes, piece.size)


def _rows(piece: _JsonLines) -> Iterator[tuple[int, Row | ConversionError]]:
    """Yield the number of each line that is not empty, and its row or error."""
    for number, line in enumerate(piece.lines, piece.first):
        text = line.removeprefix(_BOM) if number == 1 else line
        if text and not text.isspace():
            yield number, _row(Row(piece.path, f"line {number}", {}), text)


def _row(row: Row, line: bytes) -> Row | ConversionError:
    try:
        row.features.update(_features_of(row, _DECODER.decode(line.decode())))
    except ConversionError as error:
        return error
    except UnicodeDecodeError:
        return row.error("the line is not UTF-8")
    except json.JSONDecodeError as error:
        return row.error(f"invalid JSON: {error.msg} at character {error.pos + 1}")
    except (ValueError, RecursionError) as error:
        return row.error(f"invalid JSON: {error}")
    return row


def _features_of(row: Row, value: Any) -> dict[str, Any]:
    if not isinstance(value, _Members):
        raise row.error("the line is not a JSON object")
    features = dict(value)
    if len(features) < len(value):
        names = [name for name, _ in value]
        duplicate = next(name for name in names if names.count(name) > 1)
        raise row.error("the name is duplicated", duplicate)
    for name, member in features.items():
        _check(row, name, member)
    return {name: member for name, member in features.items() if member is not None}


def _check(row: Row, name: str, member: Any) -> None:
    if isinstance(member, _Members):
        names = ", ".join(f"{name}/{inner}" for inner, _ in member[:3])
        raise row.error(f"an Example cannot store an object in an object: {names}", name)
    kinds = {type(item) for item in member} if isinstance(member, list) else set()
    if not kinds <= set(_KINDS):
        item = "null" if type(None) in kinds else "a list" if list in kinds else "an object"
        raise row.error(f"an Example cannot store {item} in a list", name)
    if str in kinds and len(kinds) > 1:
        raise row.error("the list has both numbers and strings", name)


class _Members(list[tuple[str, Any]]):
    """The members of an object, in which a name may be duplicated."""


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text} does not fit in a float")
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=_Members, parse_float=_float)
