"""Epochs advance by themselves, by what the consumer took."""

from __future__ import annotations

import copy
import logging
import multiprocessing
import pickle
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.datasets import open_records, write_files
from tests.support.epochs import (
    BATCHES,
    COUNT,
    check_nothing_is_left,
    follow,
    items_of_epochs,
    open_numbers,
    take,
    write_numbers,
)
from tests.support.states import through_json
from torchrec_io._datasets.epoch_clock import CLOCK_NUMBERS, EpochClock
from torchrec_io._datasets.epochs import Epochs

TIMES = 50


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_numbers(tmp_path_factory.mktemp("epochs"))


@pytest.fixture(scope="module")
def epochs(path: str) -> list[list[Any]]:
    return items_of_epochs(open_numbers(path))


def random_counts(seed: int, most: int = BATCHES, times: int = TIMES) -> list[int | None]:
    """Return numbers of items that loops take, of which each is there."""
    rng = random.Random(seed)
    return [*range(most + 1), None, *(rng.choice([None, *range(most + 1)]) for _ in range(times))]


# ---- without workers ----


@pytest.mark.parametrize("loaded", [False, True])
def test_an_epoch_ends_with_its_last_item(
    path: str, epochs: list[list[Any]], *, loaded: bool
) -> None:
    dataset: Any = open_numbers(path)
    loader = DataLoader(dataset, batch_size=None) if loaded else dataset
    assert follow(loader, epochs, random_counts(1)) > TIMES // 8


def test_samples(path: str) -> None:
    options = {"batch_size": None}
    expected = items_of_epochs(open_numbers(path, **options))
    counts = random_counts(2, most=COUNT)
    assert follow(open_numbers(path, **options), expected, counts) > 1


def test_several_epochs_in_an_iteration(path: str) -> None:
    expected = items_of_epochs(open_numbers(path, epochs=3))
    counts = [None, 3 * BATCHES, 2 * BATCHES, BATCHES, 3 * BATCHES - 1, None, 1, None]
    assert follow(open_numbers(path, epochs=3), expected, counts, step=3) == 12


def test_skipped_records_at_the_end(path: str) -> None:
    """They are known when the consumer asks for more than the last item."""
    dataset = tio.TFRecordDataset(path, _refuse_last, on_error=lambda _: None)
    whole = list(range(COUNT - 1))
    assert take(dataset, COUNT - 1) == whole
    assert dataset.state_dict()["epoch"] == 0
    iterator = iter(dataset)
    for _ in whole:
        next(iterator)
    assert next(iterator, None) is None
    next(iter(dataset))
    assert dataset.state_dict()["epoch"] == 1


def _refuse_last(record: bytes) -> int:
    if int(record) == COUNT - 1:
        raise ValueError("refused")
    return int(record)


def test_two_iterations_at_once(path: str, epochs: list[list[Any]]) -> None:
    """Each is independent. The first one to end moves the epoch."""
    dataset = open_numbers(path)
    first, second = iter(dataset), iter(dataset)
    assert list(first) == list(second) == epochs[0]
    assert list(zip(dataset, dataset, strict=True)) == list(zip(epochs[1], epochs[1], strict=True))
    early, late = iter(dataset), iter(dataset)
    next(late)
    assert list(early) == epochs[2]
    assert take(dataset, 1) == epochs[3][:1]
    assert list(late) == epochs[2][1:]
    assert take(dataset, 1) == epochs[3][:1]


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


def test_set_epoch_in_a_loop_comes_next(path: str, epochs: list[list[Any]]) -> None:
    for at in range(1, BATCHES + 1):
        for chosen in (0, 1, 5):
            dataset = open_numbers(path)
            for number, _ in enumerate(dataset, 1):
                if number == at:
                    dataset.set_epoch(chosen)
            assert list(dataset) == epochs[chosen]
            assert list(dataset) == epochs[chosen + 1]


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


def _run_epochs(dataset: Any, found: Any) -> None:
    found.put([list(dataset) for _ in range(2)])


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_another_process_has_epochs_of_its_own(
    path: str, epochs: list[list[Any]], method: str
) -> None:
    context: Any = multiprocessing.get_context(method)
    dataset = open_numbers(path)
    list(dataset)
    found = context.Queue()
    process = context.Process(target=_run_epochs, args=(dataset, found))
    process.start()
    assert found.get(timeout=60) == epochs[1:3]
    process.join()
    assert list(dataset) == epochs[1]


@pytest.mark.parametrize("kind", ["stream", "mixture", "by length"])
@pytest.mark.parametrize("workers", [0, 2])
def test_datasets_of_other_kinds(tmp_path: Path, kind: str, workers: int) -> None:
    paths = write_files(tmp_path, [9, 8])

    def opened() -> Any:
        if kind == "stream":
            return open_records(paths, stream=True, batch_size=3, shuffle=5)
        if kind == "by length":
            return open_records(paths, batch_tokens=9, length_key="tokens", shuffle=True)
        parts = [open_records(path, shuffle=True) for path in paths]
        return tio.mix(parts, weights=[1.0, 1.0], stop="all_exhausted", batch_size=3)

    def ids_of(items: Any) -> list[Any]:
        return [item["id"].tolist() for item in items]

    def loader_of(dataset: Any) -> Any:
        return DataLoader(dataset, batch_size=None, num_workers=workers)

    expected = []
    for epoch in range(3):
        dataset = opened()
        dataset.set_epoch(epoch)
        expected.append(ids_of(loader_of(dataset)))
    assert expected[0] != expected[1]
    loader = loader_of(opened())
    for epoch in range(3):
        next(iter(loader))
        assert ids_of(loader) == expected[epoch]


