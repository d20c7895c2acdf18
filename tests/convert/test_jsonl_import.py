"""Conversion of JSON lines to TFRecord."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.convert.reading import Heard, contents, count_read, kinds_of, rows_of


def convert(folder: Path, text: str | bytes, **options: Any) -> tio.tools.Result:
    path = folder / "in.jsonl"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return tio.convert.from_jsonl(path, folder / "out", **{"force": True, **options})


def test_objects_become_records(tmp_path: Path) -> None:
    done = convert(
        tmp_path,
        b'\xef\xbb\xbf{"a": 1, "b": [1, 2.5], "c": "x", "e": [], "f": [1, 2]}\n\n'
        b'{"a": null, "b": 3, "c": "\xc3\xa9", "d": true, "f": [3, 4]}\r\n'
        b'{"c": ["y"], "f": [5, 6]}',
    )
    assert rows_of(done.paths) == [
        {"a": [1], "b": [1.0, 2.5], "c": [b"x"], "f": [1, 2]},
        {"b": [3.0], "c": ["é".encode()], "d": [1], "f": [3, 4]},
        {"c": [b"y"], "f": [5, 6]},
    ]
    assert done.schema == tio.Schema(
        {
            "a": tio.VarLenFeature("int64"),
            "b": tio.VarLenFeature("float32"),
            "c": tio.FixedLenFeature([], "string"),
            "f": tio.FixedLenFeature([2], "int64"),
            "d": tio.VarLenFeature("int64"),
        }
    )
    assert count_read(done) == 3


@pytest.mark.parametrize(
    ("first", "second"), [("1", '"x"'), ('"x"', "true"), ("[2.5]", '["y"]'), ('["y"]', "1")]
)
def test_mixed_types_are_rejected(tmp_path: Path, first: str, second: str) -> None:
    text = f'{{"a": {first}}}\n{{"b": 1}}\n{{"a": {second}}}\n'
    for on_error in ("raise", "skip"):
        with pytest.raises(tio.ConversionError, match="mixed types") as raised:
            convert(tmp_path, text, on_error=on_error)
        assert "in line 1 of" in str(raised.value)
        assert "in line 3 of" in str(raised.value)
        assert raised.value.feature == "a"
    assert list(contents(tmp_path)) == ["in.jsonl"]


def test_invalid_type_with_types_is_an_error_of_the_line(tmp_path: Path) -> None:
    text = '{"a": 1}\n{"a": "x"}\n{"a": 2.5}\n{"a": []}\n'
    with pytest.raises(tio.ConversionError, match=r"line 2: .*'x'"):
        convert(tmp_path, text, types={"a": "float32"})
    done = convert(tmp_path, text, types={"a": "float32"}, on_error="skip")
    assert rows_of(done.paths) == [{"a": [1.0]}, {"a": [2.5]}, {"a": []}]
    assert kinds_of(done.paths[0]) == {"a": {"float_list"}}
    done = convert(tmp_path, text, types={"a": "string", "missing": "int64"})
    assert rows_of(done.paths) == [{"a": [b"1"]}, {"a": [b"x"]}, {"a": [b"2.5"]}, {"a": []}]
    assert kinds_of(done.paths[0]) == {"a": {"bytes_list"}}


REFUSED = [
    ('{"a": {"b": {}, "c": 1}}', "{'b': {}, 'c': 1} does not fit in int64"),
    ('{"a": [[1]]}', "[[1]] does not fit in int64"),
    ('{"a": [1, null]}', "an Example cannot store null in a list"),
    ('{"a": 1, "a": 2}', "invalid JSON: two members have the same name"),
    ("[1]", "invalid JSON: the line is not an object"),
    ('{"a": 1', "invalid JSON: Expecting ',' delimiter"),
    ('{"a": ' + "[" * 100_000, "invalid JSON: "),
    (b'{"x": "\xff"}', "invalid JSON: 'utf-8' codec can't decode"),
    ('{"x": "\\ud800"}', "invalid JSON: 'utf-8' codec can't encode"),
    ('{"a": 9223372036854775808}', "invalid JSON: an integer does not fit in int64"),
    ('{"x": 1e39}', "1e+39 does not fit in float32"),
]


@pytest.mark.parametrize(("bad", "reason"), REFUSED)
def test_invalid_line_is_an_error_or_skipped(tmp_path: Path, bad: str | bytes, reason: str) -> None:
    text = b'{"a": 1, "x": 2.5}\n' + (bad if isinstance(bad, bytes) else bad.encode())
    text += b'\n{"a": 3}\n'
    with pytest.raises(tio.ConversionError) as raised:
        convert(tmp_path, text)
    assert raised.value.reason.startswith(f"line 2: {reason}")
    assert raised.value.path == str(tmp_path / "in.jsonl")
    assert raised.value.feature in (None, "a", "x")
    assert list(contents(tmp_path)) == ["in.jsonl"]
    heard = Heard()
    done = convert(tmp_path, text, on_error="skip", watcher=heard)
    assert rows_of(done.paths) == [{"a": [1], "x": [2.5]}, {"a": [3]}]
    assert done.skipped == 1
    assert heard.errors == [str(raised.value)]
    assert heard.size == heard.total == 2 * len(text)


def test_errors_are_reported_in_order(tmp_path: Path) -> None:
    done = convert(tmp_path, '{"a": 1}\n{"a": 9223372036854775808}\n[]\n', on_error="skip")
    assert [error.reason[:6] for error in done.errors] == ["line 2", "line 3"]


def test_no_records(tmp_path: Path) -> None:
    with pytest.raises(tio.ConversionError, match="there is no record to write"):
        convert(tmp_path, "\n")
    done = convert(tmp_path, "{}\n")
    assert (rows_of(done.paths), done.schema) == ([{}], None)


def test_line_numbers_continue_across_pieces(tmp_path: Path) -> None:
    line = json.dumps({"a": 1, "s": "x" * 5000}) + "\n"
    with pytest.raises(tio.ConversionError, match="line 601: "):
        convert(tmp_path, line * 600 + "[]\n", jobs=2)
    done = convert(tmp_path, line * 600, index=False)
    alone = contents(tmp_path)
    assert done == replace(convert(tmp_path, line * 600, index=False, jobs=2), seconds=done.seconds)
    assert contents(tmp_path) == alone


INTS = st.integers(-(1 << 63), (1 << 63) - 1)
FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
COLUMNS = {
    "i": INTS | st.booleans() | st.lists(INTS, min_size=1),
    "f": FLOATS | st.lists(FLOATS, min_size=1),
    "s": TEXTS | st.lists(TEXTS, min_size=1),
}


@given(st.lists(st.fixed_dictionaries({}, optional=COLUMNS), min_size=1, max_size=6))
def test_values_round_trip(
    tmp_path_factory: pytest.TempPathFactory, objects: list[dict[str, Any]]
) -> None:
    folder = tmp_path_factory.mktemp("jsonl")
    text = "".join(json.dumps(item) + "\n" for item in objects)
    done = convert(folder, text, index=False)
    assert rows_of(done.paths) == [
        {name: stored(value) for name, value in item.items()} for item in objects
    ]


def stored(value: Any) -> list[Any]:
    """Return the expected stored value."""
    values = value if isinstance(value, list) else [value]
    return [
        item.encode() if isinstance(item, str)
        else float(np.float32(item)) if isinstance(item, float)
        else int(item)
        for item in values
    ]  # fmt: skip
