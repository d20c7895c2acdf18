"""Several iterators of one loader: they are independent, or the second one is refused."""

from __future__ import annotations

import gc
import multiprocessing
import weakref
from typing import Any

import pytest
import torch

import torchrec_io as tio
from tests.support.datasets import SCHEMA, ids_of, numbers_of, open_records
from tests.support.processes import results_at_once

SIZES = [30, 20]
COUNT, BATCH = sum(SIZES), 8
KINDS: dict[str, dict[str, Any]] = {
    "batches": {"batch_size": BATCH},
    "samples": {},
    "filled up": {"batch_size": BATCH, "on_error": "skip", "uneven": "keep"},
    "stream": {"batch_size": BATCH, "stream": True, "shuffle": 10},
    "by number": {},
}
BUSY = "another loop over this loader is running.*leave that loop first.*make another loader"


def make(paths: list[str], kind: str, workers: int) -> Any:
    if kind == "by number":
        dataset: Any = tio.TFRecordMapDataset(paths, SCHEMA)
        sampler: Any = torch.utils.data.DistributedSampler(dataset, num_replicas=1, rank=0)
        return tio.make_loader(dataset, batch_size=BATCH, sampler=sampler, num_workers=workers)
    return tio.make_loader(
        open_records(paths, **{"shuffle": True, **KINDS[kind]}), num_workers=workers
    )


def look(loader: Any, workers: int) -> None:
    """Take the first item in a loop over the same loader."""
    if workers == 0:
        next(iter(loader))
        return
    with pytest.raises(RuntimeError, match=BUSY):
        next(iter(loader))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_a_look_in_a_loop_changes_nothing(paths: list[str], kind: str, workers: int) -> None:
    plain = make(paths, kind, workers)
    whole, states = [], []
    for item in plain:
        whole.append(item["id"].tolist())
        states.append(plain.state_dict())
    following = ids_of(plain)
    loader = make(paths, kind, workers)
    found: list[Any] = []
    for item in loader:
        state = loader.state_dict()
        assert state == states[len(found)]
        found.append(item["id"].tolist())
        if len(found) == 3:
            third = state
        look(loader, workers)
        if workers == 0 and 1 < len(found) < len(whole):
            assert loader.state_dict() == states[0]
    assert found == whole
    assert ids_of(loader) == following
    loader = make(paths, kind, workers)
    loader.load_state_dict(third)
    assert ids_of(loader) == whole[3:]
    assert ids_of(loader) == following


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_a_loop_that_was_left_blocks_nothing(paths: list[str], kind: str, workers: int) -> None:
    loader = make(paths, kind, workers)
    whole = ids_of(loader)
    loader.set_epoch(0)
    unused = iter(loader)
    for _ in loader:
        break
    with pytest.raises(ZeroDivisionError):
        for _ in loader:
            raise ZeroDivisionError
    kept = iter(loader)
    next(kept)
    kept.close()
    assert ids_of(loader) == whole
    loader.set_epoch(0)
    assert ids_of(unused) == whole


def test_iterators_at_different_places(paths: list[str]) -> None:
    """The state is that of the iterator that yielded last; the first one to end moves the epoch."""
    for kind in ("batches", "samples", "by number"):
        plain = make(paths, kind, 0)
        states = [plain.state_dict() for _ in plain]
        following = ids_of(plain)
        loader = make(paths, kind, 0)
        early, late = iter(loader), iter(loader)
        next(early)
        next(early)
        next(late)
        assert loader.state_dict() == states[0]
        next(early)
        assert loader.state_dict() == states[2]
        next(late)
        assert loader.state_dict() == states[1]
        assert len(list(early)) == len(states) - 3
        assert loader.state_dict() == states[-1]
        next(late)
        assert loader.state_dict() == states[2]
        loader.load_state_dict(states[1])
        next(late)
        assert loader.state_dict() == states[1]
        assert len(list(loader)) == len(states) - 2
        assert ids_of(loader) == following
        running = iter(loader)
        next(running)
        loader.set_epoch(5)
        other = loader.state_dict()
        next(running)
        assert loader.state_dict() == other


def test_dataset_and_loader_at_once(paths: list[str]) -> None:
    dataset: Any = open_records(paths, shuffle=True, batch_size=BATCH)
    loader = tio.make_loader(dataset)
    states = [loader.state_dict() for _ in loader]
    following = ids_of(loader)
    dataset.set_epoch(0)
    for state, _ in zip(states, loader, strict=False):
        assert dataset.state_dict() == loader.state_dict() == state
        next(iter(dataset))
    assert ids_of(dataset) == following


def test_workers_that_are_forked_in_a_loop(paths: list[str]) -> None:
    dataset: Any = open_records(paths, batch_size=BATCH)
    whole = ids_of(dataset)
    dataset.set_epoch(0)
    for _ in dataset:
        assert ids_of(torch.utils.data.DataLoader(dataset, batch_size=None, num_workers=1)) == whole
        break


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_a_loader_ends_with_its_last_reference(paths: list[str], kind: str, workers: int) -> None:
    """Its workers do not stay until the garbage collector runs."""
    loader = make(paths, kind, workers)
    left = weakref.ref(loader._batches.loader)
    gc.disable()
    try:
        list(loader)
        next(iter(loader))
        del loader
        assert left() is None
    finally:
        gc.enable()


def share_of_a_rank(loader: Any, rank: int, barrier: Any) -> list[int]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("RANK", rank), ("WORLD_SIZE", 2), ("LOCAL_RANK", rank)):
            patch.setenv(name, str(value))
        barrier.wait()
        return numbers_of(loader)


@pytest.mark.parametrize("workers", [0, 2])
def test_ranks_that_inherit_a_loader(paths: list[str], workers: int) -> None:
    """Each rank begins where its own share does, though all have the loader of their parent."""
    dataset = open_records(paths, batch_size=1, shuffle=True)
    loader = tio.make_loader(dataset, num_workers=workers)
    barrier = multiprocessing.get_context("fork").Barrier(2)
    found = results_at_once("fork", share_of_a_rank, [(loader, rank, barrier) for rank in (0, 1)])
    assert sorted(found[0] + found[1]) == list(range(COUNT))
