"""Comparison of a batch with the samples of its records, each parsed by itself."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import torchrec_io as tio
from torchrec_io.errors import DecodeError


def check_alike(
    records: list[bytes],
    schema: tio.Schema,
    parse_all: Callable[[list[bytes], tio.Schema], tio.Batch],
    parse_one: Callable[[bytes, tio.Schema], tio.Sample],
    *,
    has_padding: bool = False,
) -> None:
    """Check that a batch is made of what each record is by itself.

    Args:
        records: Records.
        schema: Schema.
        parse_all: Function that parses records to a batch.
        parse_one: Function that parses a record to a sample.
        has_padding: Whether samples of the batch have padding after the steps of a record.
    """
    alone = [_parse_alone(parse_one, record, schema) for record in records]
    try:
        batch = parse_all(records, schema)
    except DecodeError as error:
        assert error.record is not None
        assert alone[error.record] is None, "a record by itself is valid"
        return
    assert None not in alone, "a record by itself is invalid"
    for sample, other in zip(batch.samples(), alone, strict=True):
        assert other is not None
        for name in schema:
            ours, theirs = bits_of(plain(sample[name])), bits_of(plain(other[name]))
            is_padded = has_padding and isinstance(theirs, list) and name in batch.lengths
            assert (ours[: len(theirs)] if is_padded else ours) == theirs, "other values"


def _parse_alone(
    parse_one: Callable[[bytes, tio.Schema], tio.Sample], record: bytes, schema: tio.Schema
) -> tio.Sample | None:
    try:
        return parse_one(record, schema)
    except DecodeError:
        return None


def plain(value: Any) -> Any:
    """Return a value of a sample as numbers, bytes and lists."""
    if isinstance(value, tio.Sparse):
        return [value.indices.tolist(), value.values.tolist()]
    return value.tolist() if hasattr(value, "tolist") else value


def bits_of(value: Any) -> Any:
    """Return a plain value with the bits of its floats, so that NaN equals itself."""
    if isinstance(value, dict):
        return {name: bits_of(item) for name, item in value.items()}
    if isinstance(value, list):
        return [bits_of(item) for item in value]
    return struct.pack("<d", value) if isinstance(value, float) else value
