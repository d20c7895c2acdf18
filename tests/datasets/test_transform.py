"""Tests of ``transform=`` and ``record_random``."""

from __future__ import annotations

import pickle
import threading
import time
import traceback
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.datasets import SCHEMA, numbers_of, open_records

SIZES = [300, 200]
COUNT = sum(SIZES)


def negated(item: Any) -> dict[str, Any]:
    return {"id": -item["id"]}


# ---- what it is called with ----


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("batch_size", [None, 64])
def test_its_results_are_yielded(
    paths: list[str], batch_size: int | None, threads: int, stream: bool
) -> None:
    kinds: list[type] = []
    callers = set()

    def transform(item: Any) -> Any:
        kinds.append(type(item))
        callers.add(threading.current_thread())
        return negated(item)

    dataset = open_records(
        paths, stream=stream, batch_size=batch_size, num_threads=threads, transform=transform
    )
    items = list(dataset)
    assert numbers_of(items) == [-i for i in range(COUNT)]
    assert set(kinds) == {tio.Sample if batch_size is None else tio.Batch}
    assert len(kinds) == len(items)
    assert threads == 1 or threading.main_thread() not in callers  # but in those that load


@pytest.mark.parametrize("batch_size", [None, 64])
def test_its_time_is_measured(paths: list[str], batch_size: int | None) -> None:
    def slow(item: Any) -> Any:
        time.sleep(0.001)
        return item

    dataset = open_records(paths, batch_size=batch_size, split="[:128]", transform=slow)
    calls = len(list(dataset))
    assert dataset.stats().transform >= 0.001 * calls


def test_any_result_but_none(paths: list[str]) -> None:
    results = iter([0, False, "", [], b"x", ()])
    dataset = open_records(paths, split="[:6]", num_threads=1, transform=lambda _: next(results))
    assert list(dataset) == [0, False, "", [], b"x", ()]


def test_with_keys(paths: list[str]) -> None:
    for batch_size in (None, 10):
        options: dict[str, Any] = {"batch_size": batch_size, "with_key": True}
        items = list(open_records(paths, transform=negated, **options))
        assert numbers_of(item for _, item in items) == [-i for i in range(COUNT)]
        plain = open_records(paths, **options)
        assert [keys for keys, _ in items] == [keys for keys, _ in plain]


def test_map_style(paths: list[str]) -> None:
    dataset = tio.TFRecordMapDataset(paths, SCHEMA, transform=negated)
    assert int(dataset[7]["id"]) == -7
    assert numbers_of(dataset[3:6]) == [-3, -4, -5]
    failing = tio.TFRecordMapDataset(paths, SCHEMA, transform=fails_at_310)
    with pytest.raises(tio.TransformError, match="transform raised KeyError: 'oh'") as raised:
        failing[300:320]
    assert (raised.value.path, raised.value.record) == (paths[1], 10)


def test_replace_and_states(paths: list[str]) -> None:
    dataset = open_records(paths, batch_size=32, transform=negated)
    other = open_records(paths, batch_size=32)
    next(iter(dataset))
    other.load_state_dict(dataset.state_dict())
    assert numbers_of(other) == [*range(32, COUNT)]
    assert numbers_of(dataset.replace(transform=None)) == [*range(COUNT)]
    assert "transform=negated" in repr(dataset)


# ---- errors ----


def fails_at_310(item: Any) -> Any:
    if 310 in item["id"].reshape(-1).tolist():
        raise KeyError("oh")
    return item


def gives_none_at_310(item: Any) -> Any:
    return None if 310 in item["id"].reshape(-1).tolist() else item


@pytest.mark.parametrize("on_error", ["raise", "skip", lambda _: None])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("transform", [fails_at_310, gives_none_at_310])
def test_an_error_of_a_sample(
    paths: list[str], transform: Any, threads: int, on_error: Any
) -> None:
    dataset = open_records(paths, transform=transform, num_threads=threads, on_error=on_error)
    found = []
    with pytest.raises(tio.TransformError) as raised:
        for sample in dataset:
            found.append(int(sample["id"]))
    assert found == [*range(310)]  # all before it
    assert dataset.skipped == 0
    error = raised.value
    assert (error.path, error.record) == (paths[1], 10)
    if transform is fails_at_310:
        assert error.reason == "transform raised KeyError: 'oh'"
        assert isinstance(error.__cause__, KeyError)
        assert 'raise KeyError("oh")' in "".join(traceback.format_exception(error.__cause__))
    else:
        assert error.reason == "transform must return a value, got None"
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    # The state is that of the samples before.
    state = dataset.state_dict()
    other = open_records(paths)
    other.load_state_dict(state)
    assert numbers_of(other) == [*range(310, COUNT)]


