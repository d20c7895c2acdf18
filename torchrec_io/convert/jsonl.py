"""JSON lines to TFRecord: a record for each object."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import ConversionError, TorchRecIOError
from ..storage.local import StrPath
from .kinds import Kind, Kinds, Place, Types, check_types
from .rows import Row, encode_rows
from .sources import SourceFile
from .target import Conversion, Converter, Made, Options

if TYPE_CHECKING:
    from typing_extensions import Unpack

# Bytes of lines that a process is given at a time.
_PIECE_BYTES = 1 << 20
_BOM = b"\xef\xbb\xbf"
_KINDS: dict[type, Kind] = {bool: "int", int: "int", float: "float", str: "text"}


class Piece(NamedTuple):
    """Some lines of a file, and the number of the first."""

    path: str
    first: int
    lines: list[bytes]

    @property
    def size(self) -> int:
        """Bytes of all lines."""
        return sum(map(len, self.lines))


def convert_jsonl(
    sources: StrPath | Sequence[StrPath],
    destination: StrPath,
    *,
    types: Types | None = None,
    **options: Unpack[Options],
) -> Conversion:
    """Converts files of JSON lines to TFRecord files of ``tf.train.Example`` records.

    Each line is an object and becomes a record; empty lines are passed over. A member is a feature:
    a number, a string, true or false, or a list of those. One that is null, or not there, is a
    feature that the record does not have. The dtype of a feature follows from all of its values,
    so files are read twice: int64 if they are integers, true and false; float32 if some have a
    point or an exponent; string if they are strings.

    Args:
        sources: One file or several.
        destination: Name of the file, or of the shards without their numbers.
        types: Dtypes of some features: "int64", "float32" or "string". A value of another kind is
            then an error of its line.
        options: See :class:`~torchrec_io.convert.target.Options`.

    Returns:
        What was done.

    Raises:
        ConversionError: a line is no JSON object, has a name twice, an object or a list within a
            value, null in a list, or a value that does not fit its dtype, unless
            ``on_error="skip"``. A feature has both numbers and strings, and ``types`` does not say
            what it is to be; there is no record.
        ValueError: an argument has a value that it cannot have.
        OSError: a file cannot be read, or written.
    """
    converter = Converter(destination, options)
    types = check_types(types)
    files = converter.files(sources)
    converter.tally.watcher.started(2 * sum(file.size for file in files))
    pieces = functools.partial(_pieces, files)
    kinds = _look(converter, pieces, types)
    work = functools.partial(_make, kinds=kinds)
    return converter.write(work, pieces(), lambda shapes, records: shapes.schema(kinds, records))


def _look(
    converter: Converter, pieces: Callable[[], Iterable[Piece]], types: Types
) -> dict[str, str]:
    kinds = Kinds()
    for piece_kinds, size, errors in converter.look(functools.partial(_see, types=types), pieces()):
        kinds.merge(piece_kinds)
        if errors and converter.tally.raises:
            raise errors[0]
        converter.tally.add(0, size)
    return kinds.settle(types)


def _pieces(files: Iterable[SourceFile]) -> Iterator[Piece]:
    for file in files:
        first = 1
        with open(file.path, "rb") as lines:
            while piece := lines.readlines(_PIECE_BYTES):
                yield Piece(file.path, first, piece)
                first += len(piece)


# ---- in the processes ----


def _see(piece: Piece, types: Types) -> tuple[Kinds, int, list[TorchRecIOError]]:
    kinds = Kinds()
    errors: list[TorchRecIOError] = []
    for number, row in _rows(piece):
        if not isinstance(row, Row):
            errors.append(row)
            continue
        for name, value in row.features.items():
            for item in value if isinstance(value, list) else [value]:
                kind = _KINDS[type(item)]
                if name not in types and not kinds.sees(name, kind):
                    kinds.add(name, kind, Place(piece.path, number, json.dumps(item)))
            if name in types or value == []:
                kinds.add(name, "empty", Place(piece.path, number, "[]"))
    return kinds, piece.size, errors


def _make(piece: Piece, kinds: Types) -> Made:
    rows = [row for _, row in _rows(piece)]
    for row in rows:
        if isinstance(row, Row):
            for name, value in row.features.items():
                if value == [] and name not in kinds:
                    row.features[name] = None  # a feature of no kind
    return encode_rows(rows, kinds, piece.size)


def _rows(piece: Piece) -> Iterator[tuple[int, Row | ConversionError]]:
    """Number of each line that is not empty, and what it has, or why it is none."""
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
        return row.error("it is not UTF-8")
    except json.JSONDecodeError as error:
        return row.error(f"it is no JSON: {error.msg} at character {error.pos + 1}")
    except (ValueError, RecursionError) as error:
        return row.error(f"it is no JSON: {error}")
    return row


def _features_of(row: Row, value: Any) -> dict[str, Any]:
    if not isinstance(value, _Members):
        raise row.error("it is no object")
    features = dict(value)
    if len(features) < len(value):
        names = [name for name, _ in value]
        twice = next(name for name in names if names.count(name) > 1)
        raise row.error("the name is there twice", twice)
    for name, member in features.items():
        _check(row, name, member)
    return {name: member for name, member in features.items() if member is not None}


def _check(row: Row, name: str, member: Any) -> None:
    if isinstance(member, _Members):
        names = ", ".join(f"{name}/{inner}" for inner, _ in member[:3])
        raise row.error(f"an object in an object has no place in an Example: {names}", name)
    kinds = {type(item) for item in member} if isinstance(member, list) else set()
    if not kinds <= set(_KINDS):
        what = "null" if type(None) in kinds else "a list" if list in kinds else "an object"
        raise row.error(f"{what} in a list has no place in an Example", name)
    if str in kinds and len(kinds) > 1:
        raise row.error("a list holds both numbers and strings", name)


class _Members(list[tuple[str, Any]]):
    """What an object is read as: a name may be there twice."""


def _float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text} fits in no float")
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=_Members, parse_float=_float)
