"""Tests of parsing lists of Examples, against protobuf and with real files."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.conftest import Wild
from tests.records.test_wild import (
    DTYPES,
    LISTS,
    MANIFEST,
    kinds_under,
    path_of,
    value_list,
    values_sha256,
)
from tests.support.example_lists import ExampleListWithContext
from tests.support.tfrecord import write_tfrecord
from torchrec_io._records.sequential import iter_records
from torchrec_io.errors import DecodeError, SchemaError, TorchRecIOError

INT64 = st.integers(-(2**63), 2**63 - 1)
SCHEMA = tio.ranking.Schema(
    context={
        "query": tio.FixedLenFeature([], "int64", default_value=-1),
        "words": tio.VarLenFeature("string"),
    },
    examples={
        "pair": tio.FixedLenFeature([2], "float32", default_value=[0.5, 1.5]),
        "id": tio.FixedLenFeature([], "string", default_value=b"none"),
        "clicks": tio.VarLenFeature("int64"),
    },
)

# ---- any message, as protobuf reads it ----

CONTEXTS = st.fixed_dictionaries(
    {},
    optional={
        "query": INT64,
        "words": st.lists(st.binary(max_size=3), min_size=1, max_size=3),
        "other": st.just(1.5),
    },
)
EXAMPLES = st.fixed_dictionaries(
    {},
    optional={
        "pair": st.lists(st.floats(width=32, allow_nan=False), min_size=2, max_size=2),
        "id": st.binary(max_size=5),
        "clicks": st.lists(INT64, min_size=1, max_size=3),
    },
)
UNKNOWN = st.sampled_from([b"\x18\x05", b"\x08\x01", b"\x15abcd", b"\x1a\x02xx", b"\x0b\x0c"])


class Drawn(NamedTuple):
    """A part of a list: which one, and its features or bytes."""

    kind: str
    content: Any

    def encoded(self) -> bytes:
        if self.kind == "unknown":
            return bytes(self.content)
        if self.kind == "context":
            return tio.ranking.encode(self.content, [])
        return tio.ranking.encode(None, [self.content])


PARTS = st.one_of(
    st.builds(Drawn, st.just("example"), EXAMPLES),
    st.builds(Drawn, st.just("context"), CONTEXTS),
    st.builds(Drawn, st.just("unknown"), UNKNOWN),
)
RECORDS = st.lists(st.lists(PARTS, max_size=6), max_size=4).map(
    lambda records: [b"".join(part.encoded() for part in parts) for parts in records]
)


def values_of(example: Any, name: str) -> list[Any]:
    feature = example.features.feature.get(name)
    if feature is None:
        return []
    return list(getattr(feature, feature.WhichOneof("kind")).value)


def model(records: list[bytes]) -> dict[str, list[Any]]:
    """What protobuf reads in records, with the defaults of the schema."""
    lists = [ExampleListWithContext.FromString(record) for record in records]
    return {
        "query": [(values_of(one.context, "query") or [-1])[0] for one in lists],
        "words": [values_of(one.context, "words") for one in lists],
        "pair": [[values_of(e, "pair") or [0.5, 1.5] for e in one.examples] for one in lists],
        "id": [[(values_of(e, "id") or [b"none"])[0] for e in one.examples] for one in lists],
        "clicks": [[values_of(e, "clicks") for e in one.examples] for one in lists],
    }


@given(RECORDS)
def test_any_lists_as_protobuf_reads_them(records: list[bytes]) -> None:
    batch = tio.ranking.parse(records, SCHEMA)
    expected = model(records)
    assert {name: column.tolist() for name, column in batch.items()} == expected
    samples = batch.samples()
    if samples:
        again = tio.collate(samples)
        assert {name: column.tolist() for name, column in again.items()} == expected
    assert pickle.loads(pickle.dumps(batch))["clicks"].tolist() == expected["clicks"]


# ---- types and shapes ----

TWO = tio.ranking.encode(
    {"query": 7}, [{"pair": [1.0, 2.0], "clicks": [5, 6]}, {"pair": [3.0, 4.0], "id": b"second"}]
)
NONE = tio.ranking.encode({"query": 8}, [])


def test_columns() -> None:
    batch = tio.ranking.parse([TWO, NONE], SCHEMA)
    assert list(batch) == ["query", "words", "pair", "id", "clicks"]
    assert batch["query"].tolist() == [7, 8]
    pair = batch["pair"]
    assert isinstance(pair, tio.Ragged)
    assert isinstance(pair.values, torch.Tensor)
    assert pair.values.dtype == torch.float32
    assert pair.values.shape == (2, 2)
    assert pair.offsets.dtype == torch.int64
    assert pair.offsets.tolist() == [0, 2, 2]
    assert batch["id"].values.tolist() == [b"none", b"second"]
    assert isinstance(batch["clicks"].values, tio.Ragged)
    padded = pair.to_padded(max_len=3, buckets=[3])
    assert padded.tolist() == [[[1, 2], [3, 4], [0, 0]], [[0, 0], [0, 0], [0, 0]]]
    mask = torch.arange(3) < pair.lengths[:, None]
    assert mask.tolist() == [[True, True, False], [False, False, False]]
    assert batch["clicks"].to_padded().tolist() == [[[5, 6], [0, 0]], [[0, 0], [0, 0]]]


def test_more_kinds_of_features() -> None:
    schema = tio.ranking.Schema(
        context={
            "steps": tio.FixedLenSequenceFeature([], "int64", allow_missing=True),
            "at": tio.SparseFeature("i", "v", "float32", 4),
            "blob": tio.RawFeature("uint8", shape_key="size"),
            "name": tio.FixedLenFeature([], "string"),
        },
        examples={
            "rows": tio.RaggedFeature(
                "int64", value_key="r", partitions=[tio.RaggedFeature.RowLengths("n")]
            ),
            "raw": tio.RawFeature("int16", [2]),
            "small": tio.FixedLenFeature([], "int8"),
        },
    )
    context = {"steps": [1, 2], "i": [3], "v": [0.5], "blob": b"abc", "size": [3], "name": b"n"}
    examples = [
        {"r": [1, 2, 3], "n": [1, 2], "raw": b"\1\0\2\0", "small": 5},
        {"r": [4], "n": [0, 1], "raw": b"\3\0\4\0", "small": -5},
    ]
    batch = tio.ranking.parse([tio.ranking.encode(context, examples)], schema)
    assert batch["steps"].tolist() == [[1, 2]]
    assert batch.lengths["steps"].tolist() == [2]
    assert batch["at"].to_coo().to_dense().tolist() == [[0, 0, 0, 0.5]]
    assert batch["blob"][0].tolist() == [97, 98, 99]
    assert batch["name"].tolist() == [b"n"]
    assert batch["rows"].tolist() == [[[[1], [2, 3]], [[], [4]]]]
    assert batch["raw"].tolist() == [[[1, 2], [3, 4]]]
    assert batch["small"].values.dtype == torch.int8
    assert batch["small"].tolist() == [[5, -5]]


# ---- what is refused ----

STRICT = tio.ranking.Schema(
    {"query": tio.FixedLenFeature([], "int8")}, {"pair": tio.FixedLenFeature([2], "float32")}
)
GOOD = tio.ranking.encode({"query": 1}, [{"pair": [1.0, 2.0]}])
NO_CONTEXT = tio.ranking.encode(None, [{"pair": [1.0, 2.0]}])
SHORT = tio.ranking.encode({"query": 1}, [{"pair": [1.0, 2.0]}, {"pair": [1.0]}])
TOO_LARGE = tio.ranking.encode({"query": 1000}, [])


def refusal(record: bytes) -> DecodeError:
    with pytest.raises(DecodeError) as caught:
        tio.ranking.parse([GOOD, record, GOOD], STRICT)
    assert caught.value.record == 1
    return caught.value


def test_features_that_do_not_fit() -> None:
    error = refusal(NO_CONTEXT)
    assert error.feature == "query"
    assert "required" in error.reason
    error = refusal(SHORT)
    assert error.feature == "pair"
    assert error.reason.startswith("example 1: the record holds 1")
    assert error.offset == SHORT.rindex(b"\0\0\x80\x3f")  # its one value
    error = refusal(TOO_LARGE)  # found when the value is decoded
    assert error.feature == "query"
    assert "does not fit" in error.reason


def test_a_value_out_of_its_range() -> None:
    limited = tio.FixedLenFeature([], "int64", valid_range=(0, 5))
    schema = tio.ranking.Schema(context={"query": limited}, examples={"grade": limited})
    good = tio.ranking.encode({"query": 1}, [{"grade": 5}])
    assert tio.ranking.parse([good], schema)["grade"].tolist() == [[5]]
    for context, grade, feature, reason in (
        (1, 6, "grade", "example 1: the value 6"),
        (-1, 5, "query", "the value -1"),
    ):
        bad = tio.ranking.encode({"query": context}, [{"grade": 5}, {"grade": grade}])
        with pytest.raises(DecodeError) as caught:
            tio.ranking.parse([good, bad], schema)
        assert (caught.value.record, caught.value.feature) == (1, feature)
        assert caught.value.reason.startswith(reason)


def test_damaged_lists() -> None:
    error = refusal(GOOD + b"\x0a\x05x")
    assert (error.feature, error.offset) == (None, len(GOOD))
    assert "past the end" in error.reason
    error = refusal(GOOD + b"\x0a\x03\x0a\x7fx")  # inside of an example
    assert error.offset == len(GOOD) + 2
    assert error.reason.startswith("example 1: ")
    error = refusal(GOOD + b"\x12\x03\x0a\x7fx")  # in a context of several parts
    assert error.offset is None


def test_records_are_left_out_with_all_that_is_wrong_with_them(tmp_path: Path) -> None:
    records = [GOOD, b"\x0a", SHORT, GOOD, TOO_LARGE, NO_CONTEXT, GOOD]
    write_tfrecord(tmp_path / "lists.tfrecord", records)
    errors: list[TorchRecIOError] = []
    dataset = tio.TFRecordDataset(
        tmp_path / "lists.tfrecord", STRICT, batch_size=7, on_error=errors.append
    )
    [batch] = dataset
    assert batch["query"].tolist() == [1, 1, 1]
    assert batch["pair"].tolist() == [[[1, 2]]] * 3
    assert sorted(error.record or 0 for error in errors) == [1, 2, 4, 5]
    assert dataset.skipped == 4


def test_a_record_of_many_bad_examples_is_one_error(tmp_path: Path) -> None:
    bad = tio.ranking.encode({"query": 1}, [{"pair": [1.0, 2.0]}]) + b"\x0a\x00" * 1000
    write_tfrecord(tmp_path / "lists.tfrecord", [bad, GOOD, bad])
    errors: list[TorchRecIOError] = []
    dataset = tio.TFRecordDataset(
        tmp_path / "lists.tfrecord", STRICT, batch_size=3, on_error=errors.append
    )
    assert [batch["query"].tolist() for batch in dataset] == [[1]]
    assert [error.record for error in errors] == [0, 2]
    assert all(error.reason.startswith("example 1: ") for error in errors)


def test_another_kind_of_schema_is_rejected() -> None:
    with pytest.raises(SchemaError, match=r"must be a ranking\.Schema"):
        tio.ranking.parse([GOOD], tio.Schema({"a": STRICT["pair"]}))  # type: ignore[arg-type]


def test_functions_for_examples_reject_schemas_of_lists(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="must be a dict or a schema of Examples"):
        tio.parse_examples([GOOD], SCHEMA)
    with pytest.raises(SchemaError, match="must be a dict or a schema of Examples"):
        tio.Schema({"lists": SCHEMA})
    write_tfrecord(tmp_path / "lists", [GOOD])
    with pytest.raises(SchemaError, match="must be a dict or a schema of Examples"):
        tio.convert.to_parquet(tmp_path / "lists", tmp_path / "x", schema=SCHEMA)
    with pytest.raises(SchemaError, match="steps need a schema of features"):
        tio.TFRecordDataset(tmp_path / "lists", SCHEMA).steps(group="pair")


# ---- datasets ----


@pytest.fixture
def lists(tmp_path: Path) -> str:
    records = [
        tio.ranking.encode(
            {"query": i}, [{"pair": [i, j], "clicks": [j] * j} for j in range(i)], SCHEMA
        )
        for i in range(5)
    ]
    write_tfrecord(tmp_path / "lists.tfrecord", records)
    return str(tmp_path / "lists.tfrecord")


def test_datasets(lists: str) -> None:
    dataset = tio.TFRecordDataset(lists, SCHEMA, batch_size=2)
    assert dataset.schema is SCHEMA
    batches = list(DataLoader(dataset, batch_size=None))
    assert [batch["query"].tolist() for batch in batches] == [[0, 1], [2, 3], [4]]
    assert batches[1]["clicks"].tolist() == [[[], [1]], [[], [1], [2, 2]]]
    rows = [sample["pair"].tolist() for sample in tio.TFRecordDataset(lists, SCHEMA)]
    assert rows == [[[i, j] for j in range(i)] for i in range(5)]
    by_number = tio.TFRecordMapDataset(lists, SCHEMA)
    assert by_number[3]["pair"].tolist() == [[3, 0], [3, 1], [3, 2]]
    assert tio.collate(by_number[1:3])["clicks"].tolist() == [[[]], [[], [1]]]


def test_lists_have_no_length_by_name(lists: str) -> None:
    with pytest.raises(ValueError, match="length_key must be integers"):
        tio.TFRecordDataset(lists, SCHEMA, batch_tokens=10)
    given = tio.TFRecordDataset(lists, SCHEMA, batch_tokens=4, length_key=torch.arange(5))
    assert sum(len(batch["query"]) for batch in given) == 5


# ---- real files ----

ENTRIES = [
    entry
    for entry in MANIFEST.get("files", [])
    if entry["payload_kind"] == "ExampleListWithContext"
]


@pytest.mark.parametrize("entry", ENTRIES, ids=[entry["path"] for entry in ENTRIES])
def test_values_in_real_files(wild: Wild, entry: dict[str, Any]) -> None:
    path = path_of(wild, entry)
    context, examples = kinds_under(entry, "context/"), kinds_under(entry, "examples/")
    schema = tio.ranking.Schema(
        {name: tio.VarLenFeature(DTYPES[kind]) for name, kind in context.items()},
        {name: tio.VarLenFeature(DTYPES[kind]) for name, kind in examples.items()},
    )
    [batch] = tio.TFRecordDataset(path, schema, batch_size=1000, num_threads=1)
    records = [record for _, record in iter_records(path)]
    for check in entry["check"]:
        row = check["index"]
        # A parsed batch does not tell an absent feature from an empty one; protobuf does.
        message = ExampleListWithContext.FromString(records[row])

        def stored(part: Any, kinds: dict[str, str], values: dict[str, Any]) -> dict[str, Any]:
            found = {}
            for name, kind in kinds.items():
                if name in part.features.feature:
                    assert part.features.feature[name].WhichOneof("kind") == LISTS[kind]
                    found[name] = {"kind": kind, "values": value_list(values[name])}
            return found

        lists = {name: batch[name][row] for name in examples}
        found = {
            "context": stored(message.context, context, {n: batch[n][row] for n in context}),
            "examples": [
                stored(example, examples, {name: lists[name][number] for name in examples})
                for number, example in enumerate(message.examples)
            ],
        }
        assert all(len(rows) == len(message.examples) for rows in lists.values())
        assert values_sha256(found) == check["values_sha256"]
