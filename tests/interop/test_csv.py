"""Comparison of csv.Schema with decode_csv of TensorFlow: values and rejected lines."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.conftest import TfOracle

DTYPES = ["int32", "int64", "float32", "float64"]

# Pieces of lines. The positions of quotes, delimiters and breaks matter.
PIECES = [b'"', b'"', b",", b",", b"a", b"7", b" ", b"\r", b'""', b'",', b',"', b"\xff", b"\0"]
LINES = st.lists(st.lists(st.sampled_from(PIECES), max_size=9).map(b"".join), max_size=40)

NUMBERS = [
    b"1", b" 1", b"1 ", b"\t1\x0b\x0c", b"+1", b"-1", b"--1", b"+-1", b"- 1", b"1_0", b"_1",
    b"0x10", b"0X1p3", b"0x.8p1", b"0x1.8", b"-0xA", b"0xg", b"0x", b"1e3", b"1E+5", b"+.5e-3",
    b"1.", b".5", b".", b"1.5f", b"1d3", b"e1", b"1e", b"nan", b"NaN", b"-nan", b"nan(1)", b"NAN()",
    b"inf", b"-Inf", b"INFINITY", b"+infinity", b"infin", b"1e400", b"-1e400", b"1e39", b"1e-400",
    b"1e-46", b"-0", b"00012", b"2147483647", b"2147483648", b"-2147483648", b"-2147483649",
    b"9223372036854775807", b"9223372036854775808", b"-9223372036854775808",
    b"-9223372036854775809", b"\xd9\xa3", b"\xef\xbc\x91", b"1\0", b"\xa01", b"\x1c1", b" ", b"0b1",
    b"True", b"3.4028236e38", b"3.4028235677973366e38", b"1.7976931348623159e308", b"1" * 60,
    b"0." + b"1" * 60, b"16777217", b"16777217.000000001", b"1.00000005960464477539062500000001",
    b"1.000000059604644775390625", b"7.0064923216240861e-46", b"7.006492321624085e-46",
    b"7.0064923216240854e-46", b"0x1.000001000000001p0",
]  # fmt: skip


# Floats for TensorFlow, which csv.Schema rejects.
REJECTED = [
    b"0x10", b"0X1p3", b"0x.8p1", b"0x1.8", b"-0xA", b"nan(1)", b"NAN()", b"0x1.000001000000001p0",
]  # fmt: skip


def ask(oracle: TfOracle, lines: list[bytes], columns: list[Any], **options: Any) -> list[Any]:
    """Return the values of each line as bytes, or None if TensorFlow rejects it."""
    answer = oracle.ask(
        op="decode_csv", lines=[line.hex() for line in lines], columns=columns, options=options
    )
    return [line.get("values") for line in answer["lines"]]


def ours(lines: list[bytes], columns: list[Any], **options: Any) -> list[Any]:
    schema = tio.csv.Schema(
        {f"{i}": tio.FixedLenFeature([], *column) for i, column in enumerate(columns)}, **options
    )
    parsed, failures = schema.parse(lines)
    bad = {failure.position for failure in failures}
    values = [
        [value.hex() for value in column]
        if isinstance(column, list)
        else [value.tobytes().hex() for value in column]
        for column in parsed.values()
    ]
    rows = zip(*values, strict=True)
    return [None if i in bad else list(next(rows)) for i in range(len(lines))]


def begins_a_field_with_a_break(line: bytes) -> bool:
    """Return whether a field begins with a break, which TensorFlow skips and csv.Schema rejects."""
    return re.search(rb"(^|,)\r", line) is not None


@pytest.mark.parametrize(
    ("second", "options"),
    [
        (None, {"use_quote_delim": True, "na_value": "7"}),
        (None, {"use_quote_delim": False, "na_value": "7"}),
        ("out", {"select_cols": [0, 2]}),
    ],
)
@given(lines=LINES)
def test_lines(
    tf_oracle: TfOracle, second: str | None, options: dict[str, Any], lines: list[bytes]
) -> None:
    lines = [line for line in lines if not begins_a_field_with_a_break(line)]
    columns = [["string", "left out"], ["string", second]]
    assert ours(lines, columns, **options) == ask(tf_oracle, lines, columns, **options)


@pytest.mark.parametrize("dtype", DTYPES)
def test_numbers(tf_oracle: TfOracle, dtype: str) -> None:
    found = ours(NUMBERS, [[dtype, None]])
    wanted = ask(tf_oracle, NUMBERS, [[dtype, None]])
    if dtype.startswith("float"):
        found, wanted = ([same_nan(value, dtype) for value in one] for one in (found, wanted))
        for number in REJECTED:
            assert wanted[NUMBERS.index(number)] is not None
            wanted[NUMBERS.index(number)] = None
    assert dict(zip(NUMBERS, found, strict=True)) == dict(zip(NUMBERS, wanted, strict=True))


def same_nan(values: Any, dtype: str) -> Any:
    """Replace NaNs, which differ in their signs, with the same NaN."""
    if values is None or not np.isnan(np.frombuffer(bytes.fromhex(values[0]), dtype))[0]:
        return values
    return "nan"


@given(st.lists(st.floats().map(repr) | st.decimals(allow_nan=False).map(str), max_size=30))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floats(tf_oracle: TfOracle, dtype: str, texts: list[str]) -> None:
    lines = [text.encode() for text in texts if "nan" not in text]
    assert ours(lines, [[dtype, None]]) == ask(tf_oracle, lines, [[dtype, None]])


@pytest.mark.parametrize("delimiter", [";", "\t", " ", "|", "7"])
def test_delimiters(tf_oracle: TfOracle, delimiter: str) -> None:
    lines = [
        line.replace(b",", delimiter.encode())
        for line in (b"1,b", b'"1,2",b', b"1", b",", b'1,"b', b"1,", b'1,"", ""')
    ]
    columns = [["int64", 5], ["string", "default"]]
    found = ours(lines, columns, field_delim=delimiter)
    assert found == ask(tf_oracle, lines, columns, field_delim=delimiter)


def test_defaults(tf_oracle: TfOracle) -> None:
    lines = [b",,", b"NA,NA,NA", b'"","",""', b'"NA",2,3', b"1,2,3", b" ,2,3"]
    for na_value in ("", "NA", "2"):
        for columns in (
            [["int32", 7], ["string", "x"], ["float32", 0.5]],
            [["string", None], ["int64", 1], ["float64", 2.0]],
        ):
            found = ours(lines, columns, na_value=na_value)
            assert found == ask(tf_oracle, lines, columns, na_value=na_value)
