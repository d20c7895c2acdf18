"""Tests of splits, against the records that TFDS reads."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

import torchrec_io as tio
from tests.conftest import TESTS
from torchrec_io._storage.location import Location
from torchrec_io.tfds.shards import Shards, find_slices
from torchrec_io.tfds.splits import Split, SplitRange

RECORDED = json.loads((TESTS / "data" / "tfds_splits.json").read_text())
LENGTHS: dict[str, dict[str, list[int]]] = RECORDED["lengths"]
CASES: list[list[Any]] = [case for case in RECORDED["cases"] if isinstance(case[1], str)]
EVEN_CASES: list[list[Any]] = [case for case in RECORDED["cases"] if isinstance(case[1], list)]


def answer(dataset: str, split: str | Split) -> list[list[Any]] | None:
    """What TFDS was asked: the slices of shards, or None for a refusal."""
    lengths = LENGTHS[dataset]
    shards = {name: Shards([Location("")] * len(of), of, 0) for name, of in lengths.items()}
    try:
        ranges = Split.of(split).ranges(lengths)
    except ValueError:
        return None
    slices = [part for each in ranges for part in find_slices(each, shards)]
    return [list(part) for part in slices] or None


def test_all_cases_are_covered() -> None:
    assert len(CASES) > 300
    assert 50 < sum(case[2] is None for case in CASES) < 250
    assert len(EVEN_CASES) > 40


def test_splits_are_those_of_tfds() -> None:
    wrong = [
        (dataset, split, expected, answer(dataset, split))
        for dataset, split, expected in CASES
        if answer(dataset, split) != expected
    ]
    assert wrong == []


def test_even_splits_are_those_of_tfds() -> None:
    for dataset, (split, n, drop), expected in EVEN_CASES:
        parts = tio.tfds.even_splits(split, n, drop_remainder=drop)
        assert [answer(dataset, part) for part in parts] == expected, (dataset, split, n, drop)


# ---- as values ----


def test_sums_and_names() -> None:
    total = tio.tfds.Split("train[:1]") + "test"
    assert str(total) == "train[:1]+test"
    assert total == "train[:1]" + tio.tfds.Split("test") == tio.tfds.Split("train[:1] + test")
    assert total.names == ("train", "test")
    assert tio.tfds.even_splits(total, 2)[1].names == ("train", "test")
    assert pickle.loads(pickle.dumps(total)) == total
    assert len({total, tio.tfds.Split("train[:1]+test"), tio.tfds.Split("test")}) == 2
    lengths = {"train": [5], "test": [4]}
    half = tio.tfds.even_splits(total, 2)[1]
    assert (half + "train[4:]").ranges(lengths) == [
        SplitRange("train", 1, 1),
        SplitRange("test", 2, 4),
        SplitRange("train", 4, 5),
    ]
    assert "even_splits('train[:1]+test', 2)[1]" in repr(half)
    with pytest.raises(TypeError):
        total + 3  # type: ignore[operator]
    with pytest.raises(TypeError):
        3 + total  # type: ignore[operator]


def refusal(split: Any) -> str:
    with pytest.raises(ValueError, match="split") as caught:
        Split.of(split).ranges({"train": [4, 6], "test": [3]})
    return str(caught.value)


def test_error_messages() -> None:
    assert refusal("nothing") == (
        "split 'nothing': 'nothing' does not exist; the splits are 'train' (10 records), "
        "'test' (3 records)"
    )
    assert "it exceeds the 10 records of the split; the splits are 'train' (10" in refusal(
        "train[:11]"
    )
    assert "must be from -100% to 100%" in refusal("train[:101%]")
    assert "its end, record 2, is before its start, record 8" in refusal("train[80%:20%]")
    assert "'all' cannot be sliced" in refusal("all[:1]")
    assert "one record; write a slice such as '[10:11]'" in refusal("train[3]")
    assert "valid splits are, for example, 'train', 'train[:80%]'" in refusal("train[x]")
    assert "must be a text such as 'train[:80%]' or a tfds.Split, got 3" in refusal(3)
    assert "is not a split" in refusal("train[" + "1" * 1000 + ":]\n]")
    assert len(refusal("train[" + "9" * 5000 + ":]")) < 500


@pytest.mark.parametrize("n", [0, -1, True, 1.5, "2"])
def test_invalid_number_of_parts(n: Any) -> None:
    with pytest.raises(ValueError, match="n must be a positive integer, got"):
        tio.tfds.even_splits("train", n)
