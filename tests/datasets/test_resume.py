"""Saving and resuming: a resumed dataset yields exactly the remaining records."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.datasets import ids_of, numbers_of, open_records, record, write_files
from tests.support.states import iterations_of, rest_of, states_of
from tests.support.tfrecord import write_tfrecord
from torchrec_io._records.record_reader import RecordReader

SIZES = [13, 0, 7, 10]
COUNT = sum(SIZES)


def make(paths: Any, **options: Any) -> Any:
    return open_records(paths, **{"batch_size": 4, "seed": 5, "uneven": "keep", **options})


def test_consumed_records_are_not_read(paths: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    open_run = RecordReader.open_run

    def counting(self: RecordReader, plans: Any) -> Any:
        read.extend(number for plan in plans for number in plan.numbers.tolist())
        return open_run(self, plans)

    dataset = make(paths, shuffle=True, num_threads=1)
    whole, following = iterations_of(dataset, 2)
    dataset.set_epoch(0)
    states = dict(states_of(dataset))
    monkeypatch.setattr(RecordReader, "open_run", counting)
    for given_, state in states.items():
        other = make(paths, shuffle=True, num_threads=1)
        other.load_state_dict(state)
        read.clear()
        first = ids_of(itertools.islice(iter(other), 1))
        assert first == rest_of(whole, following, given_)[:1]
        assert read == [*itertools.chain(*first)]


def test_set_epoch_keeps_a_position_only_in_that_epoch(paths: list[str]) -> None:
    dataset = make(paths, shuffle=True)
    whole, following = iterations_of(dataset, 2, epoch=3)
    dataset.set_epoch(3)
    iterator = iter(dataset)
    next(iterator)
    state = dataset.state_dict()
    dataset.load_state_dict(state)
    dataset.set_epoch(3)
    assert ids_of(dataset) == whole[1:]
    dataset.load_state_dict(state)
    dataset.set_epoch(4)
    assert ids_of(dataset) == following
    dataset.set_epoch(3)
    assert ids_of(dataset) == whole


def test_state_follows_the_last_set_epoch_or_iteration(paths: list[str]) -> None:
    dataset = make(paths, shuffle=True)
    list(dataset)
    dataset.set_epoch(4)
    assert dataset.state_dict()["epoch"] == 4
    next(iter(dataset))
    state = dataset.state_dict()
    assert (state["epoch"], state["consumed"]) == (4, 4)
    dataset.set_epoch(4)
    assert dataset.state_dict() == state
    dataset.set_epoch(5)
    assert dataset.state_dict()["epoch"] == 5


@pytest.mark.parametrize("stream", [False, True])
def test_the_state_is_that_of_the_iterator_that_yielded_last(
    paths: list[str], stream: bool
) -> None:
    dataset = open_records(paths, batch_size=2, stream=stream)
    states = [dataset.state_dict() for _ in dataset]
    dataset = open_records(paths, batch_size=2, stream=stream)
    first = iter(dataset)
    for expected in states[:3]:
        next(first)
        assert dataset.state_dict() == expected
    second = iter(dataset)
    assert dataset.state_dict() == states[2]
    for expected in states[:2]:
        next(second)
        assert dataset.state_dict() == expected
    next(first)
    assert dataset.state_dict() == states[3]


# ---- other numbers of ranks ----


def test_inside_a_global_step_only_the_same_world_size_can_resume(tmp_path: Path) -> None:
    paths = write_files(tmp_path, [300])
    common = {"batch_size": None, "world_size": 2}
    state = state_after(3, paths, rank=0, **common)
    same = make(paths, rank=1, **common)
    same.load_state_dict(state)
    assert ids_of(same) == ids_of(make(paths, rank=1, **common))[3:]
    other = make(paths, rank=0, batch_size=None, world_size=3)
    other.load_state_dict(state)
    with pytest.raises(tio.StateMismatchError, match="inside a global step of 2 x 8"):
        iter(other)


@pytest.mark.parametrize("batch_size", [2, None])
def test_state_of_a_rank_with_lost_records_is_only_for_that_rank(
    tmp_path: Path, batch_size: int | None
) -> None:
    path = str(tmp_path / "a.tfrecord")
    write_tfrecord(path, [b"\xff" if i in (0, 1) else record(i) for i in range(16)])
    options: dict[str, Any] = {"on_error": "skip", "batch_size": batch_size}
    dataset = make(path, rank=0, world_size=2, **options)
    next(iter(dataset))
    for rank, world in ((1, 2), (0, 1), (0, 3)):
        other = make(path, rank=rank, world_size=world, **options)
        other.load_state_dict(dataset.state_dict())
        with pytest.raises(tio.StateMismatchError, match="rank 0 of 2 lost records"):
            iter(other)
    same = make(path, rank=0, world_size=2, **options)
    same.load_state_dict(dataset.state_dict())
    assert ids_of(same) == ids_of(make(path, rank=0, world_size=2, **options))[1:]


def test_single_rank_may_lose_records(tmp_path: Path) -> None:
    path = str(tmp_path / "a.tfrecord")
    write_tfrecord(path, [b"\xff" if i in (0, 5) else record(i) for i in range(COUNT)])
    dataset = make(path, on_error="skip")
    seen = numbers_of(itertools.islice(iter(dataset), 2))
    for rank in range(3):
        other = make(path, on_error="skip", rank=rank, world_size=3)
        other.load_state_dict(dataset.state_dict())
        seen += numbers_of(other)
    assert sorted(seen) == [i for i in range(COUNT) if i not in (0, 5)]


def state_after(given_: int, paths: Any, **options: Any) -> dict[str, Any]:
    dataset = make(paths, epochs=1, **options)
    iterator = iter(dataset)
    for _ in range(given_):
        next(iterator, None)
    state: dict[str, Any] = dataset.state_dict()
    return state


# ---- plain DataLoader ----


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workers", "persistent"),
    [(0, False), *itertools.product([1, 2, 3, 5], [False, True])],
)
def test_batches_are_counted(paths: list[str], workers: int, persistent: bool) -> None:
    whole = dict(enumerate(iterations_of(make(paths, shuffle=True), 3, epoch=3), 3))
    dataset = make(paths, shuffle=True)
    loader = DataLoader(
        dataset,
        batch_size=None,
        num_workers=workers,
        persistent_workers=persistent,
        multiprocessing_context="fork" if workers else None,
    )
    for batches in (1, 0, 5):
        dataset.resume(epoch=3, batches=batches)
        assert ids_of(loader) == whole[3][batches:]
        assert ids_of(loader) == whole[4]  # the position is used only once
        dataset.set_epoch(3)
        assert ids_of(loader) == whole[3]
    dataset.resume(epoch=3, batches=len(whole[3]))
    assert ids_of(loader) == whole[4]
    assert ids_of(loader) == whole[5]


def test_the_parent_does_not_know_the_position_of_workers(paths: list[str]) -> None:
    dataset = make(paths)
    loader = DataLoader(dataset, batch_size=None, num_workers=2, multiprocessing_context="fork")
    next(iter(loader))
    with pytest.raises(RuntimeError, match="count batches and call resume"):
        dataset.state_dict()
    dataset.resume(epoch=0, batches=1)
    dataset.state_dict()


@pytest.mark.parametrize(
    ("options", "arguments", "reason"),
    [
        ({}, {"epoch": 0, "batches": 9}, "batches must be at most 8, .* got 9"),
        ({}, {"epoch": -1, "batches": 1}, "epoch must be"),
        ({}, {"epoch": 0, "batches": -1}, "batches must be"),
        ({"batch_size": None}, {"epoch": 0, "batches": 1}, "the dataset needs a batch_size"),
    ],
)
def test_invalid_arguments_of_resume(
    paths: list[str], options: Any, arguments: dict[str, int], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        make(paths, **options).resume(**arguments)


# ---- states that are refused ----


@pytest.fixture
def state(paths: list[str]) -> dict[str, Any]:
    return state_after(2, paths, shuffle=True)


def test_other_files(paths: list[str], state: dict[str, Any], tmp_path: Path) -> None:
    for other in (paths[::-1], paths[:2], write_files(tmp_path, [12, 0, 8, 10])):
        with pytest.raises(tio.StateMismatchError, match="files is"):
            make(other, shuffle=True).load_state_dict(state)


def test_moved_files_match(paths: list[str], state: dict[str, Any], tmp_path: Path) -> None:
    moved = make(write_files(tmp_path, SIZES), shuffle=True)
    moved.load_state_dict(state)
    assert ids_of(moved) == ids_of(make(paths, shuffle=True))[2:]


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state.pop("epoch"),
        lambda state: state.update(consumed=-1),
        lambda state: state.update(consumed="3"),
        lambda state: state.update(by_rank=1),
        lambda state: state.update(by_batch_size=0),
        lambda state: state.update(order=None),
        lambda state: state.clear(),
    ],
)
def test_invalid_states(paths: list[str], state: dict[str, Any], change: Any) -> None:
    change(state)
    with pytest.raises(tio.StateMismatchError, match="this is not a state of a dataset"):
        make(paths, shuffle=True).load_state_dict(state)


def test_another_version_or_a_begin_after_the_end(paths: list[str], state: dict[str, Any]) -> None:
    with pytest.raises(tio.StateMismatchError, match=r"begin must be .* 0 to 30, got 31"):
        make(paths, shuffle=True).load_state_dict({**state, "begin": 31})
    with pytest.raises(tio.StateMismatchError, match="version 2, this release reads 1"):
        make(paths, shuffle=True).load_state_dict({**state, "version": 2})
