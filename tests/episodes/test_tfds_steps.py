"""Steps of episodes in TFDS directories, compared with whole episodes."""

from __future__ import annotations

from typing import Any

import pytest

import torchrec_io as tio
from tests.support.plain import plain
from tests.support.tfds_golden import GOLDEN, compare, golden_split
from torchrec_io._records.record_reader import RecordReader

EPISODES = GOLDEN / "episodes"


def read(name: str, **options: Any) -> tio.TFRecordDataset:
    return tio.TFRecordDataset.from_tfds(GOLDEN / name, "train", **options)


def at(value: Any, begin: int, window: int | None) -> Any:
    """Return a step, or a window of steps, of the values of an episode."""
    if isinstance(value, dict):
        return {name: at(inner, begin, window) for name, inner in value.items()}
    return plain(value[begin] if window is None else value[begin : begin + window])


def count_of(value: Any) -> int:
    """Return the number of steps of an episode."""
    while isinstance(value, dict):
        value = next(iter(value.values()))
    return len(value)


@pytest.mark.parametrize(
    ("directory", "group"),
    [
        ("episodes", "steps"),
        ("datasets", "dicts"),
        ("datasets", "encoded"),
        ("datasets", "images"),
        ("datasets", "inner/deep"),
        ("datasets", "pairs"),
        ("datasets", "words"),
    ],
)
def test_every_kind(directory: str, group: str) -> None:
    for window in (None, 1, 2):
        check_steps(directory, group, window)


def check_steps(directory: str, group: str, window: int | None) -> None:
    episodes = read(directory)
    expected = []
    for episode in episodes:
        steps: Any = episode
        for name in group.split("/"):
            steps = steps[name]
        last = count_of(steps) - (window or 1)
        expected += [at(steps, begin, window) for begin in range(last + 1)]
    assert expected
    found = []
    for sample in episodes.steps(range(window) if window else None, group=group):
        step: Any = sample
        for name in group.split("/"):
            step = step[name]
        found.append(plain(step))
    assert found == expected


def test_steps_match_tfds() -> None:
    golden = golden_split("episodes/1.0.0")
    steps = [step for record in golden.records for step in record["steps"][1]]
    dataset = read("episodes", steps="each")
    assert dataset.num_records == len(steps) == 9
    for number, (sample, step) in enumerate(zip(dataset, steps, strict=True)):
        compare(sample["steps"], step, f"[{number}]")
    episodes = [number for number, record in enumerate(golden.records) for _ in record["steps"][1]]
    [batch] = dataset.replace(batch_size=9)
    assert batch["episode_id"].tolist() == episodes
    assert batch["metadata"]["path"].tolist() == [f"/{number}".encode() for number in episodes]
    assert batch["steps"]["observation"]["image"].shape == (9, 4, 4, 3)


def test_windows_of_a_part() -> None:
    whole = read("episodes", steps=range(2))
    assert [sample["steps"]["reward"].tolist() for sample in whole][:2] == [[0, 0.25], [0.25, 0.5]]
    part = tio.TFRecordDataset.from_tfds(EPISODES, "train[:1]", steps=range(2))
    assert [int(sample["episode_id"]) for sample in part] == [0, 0]
    assert next(iter(part.replace(batch_size=2)))["steps"]["action"].shape == (2, 2, 2)


def test_some_features() -> None:
    features = ["steps/reward", "episode_id"]
    [sample, *_] = read("episodes", steps="each", features=features)
    assert plain(sample) == {
        "episode_id": ("torch.int64", (), 0),
        "steps": {"reward": ("torch.float32", (), 0)},
    }


def test_steps_are_counted_once_however_the_shards_are_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = read("episodes", steps="each")
    schema = tio.Schema.from_tfds(EPISODES)
    fetch = RecordReader.fetch

    def fetch_one(self: RecordReader, plan: Any) -> Any:
        assert len(plan.numbers) == 1  # the first one, which shows whether a shard is right
        return fetch(self, plan)

    monkeypatch.setattr(RecordReader, "fetch", fetch_one)
    again = tio.TFRecordDataset(whole.paths, schema).steps()
    assert again.num_records == whole.num_records
    assert read("episodes", steps=range(2)).num_records > 0


class TestRefusals:
    @pytest.mark.parametrize("steps", ["ragged", "each"])
    def test_outside_without_offsets(self, steps: Any) -> None:
        with pytest.raises(ValueError, match="outside needs steps with offsets"):
            read("episodes", steps=steps, outside="repeat")

    @pytest.mark.parametrize("steps", ["all", 0, 1.5, True, None])
    def test_invalid_steps(self, steps: Any) -> None:
        match = "steps must be 'ragged', 'each' or offsets such as "
        with pytest.raises(ValueError, match=match):
            read("episodes", steps=steps)

    def test_several_datasets(self) -> None:
        with pytest.raises(
            ValueError, match=r"have several nested datasets, \['dic.*then steps\(name\)"
        ):
            read("datasets", steps="each")
        features = ["words", "inner"]
        with pytest.raises(ValueError, match=r"several nested datasets, \['inner/deep', 'words'\]"):
            read("datasets", steps="each", features=features)
        [sample, *_] = read("datasets", steps="each", features=["inner"])
        assert list(sample) == ["inner"]

    def test_missing_dataset(self) -> None:
        with pytest.raises(
            ValueError, match=r"'sequences' have no nested dataset: use steps='ragged'"
        ):
            read("sequences", steps=range(2))
        with pytest.raises(
            ValueError, match=r"have the nested datasets \['steps'\], but features leaves out"
        ):
            read("episodes", steps="each", features=["episode_id"])

    def test_batches_by_length(self) -> None:
        with pytest.raises(ValueError, match="a dataset of steps has no batches by length"):
            read("episodes", steps="each", batch_tokens=5, length_key="steps/reward")
