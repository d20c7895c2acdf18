"""Conversion of Parquet to TFRecord."""

from __future__ import annotations

import datetime as dt
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.convert.reading import Heard, contents, count_read, rows_of
from tests.support.messages import SequenceExample
from torchrec_io._records.sequential import iter_records


def convert(folder: Path, columns: dict[str, Any], **options: Any) -> tio.tools.Result:
    pq.write_table(pa.table(columns), folder / "in.parquet", row_group_size=3)
    return tio.convert.from_parquet(
        folder / "in.parquet", folder / "out", **{"force": True, **options}
    )


def test_rows_become_records(tmp_path: Path) -> None:
    done = convert(
        tmp_path,
        {
            "n": pa.array([1, 2, None, 4], pa.uint64()),
            "x": [0.5, 1.5, 2.5, 3.5],
            "half": pa.array(np.array([1, 2, 3, 4], np.float16)),
            "flag": [True, False, True, False],
            "s": ["a", "é", None, ""],
            "raw": pa.array([b"a", b"b", b"c", b"\0"], pa.binary(1)),
            "word": pa.array(["u", "v", "u", None]).dictionary_encode(),
            "box": pa.array([[1, 2], [3, 4], [5, 6], [7, 8]], pa.list_(pa.int32(), 2)),
            "bag": pa.array([[0.5], [], None, [1.5, 2.5]], pa.large_list(pa.float32())),
            "tags": [["a", "b"], ["c"], [], None],
        },
    )
    rows = rows_of(done.paths)
    assert rows[0] == {
        "n": [1], "x": [0.5], "half": [1.0], "flag": [1], "s": [b"a"], "raw": [b"a"],
        "word": [b"u"], "box": [1, 2], "bag": [0.5], "tags": [b"a", b"b"],
    }  # fmt: skip
    assert rows[1]["bag"] == []
    assert set(rows[2]) == {"x", "half", "flag", "raw", "word", "box", "tags"}
    assert rows[3] == {
        "n": [4], "x": [3.5], "half": [4.0], "flag": [0], "s": [b""], "raw": [b"\0"],
        "box": [7, 8], "bag": [1.5, 2.5],
    }  # fmt: skip
    assert done.schema == tio.Schema(
        {
            "n": tio.VarLenFeature("int64"),
            "x": tio.FixedLenFeature([], "float32"),
            "half": tio.FixedLenFeature([], "float32"),
            "flag": tio.FixedLenFeature([], "int64"),
            "s": tio.VarLenFeature("string"),
            "raw": tio.FixedLenFeature([], "string"),
            "word": tio.VarLenFeature("string"),
            "box": tio.FixedLenFeature([2], "int64"),
            "bag": tio.VarLenFeature("float32"),
            "tags": tio.VarLenFeature("string"),
        }
    )
    assert count_read(done) == 4


def test_lists_of_lists_are_feature_lists(tmp_path: Path) -> None:
    done = convert(
        tmp_path,
        {
            "id": [1, 2, 3, 4, 5],
            "boxes": [[[0.5, 1.0]], [[2.0, 3.0], [4.0, 5.0]], [], None, [[6.0, 7.0]]],
            "words": [[["a"]], [[]], [["b", "c"]], [], [[None]]],
            "last": [[[1], [2]], [[3]], [[4]], [[5]], [[1 << 40]]],
        },
        on_error="skip",
    )
    assert [str(error.reason) for error in done.errors] == [
        "row 4: an Example cannot store null in a list"
    ]
    records = [SequenceExample.FromString(data) for _, data in iter_records(done.paths[0])]
    assert [list(r.context.feature["id"].int64_list.value) for r in records] == [[1], [2], [3], [4]]
    lists = [r.feature_lists.feature_list for r in records]
    assert [
        [list(step.float_list.value) for step in found["boxes"].feature]
        for found in lists
        if "boxes" in found
    ] == [[[0.5, 1.0]], [[2.0, 3.0], [4.0, 5.0]], []]
    assert [
        [list(step.bytes_list.value) for step in found["words"].feature] for found in lists
    ] == [[[b"a"]], [[]], [[b"b", b"c"]], []]
    assert done.schema == tio.Schema(
        context={"id": tio.FixedLenFeature([], "int64")},
        sequence={
            "boxes": tio.FixedLenSequenceFeature([2], "float32", allow_missing=True),
            "words": tio.VarLenFeature("string"),
            "last": tio.FixedLenSequenceFeature([], "int64"),
        },
    )
    assert count_read(done) == 4
    with pytest.raises(tio.ConversionError, match="row 0: 9223372036854775808 does") as raised:
        convert(tmp_path, {"l": pa.array([[[1 << 63]]], pa.list_(pa.list_(pa.uint64())))})
    assert raised.value.feature == "l"


