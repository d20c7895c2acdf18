"""Conversion of CSV files to TFRecord, one record per row."""

from __future__ import annotations

import contextlib
import csv
import functools
import math
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from .._storage.local import StrPath
from ..checks import counted
from ..errors import ConversionError, TorchRecIOError
from ..tools.report import Result
from .column_kinds import ColumnKinds, FoundValue, Kind, Types, check_types, shortened
from .conversion import Conversion, ConvertedPiece, KindsOfPiece, Options, SourceFile, SourcePart
from .rows import Row, encode_rows

if TYPE_CHECKING:
    from typing_extensions import Unpack

# Size of the text in a piece.
_PIECE_BYTES = 1 << 20

_WORD = r"[+-]?(?:nan|inf|infinity)"
# Digits match in only one way. Otherwise a long field of digits would take exponential time.
_FLOAT = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
# Digits with a leading zero are a code, not a number: 02134.
_KIND = re.compile(
    r"\s*(?:(?P<int>[+-]?(?:0|[1-9][0-9]*))|(?P<text>[+-]?0[0-9]+)"
    rf"|(?P<float>{_FLOAT})|(?P<word>{_WORD}))\s*",
    re.IGNORECASE | re.ASCII,
)
# Values of each dtype. The number of digits is limited because Python may refuse to parse more.
_INT = re.compile(r"\s*[+-]?[0-9]{1,100}\s*", re.ASCII)
_NUMBER = re.compile(rf"\s*(?:{_FLOAT}|(?P<word>{_WORD}))\s*", re.IGNORECASE | re.ASCII)


class _Line(NamedTuple):
    """The fields of a row, and the number of its first line."""

    number: int
    fields: list[str]


class _CsvRows(NamedTuple):
    """Some rows of a file.

    Attributes:
        path: Path of the file.
        columns: Names of its columns.
        rows: Rows, or errors in place of those that cannot be read.
        size: Size of all rows in bytes.
    """

    path: str
    columns: list[str]
    rows: list[_Line | TorchRecIOError]
    size: int


def from_csv(
    sources: StrPath | Sequence[StrPath],
    destination: StrPath,
    *,
    columns: Sequence[str] | None = None,
    types: Types | None = None,
    **options: Unpack[Options],
) -> Result:
    r"""Convert CSV files to TFRecord files of ``tf.train.Example`` records, one for each row.

    Each column becomes a feature of one value. The record of a row has no feature for an empty
    field. The dtype of a column follows from all of its values, so files are read twice: int64 for
    integers, float32 for other numbers, and string if no value is a number. A number with a leading
    zero (``02134``) counts as text; ``nan`` and ``inf`` count as the kind of the other values.

    Args:
        sources: One file or several with the same columns. Files are UTF-8. Fields are separated by
            commas, in files ``*.tsv`` by tabs, and quoted as in RFC 4180 (``"a ""b"", c"``).
        destination: Path of the output file, or common start of the paths of the shards.
        columns: Names of the columns, for files without a header. By default the first line
            contains them.
        types: Stored dtypes of some columns: "int64", "float32" (parsed by ``float``) or "string"
            (the unchanged field). If all columns have a type, files are read once.
        options: Keyword options of all conversions, see :class:`Options`: ``num_shards``,
            ``max_bytes``, ``compression``, ``index``, ``force``, ``jobs``, ``on_error``,
            ``watcher`` and ``storage_options``.

    Returns:
        Paths, schema, counts and errors of the conversion.

    Raises:
        ConversionError: If a row has a wrong number of fields or invalid quotes, is not UTF-8, or a
            value does not fit its dtype, unless ``on_error="skip"``. Also if a column without a
            type has both numbers and text; a header is missing, has duplicate names or differs from
            that of another file; or there are no rows.
        FileExistsError: If an output exists, unless ``force``.
        ValueError: If an argument is invalid.
        OSError: If a file cannot be read or written.
    """
    return convert_csv(Conversion(destination, options), sources, columns, types)


def convert_csv(
    conversion: Conversion,
    sources: StrPath | Sequence[StrPath],
    columns: Sequence[str] | None,
    types: Types | None,
) -> Result:
    """Run a conversion of CSV files; see :func:`from_csv`."""
    files = conversion.source_files(sources)
    names = _columns_of(files, columns)
    types = check_types(types, names)
    has_types = len(types) == len(names)
    size = sum(file.size for file in files)
    conversion.report.watcher.started(size if has_types else 2 * size)
    parts = [
        SourcePart(file.path, file.size, functools.partial(_pieces, file, names, columns is None))
        for file in files
    ]
    dtypes = types if has_types else conversion.find_dtypes(_find_kinds, parts, types)
    work = functools.partial(_convert, dtypes=dtypes)
    ordered = {name: dtypes[name] for name in names if name in dtypes}
    return conversion.write(work, parts, lambda counts, records: counts.schema(ordered, records))


