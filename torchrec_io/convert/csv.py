"""CSV to TFRecord: a record for each row."""

from __future__ import annotations

import csv
import functools
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from ..errors import ConversionError, TorchRecIOError
from ..storage.local import StrPath
from .kinds import Kind, Kinds, Place, Types, check_types, shortened
from .rows import Row, encode_rows
from .sources import SourceFile
from .target import Conversion, Converter, Made, Options

if TYPE_CHECKING:
    from typing_extensions import Unpack

# Text of the rows that a process is given at a time.
_PIECE_BYTES = 1 << 20

_WORD = r"[+-]?(?:nan|inf|infinity)"
# There is one way to match any digits: else a long field of them would take forever.
_FLOAT = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
# A leading zero makes a code, not a number: 02134.
_KIND = re.compile(
    r"\s*(?:(?P<int>[+-]?(?:0|[1-9][0-9]*))|(?P<text>[+-]?0[0-9]+)"
    rf"|(?P<float>{_FLOAT})|(?P<word>{_WORD}))\s*",
    re.IGNORECASE | re.ASCII,
)
# What is read as a dtype. Of digits not too many, since Python may refuse to look at them.
_INT = re.compile(r"\s*[+-]?[0-9]{1,100}\s*", re.ASCII)
_NUMBER = re.compile(rf"\s*(?:{_FLOAT}|(?P<word>{_WORD}))\s*", re.IGNORECASE | re.ASCII)


class Line(NamedTuple):
    """Fields of one row, and the line that it starts in."""

    number: int
    fields: list[str]


class Piece(NamedTuple):
    """Some rows of a file.

    Attributes:
        path: The file.
        columns: Names of its columns.
        rows: As they are, or why they are none.
        size: Bytes of all of it.
    """

    path: str
    columns: list[str]
    rows: list[Line | TorchRecIOError]
    size: int


def convert_csv(
    sources: StrPath | Sequence[StrPath],
    destination: StrPath,
    *,
    columns: Sequence[str] | None = None,
    types: Types | None = None,
    **options: Unpack[Options],
) -> Conversion:
    r"""Converts CSV files to TFRecord files of ``tf.train.Example`` records, one for each row.

    Columns become features of one value. An empty field is a feature that the record does not have.
    The dtype of a column follows from all of its values, so files are read twice: int64 if they are
    integers, float32 if they are numbers otherwise, string if none is a number. A number with a
    leading zero (``02134``) is taken for text, ``nan`` and ``inf`` for whatever the others are.

    Args:
        sources: One file or several, of the same columns: UTF-8, fields parted by commas, in a file
            ``*.tsv`` by tabs, and quoted as RFC 4180 says (``"a ""b"", c"``).
        destination: Name of the file, or of the shards without their numbers.
        columns: Names of the columns, for files without a header. Default: the first line has them.
        types: Dtypes of some columns: "int64", "float32" (as ``float`` reads them) or "string" (the
            field as it is). If it has all, files are read once.
        options: See :class:`~torchrec_io.convert.target.Options`.

    Returns:
        What was done.

    Raises:
        ConversionError: a row has too few or too many fields, its quotes are amiss, it is not
            UTF-8, or a value does not fit its dtype, unless ``on_error="skip"``. A column holds
            both numbers and text, and ``types`` does not say what it is to be; a header is missing,
            has a name twice or is not that of the other files; there is no row.
        ValueError: an argument has a value that it cannot have.
        OSError: a file cannot be read, or written.
    """
    converter = Converter(destination, options)
    files = converter.files(sources)
    names = _columns_of(files, columns)
    types = check_types(types, names)
    told = len(types) == len(names)
    converter.tally.watcher.started(sum(file.size for file in files) * (1 if told else 2))
    pieces = functools.partial(_pieces, files, names, columns is None)
    with _any_size():
        kinds = types if told else _look(converter, pieces, types)
        work = functools.partial(_make, kinds=kinds)
        ordered = {name: kinds[name] for name in names if kinds.get(name)}
        return converter.write(
            work, pieces(), lambda shapes, records: shapes.schema(ordered, records)
        )


def _look(converter: Converter, pieces: Callable[[], Iterable[Piece]], types: Types) -> Types:
    kinds = Kinds()
    for piece_kinds, size, errors in converter.look(_see, pieces()):
        kinds.merge(piece_kinds)
        if errors and converter.tally.raises:
            raise errors[0]
        converter.tally.add(0, size)
    return kinds.settle(types)


# ---- reading ----


def _columns_of(files: Sequence[SourceFile], columns: Sequence[str] | None) -> list[str]:
    names = list(columns or [])
    if columns is None:
        headers = [_header(file.path) for file in files]
        names = headers[0]
        for file, header in zip(files, headers, strict=True):
            if header != names:
                raise ConversionError(
                    f"the columns are {', '.join(header)}, those of {files[0].path!r} are "
                    + ", ".join(names),
                    path=file.path,
                )
    twice = [name for name in names if names.count(name) > 1]
    if twice or "" in names or not names:
        reason = f"two columns are called {twice[0]!r}" if twice else "a column has no name"
        if columns is None:
            raise ConversionError(f"line 1: {reason}", path=files[0].path)
        raise ValueError(reason)
    return names


