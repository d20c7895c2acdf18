"""Conversion of CSV to TFRecord."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.convert.reading import Heard, contents, count_read, kinds_of, rows_of

MIXED = 'id,x,name,zip\n1,2.5,"a ""q"", b",02134\n2,,c,90210\n\n-3,nan,"d\ne",\n'


def written(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def convert(folder: Path, text: str | bytes, **options: Any) -> tio.tools.Result:
    return tio.convert.from_csv(
        written(folder / "in.csv", text), folder / "out", **{"force": True, **options}
    )


def test_rows_become_records(tmp_path: Path) -> None:
    done = convert(tmp_path, MIXED.replace("02134", "02134x"), types={"zip": "string"})
    assert done.paths == (str(tmp_path / "out.tfrecord"),)
    first, second, third = rows_of(done.paths)
    assert first == {"id": [1], "x": [2.5], "name": [b'a "q", b'], "zip": [b"02134x"]}
    assert second == {"id": [2], "name": [b"c"], "zip": [b"90210"]}
    assert (third["id"], third["name"]) == ([-3], [b"d\ne"])
    assert math.isnan(third["x"][0])
    assert "zip" not in third
    assert done.schema == tio.Schema(
        {
            "id": tio.FixedLenFeature([], "int64"),
            "x": tio.VarLenFeature("float32"),
            "name": tio.FixedLenFeature([], "string"),
            "zip": tio.VarLenFeature("string"),
        }
    )
    assert count_read(done) == done.records == 3
    assert done.file_bytes == (tmp_path / "out.tfrecord").stat().st_size


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        (["1", "-2", "+3", " 4 "], "int64_list"),
        (["1", "2.5"], "float_list"),
        (["1e3", ".5", "5."], "float_list"),
        (["nan", "-Inf"], "float_list"),
        (["nan", "1"], "float_list"),
        (["nan", "nana"], "bytes_list"),
        (["007", "008"], "bytes_list"),
        (["0", "10"], "int64_list"),
        (["true"], "bytes_list"),
        (["1_000"], "bytes_list"),
        (["٣"], "bytes_list"),
        (["-", " "], "bytes_list"),
    ],
)
def test_dtype_of_a_column(tmp_path: Path, fields: list[str], kind: str) -> None:
    done = convert(tmp_path, "a,b\n" + "".join(f"{field},z\n" for field in fields))
    assert kinds_of(done.paths[0]) == {"a": {kind}, "b": {"bytes_list"}}


@pytest.mark.parametrize(
    ("fields", "first", "second"),
    [(["", "12", "13", "abc"], 3, 5), (["02134", "1.5"], 3, 2)],
)
def test_mixed_types_are_rejected(
    tmp_path: Path, fields: list[str], first: int, second: int
) -> None:
    text = "zip,b\n" + "".join(f"{field},z\n" for field in fields)
    for on_error in ("raise", "skip"):
        with pytest.raises(tio.ConversionError, match="mixed types") as raised:
            convert(tmp_path, text, on_error=on_error)
        assert f"in row {first} of" in str(raised.value)
        assert f"in row {second} of" in str(raised.value)
        assert raised.value.feature == "zip"
    assert list(contents(tmp_path)) == ["in.csv"]
    done = convert(tmp_path, text, types={"zip": "string"})
    assert [row["zip"] for row in rows_of(done.paths) if "zip" in row] == [
        [field.encode()] for field in fields if field
    ]


REFUSED = [
    ("1,2,3\n", "row 3: the row has 3 fields, expected 2", None),
    (b"\xff\n", "row 3: the row has 1 field, expected 2", None),
    (b"1,\xff\n", "row 3: text that is not UTF-8 does not fit in float32", "x"),
    ("9223372036854775808,2\n", "row 3: '9223372036854775808' does not fit in int64", "n"),
    ("1.5,2\n", "row 3: '1.5' does not fit in int64", "n"),
    ("1_0,2\n", "row 3: '1_0' does not fit in int64", "n"),
    ("1,1e39\n", "row 3: 1e+39 does not fit in float32", "x"),
    ("1,1e999\n", "row 3: '1e999' does not fit in float32", "x"),
    ("1,1_0\n", "row 3: '1_0' does not fit in float32", "x"),
]


@pytest.mark.parametrize(("bad", "reason", "feature"), REFUSED)
def test_invalid_row_is_an_error_or_skipped(
    tmp_path: Path, bad: str | bytes, reason: str, feature: str | None
) -> None:
    text = b"n,x\n1,2\n" + (bad if isinstance(bad, bytes) else bad.encode())
    text += b"3,4\n"
    types = {"n": "int64", "x": "float32"}
    with pytest.raises(tio.ConversionError) as raised:
        convert(tmp_path, text, types=types)
    assert (raised.value.reason, raised.value.feature) == (reason, feature)
    assert raised.value.path == str(tmp_path / "in.csv")
    assert list(contents(tmp_path)) == ["in.csv"]
    heard = Heard()
    done = convert(tmp_path, text, types=types, on_error="skip", watcher=heard)
    assert [row["n"] for row in rows_of(done.paths)] == [[1], [3]]
    assert (done.skipped, len(done.errors)) == (1, 1)
    assert heard.errors == [str(raised.value)]
    assert (heard.size, heard.records) == (heard.total, done.records)


def test_long_fields_of_digits(tmp_path: Path) -> None:
    """A regular expression with backtracking would take half an hour."""
    digits = "1" * 200_000
    limit = csv.field_size_limit()
    done = convert(tmp_path, f"s\n{digits}x\n{digits}.{digits}x\n")
    assert [len(row["s"][0]) for row in rows_of(done.paths)] == [200_001, 400_002]
    assert csv.field_size_limit() == limit
    with pytest.raises(tio.ConversionError) as raised:
        convert(tmp_path, f"n\n{digits}\n")
    assert raised.value.reason == f"row 2: '{digits[:29]}… does not fit in int64"


def test_invalid_value_without_types(tmp_path: Path) -> None:
    for field in ("9223372036854775808", "1e39"):
        with pytest.raises(tio.ConversionError, match=r"row 3: .* does not fit in"):
            convert(tmp_path, f"n\n1\n{field}\n")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "row 1: the header is missing"),
        ("a,a\n1,2\n", "row 1: two columns are named 'a'"),
        ("a,\n1,2\n", "row 1: a column has no name"),
        (b"a,\xff\n1,2\n", "row 1: the header is not UTF-8"),
        ("a,b\n", "there is no record to write"),
        ('a,b\n1,x\n7,"b\nc\n', "row 3: a quote is not closed before the end of the file"),
        ('a,b\n1,"x\n2,3\n', "row 2: a quote is not closed before the end of the file"),
        ('a,b\n1,x\n"2,3\n', "row 3: a quote is not closed before the end of the file"),
    ],
)
def test_invalid_file_is_rejected(tmp_path: Path, text: str | bytes, reason: str) -> None:
    for on_error in ("raise", "skip"):
        with pytest.raises(tio.ConversionError, match=reason) as raised:
            convert(tmp_path, text, on_error=on_error)
        assert "in.csv" in str(raised.value)
    assert list(contents(tmp_path)) == ["in.csv"]


def test_text_of_any_characters_is_kept(tmp_path: Path) -> None:
    text = '\ufeff\ufffea,b\n\ufffe1,\ufffe0\ufffe\n\ufffe2,"\n"\n'
    assert rows_of(convert(tmp_path, text).paths) == [
        {"\ufffea": ["\ufffe1".encode()], "b": ["\ufffe0\ufffe".encode()]},
        {"\ufffea": ["\ufffe2".encode()], "b": [b"\n"]},
    ]


def test_columns_without_a_header_are_named(tmp_path: Path) -> None:
    done = convert(tmp_path, "1,a\n2,b\n", columns=["n", "name"])
    assert rows_of(done.paths) == [{"n": [1], "name": [b"a"]}, {"n": [2], "name": [b"b"]}]
    with pytest.raises(ValueError, match="two columns are named 'n'"):
        convert(tmp_path, "1,a\n", columns=["n", "n"])


def test_several_files_and_tabs(tmp_path: Path) -> None:
    paths = [
        written(tmp_path / "a.csv", b"\xef\xbb\xbfn,s\r\n1,x\r\n"),
        written(tmp_path / "b.tsv", "n\ts\n2.5\ty,z"),
    ]
    done = tio.convert.from_csv(paths, tmp_path / "out")
    assert rows_of(done.paths) == [{"n": [1.0], "s": [b"x"]}, {"n": [2.5], "s": [b"y,z"]}]
    paths.append(written(tmp_path / "c.csv", "s,n\nx,1\n"))
    with pytest.raises(tio.ConversionError, match=r"c\.csv: the columns are s, n, but those of"):
        tio.convert.from_csv(paths, tmp_path / "out", force=True)


def test_types_are_checked(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="must be one of 'int64', 'float32', 'string', got 'int32'"
    ):
        convert(tmp_path, "a\n1\n", types={"a": "int32"})
    with pytest.raises(ValueError, match="'b', which is not a column"):
        convert(tmp_path, "a\n1\n", types={"b": "int64"})


FIELDS = {
    "int64": st.integers(-(1 << 63), (1 << 63) - 1),
    "float32": st.floats(width=32, allow_nan=False),
    # A column of only "nan" and the like is numeric.
    "string": st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1
    ).map("t".__add__),
}


@given(st.data())
def test_values_round_trip(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(list(FIELDS)), min_size=1, max_size=4))
    optional = [st.none() | FIELDS[kind] for kind in kinds]
    rows = data.draw(st.lists(st.tuples(*optional), min_size=1, max_size=6))
    folder = tmp_path_factory.mktemp("csv")
    with (folder / "in.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, quoting=csv.QUOTE_ALL)
        writer.writerow([f"c{i}" for i in range(len(kinds))])
        writer.writerows(
            [float.__repr__(v) if isinstance(v, float) else v for v in row] for row in rows
        )
    done = tio.convert.from_csv(folder / "in.csv", folder / "out", index=False)
    for row, read in zip(rows, rows_of(done.paths), strict=True):
        assert set(read) == {f"c{i}" for i, value in enumerate(row) if value is not None}
        for name, [value] in read.items():
            given_value: Any = row[int(name[1:])]
            if isinstance(given_value, str):
                given_value = given_value.encode()
            assert value == given_value or (
                isinstance(value, float) and value == np.float32(given_value)
            )