# ---- reading ----


def _columns_of(files: Sequence[SourceFile], columns: Sequence[str] | None) -> list[str]:
    names = list(columns or [])
    if columns is None:
        headers = [_header(file) for file in files]
        names = headers[0]
        for file, header in zip(files, headers, strict=True):
            if header != names:
                raise ConversionError(
                    f"the columns are {', '.join(header)}, but those of {files[0].path!r} are "
                    + ", ".join(names),
                    path=file.path,
                )
    duplicates = [name for name in names if names.count(name) > 1]
    if duplicates or "" in names or not names:
        reason = (
            f"two columns are named {duplicates[0]!r}" if duplicates else "a column has no name"
        )
        if columns is None:
            raise ConversionError(f"line 1: {reason}", path=files[0].path)
        raise ValueError(reason)
    return names


def _header(source: SourceFile) -> list[str]:
    path = source.path
    with source.open() as file:
        reader = csv.reader(_text(file, [0]), _dialect(path), strict=True)
        try:
            header = next(reader, [])
        except csv.Error as error:
            raise ConversionError(f"line 1: {error}", path=path) from None
    if not header:
        raise ConversionError("line 1: the header is missing", path=path)
    if not _is_utf8(header):
        raise ConversionError("line 1: the header is not UTF-8", path=path)
    return header


def _pieces(source: SourceFile, columns: list[str], has_header: bool) -> Iterator[_CsvRows]:
    path, read = source.path, [0]
    rows: list[_Line | TorchRecIOError] = []
    begin = 0
    with _any_size(), source.open() as file:
        for line in _lines(path, _text(file, read), len(columns), has_header):
            rows.append(line)
            if read[0] - begin >= _PIECE_BYTES:
                yield _CsvRows(path, columns, rows, read[0] - begin)
                rows, begin = [], read[0]
    yield _CsvRows(path, columns, rows, read[0] - begin)


def _lines(
    path: str, text: Iterator[str], width: int, has_header: bool
) -> Iterator[_Line | ConversionError]:
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
            reason = f"line {number}: the row has {counted(len(fields), 'field')}, expected {width}"
            yield ConversionError(reason, path=path)
        elif not _is_utf8(fields):
            yield ConversionError(f"line {number}: a field is not UTF-8", path=path)
        elif fields:
            yield _Line(number, fields)


def _text(file: Iterable[bytes], read: list[int]) -> Iterator[str]:
    """Yield the lines of a file and add their sizes to ``read[0]``.

    Bytes that are not UTF-8 become surrogates.
    """
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


@contextlib.contextmanager
def _any_size() -> Iterator[None]:
    """Allow fields longer than 128 KB, the default limit of the csv module."""
    before = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(before)


# ---- in the processes ----


def _kind_of(field: str) -> Kind:
    found = _KIND.fullmatch(field)
    return cast("Kind", found.lastgroup) if found else "text"


def _find_kinds(piece: _CsvRows) -> KindsOfPiece:
    kinds = ColumnKinds()
    errors: list[TorchRecIOError] = []
    for line in piece.rows:
        if not isinstance(line, _Line):
            errors.append(line)
            continue
        for name, field in zip(piece.columns, line.fields, strict=True):
            kind = _kind_of(field) if field else None
            if kind and not kinds.has(name, kind):
                kinds.add(name, kind, FoundValue(piece.path, line.number, repr(field)))
    return KindsOfPiece(kinds, piece.size, errors)


def _convert(piece: _CsvRows, dtypes: Types) -> ConvertedPiece:
    rows = [_row(piece, line, dtypes) if isinstance(line, _Line) else line for line in piece.rows]
    return encode_rows(rows, dtypes, piece.size)


def _row(piece: _CsvRows, line: _Line, dtypes: Types) -> Row | ConversionError:
    features: dict[str, int | float | str] = {}
    row = Row(piece.path, f"line {line.number}", features)
    for name, field in zip(piece.columns, line.fields, strict=True):
        if not field:
            continue
        value = _value(field, dtypes[name])
        if value is None:
            return row.error(f"{shortened(repr(field))} does not fit in {dtypes[name]}", name)
        features[name] = value
    return row


def _value(field: str, dtype: str) -> int | float | str | None:
    """Return the value of a field, or None if it is not a value of this dtype."""
    if dtype == "string":
        return field
    if dtype == "int64":
        number = int(field) if _INT.fullmatch(field) else 1 << 63
        return number if -(1 << 63) <= number < 1 << 63 else None
    found = _NUMBER.fullmatch(field)
    value = float(field) if found else math.inf
    return None if math.isinf(value) and not (found and found["word"]) else value  # 1e999
