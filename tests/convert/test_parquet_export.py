"""Conversion of TFRecord to Parquet, read back with pyarrow."""

from __future__ import annotations

import gzip
import json
import math
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

import torchrec_io as tio
from tests.convert.reading import Heard
from tests.support.examples import example_of, sequence_example_of
from tests.support.tfrecord import frame, write_tfrecord
from torchrec_io.convert.table_export import to_parquet

FLOATS = st.floats(width=32)
RECORDS = st.lists(
    st.fixed_dictionaries(
        {
            "label": st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=1),
            "pair": st.lists(FLOATS, min_size=2, max_size=2),
            "name": st.lists(st.binary(max_size=9), min_size=1, max_size=1),
            "ids": st.lists(st.integers(-5, 300), max_size=4),
            "words": st.lists(st.binary(max_size=5), max_size=3),
        }
    ),
    max_size=8,
)
SCHEMA = {
    "label": tio.FixedLenFeature([], "int64"),
    "pair": tio.FixedLenFeature([2], "float32"),
    "name": tio.FixedLenFeature([], "string"),
    "ids": tio.VarLenFeature("int64"),
    "words": tio.VarLenFeature("string"),
}


def rows_of(paths: tuple[str, ...]) -> list[dict[str, Any]]:
    return [row for path in paths for row in parquet.read_table(path).to_pylist()]


def as_row(record: dict[str, list[Any]]) -> dict[str, Any]:
    return {n: values[0] if n in ("label", "name") else values for n, values in record.items()}


def alike(one: Any, other: Any) -> bool:
    """Return whether two values are equal. NaNs are equal to NaNs."""
    if isinstance(one, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == other) or (math.isnan(one) and math.isnan(other))


@given(records=RECORDS, num_shards=st.sampled_from([None, 1, 3]), jobs=st.sampled_from([1, 2]))
def test_rows_are_records(
    records: list[dict[str, list[Any]]], num_shards: int | None, jobs: int
) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr("torchrec_io.convert.table_export._MAX_RECORDS", 3)
        path = write_tfrecord(Path(name, "in"), [example_of(**record) for record in records])
        done = to_parquet(path, Path(name, "out"), schema=SCHEMA, num_shards=num_shards, jobs=jobs)
        expected = [as_row(record) for record in records]
        found = rows_of(done.paths)
        assert len(found) == len(expected) == done.records == sum(done.counts)
        for row, model in zip(found, expected, strict=True):
            assert list(row) == list(SCHEMA)
            assert all(alike(row[name], model[name]) for name in SCHEMA), (row, model)
        names = ["out.parquet"]
        if num_shards is not None:
            names = [f"out-{i:05d}-of-{num_shards:05d}.parquet" for i in range(num_shards)]
        assert [Path(path).name for path in done.paths] == names


def test_row_groups_are_bounded(tmp_path: Path) -> None:
    record = example_of(data=[b"x" * (1 << 18)])
    path = write_tfrecord(tmp_path / "in", [record] * 200)
    [out] = to_parquet(path, tmp_path / "out.parquet").paths
    file = parquet.ParquetFile(out)
    sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
    assert sum(sizes) == 200
    assert 50 <= max(sizes) <= 128
    file.close()


def test_feature_lists_are_lists_of_lists(tmp_path: Path) -> None:
    lists: list[dict[str, list[Any]]] = [
        {"frames": [[b"\xff"], [b"b"]], "scores": [[1.5, 2.0], [], [3.0]]},
        {"frames": [], "scores": []},
        {"frames": [[b""]], "scores": [[4.0]]},
    ]
    records = [sequence_example_of({"id": [n]}, each) for n, each in enumerate(lists)]
    done = to_parquet(write_tfrecord(tmp_path / "in", records), tmp_path / "out")
    assert rows_of(done.paths) == [{"id": n, **each} for n, each in enumerate(lists)]


def test_encoded_values_stay_bytes(tmp_path: Path) -> None:
    schema = {
        "image": tio.ImageFeature(size=(8, 8)),
        "raw": tio.RawFeature("int16", shape=[2]),
        "tensor": tio.SerializedTensorFeature("float32"),
        "half": tio.FixedLenFeature([], "bfloat16"),
        "small": tio.FixedLenFeature([], "uint8"),
        "parts": tio.FixedLenSequenceFeature([2], "int64", allow_missing=True),
        "images": tio.SequenceFeature(tio.ImageFeature()),
    }
    values: dict[str, list[Any]] = {
        "image": [b"no image"],
        "raw": [b"abcd"],
        "tensor": [b"?"],
        "half": [1.0],
        "small": [7],
        "parts": [1, 2, 3, 4],
        "images": [b"no", b"images"],
    }
    path = write_tfrecord(tmp_path / "in", [example_of(**values)])
    done = to_parquet(path, tmp_path / "out", schema=schema)
    several = ("parts", "images")
    expected = {name: each if name in several else each[0] for name, each in values.items()}
    assert rows_of(done.paths) == [expected]
    assert str(parquet.read_schema(done.paths[0]).field("small").type) == "uint8"


