"""Batches of similar records, compared with each record parsed alone."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import example as explicit
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.support.wire import (
    delimited,
    entry,
    example,
    float_feature,
    int_feature,
    packed_ints,
    unpacked_ints,
)
from torchrec_io._parsing.parser import ExampleParser
from torchrec_io._records.record_block import RecordList
from torchrec_io._tensors.parse import parse_block
from torchrec_io.errors import DecodeError

KEYS = ["a", "longer key", "f", "pair", "small", "optional"]
SCHEMA = tio.Schema(
    {
        "a": tio.FixedLenFeature([], "int64"),
        "longer key": tio.FixedLenFeature([], "int64"),
        "f": tio.FixedLenFeature([], "float32"),
        "pair": tio.FixedLenFeature([2], "int64"),
        "small": tio.FixedLenFeature([], "int8"),
        "optional": tio.FixedLenFeature([], "int64", default_value=7),
    }
)
INTEGERS = [0, 1, 127, 128, 16_383, 16_384, 2**31, 2**56 - 1, 2**56, -1, -(2**63), 2**63 - 1]


def plain(number: int) -> dict[str, bytes]:
    """The features of a record, of values of all sizes."""
    source = random.Random(number)
    return {
        "a": int_feature(source.choice(INTEGERS)),
        "longer key": int_feature(source.choice(INTEGERS)),
        "f": float_feature(source.choice([0.0, -1.5, 3e38])),
        "pair": int_feature(source.choice(INTEGERS), source.choice(INTEGERS)),
        "small": int_feature(source.choice([0, 1, 127])),
        "optional": int_feature(source.choice(INTEGERS)),
    }


def spelled(features: dict[str, bytes], *more: bytes) -> bytes:
    return example(*(entry(key, feature) for key, feature in features.items()), *more)


def odd_records(number: int) -> dict[str, bytes]:
    """Records that are not like the others in one way."""
    features = plain(number)

    def having(**other: bytes) -> bytes:
        return spelled({**features, **other})

    return {
        "unasked": spelled(features, entry("z", int_feature(1))),
        "twice": spelled(features, entry("a", int_feature(3))),
        "twice, first illegal": spelled(
            {**features, "a": delimited(3, delimited(1, b"\x80"))}, entry("a", int_feature(3))
        ),
        "other kind": having(a=float_feature(1.0)),
        "too many": having(a=int_feature(1, 2)),
        "none": having(a=int_feature()),
        "out of range": having(small=int_feature(128)),
        "illegal": having(f=delimited(2, delimited(1, b"xyz"))),
        "overlong": having(a=delimited(3, delimited(1, b"\x81\x80\x00"))),
        "eleven bytes": having(a=delimited(3, delimited(1, b"\x80" * 10 + b"\x01"))),
        "unpacked": having(a=delimited(3, unpacked_ints([5]))),
        "two chunks": having(pair=delimited(3, packed_ints([1]) + packed_ints([2]))),
        "missing": spelled({k: v for k, v in features.items() if k != "a"}),
        "default": spelled({k: v for k, v in features.items() if k != "optional"}),
        "other order": spelled(dict(reversed(features.items()))),
        "two Features": spelled(features) + spelled({"a": int_feature(9)}),
        "unknown field": spelled(features) + b"\x78\x01",
        "cut": spelled(features)[:-1],
        "nothing": b"",
    }


ODD = list(odd_records(0))


def outcome(records: list[bytes]) -> Any:
    """Columns as lists, or the place and reason of the error."""
    try:
        batch = tio.parse_examples(records, SCHEMA)
    except DecodeError as error:
        return error.record, error.offset, error.feature, error.reason
    return {name: column.tolist() for name, column in batch.items()}


def expected(records: list[bytes]) -> Any:
    """The same, each record parsed by itself."""
    columns: dict[str, list[Any]] = {name: [] for name in SCHEMA}
    for number, record in enumerate(records):
        found = outcome([record])
        if isinstance(found, tuple):
            return number, *found[1:]
        for name, values in found.items():
            columns[name] += values
    return columns


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("at", [0, 1, 2, 40, 99])
def test_one_odd_record_among_many(kind: str, at: int) -> None:
    records = [spelled(plain(number)) for number in range(100)]
    records[at] = odd_records(at)[kind]
    assert outcome(records) == expected(records)


@given(kinds=st.lists(st.sampled_from(["plain"] * 10 + ODD), max_size=80))
@explicit(kinds=["default"] * 70)
def test_any_records(kinds: list[str]) -> None:
    records = [
        spelled(plain(number)) if kind == "plain" else odd_records(number)[kind]
        for number, kind in enumerate(kinds)
    ]
    assert outcome(records) == expected(records)


def test_two_columns_of_one_feature() -> None:
    schema = tio.Schema(
        {"a": tio.FixedLenFeature([], "int64"), "b": tio.FixedLenFeature([], "float32")}
    )
    records = [example(entry("a", int_feature(n)), entry("b", float_feature(n))) for n in range(50)]
    batch = tio.parse_examples(records, schema)
    assert batch["a"].tolist() == batch["b"].tolist() == list(range(50))


def test_the_first_of_several_failures_of_a_record_is_reported() -> None:
    names = ["one", "two", "three"]
    schema = tio.Schema({name: tio.FixedLenFeature([], "int8") for name in names})
    record = spelled({name: int_feature(1000) for name in names})
    records = RecordList.of([record] * 50)
    _, failures = parse_block(ExampleParser.of(schema), records)
    assert [failure.feature for failure in failures] == ["one"] * 50
