"""Tables of records have the values of the samples of a dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.cluster.rows import assert_same, rows_of, source_of, tables_of
from tests.support import every_kind
from tests.support.examples import example_of, sequence_example_of
from tests.support.images import encoded, smooth
from tests.support.tfrecord import write_tfrecord
from tests.support.written_tensors import WRITTEN
from torchrec_io.cluster.record_tables import TableReader

PNGS = [encoded(smooth(3 + i % 3, 4 - i % 2, seed=i), "PNG") for i in range(6)]
Ragged, Fixed, Image = tio.RaggedFeature, tio.FixedLenFeature, tio.ImageFeature
LISTS = [[n, 7] * (n % 4) for n in range(6)]
WORDS = [[b"w%d" % k for k in range(n % 3)] for n in range(6)]

# A spec of each kind of column, and the stored values of its records.
CASES: dict[str, tuple[Any, list[dict[str, Any]]]] = {
    "scalars": (Fixed([], "int64"), [{"x": [n - 2]} for n in range(6)]),
    "bools": (Fixed([], "bool"), [{"x": [n % 2]} for n in range(6)]),
    "bfloat16": (Fixed([2, 2], "bfloat16"), [{"x": [n + 0.25] * 4} for n in range(6)]),
    "float16": (Fixed([], "float16"), [{"x": [n + 0.25]} for n in range(6)]),
    "tensors of bools": (Fixed([2, 1], "bool"), [{"x": [n % 2, 1]} for n in range(6)]),
    "no values": (tio.RawFeature("uint8", [0]), [{"x": [b""]} for _ in range(6)]),
    "bytes": (Fixed([], "string"), [{"x": [b"\xff" * n]} for n in range(6)]),
    "bytes of a shape": (
        Fixed([2, 2], "string"),
        [{"x": [b"a" * n, b"", b"bc", b"\0"]} for n in range(6)],
    ),
    "lists": (tio.VarLenFeature("int64"), [{"x": values} for values in LISTS]),
    "lists of bools": (tio.VarLenFeature("bool"), [{"x": [1] * n} for n in range(6)]),
    "lists of bytes": (tio.VarLenFeature("string"), [{"x": values} for values in WORDS]),
    "padded": (
        tio.FixedLenSequenceFeature([2], "int32", allow_missing=True, default_value=9),
        [{"x": values} for values in LISTS],
    ),
    "padded bytes": (
        tio.FixedLenSequenceFeature([], "string", allow_missing=True, default_value=b"no"),
        [{"x": values} for values in WORDS],
    ),
    "padded bytes of a shape": (
        tio.FixedLenSequenceFeature([2], "string", allow_missing=True, default_value=b"no"),
        [{"x": [b"p", b"q" * n] * (n % 3)} for n in range(6)],
    ),
    "rows": (
        Ragged("float32", "v", [Ragged.RowLengths("n")]),
        [{"v": [0.5] * (3 * n), "n": [n, 2 * n]} for n in range(6)],
    ),
    "rows in rows": (
        Ragged("string", "v", [Ragged.RowSplits("s"), Ragged.RowLengths("n")]),
        [{"v": [b"a", b"b", b"c"], "s": [0, 1, 1, 2], "n": [n % 3, 3 - n % 3]} for n in range(6)],
    ),
    "rows of tensors": (
        Ragged("int64", "v", [Ragged.UniformRowLength(2)]),
        [{"v": [n] * (2 * n)} for n in range(6)],
    ),
    "rows of rows of tensors": (
        Ragged("int64", "v", [Ragged.RowLengths("n"), Ragged.UniformRowLength(2)], "int64"),
        [{"v": [n] * (2 * n), "n": [n, 0]} for n in range(6)],
    ),
    "sparse": (
        tio.SparseFeature("at", "v", "float32", 9),
        [{"at": [*range(n)], "v": [n + 0.5] * n} for n in range(6)],
    ),
    "sparse of rank 2": (
        tio.SparseFeature(["at", "to"], "v", "string", [9, 9]),
        [
            {"at": [3, 2][: n % 3], "to": [0, 8][: n % 3], "v": [b"a", b"b"][: n % 3]}
            for n in range(6)
        ],
    ),
    "images": (Image(), [{"x": [png]} for png in PNGS]),
    "padded images": (Image(mixed="pad", fill=3), [{"x": [png]} for png in PNGS]),
    "padded images, channels last": (
        Image(mixed="pad", layout="HWC"),
        [{"x": [png]} for png in PNGS],
    ),
    "frames": (Image(animated=True), [{"x": [png]} for png in PNGS]),
    "raw of a stored shape": (
        tio.RawFeature("uint8", shape_key="s"),
        [{"x": [bytes(range(4))], "s": [[4], [2, 2], [1, 2, 2]][n % 3]} for n in range(6)],
    ),
    "sequence of images": (
        tio.SequenceFeature(Image()),
        [{"x": [PNGS[n]] * (n % 3)} for n in range(6)],
    ),
    "sequence of images of one size": (
        tio.SequenceFeature(Image(size=(2, 2))),
        [{"x": PNGS[: n % 4]} for n in range(6)],
    ),
    "rows of images": (
        tio.SequenceFeature(Image(), partitions=[Ragged.RowLengths("n")]),
        [{"x": [PNGS[n]] * (n % 3), "n": [0, n % 3]} for n in range(6)],
    ),
    "rows of arrays of one shape": (
        tio.SequenceFeature(tio.RawFeature("uint8", [2]), partitions=[Ragged.RowLengths("n")]),
        [{"x": [b"ab"] * (n % 3), "n": [0, n % 3]} for n in range(6)],
    ),
    "tensors of any shape": (
        tio.SerializedTensorFeature("int16"),
        [{"x": [bytes.fromhex(WRITTEN["int16"][n % 3])]} for n in range(6)],
    ),
    "tensors of bytes": (
        tio.SerializedTensorFeature("string"),
        [{"x": [bytes.fromhex(WRITTEN["string"][n % 3])]} for n in range(6)],
    ),
}


def assert_rows_are_samples(path: Path, schema: Any, parallelism: int) -> None:
    tables = tables_of(source_of([str(path)], schema), parallelism)
    samples = list(tio.TFRecordDataset(path, schema))
    rows = rows_of(tables)
    assert len({table.schema for table in tables}) <= 1
    assert len(rows) == len(samples)
    for row, sample in zip(rows, samples, strict=True):
        assert list(row) == list(tio.Schema.of(schema))
        for name, value in row.items():
            assert_same(value, sample[name], tables[0].schema.field(name).type)


@pytest.mark.parametrize("case", CASES)
def test_a_row_has_the_values_of_a_sample(tmp_path: Path, case: str) -> None:
    spec, records = CASES[case]
    path = write_tfrecord(tmp_path / "a", [example_of(**record) for record in records])
    assert_rows_are_samples(path, {"x": spec}, 1)
    assert_rows_are_samples(path, {"x": spec}, 3)


def test_every_kind_of_column_together(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "a", [every_kind.record(i) for i in range(30)])
    assert_rows_are_samples(path, every_kind.SCHEMA, 4)


STEPS = st.lists(st.lists(st.integers(-3, 2**40), max_size=3), max_size=3)


@given(
    records=st.lists(
        st.tuples(
            STEPS, st.lists(st.lists(st.binary(max_size=3), min_size=2, max_size=2), max_size=3)
        ),
        min_size=1,
        max_size=9,
    ),
    parallelism=st.integers(1, 4),
)
def test_feature_lists(
    tmp_path_factory: pytest.TempPathFactory, records: list[Any], parallelism: int
) -> None:
    path = tmp_path_factory.mktemp("files") / "a"
    write_tfrecord(path, [sequence_example_of({"id": [1]}, {"s": s, "t": t}) for s, t in records])
    schema = tio.Schema(
        context={"id": Fixed([], "int64")},
        sequence={
            "s": tio.VarLenFeature("int64"),
            "t": tio.FixedLenSequenceFeature([2], "string", allow_missing=True),
        },
    )
    assert_rows_are_samples(path, schema, parallelism)


def test_nested_features_have_flat_names(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "a", [example_of(**{"a/b": [1], "c": [2]})])
    number = Fixed([], "int64")
    [row] = rows_of(tables_of(source_of([str(path)], {"a": {"b": number}, "c": number})))
    assert row == {"a/b": 1, "c": 2}


@given(records=st.lists(st.binary(max_size=40), max_size=30), parallelism=st.integers(1, 9))
def test_records_as_bytes(
    tmp_path_factory: pytest.TempPathFactory, records: list[bytes], parallelism: int
) -> None:
    path = write_tfrecord(tmp_path_factory.mktemp("files") / "a", records)
    tables = tables_of(source_of([str(path)], None), parallelism)
    assert [row["bytes"] for row in rows_of(tables)] == records
    assert all(table.schema == pa.schema({"bytes": pa.binary()}) for table in tables)


def test_keys_are_those_of_a_dataset(tmp_path: Path) -> None:
    paths = [
        write_tfrecord(tmp_path / name, [example_of(x=[i]) for i in range(20)], compression)
        for name, compression in (("a", None), ("b.gz", "gzip"))
    ]
    schema = {"x": Fixed([], "int64")}
    names = list(map(str, paths))
    rows = rows_of(tables_of(source_of(names, schema, with_key=True), 7))
    expected = [
        (key, int(sample["x"])) for key, sample in tio.TFRecordDataset(paths, schema, with_key=True)
    ]
    assert [(row["__key__"], row["x"]) for row in rows] == expected
    keys = rows_of(tables_of(source_of(names, None, with_key=True)))
    assert [row["__key__"] for row in keys] == [key for key, _ in expected]


def test_only_selected_features_are_parsed(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "a", [example_of(x=[i], y=[b"no image"]) for i in range(5)])
    schema = {"y": Image(), "x": Fixed([], "int64"), "z": tio.VarLenFeature("int64")}
    source = source_of([str(path)], schema, with_key=True)
    narrow = source.apply_projection({"z": "z", "x": "x"})
    assert [list(row.items()) for row in rows_of(tables_of(narrow))] == [
        [("z", []), ("x", i)] for i in range(5)
    ]
    assert len(rows_of(tables_of(source.apply_projection({"__key__": "__key__"})))) == 5
    assert len(rows_of(tables_of(source.apply_projection({})))) == 5
    with pytest.raises(tio.DecodeError):
        tables_of(source)


def test_what_arrow_cannot_store_is_refused() -> None:
    with pytest.raises(tio.SchemaError, match="Arrow has no complex numbers"):
        TableReader.of({"x": tio.RawFeature("complex64", [1])}, with_key=False)
    with pytest.raises(tio.SchemaError, match="with_key=True makes a column of this name"):
        TableReader.of({"__key__": Fixed([], "int64")}, with_key=True)
    with pytest.raises(ValueError, match="schema must be a Schema, a dict of features or None"):
        TableReader.of(np.asarray, with_key=False)