def test_columns_have_the_names_of_the_schema(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "in", [example_of(v=[b"ab"], n=[1], x=[2])])
    schema = {
        "x": tio.RawFeature("uint8", [2], key="v"),
        "y": tio.SequenceFeature(tio.RawFeature("uint8", [2]), key="v"),
    }
    for name, expected in (("x", b"ab"), ("y", [b"ab"])):
        done = to_parquet(path, tmp_path / name, schema={name: schema[name]})
        assert rows_of(done.paths) == [{name: expected}]
        assert done.left_out == {"n": 1, "x": 1}


def test_schema_is_stored_with_shapes(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "in", [example_of(m=[1, 2, 3, 4])])
    schema = {"m": tio.FixedLenFeature([2, 2], "int64")}
    [out] = to_parquet(path, tmp_path / "out", schema=schema).paths
    found = parquet.read_schema(out).metadata[b"torchrec_io._schema"]
    assert tio.Schema.from_json(found) == tio.Schema(schema)
    json.loads(found)


def test_values_of_a_shape_are_one_list(tmp_path: Path) -> None:
    values: list[dict[str, list[Any]]] = [
        {"m": [n, 1, 2, 3], "s": [b"a%d" % n, b"", b"c", b"d"]} for n in range(3)
    ]
    path = write_tfrecord(tmp_path / "in", [example_of(**each) for each in values])
    schema = {"m": tio.FixedLenFeature([2, 2], "int64"), "s": tio.FixedLenFeature([2, 2], "string")}
    assert rows_of(to_parquet(path, tmp_path / "out", schema=schema).paths) == values


def test_records_that_do_not_match_the_schema(tmp_path: Path) -> None:
    records = [example_of(a=[1]), example_of(a=[1, 2]), example_of(a=[b"x"]), example_of(a=[4])]
    path = write_tfrecord(tmp_path / "in", records)
    schema = {"a": tio.FixedLenFeature([], "int64")}
    with pytest.raises(tio.DecodeError) as caught:
        to_parquet(path, tmp_path / "out", schema=schema)
    assert (caught.value.path, caught.value.record, caught.value.feature) == (str(path), 1, "a")
    assert list(tmp_path.iterdir()) == [path]
    done = to_parquet(path, tmp_path / "out", schema=schema, on_error="skip")
    assert rows_of(done.paths) == [{"a": 1}, {"a": 4}]
    assert [error.record for error in done.errors] == [1, 2]
    assert (done.records, done.skipped) == (2, 2)


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_damage_is_skipped_while_inferring_a_schema(
    tmp_path: Path, compression: str | None
) -> None:
    damaged = bytearray(frame(example_of(a=[2])))
    damaged[-5] ^= 1
    lost = bytearray(frame(example_of(a=[5])))
    lost[0] ^= 1
    data = frame(example_of(a=[1])) + damaged + frame(b"junk") + frame(example_of(a=[4])) + lost
    path = tmp_path / "in"
    path.write_bytes(data if compression is None else gzip.compress(data))
    done = to_parquet(path, tmp_path / "out", on_error="skip")
    assert rows_of(done.paths) == [{"a": 1}, {"a": 4}]
    assert sorted(error.record for error in done.errors if error.record is not None) == [1, 2, 4]


def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "in\udcff", [example_of(a=[1])])
    [out] = to_parquet(path, tmp_path / "out\udcff").paths
    with Path(out).open("rb") as file:
        assert parquet.read_table(file).to_pylist() == [{"a": 1}]


def test_feature_without_a_spec_is_not_lost_silently(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "in", [example_of(a=[1], b=[1]), example_of(a=[1], b=[b"x"])])
    with pytest.raises(tio.SchemaError, match=r"in different records.*use schema to give one.*'b'"):
        to_parquet(path, tmp_path / "out")
    assert rows_of(
        to_parquet(path, tmp_path / "out", schema={"a": tio.VarLenFeature("int64")}).paths
    ) == [{"a": [1]}, {"a": [1]}]


def late_records(tmp_path: Path) -> Path:
    """Records of which a late one has a feature that no other has, and lacks one of all others."""
    records = [example_of(a=[number], b=[number]) for number in range(2000)]
    records[1500] = example_of(a=[1500, 1], c=[b"late"])
    return write_tfrecord(tmp_path / "in", records)