@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_an_error_of_a_batch(paths: list[str], on_error: str) -> None:
    dataset = open_records(paths, batch_size=32, transform=fails_at_310, on_error=on_error)
    found = []
    with pytest.raises(tio.TransformError) as raised:
        for batch in dataset:
            found += batch["id"].tolist()
    assert found == [*range(288)]
    assert (raised.value.path, raised.value.record) == (paths[0], 288)
    assert raised.value.reason == (
        "transform raised KeyError: 'oh', with 32 records of which this is the first"
    )


# ---- lost records ----


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("batch_size", [None, 16])
@pytest.mark.parametrize("uneven", [None, "drop"])
def test_the_transform_gets_what_is_yielded(
    paths: list[str], uneven: Any, batch_size: int | None, threads: int
) -> None:
    """It changes values in place; records that fill up batches are changed once."""

    def change(item: Any) -> Any:
        item["id"].add_(1000)
        return item

    schema: dict[str, Any] = {
        **SCHEMA,
        "id": tio.FixedLenFeature([], "int64", valid_range=(5, 477)),
    }
    options: dict[str, Any] = {
        "on_error": "skip",
        "uneven": uneven,
        "shuffle": 50,
        "batch_size": batch_size,
        "num_threads": threads,
    }
    plain = tio.TFRecordDataset(paths, schema, **options)
    changed = tio.TFRecordDataset(paths, schema, **options, transform=change)
    assert numbers_of(changed) == [number + 1000 for number in numbers_of(plain)]
    assert changed.skipped == plain.skipped > 0


# ---- random numbers ----


def drawn(sample: Any) -> dict[str, Any]:
    return {"x": torch.rand(3, generator=tio.record_random(sample))}


def drawn_batch(batch: Any) -> dict[str, Any]:
    rows = [torch.rand(3, generator=generator) for generator in tio.record_random(batch)]
    return {"x": torch.stack(rows), "id": batch["id"]}


def by_record(paths: list[str], epoch: int = 0, seed: int = 0) -> list[list[float]]:
    dataset = open_records(paths, transform=drawn, seed=seed)
    dataset.set_epoch(epoch)
    return [sample["x"].tolist() for sample in dataset]


@pytest.mark.parametrize("shuffle", [False, True])
def test_random_numbers_depend_on_the_record_alone(paths: list[str], shuffle: bool) -> None:
    wanted = by_record(paths)
    assert len({*map(tuple, wanted)}) == COUNT
    stream = open_records(paths, stream=True, transform=drawn)
    assert len({tuple(sample["x"].tolist()) for sample in stream}) == COUNT
    assert by_record(paths, epoch=1) != wanted
    assert by_record(paths, seed=1) != wanted
    for workers in (0, 2):
        dataset = open_records(paths, batch_size=33, shuffle=shuffle, transform=drawn_batch)
        batches = DataLoader(dataset, batch_size=None, num_workers=workers)
        found = {
            number: x
            for batch in batches
            for number, x in zip(batch["id"].tolist(), batch["x"].tolist(), strict=True)
        }
        assert [found[i] for i in range(COUNT)] == wanted


def test_a_generator_starts_anew(paths: list[str]) -> None:
    sample = next(iter(open_records(paths)))
    first, second = tio.record_random(sample), tio.record_random(sample)
    assert torch.rand(3, generator=first).tolist() == torch.rand(3, generator=second).tolist()
    numbers = np.random.default_rng(first.initial_seed())
    assert numbers.random() == np.random.default_rng(second.initial_seed()).random()
    again = pickle.loads(pickle.dumps(sample))
    assert tio.record_random(again).initial_seed() == first.initial_seed()


def test_unknown_records() -> None:
    with pytest.raises(ValueError, match="must be called with a sample of a dataset"):
        tio.record_random(tio.Sample({"x": 1}))
    batch = tio.collate([{"x": 1}])
    with pytest.raises(ValueError, match="must be called in a transform with its batch"):
        tio.record_random(batch)
    with pytest.raises(TypeError, match="item must be a Sample or a Batch, got dict"):
        tio.record_random({})  # type: ignore[call-overload]
