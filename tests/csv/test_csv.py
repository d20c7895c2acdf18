"""Schemas of CSV lines: columns of valid lines, and reasons for invalid ones."""

from __future__ import annotations

import csv
import io
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio

PEOPLE = {
    "age": tio.FixedLenFeature([], "int64"),
    "name": tio.FixedLenFeature([], "string", default_value="nobody"),
    "score": tio.FixedLenFeature([], "float32", default_value=-1.0),
}


def columns_of(
    schema: tio.csv.Schema, lines: list[bytes]
) -> tuple[dict[str, list[Any]], list[tuple[int, str | None, str]]]:
    columns, failures = schema.parse(lines)
    plain = {
        name: values if isinstance(values, list) else values.tolist()
        for name, values in columns.items()
    }
    return plain, [(failure.position, failure.feature, failure.reason) for failure in failures]


def one(dtype: Any, text: bytes, **options: Any) -> Any:
    """The value of a column's only line, or why there is none."""
    schema = tio.csv.Schema({"x": tio.FixedLenFeature([], dtype, **options)})
    columns, failures = columns_of(schema, [text])
    return failures[0][2] if failures else columns["x"][0]


@given(
    rows=st.lists(st.tuples(st.text(st.characters(exclude_characters="\r\n\0")), st.integers())),
    delimiter=st.sampled_from([",", ";", "\t"]),
)
def test_output_of_the_csv_module(rows: list[tuple[str, int]], delimiter: str) -> None:
    rows = [(text or "x", number % 2**63) for text, number in rows]
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="\n").writerows(rows)
    lines = [line.encode() for line in out.getvalue().split("\n")[:-1]]
    schema = tio.csv.Schema(
        {"text": tio.FixedLenFeature([], "string"), "number": tio.FixedLenFeature([], "int64")},
        field_delim=delimiter,
    )
    columns, failures = columns_of(schema, lines)
    assert failures == []
    assert columns["text"] == [text.encode() for text, _ in rows]
    assert columns["number"] == [number for _, number in rows]


def test_valid_lines_are_parsed_and_invalid_lines_are_reported() -> None:
    lines = [
        b'1,"a ""b""",2.5',
        b"",
        b"2,b",
        b",c,1",
        b"3,,",
        b"x,d,1",
        b"4,e,1.5.1",
        b"y,f,z",
        b'5,"g"x,1',
        b'6,"h,1',
        b'7,i"j,1',
        b"8,k\rl,1",
        b"9,m,1,2",
    ]
    columns, failures = columns_of(tio.csv.Schema(PEOPLE), lines)
    assert columns == {"age": [1, 3], "name": [b'a "b"', b"nobody"], "score": [2.5, -1.0]}
    misplaced = next(reason for position, _, reason in failures if position == 8)
    assert misplaced.startswith("a quote or line break is misplaced: ")
    assert failures == [
        (1, None, "the line has 0 fields, expected 3"),
        (2, None, "the line has 2 fields, expected 3"),
        (3, "age", "the value is missing, and the column has no default_value"),
        (5, "age", "'x' is not a valid int64"),
        (6, "score", "'1.5.1' is not a valid float32"),
        (7, "age", "'y' is not a valid int64"),
        *((position, None, misplaced) for position in range(8, 12)),
        (12, None, "the line has 4 fields, expected 3"),
    ]


def test_line_breaks_at_the_start_of_a_field_are_rejected() -> None:
    """TensorFlow skips them."""
    for line in (b"\r1", b"\r"):
        assert "a quote or line break is misplaced" in one("string", line)


def test_fields_of_any_size() -> None:
    """The csv module by itself refuses those over 128 KiB."""
    long = b"x" * 200_000
    for line in (long, b'"' + long + b'"'):
        assert one("string", line) == long


def test_no_lines_at_all() -> None:
    columns, failures = tio.csv.Schema(PEOPLE).parse([])
    assert failures == []
    assert {name: len(values) for name, values in columns.items()} == dict.fromkeys(PEOPLE, 0)
    score = columns["score"]
    assert isinstance(score, np.ndarray)
    assert score.dtype == np.float32


