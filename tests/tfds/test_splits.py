"""Tests of splits, against the records that TFDS reads."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


# ---- against a model ----


def numbers_of(split: Split, shards: list[int]) -> list[int]:
    [stretch] = split.ranges({"train": shards})
    return list(range(stretch.begin, stretch.end))


@given(
    size=st.integers(0, 50),
    begin=st.integers(-50, 50) | st.none(),
    end=st.integers(-50, 50) | st.none(),
)
def test_record_numbers_are_those_of_a_python_slice(
    size: int, begin: int | None, end: int | None
) -> None:
    if begin is None and end is None:
        return
    text = f"train[{'' if begin is None else begin}:{'' if end is None else end}]"
    expected = list(range(size))[begin:end]
    try:
        found = numbers_of(Split(text), [size])
    except ValueError:
        # What lies outside is refused, not cut; and so is a slice that runs backwards.
        assert max(abs(begin or 0), abs(end or 0)) > size or not expected
    else:
        assert found == expected


@given(
    shards=st.lists(st.integers(0, 6), min_size=1, max_size=6),
    begin=st.integers(-6, 6),
    end=st.integers(1, 6) | st.integers(-6, -1),
)
def test_shards_are_those_of_a_python_slice(shards: list[int], begin: int, end: int) -> None:
    records = [(shard, place) for shard, of in enumerate(shards) for place in range(of)]
    wanted = range(len(shards))[begin:end]
    try:
        found = numbers_of(Split(f"train[{begin}shard:{end}shard]"), shards)
    except ValueError:
        assert not [record for record in records if record[0] in wanted]
    else:
        # TFDS counts an end from behind twice, if that leaves something to count.
        if end > 0 or -end <= len(shards):
            assert [records[number] for number in found] == [
                record for record in records if record[0] in wanted
            ]


@given(
    sizes=st.tuples(st.integers(0, 40), st.integers(0, 40)),
    n=st.integers(1, 9),
    drop=st.booleans(),
)
def test_even_parts_are_all_of_it(sizes: tuple[int, int], n: int, drop: bool) -> None:
    lengths = {"a": [sizes[0]], "b": [sizes[1]]}
    parts = [part.ranges(lengths) for part in tio.tfds.even_splits("all", n, drop_remainder=drop)]
    for number, name in enumerate(lengths):
        of_split = [part[number] for part in parts]
        counts = [part.end - part.begin for part in of_split]
        assert max(counts) - min(counts) <= (0 if drop else 1)
        assert counts == sorted(counts, reverse=True)
        taken = [record for part in of_split for record in range(part.begin, part.end)]
        assert taken == list(range(sizes[number] - (sizes[number] % n if drop else 0)))
        assert {part.split for part in of_split} == {name}


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
