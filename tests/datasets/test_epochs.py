"""Epochs advance by themselves, by what the consumer took."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import random
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.epochs import (
    BATCHES,
    COUNT,
    items_of_epochs,
    open_numbers,
    take,
    write_numbers,
)
from tests.support.processes import results_at_once
from torchrec_io._datasets.epoch_clock import CLOCK_NUMBERS, EpochClock
from torchrec_io._datasets.epochs import Epochs

TIMES = 50


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_numbers(tmp_path_factory.mktemp("epochs"))


@pytest.fixture(scope="module")
def epochs(path: str) -> list[list[Any]]:
    return items_of_epochs(open_numbers(path))


# ---- without workers ----


@pytest.mark.parametrize("chosen", [0, 3])
def test_a_peek_in_a_loop_keeps_the_epoch_that_was_set(
    path: str, epochs: list[list[Any]], chosen: int
) -> None:
    dataset = open_numbers(path)
    found = []
    for item in dataset:
        found.append(item)
        if len(found) == 2:
            dataset.set_epoch(chosen)
        assert next(iter(dataset)) == epochs[chosen if len(found) > 1 else 0][0]
    assert found == epochs[0]
    assert list(dataset) == epochs[chosen]


def test_endless(path: str, epochs: list[list[Any]]) -> None:
    dataset = open_numbers(path, epochs=None)
    for _ in range(3):
        assert take(dataset, 2 * BATCHES) == epochs[0] + epochs[1]


def test_a_peek_on_one_rank_does_not_put_ranks_out_of_step(path: str) -> None:
    rng = random.Random(4)
    ranks = [open_numbers(path, rank=rank, world_size=2) for rank in range(2)]
    expected = [items_of_epochs(rank.replace()) for rank in ranks]
    for epoch in range(TIMES):
        take(ranks[rng.randrange(2)], rng.randrange(BATCHES // 2))
        for rank, items in zip(ranks, expected, strict=True):
            assert list(rank) == items[epoch]


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda ds: pickle.loads(pickle.dumps(ds))]
)
@pytest.mark.parametrize("workers", [0, 2])
def test_copies_have_epochs_of_their_own(
    path: str, epochs: list[list[Any]], copied: Any, workers: int
) -> None:
    dataset = open_numbers(path)
    assert list(dataset) == epochs[0]
    other = copied(dataset)
    loader = DataLoader(other, batch_size=None, num_workers=workers)
    assert [list(loader) for _ in range(2)] == epochs[1:3]
    assert list(dataset) == epochs[1]


def test_an_iteration_that_ends_late_moves_nothing(path: str, epochs: list[list[Any]]) -> None:
    dataset = open_numbers(path)
    late = iter(dataset)
    next(late)
    assert [list(dataset), list(dataset)] == epochs[:2]
    assert list(late) == epochs[0][1:]
    assert list(dataset) == epochs[2]


# ---- states at the end of an epoch ----


def test_a_rank_with_nothing_left_waits_for_the_others(path: str) -> None:
    """One rank's state is for all ranks: none is ahead of an epoch that others still read."""
    alone = open_numbers(path, batch_size=1)
    take(alone, COUNT - 1)
    for rank, left in enumerate([1, 0, 0]):
        other = open_numbers(path, batch_size=1, rank=rank, world_size=3, uneven="keep")
        other.load_state_dict(alone.state_dict())
        assert len(list(other)) == left
        assert len(list(other)) == COUNT // 3


# ---- plain DataLoader with workers ----


def test_abandoned_workers_that_still_run(path: str, epochs: list[list[Any]]) -> None:
    rng = random.Random(7)
    loader: Any = DataLoader(open_numbers(path), batch_size=None, num_workers=2, prefetch_factor=1)
    for epoch in range(4):
        abandoned = [iter(loader) for _ in range(rng.randrange(1, 3))]
        next(abandoned[0])
        assert list(loader) == epochs[epoch]
        # What becomes of the others no longer counts.
        for iterator in abandoned:
            list(iterator)


