"""Windows of steps and statistics, compared with those of TFDS and tf.data."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import torch

import torchrec_io as tio
from tests.conftest import TESTS
from tests.data.robot_cases import CASES, LENGTHS, STATISTICS, Case

ROBOTS = TESTS / "data" / "robots"


@functools.cache
def expected() -> dict[str, Any]:
    with np.load(ROBOTS / "expected.npz") as arrays:
        return dict(arrays)


def read(case: Case, **options: Any) -> tio.Batch:
    episodes = tio.TFRecordDataset.from_tfds(ROBOTS / case.dataset, "train", batch_size=10_000)
    steps = episodes.steps(case.offsets, outside=case.outside, stride=case.stride, **options)
    [batch] = steps
    assert steps.num_records == batch.num_records
    return batch


def column(batch: Any, name: str) -> Any:
    for key in f"steps/{name}".split("/"):
        batch = batch[key]
    return batch


@pytest.mark.parametrize("name", CASES)
def test_windows_are_those_of_tf_data(name: str) -> None:
    case = CASES[name]
    batch = read(case)
    for feature in case.features:
        check(column(batch, feature), expected()[f"{name}: {feature}"], feature)
        valid = expected().get(f"{name}: valid {feature}")
        if case.outside != "drop" and valid is not None:
            found = batch.valid[f"steps/{feature}"]
            assert found.dtype == torch.bool
            assert np.array_equal(found.numpy(), valid), feature


def check(found: Any, theirs: Any, feature: str) -> None:
    if theirs.dtype.kind == "S":
        assert found.tolist() == theirs.tolist(), feature
        return
    ours = found.numpy()
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), feature
    assert np.array_equal(ours, theirs), feature


@pytest.mark.parametrize("name", ["repeat", "zeros", "drop"])
def test_samples_and_shuffled_batches_are_rows_of_the_windows(name: str) -> None:
    case = CASES[name]
    whole = read(case)
    steps = tio.TFRecordDataset.from_tfds(ROBOTS / case.dataset, "train").steps(
        case.offsets, outside=case.outside
    )
    for number, sample in enumerate(steps):
        for feature in case.features:
            value, row = column(sample, feature), column(whole, feature)[number]
            assert same(value, row), (number, feature)
    assert number == steps.num_records - 1
    shuffled = steps.replace(batch_size=5, shuffle=True, seed=3)
    rows = [row for batch in shuffled for row in column(batch, "action")]
    assert len(rows) == steps.num_records
    theirs = [row.tolist() for row in column(whole, "action")]
    assert sorted(row.tolist() for row in rows) == sorted(theirs)


def same(value: Any, row: Any) -> bool:
    return torch.equal(value, row) if isinstance(row, torch.Tensor) else value == row


def test_steps_of_from_tfds() -> None:
    steps = tio.TFRecordDataset.from_tfds(
        ROBOTS / "arm", "train", features=["steps/action"], steps={"action": range(8)}
    )
    theirs = [max(length - 7, 0) for length in LENGTHS["arm"]]
    assert steps.num_records == sum(theirs)
    assert next(iter(steps))["steps"]["action"].shape == (8, 4)


@pytest.mark.parametrize("name", STATISTICS)
def test_statistics_are_those_of_numpy(name: str) -> None:
    episodes = tio.TFRecordDataset.from_tfds(ROBOTS / name, "train")
    stats = tio.statistics(episodes.steps(), STATISTICS[name])
    for feature in STATISTICS[name]:
        found = stats[feature]
        assert found.count == sum(LENGTHS[name])
        ours = [found.mean, found.std, found.min, found.max, found.q01, found.q99]
        theirs = expected()[f"statistics: {name}: {feature}"]
        for values, row in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(np.asarray(values), row, rtol=1e-6, atol=1e-7)
