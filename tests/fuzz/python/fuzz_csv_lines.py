"""Lines of CSV, compared with a parser that takes one character at a time.

Input: options (1 byte), lines.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import Any

import torchrec_io as tio
from tests.fuzz.python.inputs import cut_options

_DELIMITERS = (",", ";", "\t", " ")
_PLAIN, _SELECTED = 4, 8
_COLUMNS: dict[str, Any] = {
    "text": tio.FixedLenFeature([], "string"),
    "count": tio.FixedLenFeature([], "int32", default_value=-7),
    "ratio": tio.FixedLenFeature([], "float64"),
}


def check(data: bytes) -> None:
    (bits,), rest = cut_options(data, 1)
    quotes = not bits & _PLAIN
    chosen = [0, 2, 3] if bits & _SELECTED else [0, 1, 2]
    schema = tio.csv.Schema(
        _COLUMNS,
        field_delim=_DELIMITERS[bits % 4],
        use_quote_delim=quotes,
        na_value="NA",
        select_cols=chosen if bits & _SELECTED else None,
    )
    lines = rest.split(b"\n")
    columns, failures = schema.parse(lines)
    expected: list[tuple[Any, ...]] = []
    bad = []
    for number, line in enumerate(lines):
        most = 4 if bits & _SELECTED else None
        fields = _split(line, _DELIMITERS[bits % 4].encode(), quotes=quotes, most=most)
        row = _convert(fields, chosen, exact=not bits & _SELECTED)
        bad += [number] if row is None else []
        expected += [] if row is None else [row]
    assert [failure.position for failure in failures] == bad, "other lines are valid"
    found = zip(*(_plain(columns[name]) for name in _COLUMNS), strict=True)
    assert list(map(_bits, found)) == list(map(_bits, expected)), "other values"


def _plain(column: Any) -> list[Any]:
    return column if isinstance(column, list) else column.tolist()


def _bits(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row with the bits of its float, so that NaNs are equal."""
    return *row[:2], struct.pack("<d", math.nan if math.isnan(row[2]) else row[2])


def _split(line: bytes, delimiter: bytes, *, quotes: bool, most: int | None) -> list[bytes] | None:
    """Return the fields of a line, or None if a quote is misplaced."""
    if not line:
        return []
    fields: list[bytes] = []
    at = 0
    while most is None or len(fields) < most:
        quoted = quotes and line[at : at + 1] == b'"'
        field = b""
        if quoted:
            at += 1
            while line[at : at + 1] != b'"' or line[at : at + 2] == b'""':
                if at >= len(line):
                    return None
                field += line[at : at + 1]
                at += 2 if line[at : at + 2] == b'""' else 1
            at += 1
        else:
            while at < len(line) and line[at : at + 1] != delimiter:
                if line[at : at + 1] == b"\r" or (quotes and line[at : at + 1] == b'"'):
                    return None
                field += line[at : at + 1]
                at += 1
        fields.append(field)
        if at == len(line):
            return fields
        if line[at : at + 1] != delimiter:
            return None
        at += 1
    return fields


def _convert(
    fields: list[bytes] | None, chosen: list[int], *, exact: bool
) -> tuple[bytes, int, float] | None:
    """Return the values of a line; None if it is invalid."""
    if fields is None or len(fields) <= chosen[-1] or (exact and len(fields) != len(chosen)):
        return None
    text, count, ratio = (fields[number] for number in chosen)
    if b"" in (text, ratio) or b"NA" in (text, ratio):
        return None
    number = -7 if count in (b"", b"NA") else _number(count, int)
    value = _number(ratio, float)
    if number is None or value is None or not -(2**31) <= number < 2**31:
        return None
    return text, number, value


def _number(text: bytes, kind: Any) -> Any:
    try:
        return None if b"_" in text else kind(text)
    except ValueError:
        return None


def seeds() -> Iterator[bytes]:
    for bits in range(16):
        delimiter = _DELIMITERS[bits % 4].encode()
        lines = [
            [b"a", b"1", b"2.5"],
            [b'"a ""b"""', b"", b"-inf"],
            [b'"x"', b"NA", b"nan", b"1e3"],
            [b"", b"2147483648", b"1e999"],
            [b'a"', b" +07 ", b"1_0"],
            [b'"a', b"1"],
            [b"\xff\0\r", b"0x1", b"."],
        ]
        yield bytes([bits]) + b"\n".join(delimiter.join(line) for line in lines)