class TestWarning:
    @staticmethod
    def load(path: str, **ranks: Any) -> DataLoader[Any]:
        return DataLoader(open_numbers(path, **ranks), batch_size=None, num_workers=2)

    def test_several_ranks_are_warned_once(self, path: str, log: Path) -> None:
        loader = self.load(path, rank=0, world_size=2)
        list(loader)
        assert "ranks may get out of step" not in log.read_text("utf-8")
        for _ in range(3):
            list(loader)
        text = log.read_text("utf-8")
        assert text.count("ranks may get out of step") == 1
        assert "another epoch starts in DataLoader workers, which run ahead of the" in text
        assert "set_epoch(epoch)" in text
        assert "tio.make_loader" in text

    def test_not_after_set_epoch_with_one_rank_or_with_make_loader(
        self, path: str, log: Path
    ) -> None:
        loader = self.load(path, rank=0, world_size=2)
        alone = self.load(path)
        made = tio.make_loader(open_numbers(path, rank=0, world_size=2), num_workers=2)
        for epoch in range(3):
            loader.dataset.set_epoch(epoch)  # type: ignore[attr-defined]
            for each in (loader, alone, made):
                list(each)
        assert "ranks may get out of step" not in log.read_text("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_the_same_seed_in_each_epoch(path: str, epochs: list[list[Any]], method: str) -> None:
    """The seed of DataLoader tells iterations apart; those of two that are equal do not last."""
    loader = DataLoader(
        open_numbers(path), batch_size=None, num_workers=2, multiprocessing_context=method
    )
    found = []
    for number in range(4):
        torch.manual_seed(0)
        if number == 1:
            next(iter(loader))  # is left early
            torch.manual_seed(0)
        found.append(list(loader))
    assert found == epochs[:4]


# ---- the clock ----


def new_clock() -> tuple[EpochClock, torch.Tensor]:
    numbers = torch.zeros(CLOCK_NUMBERS, dtype=torch.int64)
    numbers.share_memory_()  # type: ignore[no-untyped-call]
    return EpochClock(numbers), numbers


WORKERS = 4
ROUNDS = 200


def begin_and_end(numbers: torch.Tensor, barrier: Any) -> list[int]:
    """Return the epochs of the iterations that a worker begins."""
    clock, epochs = EpochClock(numbers), []
    for number in range(1, ROUNDS + 1):
        barrier.wait()
        epoch, _ = clock.begin(number)
        epochs.append(epoch)
        clock.end(number - 1, WORKERS, 10**6)  # an earlier iteration no longer counts
        clock.end(number, WORKERS, epoch + 1)
        barrier.wait()
    return epochs


def test_processes_that_begin_and_end_at_once() -> None:
    """All workers of an iteration get one epoch, and only the last end moves the clock."""
    clock, numbers = new_clock()
    barrier = multiprocessing.get_context("fork").Barrier(WORKERS)
    found = results_at_once("fork", begin_and_end, [(numbers, barrier)] * WORKERS)
    assert found == [list(range(ROUNDS))] * WORKERS
    assert clock.epoch == ROUNDS


def test_an_epoch_that_is_set_during_ends_stays() -> None:
    for number in range(1, 100):
        clock, _ = new_clock()
        clock.begin(number)
        start = threading.Barrier(3)

        def end(clock: EpochClock = clock, number: int = number, start: Any = start) -> None:
            start.wait()
            clock.end(number, 2, 1)

        threads = [threading.Thread(target=end) for _ in range(2)]
        for thread in threads:
            thread.start()
        start.wait()
        clock.set(100)
        for thread in threads:
            thread.join()
        assert clock.epoch == 100


def test_a_worker_at_its_end_does_not_go_on_if_others_are_not() -> None:
    """It may get its first request after the others have reached their ends."""
    for are_at_end in ([True, False], [False, True], [True, True]):
        clock, _ = new_clock()
        for is_at_end in are_at_end:
            clock.restart(9, 0, is_at_end=is_at_end)
        for _ in are_at_end:
            assert not clock.has_passed(9, 0)
            clock.end(9, 2, 1)
        assert clock.epoch == 1
        assert clock.has_passed(9, 0) == all(are_at_end)


def test_an_end_is_taken_back_unless_something_has_happened() -> None:
    epochs = Epochs()
    epochs.begin()(1)
    epochs.repeat(0, 1)
    assert epochs.epoch == 0
    for change in (epochs.begin, lambda: epochs.set_epoch(1)):
        epochs.begin()(1)
        change()
        epochs.repeat(0, 1)
        assert epochs.epoch == 1
        epochs.set_epoch(0)