# ---- states at the end of an epoch ----


@pytest.mark.parametrize("asked", [False, True])
@pytest.mark.parametrize("count", [1, 3])
def test_a_state_at_the_end_resumes_with_the_next_epoch(
    path: str, epochs: list[list[Any]], *, asked: bool, count: int
) -> None:
    dataset = open_numbers(path, epochs=count)
    take(dataset, None if asked else count * BATCHES)
    state = through_json(dataset.state_dict())
    following = sum(epochs[count : 2 * count], [])  # noqa: RUF017  # short lists
    for resumed in (open_numbers(path, epochs=count), dataset):
        resumed.load_state_dict(state)
        assert list(resumed) == following
    check_nothing_is_left(lambda: open_numbers(path, epochs=count), state, following)


def test_all_batches_of_an_epoch_were_counted(path: str, epochs: list[list[Any]]) -> None:
    dataset = open_numbers(path)
    dataset.resume(epoch=4, batches=BATCHES)
    assert list(dataset) == epochs[5]
    dataset.resume(epoch=4, batches=BATCHES)
    dataset.set_epoch(4)
    assert list(dataset) == []
    assert list(dataset) == epochs[5]


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


# Workers that are not persistent start in each of these rounds, which takes far longer.
@pytest.mark.parametrize(("persistent", "times"), [(False, TIMES // 3), (True, TIMES)])
def test_workers_of_a_plain_loader(
    path: str, epochs: list[list[Any]], times: int, *, persistent: bool
) -> None:
    """Loops that run to their end advance; those left before workers reach it do not."""
    rng = random.Random(6)
    dataset = open_numbers(path)
    loader: Any = DataLoader(
        dataset,
        batch_size=None,
        num_workers=2,
        prefetch_factor=1,
        persistent_workers=persistent,
    )
    counts = [
        None,
        *(rng.choice([None, *range(BATCHES - 2)]) for _ in range(times)),
    ]
    assert follow(loader, epochs, counts) > 1


def test_abandoned_workers_that_still_run(path: str, epochs: list[list[Any]]) -> None:
    rng = random.Random(7)
    loader: Any = DataLoader(open_numbers(path), batch_size=None, num_workers=2, prefetch_factor=1)
    for epoch in range(8):
        abandoned = [iter(loader) for _ in range(rng.randrange(1, 3))]
        next(abandoned[0])
        assert list(loader) == epochs[epoch]
        # What becomes of the others no longer counts.
        for iterator in abandoned:
            list(iterator)


@pytest.mark.slow
def test_workers_that_receive_the_dataset(path: str, epochs: list[list[Any]]) -> None:
    loader: Any = DataLoader(
        open_numbers(path),
        batch_size=None,
        num_workers=2,
        multiprocessing_context="forkserver",
        prefetch_factor=1,
    )
    assert follow(loader, epochs, [None, 1, 0, None, None]) == 3


class TestWarning:
    @pytest.fixture
    def log(self, tmp_path: Path) -> Iterator[Path]:
        """Return the file to which forked workers log."""
        handler = logging.FileHandler(tmp_path / "log")
        logging.getLogger("torchrec_io").addHandler(handler)
        yield tmp_path / "log"
        logging.getLogger("torchrec_io").removeHandler(handler)
        handler.close()

    @staticmethod
    def load(path: str, **ranks: Any) -> DataLoader[Any]:
        return DataLoader(open_numbers(path, **ranks), batch_size=None, num_workers=2)

    def test_several_ranks_are_warned_once(self, path: str, log: Path) -> None:
        loader = self.load(path, rank=0, world_size=2)
        list(loader)
        assert log.read_text("utf-8") == ""
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
        assert log.read_text("utf-8") == ""


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


def _hammer(numbers: torch.Tensor, barrier: Any, seen: torch.Tensor, worker: int) -> None:
    clock = EpochClock(numbers)
    for number in range(1, ROUNDS + 1):
        barrier.wait()
        epoch, _ = clock.begin(number)
        seen[worker, number - 1] = epoch
        clock.end(number - 1, WORKERS, 10**6)  # an earlier iteration no longer counts
        clock.end(number, WORKERS, epoch + 1)
        barrier.wait()


def test_processes_that_begin_and_end_at_once() -> None:
    """All workers of an iteration get one epoch, and only the last end moves the clock."""
    context = multiprocessing.get_context("fork")
    clock, numbers = new_clock()
    seen = torch.zeros((WORKERS, ROUNDS), dtype=torch.int64)
    seen.share_memory_()  # type: ignore[no-untyped-call]
    barrier = context.Barrier(WORKERS)
    processes = [
        context.Process(target=_hammer, args=(numbers, barrier, seen, worker))
        for worker in range(WORKERS)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=120)
        assert process.exitcode == 0
    assert seen.tolist() == [list(range(ROUNDS))] * WORKERS
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


def test_iterations_of_this_process_that_end() -> None:
    epochs = Epochs()
    first, second = epochs.begin(), epochs.begin()
    first(3)
    assert epochs.epoch == 3
    second(1)
    assert epochs.epoch == 3
    before = epochs.begin()
    epochs.set_epoch(3)
    after = epochs.begin()
    before(4)
    assert epochs.epoch == 3
    after(4)
    assert epochs.epoch == 4


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
