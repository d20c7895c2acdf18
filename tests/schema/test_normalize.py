"""The value ``Normalize``: its formula, its inverse, its text forms, and invalid arguments."""

from __future__ import annotations

import dataclasses
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.support.spec_strategies import normalizes

NORMALIZE: Any = tio.Normalize([1.0, 2.0, 5.0], [2.0, 0.0, 4.0], [True, True, False], clip=1.5)
VALUES = [[2.0, 7.0, 9.0], [-9.0, 2.0, 1.0]]
NORMALIZED = [[0.5, 0.0, 9.0], [-1.5, 0.0, 1.0]]
DENORMALIZED = [[2.0, 2.0, 9.0], [-2.0, 2.0, 1.0]]  # without what was clipped


@pytest.mark.parametrize(
    ("given_as", "result"),
    [
        (lambda values: values, np.float64),
        (lambda values: np.array(values, np.float32), np.float32),
        (lambda values: np.array(values, np.float16), np.float32),
        (lambda values: np.array(values, np.int64), np.float32),
        (torch.tensor, torch.float32),
        (lambda values: torch.tensor(values, dtype=torch.float64), torch.float64),
        (lambda values: torch.tensor(values, dtype=torch.bfloat16), torch.float32),
        (lambda values: torch.tensor(values, dtype=torch.int32), torch.float32),
    ],
)
def test_arrays_and_tensors(given_as: Any, result: Any) -> None:
    normalized = NORMALIZE(given_as(VALUES))
    assert (normalized.tolist(), normalized.dtype) == (NORMALIZED, result)
    if "int" in str(getattr(given_as(VALUES), "dtype", "")):
        return
    restored = NORMALIZE.denormalize(given_as(NORMALIZED))
    assert (restored.tolist(), restored.dtype) == (DENORMALIZED, result)


def test_any_leading_shape() -> None:
    chunk = torch.tensor(VALUES).expand(4, 5, 2, 3)
    assert NORMALIZE(chunk).tolist() == torch.tensor(NORMALIZED).expand(4, 5, 2, 3).tolist()
    assert NORMALIZE(VALUES[0]).tolist() == NORMALIZED[0]
    assert tio.Normalize(1, 2)(np.float64(5.0)) == 2.0


@given(normalizes((3,)), st.lists(st.floats(-9, 9, width=32), min_size=3, max_size=3))
def test_the_inverse(normalize: tio.Normalize, values: list[float]) -> None:
    unclipped: Any = dataclasses.replace(normalize, clip=None)
    restored = unclipped.denormalize(unclipped(np.array(values)))
    for number, value in enumerate(values):
        is_constant = unclipped.scale[number] == 0 and unclipped.mask != (False,) * 3
        if is_constant and (unclipped.mask is None or unclipped.mask[number]):
            value = unclipped.offset[number]  # noqa: PLW2901
        assert restored[number] == pytest.approx(value, rel=1e-6, abs=1e-6)


def test_values_that_are_not_finite() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = tio.Normalize([0.0, 0.0, 0.0], [1e-45, 1.0, 0.0])(
            np.array([1e30, np.inf, np.nan], np.float32)
        )
    assert str(found.tolist()) == "[inf, inf, nan]"


def test_equal_hashable_and_picklable() -> None:
    other = tio.Normalize(
        np.array([1, 2, 5]), torch.tensor([2.0, 0.0, 4.0]), np.array([1, 1, 0], bool), 1.5
    )
    NORMALIZE(VALUES)  # what a call keeps does not count
    assert other == NORMALIZE
    assert hash(other) == hash(NORMALIZE)
    assert pickle.loads(pickle.dumps(NORMALIZE)) == NORMALIZE
    assert dataclasses.replace(NORMALIZE, clip=None) != NORMALIZE
    assert repr(NORMALIZE) == (
        "Normalize((1.0, 2.0, 5.0), (2.0, 0.0, 4.0), mask=(True, True, False), clip=1.5)"
    )
    assert NORMALIZE.shape == (3,)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a", 1), "offset must be finite numbers, got 'a'"),
        (([1, [2]], 1), "offset must be finite numbers"),
        ((float("nan"), 1), "offset must be finite numbers, got nan"),
        ((1, float("inf")), "scale must be finite numbers, got inf"),
        (([1, 2], 1), r"scale must have the shape \[2\], got \[\]"),
        ((1, 1, 1), "mask must be bools, got 1"),
        ((1, 1, [True]), r"mask must have the shape \[\], got \[1\]"),
        ((1, 1, None, 0), "clip must be positive, got 0.0"),
        ((1, 1, None, "x"), "clip must be finite numbers, got 'x'"),
    ],
)
def test_invalid_arguments(arguments: Any, message: str) -> None:
    with pytest.raises(tio.SchemaError, match=message):
        tio.Normalize(*arguments)


def ragged(*lengths: int, **options: Any) -> tio.RaggedFeature:
    partitions = [tio.RaggedFeature.UniformRowLength(length) for length in lengths]
    return tio.RaggedFeature("float32", partitions=partitions, **options)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda n: tio.FixedLenFeature([3], "int64", normalize=n), "dtype float32 or float64"),
        (lambda n: tio.FixedLenFeature([4], "float32", normalize=n), r"values, \[4\].*got \[3\]"),
        (lambda n: tio.FixedLenFeature([3, 1], "float32", normalize=n), r"got \[3\]"),
        (lambda n: tio.VarLenFeature("float32", normalize=n), r"values, \[\].*got \[3\]"),
        (lambda n: ragged(3, 2, normalize=n), r"values, \[3, 2\].*got \[3\]"),
        (lambda n: ragged(3, normalize=n.offset), "must be a Normalize.*1.0, 2.0, 5.0"),
    ],
)
def test_specs_that_it_does_not_fit(make: Any, message: str) -> None:
    with pytest.raises(tio.SchemaError, match=message):
        make(NORMALIZE)


def test_normalized_schemas() -> None:
    schema = tio.Schema(
        {
            "steps": {"action": ragged(3), "image": tio.ImageFeature()},
            "state": tio.FixedLenFeature([2, 3], "float64", [0.0] * 6, valid_range=(0, None)),
        }
    )
    found = schema.normalized({"steps/action": NORMALIZE, "state": NORMALIZE})
    expected = {
        "steps": {"action": ragged(3, normalize=NORMALIZE), "image": tio.ImageFeature()},
        "state": tio.FixedLenFeature(
            [2, 3], "float64", [0.0] * 6, valid_range=(0, None), normalize=NORMALIZE
        ),
    }
    assert found == tio.Schema(expected)
    assert tio.Schema.from_json(found.to_json()) == found
    names: dict[str, Any] = {}
    exec(found.to_python(), names)  # noqa: S102
    assert names["schema"] == found
    assert found.normalized(dict.fromkeys(["state", "steps/action"])) == schema
    assert found["state"].as_stored("state") == schema["state"]
    for name, message in [
        ("steps/acton", "did you mean 'steps/action'"),
        ("steps", "The schema has: 'steps/action'"),
        ("steps/image", "an ImageFeature cannot be normalized.*steps/image"),
    ]:
        with pytest.raises(tio.SchemaError, match=message):
            schema.normalized({name: NORMALIZE})
    with pytest.raises(tio.SchemaError, match=r"got \[2\].*feature 'state'"):
        schema.normalized({"state": tio.Normalize([0, 0], [1, 1])})