def test_inferred_schema_fits_all_records(tmp_path: Path) -> None:
    done = to_parquet(late_records(tmp_path), tmp_path / "out")
    rows = rows_of(done.paths)
    assert len(rows) == 2000
    assert rows[0] == {"a": [0], "b": 0, "c": None}
    assert rows[1500] == {"a": [1500, 1], "b": None, "c": "late"}
    assert (done.skipped, done.left_out) == (0, {})


def test_progress_covers_the_inspection(tmp_path: Path) -> None:
    heard = Heard()
    path = late_records(tmp_path)
    to_parquet(path, tmp_path / "out", watcher=heard)
    assert heard.size == heard.total == 2 * path.stat().st_size
    assert heard.records == 2000


def test_features_that_a_schema_leaves_out_are_counted(tmp_path: Path) -> None:
    done = to_parquet(
        late_records(tmp_path), tmp_path / "out", schema={"a": tio.VarLenFeature("int64")}
    )
    assert done.left_out == {"b": 1999, "c": 1}
    record = sequence_example_of({"a": [1]}, {"a": [[1]], "s": [[2]], "none": []})
    path = write_tfrecord(tmp_path / "sequences", [record, record])
    done = to_parquet(path, tmp_path / "more", schema={"a": tio.VarLenFeature("int64")})
    assert done.left_out == {"a": 2, "s": 2}
    assert to_parquet(path, tmp_path / "inferred").left_out == {"a": 2}


def test_what_to_do_about_a_schema_that_does_not_fit(tmp_path: Path) -> None:
    schema = {"b": tio.FixedLenFeature([], "int64")}
    with pytest.raises(tio.DecodeError, match="leave schema out to infer one that fits") as caught:
        to_parquet(late_records(tmp_path), tmp_path / "out", schema=schema)
    assert (caught.value.record, caught.value.feature) == (1500, "b")
    assert "use VarLenFeature for a feature that is missing" in caught.value.reason
    assert 'on_error="skip"' in caught.value.reason


def test_spec_of_several_features_is_rejected(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "in", [example_of(i=[0], v=[1.0])])
    schema = {"s": tio.SparseFeature("i", "v", "float32", 3)}
    with pytest.raises(tio.SchemaError, match="reads several stored features"):
        to_parquet(path, tmp_path / "out", schema=schema)


def test_outputs_that_are_refused(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "in", [example_of(a=[1])])
    with pytest.raises(ValueError, match="a positive integer"):
        to_parquet(path, tmp_path / "y", num_shards=0)
    with pytest.raises(ValueError, match="overwrite the input"):
        to_parquet(path.rename(tmp_path / "in.parquet"), tmp_path / "in", force=True)


def test_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install torchrec-io\[parquet\]"):
        to_parquet(tmp_path / "in", tmp_path / "out")


def test_numbers_keep_their_bits(tmp_path: Path) -> None:
    values = [float("nan"), float("-inf"), -0.0, float(np.float32(0.1))]
    path = write_tfrecord(tmp_path / "in", [example_of(a=[value]) for value in values])
    [out] = to_parquet(path, tmp_path / "out").paths
    column = parquet.read_table(out)["a"].to_numpy()
    assert column.dtype == np.float32
    assert column.tobytes() == np.array(values, np.float32).tobytes()


def test_rows_of_fixed_length_have_the_stored_values(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "in", [example_of(boxes=[1, 2, 3, 4]), example_of(boxes=[])])
    rows = [tio.RaggedFeature.UniformRowLength(2)]
    schema = tio.Schema({"boxes": tio.RaggedFeature("int64", partitions=rows)})
    done = to_parquet(path, tmp_path / "out", schema=schema)
    assert rows_of(done.paths) == [{"boxes": [1, 2, 3, 4]}, {"boxes": []}]


def test_nested_features_are_columns_of_their_flat_names(tmp_path: Path) -> None:
    path = write_tfrecord(
        tmp_path / "in", [example_of(**{"id": [1], "a/b/c": [2, 3], "a/n": [-1]})]
    )
    schema = tio.Schema(
        {
            "a": {
                "b": {"c": tio.RaggedFeature("int64", names=["x"])},
                "n": tio.FixedLenFeature([], "uint64", bitcast=True),
            },
            "id": tio.FixedLenFeature([], "int64"),
        }
    )
    done = to_parquet(path, tmp_path / "out", schema=schema)
    assert rows_of(done.paths) == [{"a/b/c": [2, 3], "a/n": 2**64 - 1, "id": 1}]
