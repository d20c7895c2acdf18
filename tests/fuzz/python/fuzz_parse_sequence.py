"""Parsing of SequenceExamples from Python, compared with protobuf.

Input: options (1 byte), records of a message like ``repeated bytes record = 1``, or one record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.message import DecodeError as ProtobufError

import torchrec_io as tio
from tests.fuzz.python.alike import bits_of, check_alike, plain
from tests.fuzz.python.inputs import cut_options
from tests.fuzz.python.records import records_of, seed_of
from tests.support.examples import sequence_example_of
from tests.support.messages import SequenceExample
from tests.support.spellings import has_groups
from torchrec_io.errors import DecodeError

_KINDS = {"int64": "int64_list", "float32": "float_list", "string": "bytes_list"}
_CONTEXT: dict[str, Any] = {"id": "int64", "name": "string"}
_LISTS: dict[str, Any] = {"a": "int64", "b": "float32", "c": "string"}
_SCHEMA = tio.Schema(
    context={name: tio.VarLenFeature(dtype) for name, dtype in _CONTEXT.items()},
    sequence={name: tio.VarLenFeature(dtype) for name, dtype in _LISTS.items()},
)
_OTHERS = (
    _SCHEMA,
    tio.Schema(
        context={"id": tio.FixedLenFeature([], "int64", default_value=-1)},
        sequence={"a": tio.FixedLenSequenceFeature([2], "int64", allow_missing=True)},
    ),
    tio.Schema(context={}, sequence={"b": tio.RaggedFeature("float32")}),
    tio.Schema(
        context={"name": tio.RawFeature("uint8", [None])},
        sequence={"c": tio.SequenceFeature(tio.RawFeature("uint8", [None]))},
    ),
)


def check(data: bytes) -> None:
    (bits,), rest = cut_options(data, 1)
    records = records_of(rest)
    for record in records:
        if not has_groups(record):  # protobuf's Python code is lax there
            _check_values(record)
    check_alike(
        records,
        _OTHERS[bits % len(_OTHERS)],
        tio.parse_sequence_examples,
        tio.parse_sequence_example,
        has_padding=True,
    )


def _check_values(record: bytes) -> None:
    wanted = _read(record)
    try:
        sample = tio.parse_sequence_example(record, _SCHEMA)
    except DecodeError as error:
        assert wanted is None, f"protobuf reads it: {error}"
        return
    if wanted is None:
        return  # protobuf refuses keys that are not UTF-8, and features that are not read
    found = {name: plain(sample[name]) for name in (*_CONTEXT, *_LISTS)}
    assert bits_of(found) == bits_of(wanted), "other values"


def _read(record: bytes) -> dict[str, Any] | None:
    """Return the values of the features; None if protobuf or the schema refuses the record."""
    try:
        message = SequenceExample.FromString(record)
    except ProtobufError:
        return None
    row: dict[str, Any] = {}
    context, lists = message.context.feature, message.feature_lists.feature_list
    for name, dtype in _CONTEXT.items():
        row[name] = _values(context[name], dtype) if name in context else []
    for name, dtype in _LISTS.items():
        steps = lists[name].feature if name in lists else []
        row[name] = [_values(step, dtype) for step in steps]
        if None in row[name]:
            return None
    return None if None in row.values() else row


def _values(feature: Any, dtype: str) -> list[Any] | None:
    kind = feature.WhichOneof("kind")
    if kind not in (None, _KINDS[dtype]):
        return None
    return list(getattr(feature, kind).value) if kind else []


def seeds() -> Iterator[bytes]:
    usual = sequence_example_of(
        {"id": [7], "name": [b"n"]},
        {"a": [[1, 2], [3, 4]], "b": [[0.5], []], "c": [[b"x"], [b"yz"]]},
    )
    other = sequence_example_of({"id": [1, 2]}, {"a": [[]], "c": []})
    for bits in range(len(_OTHERS)):
        yield bytes([bits]) + usual
        yield bytes([bits]) + seed_of([usual, other, b""])
        yield bytes([bits]) + seed_of([usual + usual, usual[:-2]])
