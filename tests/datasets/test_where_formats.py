"""Predicates over datasets of each format, which parse only the features that are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.support.episodes import STRIDE, steps_of, write_episodes
from tests.support.examples import sequence_example_of
from tests.support.tfrecord import write_tfrecord

NUMBER = tio.FixedLenFeature([], "int64")


def columns_of(dataset: Any, features: list[str] | None) -> list[str]:
    """Return the names of the columns that a predicate gets."""
    found: set[str] = set()

    def keep(batch: Any) -> Any:
        found.update(batch)
        return [True] * batch.num_records

    dataset.where(keep, features=features)
    return sorted(found)


def test_sequence_examples(tmp_path: Path) -> None:
    records = [
        sequence_example_of({"id": [number]}, {"x": [[number]] * number}) for number in range(6)
    ]
    path = write_tfrecord(tmp_path / "data", records)
    schema = tio.Schema(context={"id": NUMBER}, sequence={"x": tio.VarLenFeature("int64")})
    dataset = tio.TFRecordDataset(path, schema)
    by_length = dataset.where(lambda batch: batch["x"].lengths > 3, features=["x"])
    assert [int(sample["id"]) for sample in by_length] == [4, 5]
    by_id = dataset.where(lambda batch: batch["id"] < 2, features=["id"])
    assert [int(sample["id"]) for sample in by_id] == [0, 1]
    assert columns_of(dataset, ["id"]) == ["id"]
    assert columns_of(dataset, ["x"]) == ["x"]
    assert columns_of(dataset, None) == ["id", "x"]


@pytest.mark.parametrize("select", [None, [0, 2, 3]])
def test_lines_of_csv(tmp_path: Path, select: list[int] | None) -> None:
    between = "" if select is None else "x,"
    lines = [f"{number},{between}{number * 10},name {number}\n" for number in range(6)]
    (tmp_path / "data").write_text("".join(lines))
    columns = {"a": NUMBER, "b": NUMBER, "c": tio.FixedLenFeature([], "string")}
    schema = tio.csv.Schema(columns, select_cols=select)
    dataset = tio.TextLineDataset(tmp_path / "data", schema, skip_header_lines=1)
    part = dataset.where(lambda batch: batch["b"] > 30, features=["b"])
    assert [int(sample["a"]) for sample in part] == [4, 5]
    assert [sample["c"] for sample in part] == [b"name 4", b"name 5"]
    assert columns_of(dataset, ["c"]) == ["c"]
    assert columns_of(dataset, ["c", "a"]) == ["a", "c"]
    with pytest.raises(ValueError, match="features must be names of the schema, got 'd'"):
        columns_of(dataset, ["d"])
    assert list(
        tio.TextLineDataset(tmp_path / "data").where(lambda lines: [b"3" in x for x in lines])
    )


FILES = [[3, 0, 2], [4, 1]]
STEPS = [
    STRIDE * number + step for number, count in enumerate([3, 0, 2, 4, 1]) for step in range(count)
]


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return write_episodes(tmp_path_factory.mktemp("steps"), FILES)


def step_ids(dataset: Any) -> list[int]:
    return [number for batch in dataset for number in batch["steps/id"].flatten().tolist()]


# ---- steps ----


@given(
    st.sets(st.sampled_from(STEPS)),
    st.sampled_from([False, True, tio.Shuffle(block=2, window=4)]),
)
def test_single_steps(paths: list[str], kept: set[int], shuffle: Any) -> None:
    wanted = torch.tensor(sorted(kept), dtype=torch.int64)

    def keep(batch: Any) -> Any:
        return torch.isin(batch["steps/id"], wanted)

    part = steps_of(paths, shuffle=shuffle).where(keep, features=["steps/id"])
    assert sorted(step_ids(part)) == sorted(kept)
    assert part.num_records == len(kept)
    assert step_ids(part.replace(shuffle=False)) == sorted(kept)
    # Parts keep the steps of an episode together.
    parts = part.split(0.5, 0.5)
    found = [step_ids(each) for each in parts]
    assert sorted(found[0] + found[1]) == sorted(kept)
    episodes = [{number // STRIDE for number in ids} for ids in found]
    assert not episodes[0] & episodes[1]
    by_group = part.split(0.5, 0.5, group_by=lambda sample: int(sample["episode"]) % 2)
    assert sorted(step_ids(by_group[0]) + step_ids(by_group[1])) == sorted(kept)
    numbers = [STEPS.index(number) for number in kept]
    assert sorted(step_ids(steps_of(paths).select(numbers))) == sorted(kept)


def test_windows_and_episodes(paths: list[str]) -> None:
    part = steps_of(paths, 2).where(lambda batch: batch["steps/id"][:, 0] % 2 == 0)
    assert step_ids(part) == [0, 1, 2000, 2001, 3000, 3001, 3002, 3003]
    assert step_ids(steps_of(paths, 2).take(2)) == [0, 1, 1, 2]
    part = steps_of(paths).where(lambda batch: batch["episode"] == 2, features=["episode"])
    assert step_ids(part) == [2000, 2001]


def test_episodes_are_chosen_first(paths: list[str]) -> None:
    schema = {"episode": NUMBER, "steps/id": tio.VarLenFeature("int64")}
    whole = tio.TFRecordDataset(paths, schema, batch_size=3)
    chosen = whole.where(lambda batch: batch["episode"] > 2).steps()
    assert step_ids(chosen) == [3000, 3001, 3002, 3003, 4000]
    assert step_ids(whole.take(3).steps()) == [0, 1, 2, 2000, 2001]