TYPES = {
    pa.int64(): st.integers(-(1 << 63), (1 << 63) - 1),
    pa.uint8(): st.integers(0, 255),
    pa.bool_(): st.booleans(),
    pa.float32(): st.floats(width=32, allow_nan=False),
    pa.string(): st.text(st.characters(exclude_categories=["Cs"])),
    pa.large_binary(): st.binary(),
}


@given(st.data())
def test_values_round_trip(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 7))
    columns, expected = {}, [dict[str, Any]() for _ in range(count)]
    for number, kind in enumerate(data.draw(st.lists(st.sampled_from(list(TYPES)), min_size=1))):
        is_list = data.draw(st.booleans())
        item = st.lists(TYPES[kind], max_size=3) if is_list else TYPES[kind]
        values = data.draw(st.lists(item | st.none(), min_size=count, max_size=count))
        columns[f"c{number}"] = pa.array(values, pa.list_(kind) if is_list else kind)
        for row, value in zip(expected, values, strict=True):
            if value is not None:
                several: list[Any] = value if isinstance(value, list) else [value]
                row[f"c{number}"] = [v.encode() if isinstance(v, str) else v for v in several]
    folder = tmp_path_factory.mktemp("parquet")
    assert rows_of(convert(folder, columns, index=False).paths) == expected


def test_conversion_in_both_directions(tmp_path: Path) -> None:
    examples = [
        tio.encode_example({"n": i, "x": [0.5, i], "bag": list(range(i)), "s": b"\xff"}, KINDS)
        for i in range(3)
    ]
    sequences = [
        tio.encode_sequence_example(
            {"n": i}, {"x": [[0.5, 1.0]] * i, "bag": [list(range(k)) for k in range(i)]}, KINDS
        )
        for i in range(3)
    ]
    for records in (examples, sequences):
        with tio.TFRecordWriter(tmp_path / "a.tfrecord") as writer:
            for record in records:
                writer.write(record)
        tio.convert.to_parquet(tmp_path / "a.tfrecord", tmp_path / "b.parquet", force=True)
        done = tio.convert.from_parquet(tmp_path / "b.parquet", tmp_path / "c", force=True)
        assert [record for _, record in iter_records(done.paths[0])] == records


KINDS = {"n": "int64", "x": "float32", "bag": "int64", "s": "string"}


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    texts = [b"a", b"\xff", b"c"]
    lists = pa.array([[b"a"], [b"b"], [b"\xff"]], pa.list_(pa.binary()))
    columns = {
        "s": pa.array(texts).view(pa.string()),
        "l": pa.ListArray.from_arrays(lists.offsets, lists.values.view(pa.string())),
    }
    with pytest.raises(
        tio.ConversionError, match=r"row 1: text that is not UTF-8 does not fit"
    ) as raised:
        convert(tmp_path, columns)
    assert raised.value.feature == "s"
    done = convert(tmp_path, columns, on_error="skip")
    assert rows_of(done.paths) == [{"s": [b"a"], "l": [b"a"]}]
    assert [error.feature for error in done.errors] == ["s", "l"]


@pytest.mark.parametrize("at", ["a page", "a name"])
def test_damage(tmp_path: Path, at: str) -> None:
    path = tmp_path / "in.parquet"
    table = pa.table({"name_of": pa.array([b"datum" * 9])})
    pq.write_table(table, path, compression="none", write_page_checksum=True, store_schema=False)
    data = path.read_bytes()
    spoiled = {"a page": (b"datumdatum", b"datumdaXum"), "a name": (b"name_of", b"name\xffof")}
    path.write_bytes(data.replace(*spoiled[at]))
    for on_error in ("raise", "skip"):
        with pytest.raises(tio.ConversionError, match=r"in\.parquet: the file is damaged"):
            tio.convert.from_parquet(path, tmp_path / "out", on_error=on_error)
    assert list(contents(tmp_path)) == ["in.parquet"]


