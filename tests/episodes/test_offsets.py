"""Offsets of steps match a model that cuts them out of whole episodes."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.support.examples import example_of, sequence_example_of
from tests.support.images import encoded, smooth
from tests.support.tfrecord import write_tfrecord

COUNTS = (1, 7, 0, 3, 12, 2)
UNIFORM = tio.RaggedFeature.UniformRowLength
ID_STRIDE = 100
WIDTH = 80  # floats of a long vector, which is read step by step

SCHEMA: dict[str, Any] = {
    "task": tio.FixedLenFeature([], "string"),
    "steps": {
        "observation": {
            "image": tio.SequenceFeature(tio.ImageFeature(size=[4, 5])),
            "wrist": tio.SequenceFeature(tio.ImageFeature()),
            "depth": tio.SequenceFeature(tio.RawFeature("uint16", shape=[2])),
            "embedding": tio.RaggedFeature("float32", partitions=[UNIFORM(WIDTH)]),
            "state": tio.RaggedFeature("float32", partitions=[UNIFORM(2)]),
        },
        "action": tio.RaggedFeature("float32", partitions=[UNIFORM(3)]),
        "text": tio.VarLenFeature("string"),
        "id": tio.VarLenFeature("int64"),  # of the episode and the step, without offsets
    },
}
OBSERVATIONS = [f"observation/{name}" for name in SCHEMA["steps"]["observation"]]
NAMES = [*OBSERVATIONS, "action", "text", "id"]


def pixels(height: int, width: int, seed: int) -> Any:
    return smooth(height, width, seed).transpose(2, 0, 1).tolist()


def value_of(name: str, number: int, step: int) -> Any:
    """Return the value of a step."""
    key = 100 * number + step + 1
    height = 3 + number % 2  # one size in each episode
    values: dict[str, Callable[[], Any]] = {
        "observation/image": lambda: pixels(4, 5, key),
        "observation/wrist": lambda: pixels(height, 2, 50 + key),
        "observation/depth": lambda: [key, 2 * key],
        "observation/embedding": lambda: [float(key + i) for i in range(WIDTH)],
        "observation/state": lambda: [key / 2, key / 4],
        "action": lambda: [float(key), float(-key), 0.5],
        "text": f"step {key}".encode,
        "id": lambda: ID_STRIDE * number + step,
    }
    return values[name]()


def zeros_like(value: Any) -> Any:
    if isinstance(value, list):
        return [zeros_like(each) for each in value]
    return type(value)()


def stored(name: str, number: int, step: int) -> list[Any]:
    """Return the stored values of a step."""
    value = value_of(name, number, step)
    if name in {"observation/image", "observation/wrist"}:
        return [encoded(np.array(value, np.uint8).transpose(1, 2, 0))]
    if name == "observation/depth":
        return [np.array(value, "<u2").tobytes()]
    return value if isinstance(value, list) else [value]


def example(number: int) -> bytes:
    steps = range(COUNTS[number])
    values = {
        f"steps/{name}": [each for step in steps for each in stored(name, number, step)]
        for name in NAMES
    }
    return example_of(task=[f"task {number}".encode()], **values)


@functools.cache
def written() -> Path:
    path = Path(tempfile.mkdtemp()) / "episodes.tfrecord"
    write_tfrecord(path, [example(number) for number in range(len(COUNTS))])
    return path


def episodes(**options: Any) -> tio.TFRecordDataset:
    return tio.TFRecordDataset(written(), SCHEMA, batch_size=5, **options)


def expected(
    name: str, number: int, step: int, offset: int | list[int], outside: str
) -> tuple[Any, Any]:
    """Return the value of a sample, and which steps exist."""
    if not isinstance(offset, int):
        pairs = [expected(name, number, step, each, outside) for each in offset]
        return [value for value, _ in pairs], [mask for _, mask in pairs]
    last = COUNTS[number] - 1
    at = min(max(step + offset, 0), last)
    value = value_of(name, number, at)
    is_inside = at == step + offset
    return (zeros_like(value) if outside == "zeros" and not is_inside else value), is_inside


Offset = st.integers(-4, 4) | st.lists(st.integers(-6, 20), min_size=1, max_size=4)
Names = st.sampled_from([*NAMES[:-1], "observation"])


@given(
    st.dictionaries(Names, Offset, max_size=4),
    st.sampled_from(["drop", "repeat", "zeros"]),
    st.integers(1, 3),
    st.sampled_from([False, True, tio.Shuffle(block=4, window=3)]),
)
def test_offsets_of_features(
    offsets: dict[str, Any], outside: Any, stride: int, shuffle: Any
) -> None:
    of_names = {name: offsets[name] for name in NAMES if name in offsets}
    if "observation" in offsets:
        of_names = {**dict.fromkeys(OBSERVATIONS, offsets["observation"]), **of_names}
    flat = [0]
    for offset in offsets.values():
        flat += [offset] if isinstance(offset, int) else offset
    before, after = (-min(flat), max(flat)) if outside == "drop" else (0, 0)
    wanted = [
        (number, step)
        for number, count in enumerate(COUNTS)
        for step in range(before, count - after, stride)
    ]
    found = []
    for batch in episodes(shuffle=shuffle).steps(offsets, outside=outside, stride=stride):
        masks = {f"steps/{name}" for name in of_names} if outside != "drop" else set()
        assert batch.valid.keys() == masks
        for row, sample in enumerate(batch.samples()):
            number, step = divmod(int(sample["steps"]["id"]), ID_STRIDE)
            found.append((number, step))
            assert sample["task"] == f"task {number}".encode()
            for name in NAMES:
                value, mask = expected(name, number, step, of_names.get(name, 0), outside)
                assert listed(sample, name) == value
                if name in of_names and masks:
                    assert batch.valid[f"steps/{name}"][row].tolist() == mask
    assert (sorted(found) if shuffle else found) == wanted


def listed(sample: Any, name: str) -> Any:
    value = sample["steps"]
    for key in name.split("/"):
        value = value[key]
    return value if isinstance(value, bytes) else value.tolist()


@pytest.mark.parametrize("count", [1, 500])
def test_one_offset_for_all_features(tmp_path: Path, count: int) -> None:
    write_tfrecord(tmp_path / "data", [example_of(**{"steps/x": [*range(count)]})])
    dataset = tio.TFRecordDataset(
        tmp_path / "data", {"steps/x": tio.VarLenFeature("int64")}, batch_size=1000
    )
    [batch] = dataset.steps((-1, 0, 2), outside="repeat")
    own = np.arange(count)
    clamped = np.clip(own[:, None] + [-1, 0, 2], 0, count - 1)
    assert batch["steps/x"].tolist() == clamped.tolist()
    assert batch.valid["steps/x"].dtype == torch.bool
    assert batch.valid["steps/x"].tolist() == (clamped == own[:, None] + [-1, 0, 2]).tolist()


class TestLaterSteps:
    """A goal: the same stored feature under a second name, at a later step."""

    schema: Any = {  # noqa: RUF012
        "steps": {
            "id": tio.VarLenFeature("int64"),
            "image": SCHEMA["steps"]["observation"]["image"],
            "goal": {
                "id": tio.VarLenFeature("int64", key="steps/id"),
                "image": tio.SequenceFeature(tio.ImageFeature(size=[4, 5]), key="steps/image"),
            },
        },
    }

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        path = tmp_path / "data"
        records = []
        for number, count in enumerate((1, 40)):
            ids = [ID_STRIDE * number + step for step in range(count)]
            images = [encoded(smooth(4, 5, each)) for each in ids]
            values: dict[str, Any] = {"steps/id": ids, "steps/image": images}
            records.append(example_of(**values))
        write_tfrecord(path, records)
        return path

    def goals(self, path: Path, most: int | None = None, **options: Any) -> dict[int, int]:
        dataset = tio.TFRecordDataset(path, self.schema, batch_size=7, **options)
        found = {}
        for batch in dataset.steps({"goal": tio.LaterStep(most)}):
            goals = batch["steps"]["goal"]
            for own, goal, image in zip(
                batch["steps"]["id"].tolist(), goals["id"].tolist(), goals["image"], strict=True
            ):
                assert image.tolist() == pixels(4, 5, goal)  # of one step
                found[own] = goal
        return found

    def test_goals_are_later_steps_of_the_episode(self, path: Path) -> None:
        goals = self.goals(path)
        assert goals.pop(0) == 0  # there is no later one
        assert goals.pop(ID_STRIDE + 39) == ID_STRIDE + 39
        assert all(own < goal < ID_STRIDE + 40 for own, goal in goals.items())
        assert len({goal - own for own, goal in goals.items()}) > 10
        near = self.goals(path, 2)
        assert {near[own] - own for own in goals} == {1, 2}

    def test_draws_depend_on_seed_epoch_and_sample_alone(self, path: Path) -> None:
        plain = self.goals(path)
        assert self.goals(path, shuffle=True, num_threads=3) == plain
        assert self.goals(path, seed=1) != plain
        dataset = tio.TFRecordDataset(path, self.schema, batch_size=7).steps(
            {"goal": tio.LaterStep()}
        )
        first, second = ([b["steps"]["goal"]["id"].tolist() for b in dataset] for _ in range(2))
        assert first != second


class TestKeptSteps:
    def test_function_of_single_steps(self) -> None:
        seen: list[set[str]] = []

        def is_kept(batch: tio.Batch) -> Any:
            seen.append({*batch["steps"]})
            return batch["steps"]["id"] % 3 == 0

        dataset = episodes().steps(
            {"action": range(4)}, outside="repeat", keep=is_kept, features=["steps/id"]
        )
        wanted = [ID_STRIDE * n + i for n, count in enumerate(COUNTS) for i in range(count)]
        ids = [each for batch in dataset for each in batch["steps"]["id"].tolist()]
        assert ids == [each for each in wanted if each % 3 == 0]
        assert seen[0] == {"id"}
        assert next(iter(dataset))["steps"]["action"].shape == (5, 4, 3)

    def test_result_of_a_function_is_cached(self) -> None:
        calls: list[int] = []

        def is_kept(batch: tio.Batch) -> Any:
            calls.append(1)
            return batch["steps"]["id"] > 5

        for _ in range(2):
            dataset = episodes().steps(keep=is_kept, features=["steps/id"], cache_key="kept")
            count = len(calls)
        assert count == len(calls)
        assert dataset.num_records == sum(COUNTS) - 1

    @pytest.mark.parametrize("kind", [np.array, torch.tensor])
    def test_mask_of_all_steps(self, kind: Any) -> None:
        mask = [number % 2 == 0 for number in range(sum(COUNTS))]
        dataset = episodes().steps(range(2), keep=kind(mask), stride=2)
        wanted, at = [], 0
        for number, count in enumerate(COUNTS):
            wanted += [ID_STRIDE * number + i for i in range(0, count - 1, 2) if mask[at + i]]
            at += count
        assert [each[0] for batch in dataset for each in batch["steps"]["id"].tolist()] == wanted

    def test_invalid_masks(self) -> None:
        masks: list[Any] = [[True], np.zeros(sum(COUNTS)), torch.zeros(2, 2, dtype=torch.bool)]
        for mask in masks:
            with pytest.raises(ValueError, match="one bool for each of the 25 steps, got"):
                episodes().steps(keep=mask)


class TestSequenceExamples:
    @pytest.fixture
    def dataset(self, tmp_path: Path) -> Any:
        records = []
        for number, count in enumerate(COUNTS):
            lists = {
                name: [stored(f"observation/{name}", number, i) for i in range(count)]
                for name in ("image", "state")
            }
            lists["tokens"] = [[*range(i)] for i in range(count)]
            lists["id"] = [[ID_STRIDE * number + i] for i in range(count)]
            records.append(sequence_example_of({"task": [number]}, lists))
        write_tfrecord(tmp_path / "data", records)
        schema = tio.Schema(
            context={"task": tio.FixedLenFeature([], "int64")},
            sequence={
                "image": tio.SequenceFeature(tio.ImageFeature(size=[4, 5])),
                "state": tio.FixedLenSequenceFeature([2], "float32"),
                "tokens": tio.VarLenFeature("int64"),
                "id": tio.FixedLenSequenceFeature([], "int64"),
            },
        )
        return tio.TFRecordDataset(tmp_path / "data", schema, batch_size=4, shuffle=True)

    def test_steps_of_feature_lists(self, dataset: Any) -> None:
        ids = []
        stepped = dataset.steps({"image": (-1, 0), "state": range(3)}, outside="repeat")
        for batch in stepped:
            for sample in batch.samples():
                number, step = divmod(int(sample["id"]), ID_STRIDE)
                ids.append((number, step))
                assert sample["task"] == number
                assert sample["tokens"].tolist() == [*range(step)]
                for name, offset in (("image", [-1, 0]), ("state", [0, 1, 2])):
                    value, mask = expected(f"observation/{name}", number, step, offset, "repeat")
                    assert sample[name].tolist() == value
                    assert sample["valid"][name].tolist() == mask
        assert sorted(ids) == [(n, i) for n, count in enumerate(COUNTS) for i in range(count)]


class TestRefusals:
    @pytest.mark.parametrize(
        ("offsets", "error", "match"),
        [
            (4, TypeError, "offsets must be a sequence such as range"),
            (tio.LaterStep(), TypeError, "offsets must be a sequence such as range"),
            ([], ValueError, "must have at least one integer"),
            ([0.5], ValueError, "offsets must be an integer from"),
            ("ab", TypeError, "offsets must be an integer, a sequence of integers"),
            ({"action": 1.5}, TypeError, "offsets of 'action' must be an integer, a sequence"),
            ({"action": [True]}, ValueError, "offsets of 'action' must be an integer from"),
            ({"actoin": 1}, KeyError, "did you mean 'action'"),
            ({"task": 1}, KeyError, "the steps have"),
        ],
    )
    def test_invalid_offsets(self, offsets: Any, error: Any, match: str) -> None:
        with pytest.raises(error, match=match):
            episodes().steps(offsets)

    def test_arguments_that_would_have_no_effect(self) -> None:
        for options in ({"features": ["steps/id"]}, {"cache_key": "kept"}):
            for keep in (None, [True] * sum(COUNTS)):
                with pytest.raises(ValueError, match="need keep=function"):
                    episodes().steps(keep=keep, **options)

    def test_other_arguments(self) -> None:
        with pytest.raises(ValueError, match="outside must be"):
            episodes().steps(range(2), outside="clamp")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="stride must be a positive integer"):
            episodes().steps(stride=0)
        with pytest.raises(ValueError, match="max_distance must be a positive integer"):
            tio.LaterStep(0)

    def test_a_feature_of_the_name_of_the_masks(self, tmp_path: Path) -> None:
        write_tfrecord(tmp_path / "data", [example_of(**{"steps/x": [1], "valid": [1]})])
        schema = {"steps/x": tio.VarLenFeature("int64"), "valid": tio.VarLenFeature("int64")}
        dataset = tio.TFRecordDataset(tmp_path / "data", schema)
        with pytest.raises(tio.SchemaError, match="a dict 'valid' that says which steps exist"):
            dataset.steps(range(2), outside="repeat")
        assert dataset.steps(range(1)).num_records == 1
