"""Epochs of loaders advance by what the loop took, however far workers and copies are ahead."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

import pytest
from torch.utils.data import DistributedSampler, get_worker_info
from torchdata.stateful_dataloader import StatefulDataLoader

import torchrec_io as tio
from tests.support.epochs import (
    BATCHES,
    check_nothing_is_left,
    follow,
    items_of_epochs,
    open_numbers,
    pause,
    slow_int,
    take,
    write_numbers,
)
from tests.support.states import through_json

# torchdata 0.11 causes this warning when it creates a loader.
pytestmark = pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning")

TIMES = 50


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_numbers(tmp_path_factory.mktemp("epochs"))


OPTIONS: dict[str, dict[str, Any]] = {
    "batches": {},
    "samples": {"batch_size": None},
    "skip": {"on_error": "skip"},
}


def loader_of(path: str, kind: str, workers: int, **options: Any) -> Any:
    return tio.make_loader(open_numbers(path, **OPTIONS[kind]), num_workers=workers, **options)


def counts_of(seed: int, most: int, times: int = TIMES) -> list[int | None]:
    rng = random.Random(seed)
    return [most, *(rng.choice([None, *range(most + 1)]) for _ in range(times))]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", OPTIONS)
def test_an_epoch_ends_with_its_last_item(path: str, kind: str, workers: int) -> None:
    expected = items_of_epochs(loader_of(path, kind, workers))
    counts = counts_of(workers, len(expected[0]))
    assert follow(loader_of(path, kind, workers), expected, counts) > 1


@pytest.mark.parametrize("workers", [0, 2])
def test_iterators_that_are_kept(path: str, workers: int) -> None:
    """What the loop took counts, although the iterator is still there."""
    expected = items_of_epochs(loader_of(path, "batches", 0))
    loader = loader_of(path, "batches", workers)
    epoch = 0
    for count in counts_of(3, BATCHES):
        iterator = iter(loader)
        found = [next(iterator) for _ in range(BATCHES if count is None else count)]
        assert found == expected[epoch][:count]
        epoch += len(found) == BATCHES
        pause()
    assert epoch > 1


@pytest.mark.parametrize("workers", [0, 2])
def test_several_epochs_in_an_iteration(path: str, workers: int) -> None:
    expected = items_of_epochs(open_numbers(path, epochs=3))
    loader = tio.make_loader(open_numbers(path, epochs=3), num_workers=workers)
    counts = [None, 3 * BATCHES, 2 * BATCHES, BATCHES, 3 * BATCHES - 1, None, 1, None]
    assert follow(loader, expected, counts, step=3) == 12


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", OPTIONS)
def test_set_epoch_in_a_loop_comes_next(path: str, kind: str, workers: int) -> None:
    expected = items_of_epochs(loader_of(path, kind, workers))
    loader = loader_of(path, kind, workers)
    most = len(expected[0])
    for at in (1, most - 1, most):
        for chosen in (0, 5):
            for number, _ in enumerate(loader, 1):
                if number == at:
                    loader.set_epoch(chosen)
            assert list(loader) == expected[chosen]
            assert list(loader) == expected[chosen + 1]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", OPTIONS)
def test_a_state_at_the_end_resumes_with_the_next_epoch(path: str, kind: str, workers: int) -> None:
    expected = items_of_epochs(loader_of(path, kind, workers), count=3)
    for count in (None, len(expected[0])):
        loader = loader_of(path, kind, workers)
        take(loader, count)
        state = through_json(loader.state_dict())
        for other in (loader_of(path, kind, workers), loader):
            other.load_state_dict(state)
            assert list(other) == expected[1]
            assert list(other) == expected[2]
        check_nothing_is_left(lambda: loader_of(path, kind, workers), state, expected[1])


@pytest.mark.parametrize("workers", [0, 2])
def test_a_sampler_is_told_the_next_epoch(path: str, workers: int) -> None:
    def opened() -> tuple[Any, Any]:
        dataset: Any = tio.TFRecordMapDataset(path, slow_int)
        sampler: Any = DistributedSampler(dataset, num_replicas=1, rank=0)
        loader = tio.make_loader(
            dataset, batch_size=2, sampler=sampler, num_workers=workers, collate_fn=list
        )
        return loader, sampler

    expected = items_of_epochs(opened()[0], count=40)
    loader, sampler = opened()
    epoch = follow(loader, expected, counts_of(5, BATCHES))
    assert sampler.epoch == epoch > 1
    for batches in (2, BATCHES):
        take(loader, batches)
        state = through_json(loader.state_dict())
        other, _ = opened()
        other.load_state_dict(state)
        rest = expected[epoch][batches:] or expected[epoch + 1]
        assert list(other) == rest
    for number, _ in enumerate(other):
        if number == 1:
            other.set_epoch(3)
    assert list(other) == expected[3]


class LateWorker(tio.TFRecordDataset):
    """Worker 1 starts late."""

    def __iter__(self) -> Iterator[Any]:
        worker = get_worker_info()
        if worker is not None and worker.id == 1:
            time.sleep(0.3)
        return super().__iter__()


@pytest.mark.parametrize("kind", OPTIONS)
def test_a_worker_that_starts_late_has_the_epoch_of_the_loop(path: str, kind: str) -> None:
    expected = items_of_epochs(loader_of(path, kind, 2), count=7)
    options: dict[str, Any] = {"batch_size": 2, "shuffle": True, **OPTIONS[kind]}
    loader = tio.make_loader(LateWorker(path, slow_int, **options), num_workers=2)
    found: list[Any] = []
    for item in loader:
        if not found:
            loader.set_epoch(5)
        found.append(item)
    assert found == expected[0]
    assert list(loader) == expected[5]


# ---- StatefulDataLoader ----


def stateful(path: str, workers: int, **options: Any) -> Any:
    return StatefulDataLoader(open_numbers(path), batch_size=None, num_workers=workers, **options)


def test_stateful_without_workers(path: str) -> None:
    expected = items_of_epochs(open_numbers(path))
    assert follow(stateful(path, 0), expected, counts_of(6, BATCHES)) > 1


# Workers that are not persistent start in each of these rounds, which takes far longer.
@pytest.mark.slow
@pytest.mark.parametrize(("persistent", "times"), [(False, TIMES // 3), (True, TIMES)])
def test_stateful_with_workers(path: str, times: int, *, persistent: bool) -> None:
    """Only its workers know the end: they run ahead as with a DataLoader."""
    expected = items_of_epochs(open_numbers(path))
    loader = stateful(path, 2, prefetch_factor=1, persistent_workers=persistent)
    rng = random.Random(8)
    counts = [
        None,
        *(rng.choice([None, *range(BATCHES - 2)]) for _ in range(times)),
    ]
    assert follow(loader, expected, counts) > 1


@pytest.mark.slow
def test_workers_that_receive_the_dataset(path: str) -> None:
    expected = items_of_epochs(open_numbers(path))
    for loader in (
        stateful(path, 2, prefetch_factor=1, multiprocessing_context="forkserver"),
        loader_of(path, "batches", 2, multiprocessing_context="forkserver"),
    ):
        assert follow(loader, expected, [None, 1, None, 0, None]) == 3


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("asked", [False, True])
def test_states_of_a_stateful_loader_at_the_end(path: str, workers: int, *, asked: bool) -> None:
    expected = items_of_epochs(open_numbers(path), count=3)
    loader = stateful(path, workers)
    iterator = iter(loader)
    for _ in range(BATCHES):
        next(iterator)
        pause()
    if asked:
        assert next(iterator, None) is None
    state = through_json(loader.state_dict())
    other = stateful(path, workers)
    other.load_state_dict(state)
    assert list(other) == expected[1]
    assert list(other) == expected[2]
    other = stateful(path, workers)
    other.load_state_dict(state)
    if not asked:  # after the end, torchdata starts another iteration
        other.dataset.set_epoch(0)
        assert list(other) == []  # nothing is left of what was set
    assert list(other) == expected[1]
    other = stateful(path, workers)
    other.load_state_dict(state)
    other.dataset.set_epoch(1)
    assert list(other) == expected[1]