def _header(path: str) -> list[str]:
    with open(path, "rb") as file:
        reader = csv.reader(_text(file, [0]), _dialect(path), strict=True)
        try:
            header = next(reader, [])
        except csv.Error as error:
            raise ConversionError(f"line 1: {error}", path=path) from None
    if not header:
        raise ConversionError("line 1: there is no header", path=path)
    if not _is_utf8(header):
        raise ConversionError("line 1: the header is not UTF-8", path=path)
    return header


def _pieces(files: Iterable[SourceFile], columns: list[str], has_header: bool) -> Iterator[Piece]:
    for file in files:
        yield from _pieces_of(file.path, columns, has_header)


def _pieces_of(path: str, columns: list[str], has_header: bool) -> Iterator[Piece]:
    read = [0]
    rows: list[Line | TorchRecIOError] = []
    begin = 0
    with open(path, "rb") as file:
        for line in _lines(path, _text(file, read), len(columns), has_header):
            rows.append(line)
            if read[0] - begin >= _PIECE_BYTES:
                yield Piece(path, columns, rows, read[0] - begin)
                rows, begin = [], read[0]
    yield Piece(path, columns, rows, read[0] - begin)


def _lines(
    path: str, text: Iterator[str], width: int, has_header: bool
) -> Iterator[Line | ConversionError]:
    reader = csv.reader(text, _dialect(path), strict=True)
    if has_header:
        next(reader, None)
    while True:
        number = reader.line_num + 1
        try:
            fields = next(reader, None)
        except csv.Error as error:
            end = reader.line_num
            place = f"line {number}" if end <= number else f"lines {number} to {end}"
            yield ConversionError(f"{place}: {error}", path=path)
            continue
        if fields is None:
            return
        if fields and len(fields) != width:
            reason = f"line {number}: {len(fields)} fields, where there are {width} columns"
            yield ConversionError(reason, path=path)
        elif not _is_utf8(fields):
            yield ConversionError(f"line {number}: a field is not UTF-8", path=path)
        elif fields:
            yield Line(number, fields)


def _text(file: Iterable[bytes], read: list[int]) -> Iterator[str]:
    """Lines; what is not UTF-8 in them shows as surrogates. Adds up their bytes in ``read``."""
    for number, line in enumerate(file):
        read[0] += len(line)
        start = 3 if number == 0 and line.startswith(b"\xef\xbb\xbf") else 0
        yield line[start:].decode("utf-8", "surrogateescape")


def _is_utf8(fields: list[str]) -> bool:
    try:
        "".join(fields).encode()
    except UnicodeEncodeError:
        return False
    return True


def _dialect(path: str) -> type[csv.Dialect]:
    return csv.excel_tab if os.path.splitext(path)[1].lower() == ".tsv" else csv.excel


class _any_size:  # noqa: N801  # it is a context
    """Lets fields be longer than the csv module's 128 KB."""

    def __enter__(self) -> None:
        self._before = csv.field_size_limit(sys.maxsize)

    def __exit__(self, *_: object) -> None:
        csv.field_size_limit(self._before)


# ---- in the processes ----


def _kind_of(field: str) -> Kind:
    found = _KIND.fullmatch(field)
    return cast("Kind", found.lastgroup) if found else "text"


def _see(piece: Piece) -> tuple[Kinds, int, list[TorchRecIOError]]:
    kinds = Kinds()
    errors: list[TorchRecIOError] = []
    for line in piece.rows:
        if not isinstance(line, Line):
            errors.append(line)
            continue
        for name, field in zip(piece.columns, line.fields, strict=True):
            kind = _kind_of(field) if field else None
            if kind and not kinds.sees(name, kind):
                kinds.add(name, kind, Place(piece.path, line.number, repr(field)))
    return kinds, piece.size, errors


def _make(piece: Piece, kinds: Types) -> Made:
    rows = [_row(piece, line, kinds) if isinstance(line, Line) else line for line in piece.rows]
    return encode_rows(rows, kinds, piece.size)


def _row(piece: Piece, line: Line, kinds: Types) -> Row | ConversionError:
    features: dict[str, int | float | str] = {}
    row = Row(piece.path, f"line {line.number}", features)
    for name, field in zip(piece.columns, line.fields, strict=True):
        if not field:
            continue
        value = _value(field, kinds[name])
        if value is None:
            return row.error(f"{shortened(repr(field))} does not fit in {kinds[name]}", name)
        features[name] = value
    return row


def _value(field: str, dtype: str) -> int | float | str | None:
    """What is stored; None if the field is no such value."""
    if dtype == "string":
        return field
    if dtype == "int64":
        number = int(field) if _INT.fullmatch(field) else 1 << 63
        return number if -(1 << 63) <= number < 1 << 63 else None
    found = _NUMBER.fullmatch(field)
    value = float(field) if found else math.inf
    return None if math.isinf(value) and not (found and found["word"]) else value  # 1e999
