"""Results of TensorFlow for raw bytes and serialized tensors, stored in files.

See ``tests/data/README.md``. These tests need no TensorFlow.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import torchrec_io as tio
from tests.support.forms import array_to_json
from tests.support.wire import bytes_feature, entry, example
from torchrec_io.errors import DecodeError

FILE = Path(__file__).parents[1] / "data" / "golden" / "arrays.json"
CASES = json.loads(FILE.read_text("utf-8"))["arrays"]
RAW = [case for case in CASES if case["question"]["op"] == "decode_raw"]
TENSORS = [case for case in CASES if case["question"]["op"] == "parse_tensor"]


def parse(values: list[str], feature: Any) -> Any:
    """The column that some values of bytes become."""
    records = [example(entry("x", bytes_feature(bytes.fromhex(value)))) for value in values]
    return tio.parse_examples(records, {"x": feature})["x"]


def dtypes_of(cases: list[dict[str, Any]]) -> list[str]:
    return sorted({case["question"]["dtype"] for case in cases})


@pytest.mark.parametrize("dtype", dtypes_of(RAW))
def test_decode_raw(dtype: str) -> None:
    for case in RAW:
        if case["question"]["dtype"] == dtype:
            check_raw(case)


def check_raw(case: dict[str, Any]) -> None:
    question, expected = case["question"], case["result"]
    fixed = question["fixed_length"]
    shape = None
    if fixed is None:
        # Where TensorFlow refuses, any shape has to be.
        shape = expected["shape"][1:] if "shape" in expected else [1]
    feature = tio.RawFeature(
        question["dtype"], shape, little_endian=question["little_endian"], fixed_length=fixed
    )
    if "content" in expected:
        assert array_to_json(parse(question["values"], feature)) == expected, question
    else:
        with pytest.raises(DecodeError):
            parse(question["values"], feature)


@pytest.mark.parametrize("dtype", dtypes_of(TENSORS))
def test_parse_tensor(dtype: str) -> None:
    for case in TENSORS:
        if case["question"]["dtype"] == dtype:
            check_tensor(case)


def check_tensor(case: dict[str, Any]) -> None:
    question, expected = case["question"], case["result"]
    feature = tio.SerializedTensorFeature(question["dtype"])
    if "error_class" in expected:
        with pytest.raises(DecodeError):
            parse([question["serialized"]], feature)
        return
    [tensor] = parse([question["serialized"]], feature)
    assert array_to_json(tensor) == expected, question
    shaped = tio.SerializedTensorFeature(question["dtype"], expected["shape"])
    twice = parse([question["serialized"]] * 2, shaped)
    assert list(twice.shape) == [2, *expected["shape"]]
    assert array_to_json(twice[1]) == expected


def test_arrays_are_all_there() -> None:
    dtypes = Counter(case["question"]["dtype"] for case in TENSORS)
    assert len(dtypes) == 16
    assert min(dtypes.values()) >= 8
    assert len({case["question"]["dtype"] for case in RAW}) == 13
    sizes = {math.prod(case["result"]["shape"]) for case in CASES if "shape" in case["result"]}
    assert {0, 1, 4} <= sizes
    refused = ["error_class" in case["result"] for case in CASES]
    assert 0 < refused.count(True) < len(refused) // 4