def test_values_out_of_range(tmp_path: Path) -> None:
    columns = {
        "n": pa.array([1, 1 << 63, 3, 4, 5], pa.uint64()),
        "x": [0.5, 1, 2, 1e39, 4],
        "l": [[1], [2], [3, None], [4], [5]],
    }
    with pytest.raises(tio.ConversionError, match="row 1: 9223372036854775808 does") as raised:
        convert(tmp_path, columns)
    assert (raised.value.feature, raised.value.path) == ("n", str(tmp_path / "in.parquet"))
    heard = Heard()
    done = convert(tmp_path, columns, on_error="skip", watcher=heard)
    assert [row["n"] for row in rows_of(done.paths)] == [[1], [5]]
    assert sorted(str(error.reason)[:6] for error in done.errors) == ["row 1:", "row 2:", "row 3:"]
    assert len(heard.errors) == 3
    assert 0 < heard.size <= heard.total


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ([dt.date(2020, 1, 1)], "date32"),
        ([dt.datetime(2020, 1, 1)], "timestamp"),  # noqa: DTZ001  # without a zone
        ([{"a": 1}], "struct<a: int64>"),
        ([[[[1]]]], "list<"),
        ([None], "null"),
        (pa.array([1], pa.decimal128(5)), "decimal128"),
    ],
)
def test_unsupported_types(tmp_path: Path, column: Any, kind: str) -> None:
    for on_error in ("raise", "skip"):
        with pytest.raises(tio.ConversionError) as raised:
            convert(tmp_path, {"a": [1], "b": column}, on_error=on_error)
        assert raised.value.reason.startswith(f"an Example cannot store a column of type {kind}")
        assert raised.value.feature == "b"
    assert list(contents(tmp_path)) == ["in.parquet"]


def test_invalid_files(tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    pq.write_table(pa.table({"a": list(range(1000))}), path, row_group_size=10)
    good = path.read_bytes()
    for bad in (b"", b"x" * 100, good[:-9], bytes(len(good) // 2) + good[len(good) // 2 :]):
        path.write_bytes(bad)
        with pytest.raises(tio.ConversionError, match="the file is damaged") as raised:
            tio.convert.from_parquet(path, tmp_path / "out")
        assert raised.value.path == str(path)
    pq.write_table(pa.table([[1], [2]], ["a", "a"]), path)
    with pytest.raises(tio.ConversionError, match="two columns have this name"):
        tio.convert.from_parquet(path, tmp_path / "out")
    with pytest.raises(tio.ConversionError, match="the file has no columns"):
        convert(tmp_path, {})
    with pytest.raises(tio.ConversionError, match="there is no record to write"):
        convert(tmp_path, {"a": pa.array([], pa.int64())})
    assert list(contents(tmp_path)) == ["in.parquet"]


def test_several_files_in_processes(tmp_path: Path) -> None:
    for name, begin in (("a", 0), ("b", 100)):
        numbers = range(begin, begin + 100)
        table = pa.table({"n": numbers, "l": [[i, i + 1] for i in numbers]})
        pq.write_table(table, tmp_path / name, row_group_size=30)
    files = [tmp_path / "a", tmp_path / "b"]
    one = tio.convert.from_parquet(files, tmp_path / "one", index=False)
    two = tio.convert.from_parquet(files, tmp_path / "two", index=False, jobs=2)
    assert Path(one.paths[0]).read_bytes() == Path(two.paths[0]).read_bytes()
    rows = rows_of(one.paths)
    assert [row["n"][0] for row in rows] == list(range(200))
    assert all(row["l"] == [row["n"][0], row["n"][0] + 1] for row in rows)
    pq.write_table(pa.table({"n": [0.5], "l": [[1]]}), tmp_path / "b")
    with pytest.raises(tio.ConversionError, match="the columns differ from those of"):
        tio.convert.from_parquet(files, tmp_path / "two", force=True)


def test_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ImportError, match=r"pip install torchrec-io\[parquet\]"):
        tio.convert.from_parquet(tmp_path / "in.parquet", tmp_path / "out")
