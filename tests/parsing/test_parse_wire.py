"""Examples in every spelling that protobuf allows, and in some that it does not."""

from __future__ import annotations

import contextlib
import struct
from typing import Any

import pytest
from google.protobuf.message import DecodeError as ProtobufDecodeError
from hypothesis import given

import torchrec_io as tio
from tests.support.messages import Example
from tests.support.spellings import (
    KEYS,
    KINDS,
    damaged,
    example_bytes,
    has_groups,
    kind_and_values,
    read_loosely,
)
from torchrec_io.errors import DecodeError

# ---- our own reading ----


def parse_as(record: bytes, kinds: dict[str, str | None]) -> dict[str, list[Any]]:
    """All values of some features, whose kinds are known (None: none is set)."""
    schema = {key: tio.VarLenFeature(KINDS[kind or "int64_list"]) for key, kind in kinds.items()}
    batch = tio.parse_examples([record], schema)
    return {key: column.tolist()[0] for key, column in batch.items()}


def same(ours: list[Any], theirs: list[Any]) -> bool:
    """Whether values are equal, with floats compared bit by bit."""

    def bits(values: list[Any]) -> list[Any]:
        return [struct.pack("<d", v) if isinstance(v, float) else v for v in values]

    return bits(ours) == bits(theirs)


def check_values(record: bytes, expected: dict[str, tuple[str | None, list[Any]]]) -> None:
    """Checks that we read all features as expected; those not there as no values."""
    ours = parse_as(record, {key: expected[key][0] if key in expected else None for key in KEYS})
    for key in KEYS:
        assert same(ours[key], expected[key][1] if key in expected else [])


# Protobuf's Python classes take an entry with an unknown field for an unknown field as a whole. We
# skip the field alone, as in any other message.
@given(example_bytes(unknown_in_entries=False))
def test_legal_examples_are_read_as_protobuf_reads_them(record: bytes) -> None:
    theirs = Example.FromString(record).features.feature
    check_values(record, {key: kind_and_values(theirs[key]) for key in theirs})


@given(example_bytes())
def test_unknown_fields_are_skipped_everywhere(record: bytes) -> None:
    check_values(record, read_loosely(record, KEYS))


@given(example_bytes())
def test_a_fixed_feature_takes_exactly_its_number_of_values(record: bytes) -> None:
    for key, (kind, values) in read_loosely(record, KEYS).items():
        for count in {0, 1, len(values), len(values) + 1}:
            spec = tio.FixedLenFeature([count], KINDS[kind or "int64_list"])
            if kind is not None and count == len(values):
                batch = tio.parse_examples([record], {key: spec})
                assert same(batch[key].tolist()[0], values)
            else:
                with pytest.raises(DecodeError):
                    tio.parse_examples([record], {key: spec})


# ---- damage ----


@given(damaged())
def test_damaged_examples_are_read_as_protobuf_reads_them_or_refused(record: bytes) -> None:
    try:
        expected = read_loosely(record, KEYS)
    except ProtobufDecodeError:
        # Which kinds an illegal record pretends to hold nobody can say: no guess may succeed.
        for kind in KINDS:
            with pytest.raises(DecodeError):
                parse_as(record, dict.fromkeys(KEYS, kind))
        return
    if has_groups(record):
        # Protobuf's Python classes take field number 0 inside a group that they skip. We do not.
        with contextlib.suppress(DecodeError):
            check_values(record, expected)
    else:
        check_values(record, expected)
