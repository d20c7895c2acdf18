"""Raw bytes and serialized tensors, compared with decode_raw and parse_tensor.

What both libraries read alike is stored in ``tests/data/golden/arrays.json``, too.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from hypothesis import settings

import torchrec_io as tio
from tests.conftest import TfOracle
from tests.interop.compare import Result, assert_none, disagreement
from tests.interop.respell import damage
from tests.interop.tensor_messages import reasons_in
from tests.interop.tensor_protos import (
    HALF_COMPLEX,
    OTHER_LIST,
    OUT_OF_RANGE,
    TOO_MANY,
    TYPES,
    TensorProto,
    draw_tensor,
    raw_question,
)
from tests.support.forms import array_to_json
from tests.support.wire import bytes_feature, entry, example
from torchrec_io.errors import DecodeError, SchemaError

ROUNDS = range(max(2, settings().max_examples // 25))
CASES = 200


def examples_of(values: list[bytes]) -> list[bytes]:
    return [example(entry("x", bytes_feature(value))) for value in values]


def result_in(answer: dict[str, Any]) -> Result:
    """Return TensorFlow's array, or None if it rejected the input."""
    return None if "error" in answer else answer


# ---- decode_raw ----


def decode(values: list[bytes], feature: Any) -> Result:
    """Decode raw values with this library."""
    try:
        batch = tio.parse_examples(examples_of(values), {"x": feature})
    except DecodeError:
        return None
    return array_to_json(batch["x"])


@pytest.mark.parametrize(("dtype", "fixed"), [("int32", 0), ("int32", 6), ("int16", -2)])
def test_invalid_fixed_lengths(tf_oracle: TfOracle, dtype: Any, fixed: int) -> None:
    assert "error" in tf_oracle.ask(**raw_question([b"abcd"], dtype, True, fixed))
    with pytest.raises(SchemaError):
        tio.RawFeature(dtype, fixed_length=fixed)


def test_raw_bool_is_0_or_1(tf_oracle: TfOracle) -> None:
    answer = tf_oracle.ask(**raw_question([b"\x02"], "bool", True, None))
    assert answer["content"] == "02"
    assert decode([b"\x02"], tio.RawFeature("bool", [1])) is None


@pytest.mark.parametrize(
    ("dtype", "fixed"),
    [("uint32", None), ("uint64", None), ("float16", 4), ("complex64", 8), ("bool", 2)],
)
def test_dtypes_that_tensorflow_does_not_decode(
    tf_oracle: TfOracle, dtype: Any, fixed: int | None
) -> None:
    content = b"\1\0\0\0\0\0\0\0"
    assert "error" in tf_oracle.ask(**raw_question([content], dtype, True, fixed))
    shape = None if fixed else [8 // getattr(torch, dtype).itemsize]
    found = decode([content], tio.RawFeature(dtype, shape, fixed_length=fixed))
    assert found is not None
    assert found["content"] == content[:fixed].hex()


# ---- parse_tensor ----


def tensor_question(serialized: bytes, dtype: str) -> dict[str, Any]:
    return {"op": "parse_tensor", "serialized": serialized.hex(), "dtype": dtype}


def read_tensor(serialized: bytes, dtype: Any) -> Result:
    """Parse a TensorProto with this library."""
    schema = {"x": tio.SerializedTensorFeature(dtype)}
    try:
        batch = tio.parse_examples(examples_of([serialized]), schema)
    except DecodeError:
        return None
    [array] = batch["x"]
    return array_to_json(array)


@pytest.mark.parametrize("seed", ROUNDS)
def test_parse_tensor(tf_oracle: TfOracle, seed: int) -> None:
    rng = random.Random(seed)
    tensors = [draw_tensor(rng) for _ in range(CASES)]
    wanted = [rng.choice([*TYPES]) if rng.random() < 0.05 else t.dtype for t in tensors]
    serialized = [tensor.encode(rng) for tensor in tensors]
    questions = [tensor_question(s, dtype) for s, dtype in zip(serialized, wanted, strict=True)]
    wrong = []
    accepted = 0
    for tensor, question, answer in zip(
        tensors, questions, tf_oracle.ask_all(questions), strict=True
    ):
        found = read_tensor(bytes.fromhex(question["serialized"]), question["dtype"])
        accepted += found is not None
        reasons = reasons_in(bytes.fromhex(question["serialized"]), tensor.dtype)
        wrong.append(disagreement(question, found, result_in(answer), reasons))
    assert_none(wrong)
    assert accepted > CASES // 2


@pytest.mark.parametrize("seed", ROUNDS)
def test_damaged_tensors(tf_oracle: TfOracle, seed: int) -> None:
    rng = random.Random(1000 + seed)
    questions = []
    for _ in range(CASES):
        tensor = draw_tensor(rng)
        questions.append(tensor_question(damage(rng, tensor.encode(rng)), tensor.dtype))
    wrong = []
    refused = 0
    for question, answer in zip(questions, tf_oracle.ask_all(questions), strict=True):
        serialized, theirs = bytes.fromhex(question["serialized"]), result_in(answer)
        refused += theirs is None
        reasons = reasons_in(serialized, question["dtype"]) if theirs is not None else set()
        found = read_tensor(serialized, question["dtype"])
        wrong.append(disagreement(question, found, theirs, reasons))
    assert_none(wrong)
    assert CASES // 4 < refused < CASES


# name: a tensor that only this library rejects, the reason, TensorFlow's answer.
TAKEN = {
    "too many values": (TensorProto("int32", [1], b"", 7, [1, 2]), TOO_MANY, "01000000"),
    "a value for an empty tensor": (TensorProto("int32", [0], b"", 7, [1]), TOO_MANY, ""),
    "content of an empty tensor": (TensorProto("int32", [0], b"\0", 7, []), TOO_MANY, ""),
    "values of another dtype": (TensorProto("int32", [1], b"", 10, [5]), OTHER_LIST, "00000000"),
    "an int8 of 300": (TensorProto("int8", [1], b"", 7, [300]), OUT_OF_RANGE, "2c"),
    "half a complex number": (
        TensorProto("complex64", [1], b"", 9, [1.0, 0.0, 1.0]),
        HALF_COMPLEX,
        "0000803f00000000",
    ),
}


def test_tensors_that_tensorflow_accepts_and_we_reject(tf_oracle: TfOracle) -> None:
    for name, (tensor, reason, content) in TAKEN.items():
        serialized = tensor.encode(random.Random(0))
        answer = tf_oracle.ask(**tensor_question(serialized, tensor.dtype))
        assert answer["content"] == content, name
        assert reasons_in(serialized, tensor.dtype) == {reason}
        assert read_tensor(serialized, tensor.dtype) is None, name