@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        *((f"int{n}", -(2 ** (n - 1)), 2 ** (n - 1) - 1) for n in (8, 16, 32, 64)),
        *((f"uint{n}", 0, 2**n - 1) for n in (8, 16, 32, 64)),
        ("bool", 0, 1),
    ],
)
def test_ranges_of_integers(dtype: str, low: int, high: int) -> None:
    assert one(dtype, b"%d" % low) == low
    assert one(dtype, b"%d" % high) == high
    assert one(dtype, b"%d" % (low - 1)) == f"'{low - 1}' does not fit in {dtype}"
    assert one(dtype, b"%d" % (high + 1)) == f"'{high + 1}' does not fit in {dtype}"
    assert "does not fit" in one(dtype, b"9" * 30)
    assert len(one(dtype, b"z" * 1000)) < 80


def test_valid_ranges() -> None:
    assert one("int32", b"5", valid_range=(1, 5)) == 5
    assert "outside the valid range [1, 5]" in one("int32", b"6", valid_range=(1, 5))
    assert "outside the valid range" in one("float32", b"nan", valid_range=(0.0, None))
    assert "outside the valid range" in one("bool", b"0", valid_range=(1, 1))


class TestArguments:
    def test_columns(self) -> None:
        for columns, reason in (
            ({}, "at least one column"),
            ({"x": tio.FixedLenFeature([2], "int64")}, "a CSV column must be a FixedLenFeature"),
            ({"x": tio.VarLenFeature("int64")}, "a CSV column must be a FixedLenFeature"),
            ({"x": tio.FixedLenFeature([], "float16")}, "got 'float16'"),
            ({"x": 3}, "x"),
            ({1: tio.FixedLenFeature([], "int64")}, "the name of a column must be text"),
        ):
            with pytest.raises(tio.SchemaError, match=reason):
                tio.csv.Schema(columns)  # type: ignore[arg-type]

    def test_delimiters(self) -> None:
        delimiters: list[Any] = ["", ",,", '"', "\n", "\r", "é", 1]
        for delimiter in delimiters:
            with pytest.raises(tio.SchemaError, match="field_delim must be one ASCII character"):
                tio.csv.Schema(PEOPLE, field_delim=delimiter)

    def test_positions(self) -> None:
        positions: list[Any] = [[0], [0, 1, 1], [2, 1, 0], [-1, 0, 1], [0, 1, 2.0], [0] * 4]
        for columns in positions:
            with pytest.raises(tio.SchemaError, match="3 ascending positions"):
                tio.csv.Schema(PEOPLE, select_cols=columns)

    def test_na_value(self) -> None:
        with pytest.raises(tio.SchemaError, match="na_value must be text"):
            tio.csv.Schema(PEOPLE, na_value=None)  # type: ignore[arg-type]

    def test_equality(self) -> None:
        schema = tio.csv.Schema(PEOPLE)
        assert schema == pickle.loads(pickle.dumps(schema)) == tio.csv.Schema(dict(schema.columns))
        for options in ({"field_delim": ";"}, {"na_value": "x"}, {"select_cols": [0, 1, 3]}):
            assert schema != tio.csv.Schema(PEOPLE, **options)
        assert schema != tio.csv.Schema(dict(reversed(PEOPLE.items())))
        assert schema != PEOPLE
        assert "field_delim=','" in repr(schema)


def test_floats_of_many_digits_are_rounded_once() -> None:
    """Half-way between two float32s, to even; and a little more than that."""
    half = b"1.000000059604644775390625" + b"0" * 5000
    schema = tio.csv.Schema({"a": tio.FixedLenFeature([], "float32")})
    columns, failures = schema.parse([half, half + b"1"])
    assert failures == []
    assert list(columns["a"]) == [1.0, 1.0 + 2**-23]


@pytest.mark.parametrize("text", [b"0x1p3", b"0X.8", b"nan(1)", b"1_0"])
def test_floats_that_are_rejected(text: bytes) -> None:
    schema = tio.csv.Schema({"a": tio.FixedLenFeature([], "float64")})
    _, [failure] = schema.parse([text, b"1"])
    assert (failure.position, failure.feature) == (0, "a")
    assert failure.reason == f"{text.decode()!r} is not a valid float64"


def test_selected_columns() -> None:
    schema = tio.csv.Schema(
        {"b": tio.FixedLenFeature([], "int64"), "d": tio.FixedLenFeature([], "string")},
        select_cols=[1, 3],
    )
    columns, failures = columns_of(schema, [b"0,1,2,three,4", b'0,1,2,"x""",4"', b"0,1,2"])
    assert columns == {"b": [1, 1], "d": [b"three", b'x"']}
    assert failures == [(2, None, "the line has 3 fields, but column 3 is selected")]
