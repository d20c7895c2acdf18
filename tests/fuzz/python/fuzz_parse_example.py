"""Parsing of Examples from Python, compared with protobuf.

Input: options (1 byte), records of a message like ``repeated bytes record = 1``, or one record.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError as ProtobufError

import torchrec_io as tio
from tests.fuzz.python.alike import bits_of, check_alike
from tests.fuzz.python.inputs import cut_options
from tests.fuzz.python.records import records_of, seed_of
from tests.support.examples import example_of
from tests.support.spellings import has_groups, read_loosely
from torchrec_io._records.sequential import iter_records
from torchrec_io.errors import DecodeError

_KINDS = {"int64": "int64_list", "float32": "float_list", "string": "bytes_list"}
_KEYS: dict[str, Any] = {"a": "int64", "b": "float32", "c": "string"}
_SCHEMA = tio.Schema({name: tio.VarLenFeature(dtype) for name, dtype in _KEYS.items()})
_OTHERS = (
    {"a": tio.FixedLenFeature([], "int64"), "c": tio.FixedLenFeature([], "string")},
    {"a": tio.FixedLenFeature([2], "int32"), "b": tio.FixedLenFeature([1], "float64")},
    {"a": tio.RaggedFeature("int64", partitions=[tio.RaggedFeature.RowLengths("n")])},
    {"s": tio.SparseFeature("a", "b", "float32", 5)},
    {"c": tio.RawFeature("uint8", [None, 2])},
    {"c": tio.SerializedTensorFeature("float32")},
    {"c": tio.SequenceFeature(tio.RawFeature("int16", [2]))},
    {"a": tio.FixedLenSequenceFeature([2], "int64", allow_missing=True)},
    {"x": tio.VarLenFeature("int64", key="a"), "y": tio.VarLenFeature("int32", key="a")},
)


def check(data: bytes) -> None:
    (bits,), rest = cut_options(data, 1)
    records = records_of(rest)
    wanted = [_read(record) for record in records]
    if not any(has_groups(record) for record in records):  # protobuf's Python code is lax there
        _check_values(records, wanted)
    schema = tio.Schema(_OTHERS[bits % len(_OTHERS)])
    check_alike(records, schema, tio.parse_examples, tio.parse_example)


def _read(record: bytes) -> list[list[Any]] | None:
    """Return the values of the features; None if protobuf or the schema refuses the record."""
    try:
        found = read_loosely(record, [*_KEYS])
    except ProtobufError:
        return None
    row = []
    for name, dtype in _KEYS.items():
        kind, values = found.get(name, (None, []))
        if kind not in (None, _KINDS[dtype]):
            return None
        row.append(values)
    return row


def _check_values(records: list[bytes], wanted: list[list[list[Any]] | None]) -> None:
    try:
        batch = tio.parse_examples(records, _SCHEMA)
    except DecodeError as error:
        assert error.record is not None
        assert wanted[error.record] is None, f"protobuf reads it: {error}"
        assert None not in wanted[: error.record], "the error names another record"
        return
    assert None not in wanted, "protobuf refuses it"
    columns = [batch[name].tolist() for name in _KEYS]
    assert bits_of([*map(list, zip(*columns, strict=True))]) == bits_of(wanted), "other values"


def seeds() -> Iterator[bytes]:
    usual = example_of(a=[1, 2], b=[0.5], c=[b"ab", b""], n=[2, 0])
    yield b"\0" + usual
    yield b"\1" + seed_of([usual, example_of(a=[1]), b"", usual[:-1]])
    for number in range(len(_OTHERS)):
        yield bytes([number]) + seed_of([example_of(a=[3], b=[1.5], c=[b"abcd"], n=[1]), usual])
    tensor = b"\x08\x01\x12\x04\x12\x02\x08\x02" + b"\x22\x08" + bytes(8)
    yield b"\5" + seed_of([example_of(c=[tensor])])
    golden = Path(__file__).parents[2] / "data" / "golden"
    for path in sorted(golden.glob("*.tfrecord"))[:20]:
        for number, (_, record) in enumerate(iter_records(path)):
            if len(record) < 500 and number < 3:
                yield bytes([number]) + seed_of([record])
