"""Saving and resuming: a resumed dataset yields exactly the remaining records."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.cover import pairs
from tests.support.datasets import open_records, record, write_files
from tests.support.states import iterations_of, rest_of, states_of, through_json
from tests.support.tfrecord import write_tfrecord
from torchrec_io._records.record_reader import RecordReader

SIZES = [13, 0, 7, 10]
COUNT = sum(SIZES)
SHUFFLES = [
    False,
    True,
    10,
    tio.Shuffle(block=4, window=9),
    tio.Shuffle(block=4, window=9, lanes=2),
]


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return write_files(tmp_path_factory.mktemp("resume"), SIZES)


def make(paths: Any, **options: Any) -> Any:
    return open_records(paths, **{"batch_size": 4, "seed": 5, "uneven": "keep", **options})


def ids_of(items: Any) -> list[Any]:
    return [item["id"].tolist() for item in items]


def flat(lists: list[list[int]]) -> list[int]:
    return [number for one in lists for number in one]


class TestInOneProcess:
    @pytest.mark.parametrize(
        ("shuffle", "epochs", "batch_size", "threads"),
        pairs(SHUFFLES, [1, 3], [4, 30, None], [1, 3]),
        ids=str,
    )
    def test_resuming_at_every_step_yields_the_remaining_records(
        self, paths: list[str], shuffle: Any, epochs: int, batch_size: int | None, threads: int
    ) -> None:
        options = {"shuffle": shuffle, "epochs": epochs, "batch_size": batch_size}
        dataset = make(paths, num_threads=threads, **options)
        whole, following = iterations_of(dataset, 2, epoch=2)
        dataset.set_epoch(2)
        # Use some of three epochs of samples, but all of a single epoch.
        every = 7 if batch_size is None and epochs > 1 else 1
        for given_, state in itertools.islice(states_of(dataset), 0, None, every):
            other = make(paths, **options)
            other.load_state_dict(state)
            if given_ < len(whole):
                assert other.state_dict() == state
                assert ids_of(other) == whole[given_:]
            assert ids_of(other) == following  # the next iteration is complete

    def test_same_dataset_loads_an_earlier_state(self, paths: list[str]) -> None:
        dataset = make(paths, shuffle=True)
        states = dict(states_of(dataset))
        whole, following = iterations_of(make(paths, shuffle=True), 2)
        for given_ in (5, 2, 8, 7, 0):
            dataset.load_state_dict(states[given_])
            assert ids_of(dataset) == rest_of(whole, following, given_)

    def test_resumed_iteration_can_be_saved(self, paths: list[str]) -> None:
        dataset = make(paths, shuffle=True, epochs=2)
        state = dataset.state_dict()
        whole, following = iterations_of(dataset, 2)
        seen: list[list[int]] = []
        for _ in range(2 * len(whole)):  # one step, save, restart
            fresh = make(paths, shuffle=True, epochs=2)
            fresh.load_state_dict(state)
            seen += ids_of(itertools.islice(iter(fresh), 1))
            state = through_json(fresh.state_dict())
        assert seen == whole + following

    @given(
        bad=st.sets(st.integers(0, COUNT - 1)),
        batch_size=st.one_of(st.none(), st.integers(1, 8)),
        rank=st.integers(0, 2),
        shuffle=st.booleans(),
        drop_last=st.booleans(),
        taken=st.floats(0, 1),
    )
    def test_resuming_with_skipped_records(
        self,
        tmp_path_factory: pytest.TempPathFactory,
        bad: set[int],
        batch_size: int | None,
        taken: float,
        **options: Any,
    ) -> None:
        path = str(tmp_path_factory.mktemp("bad") / "a.tfrecord")
        write_tfrecord(path, [b"\xff" if i in bad else record(i) for i in range(COUNT)])
        options["drop_last"] &= batch_size is not None
        options |= {"batch_size": batch_size, "world_size": 3, "on_error": "skip", "epochs": 2}
        dataset = make(path, **options)
        whole, following = iterations_of(dataset, 2)
        dataset.set_epoch(0)
        count = int(taken * len(whole))
        assert ids_of(itertools.islice(dataset, count)) == whole[:count]
        other = make(path, **options)
        other.load_state_dict(through_json(dataset.state_dict()))
        rest = ids_of(other)
        if count == len(whole) and not rest:  # skipped records were left
            rest = ids_of(other)
        assert rest == rest_of(whole, following, count)

    def test_consumed_records_are_not_read(
        self, paths: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
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
            assert read == flat(first)


class TestEpochs:
    def test_set_epoch_keeps_a_position_only_in_that_epoch(self, paths: list[str]) -> None:
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

    def test_state_follows_the_last_set_epoch_or_iteration(self, paths: list[str]) -> None:
        dataset = make(paths, shuffle=True)
        list(dataset)
        dataset.set_epoch(4)
        assert dataset.state_dict()["epoch"] == 4
        fourth = iter(dataset)
        next(fourth)
        state = dataset.state_dict()
        assert (state["epoch"], state["consumed"]) == (4, 4)
        dataset.set_epoch(4)
        assert dataset.state_dict() == state
        # StatefulDataLoader loads the state after set_epoch.
        other = make(paths, shuffle=True)
        other.set_epoch(5)
        other.load_state_dict(state)
        dataset.set_epoch(5)
        assert ids_of(other) == ids_of(dataset)


@pytest.mark.parametrize("batch_size", [4, None])
class TestSeveralIterators:
    """The state is that of the iterator that yielded last; each iterator is independent."""

    def test_the_iterator_that_yielded_last(self, paths: list[str], batch_size: int | None) -> None:
        dataset = make(paths, shuffle=True, batch_size=batch_size)
        plain = dataset.replace()
        states = [plain.state_dict() for _ in plain]
        choices = random.Random(1)
        iterators = [iter(dataset) for _ in range(3)]
        taken = [0, 0, 0]
        while (choice := choices.randrange(3)) >= 0 and taken[choice] < len(states):
            next(iterators[choice])
            taken[choice] += 1
            assert dataset.state_dict() == states[taken[choice] - 1]
        dataset.set_epoch(0)
        last = iter(dataset)
        next(last)
        assert dataset.state_dict() == states[0]
        del iterators
        next(last)
        assert dataset.state_dict() == states[1]

    def test_a_state_that_is_loaded_in_a_loop(
        self, paths: list[str], batch_size: int | None
    ) -> None:
        dataset = make(paths, shuffle=True, batch_size=batch_size)
        whole = ids_of(dataset.replace())
        first = iter(dataset)
        next(first)
        state = dataset.state_dict()
        second = iter(dataset)
        next(second)
        dataset.load_state_dict(state)
        next(first)
        next(second)
        assert dataset.state_dict() == state
        assert ids_of(dataset) == whole[1:]
        assert next(first)["id"].tolist() == next(second)["id"].tolist() == whole[2]


class TestOtherWorlds:
    """Resuming with another number of ranks."""

    @given(
        before=st.integers(1, 4),
        after=st.integers(1, 4),
        batch_size=st.integers(1, 5),
        steps=st.integers(0, 20),
        shuffle=st.sampled_from(SHUFFLES[:-1]),  # lanes fit only some numbers of ranks
    )
    def test_the_same_global_order_continues(
        self,
        paths: list[str],
        *,
        before: int,
        after: int,
        batch_size: int,
        steps: int,
        shuffle: Any,
    ) -> None:
        common = {"batch_size": batch_size, "shuffle": shuffle}
        (order,) = ids_of(make(paths, shuffle=shuffle, batch_size=COUNT))
        state = state_after(steps, paths, rank=before - 1, world_size=before, **common)
        step = after * batch_size
        ranks = []
        for rank in range(after):
            dataset = make(paths, rank=rank, world_size=after, epochs=2, **common)
            # The interrupted run was in its only epoch.
            dataset.load_state_dict(state)
            ranks.append(ids_of(dataset))
        first = order[min(steps * before * batch_size, COUNT) :]
        full = len(first) // step
        for number in range(full):
            came = flat([rank[number] for rank in ranks])
            assert came == first[number * step : (number + 1) * step]
        every = sorted(n for rank in ranks for batch in rank for n in batch)
        assert every == sorted(first + list(range(COUNT)))

    def test_inside_a_global_step_only_the_same_world_size_can_resume(self, tmp_path: Path) -> None:
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
        self, tmp_path: Path, batch_size: int | None
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

    def test_single_rank_may_lose_records(self, tmp_path: Path) -> None:
        path = str(tmp_path / "a.tfrecord")
        write_tfrecord(path, [b"\xff" if i in (0, 5) else record(i) for i in range(COUNT)])
        dataset = make(path, on_error="skip")
        seen = ids_of(itertools.islice(iter(dataset), 2))
        for rank in range(3):
            other = make(path, on_error="skip", rank=rank, world_size=3)
            other.load_state_dict(dataset.state_dict())
            seen += ids_of(other)
        assert sorted(flat(seen)) == [i for i in range(COUNT) if i not in (0, 5)]


def state_after(given_: int, paths: Any, **options: Any) -> dict[str, Any]:
    dataset = make(paths, epochs=1, **options)
    iterator = iter(dataset)
    for _ in range(given_):
        next(iterator, None)
    state: dict[str, Any] = dataset.state_dict()
    return state


class TestPlainDataLoader:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("workers", "persistent"),
        [(0, False), *itertools.product([1, 2, 3, 5], [False, True])],
    )
    def test_batches_are_counted(self, paths: list[str], workers: int, persistent: bool) -> None:
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

    def test_a_state_of_one_process_resumes_in_workers(self, paths: list[str]) -> None:
        whole = ids_of(make(paths, shuffle=True))
        dataset = make(paths, shuffle=True)
        dataset.load_state_dict(state_after(3, paths, shuffle=True))
        loader = DataLoader(dataset, batch_size=None, num_workers=2, multiprocessing_context="fork")
        assert ids_of(loader) == whole[3:]

    def test_the_parent_does_not_know_the_position_of_workers(self, paths: list[str]) -> None:
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
        self, paths: list[str], options: Any, arguments: dict[str, int], reason: str
    ) -> None:
        with pytest.raises(ValueError, match=reason):
            make(paths, **options).resume(**arguments)


class TestRefused:
    @pytest.fixture
    def state(self, paths: list[str]) -> dict[str, Any]:
        return state_after(2, paths, shuffle=True)

    @pytest.mark.parametrize(
        ("options", "reason"),
        [
            ({"seed": 6}, "seed is 6 here and 5 in the state"),
            ({"shuffle": 9}, "shuffle is '9' here and 'True' in the state"),
            ({"shuffle": False, "seed": 1}, "shuffle is 'False' here .*; seed is 1 here"),
            ({"batch_size": 5}, "batch_size is 5 here and 4 in the state"),
            ({"batch_size": None}, "batch_size is None here and 4 in the state"),
            ({"split": "[:50%]"}, "records is 15 here and 30 in the state; split is"),
        ],
    )
    def test_another_order(
        self, paths: list[str], state: dict[str, Any], options: dict[str, Any], reason: str
    ) -> None:
        with pytest.raises(tio.StateMismatchError, match=f"does not match .*: .*{reason}"):
            make(paths, **{"shuffle": True, **options}).load_state_dict(state)

    def test_other_files(self, paths: list[str], state: dict[str, Any], tmp_path: Path) -> None:
        for other in (paths[::-1], paths[:2], write_files(tmp_path, [12, 0, 8, 10])):
            with pytest.raises(tio.StateMismatchError, match="files is"):
                make(other, shuffle=True).load_state_dict(state)

    def test_moved_files_match(
        self, paths: list[str], state: dict[str, Any], tmp_path: Path
    ) -> None:
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
    def test_invalid_states(self, paths: list[str], state: dict[str, Any], change: Any) -> None:
        change(state)
        with pytest.raises(tio.StateMismatchError, match="this is not a state of a dataset"):
            make(paths, shuffle=True).load_state_dict(state)

    def test_another_version(self, paths: list[str], state: dict[str, Any]) -> None:
        with pytest.raises(tio.StateMismatchError, match="version 2, this release reads 1"):
            make(paths, shuffle=True).load_state_dict({**state, "version": 2})
