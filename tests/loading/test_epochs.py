"""Epochs advance by what the loop took, however far workers and copies are ahead."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

import pytest
from torch.utils.data import DataLoader, DistributedSampler, get_worker_info
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


KINDS: dict[str, dict[str, Any]] = {
    "batches": {},
    "samples": {"batch_size": None},
    "skip": {"on_error": "skip"},
    "epochs": {"epochs": 3},
}
# The loaders of torch and torchdata, whose workers run ahead of the loop.
PLAIN: dict[str, Any] = {"DataLoader": DataLoader, "StatefulDataLoader": StatefulDataLoader}
KEPT: dict[str, Any] = {"persistent_workers": True}
SENT: dict[str, Any] = {"multiprocessing_context": "forkserver"}


def loader_of(path: str, kind: str, name: str, workers: int, **options: Any) -> Any:
    """Return a dataset, or a loader of it."""
    dataset = open_numbers(path, **KINDS[kind])
    if name == "dataset":
        return dataset
    if name == "make_loader":
        return tio.make_loader(dataset, num_workers=workers, **options)
    if workers:
        options["prefetch_factor"] = 1
    return PLAIN[name](dataset, batch_size=None, num_workers=workers, **options)


LOADERS: list[Any] = [("dataset", 0), ("make_loader", 0), ("make_loader", 2)]
CASES: list[Any] = [
    *((kind, *loader, {}) for loader in LOADERS for kind in KINDS),
    *(("batches", name, 0, {}) for name in PLAIN),
    *(("batches", name, 2, options) for name in PLAIN for options in ({}, KEPT, SENT)),
    ("batches", "make_loader", 2, SENT),
]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name", "workers", "options"), CASES)
def test_an_epoch_ends_with_its_last_item(
    path: str, kind: str, name: str, workers: int, options: dict[str, Any]
) -> None:
    expected = items_of_epochs(loader_of(path, kind, name if kind == "samples" else "dataset", 2))
    most = len(expected[0])
    # Workers that are ahead of a loop may have reached the end of their epoch before it.
    reached = most - 3 if name in PLAIN and workers else most
    rng = random.Random(workers)
    # Workers that are not persistent start in each of these rounds, which takes far longer.
    times = TIMES if options == KEPT or not workers else TIMES // 4
    counts = [None, reached, *(rng.choice([None, *range(reached + 1)]) for _ in range(times))]
    step = 3 if kind == "epochs" else 1
    assert follow(loader_of(path, kind, name, workers, **options), expected, counts, step) > step


@pytest.mark.parametrize("workers", [0, 2])
def test_iterators_that_are_kept(path: str, workers: int) -> None:
    """What the loop took counts, although the iterator is still there."""
    expected = items_of_epochs(open_numbers(path))
    loader = loader_of(path, "batches", "make_loader", workers)
    rng = random.Random(3)
    epoch = 0
    for _ in range(TIMES):
        iterator = iter(loader)
        count = rng.choice([BATCHES, *range(BATCHES + 1)])
        assert [next(iterator) for _ in range(count)] == expected[epoch][:count]
        epoch += count == BATCHES
        pause()
    assert epoch > 1


@pytest.mark.slow
@pytest.mark.parametrize(("name", "workers"), LOADERS)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "epochs"])
def test_set_epoch_in_a_loop_comes_next(path: str, kind: str, name: str, workers: int) -> None:
    expected = items_of_epochs(loader_of(path, kind, name, workers), count=7)
    loader = loader_of(path, kind, name, workers)
    most = len(expected[0])
    for at in (1, most - 1, most):
        for chosen in (0, 1, 5):
            for number, _ in enumerate(loader, 1):
                if number == at:
                    loader.set_epoch(chosen)
            assert list(loader) == expected[chosen]
            assert list(loader) == expected[chosen + 1]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "workers"), LOADERS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_state_at_the_end_resumes_with_the_next_epoch(
    path: str, kind: str, name: str, workers: int
) -> None:
    step = 3 if kind == "epochs" else 1
    expected = items_of_epochs(loader_of(path, kind, name, workers), count=2 * step + 1)[::step]
    for count in (None, len(expected[0])):
        loader = loader_of(path, kind, name, workers)
        take(loader, count)
        state = through_json(loader.state_dict())
        for other in (loader_of(path, kind, name, workers), loader):
            other.load_state_dict(state)
            assert list(other) == expected[1]
            assert list(other) == expected[2]
        check_nothing_is_left(lambda: loader_of(path, kind, name, workers), state, expected[1])


@pytest.mark.parametrize("workers", [0, 2])
def test_a_sampler_is_told_the_next_epoch(path: str, workers: int) -> None:
    def opened() -> tuple[Any, Any]:
        dataset: Any = tio.TFRecordMapDataset(path, slow_int)
        sampler: Any = DistributedSampler(dataset, num_replicas=1, rank=0)
        loader = tio.make_loader(
            dataset, batch_size=2, sampler=sampler, num_workers=workers, collate_fn=list
        )
        return loader, sampler

    expected = items_of_epochs(opened()[0], count=5)
    loader, sampler = opened()
    epoch = follow(loader, expected, [BATCHES, 1, None, BATCHES - 1, BATCHES, 0])
    assert sampler.epoch == epoch == 3
    for batches in (2, BATCHES):
        take(loader, batches)
        state = through_json(loader.state_dict())
        other, _ = opened()
        other.load_state_dict(state)
        rest = expected[epoch][batches:] or expected[epoch + 1]
        assert list(other) == rest
        other.load_state_dict(state)
        other.set_epoch(2)  # another epoch has no position
        assert list(other) == expected[2]
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


@pytest.mark.parametrize("kind", ["batches", "samples", "skip"])
def test_a_worker_that_starts_late_has_the_epoch_of_the_loop(path: str, kind: str) -> None:
    expected = items_of_epochs(loader_of(path, kind, "make_loader", 2), count=7)
    options: dict[str, Any] = {"batch_size": 2, "shuffle": True, **KINDS[kind]}
    loader = tio.make_loader(LateWorker(path, slow_int, **options), num_workers=2)
    found: list[Any] = []
    for item in loader:
        if not found:
            loader.set_epoch(5)
        found.append(item)
    assert found == expected[0]
    assert list(loader) == expected[5]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("asked", [False, True])
def test_states_of_a_stateful_loader_at_the_end(path: str, workers: int, *, asked: bool) -> None:
    expected = items_of_epochs(open_numbers(path), count=3)
    loader = loader_of(path, "batches", "StatefulDataLoader", workers)
    iterator = iter(loader)
    for _ in range(BATCHES):
        next(iterator)
        pause()
    if asked:
        assert next(iterator, None) is None
    state = through_json(loader.state_dict())

    def resumed(epoch: int | None = None) -> Any:
        other = loader_of(path, "batches", "StatefulDataLoader", workers)
        other.load_state_dict(state)
        if epoch is not None:
            other.dataset.set_epoch(epoch)
        return other

    other = resumed()
    assert [list(other), list(other)] == expected[1:]
    if not asked:  # after the end, torchdata starts another iteration
        other = resumed(0)
        assert [list(other), list(other)] == [[], expected[1]]  # nothing is left of what was set
    assert list(resumed(1)) == expected[1]
