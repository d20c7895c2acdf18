"""Conversion of CSV files, compared with Python's csv module.

Input: options (1 byte), a file.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

import numpy as np

import torchrec_io as tio
from tests.fuzz.python.converted import Converted, convert
from tests.fuzz.python.inputs import cut_options

_TYPED, _SKIP, _TABS = 1, 2, 4


def check(data: bytes) -> None:
    (bits,), file = cut_options(data, 1)
    rows = _read(file, "excel-tab" if bits & _TABS else "excel")
    header = rows[0] if rows else []
    types = dict.fromkeys(header, "string") if bits & _TYPED and header else None
    found = convert(
        tio.convert.from_csv,
        file,
        "data.tsv" if bits & _TABS else "data.csv",
        types=types,
        on_error="skip" if bits & _SKIP else "raise",
    )
    if found is None or rows is None or found.errors:
        return
    filled = rows[1:]
    assert all(len(row) == len(header) for row in filled), "rows of other widths were accepted"
    assert len(found.records) == len(filled), "another number of records"
    for number, row in enumerate(filled):
        wanted = {name: field for name, field in zip(header, row, strict=True) if field}
        _require_same(found, number, wanted)


def _read(file: bytes, dialect: str) -> list[list[str]] | None:
    """Return the rows of a file that are not empty, or None if the csv module refuses it."""
    try:
        text = file.removeprefix(b"\xef\xbb\xbf").decode()
        rows = csv.reader(io.StringIO(text, newline="\n"), dialect, strict=True)
        return [row for row in rows if row]
    except (csv.Error, UnicodeDecodeError):
        return None


def _require_same(found: Converted, number: int, wanted: dict[str, str]) -> None:
    record = found.records[number]
    assert set(record) == set(wanted), "other features"
    for name, field in wanted.items():
        kind, values = record[name]
        expected: Any = field.encode()
        if kind == "int64_list":
            expected = int(field)
        if kind == "float_list":
            expected = float(np.float32(float(field)))
        np.testing.assert_equal(values, [expected])


def seeds() -> Iterator[bytes]:
    files = [
        b"a,b,c\n1,2.5,x\n-3,,y\n",
        b'\xef\xbb\xbfname,n\r\n"a ""b"", c",1\r\n"two\nlines",02134\r\n',
        b"x\n\n1\n\n2\n",
        b"x,y\nnan,1e3\ninf,.5\n1,-0\n",
        b"a\tb\n1\t2\n",
        b"a,a\n1,2\n",
        b"a,b\n1\n1,2,3\n\xff,1\n",
        b'a\n"x"y\n"open',
        b"a,b\n\xff\n\xef\xbf\xbe0,\xef\xbf\xbe2\n",
        b'a,b\n1,"x\n2,3\n',
    ]
    for file in files:
        for bits in range(8):
            yield bytes([bits]) + file
