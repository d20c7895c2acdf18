"""Datasets whose shuffle has lanes: what each rank yields and reads, and how runs are resumed."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.datasets import open_records, write_files
from tests.support.loading import error_of
from torchrec_io._records.record_reader import ReadPlan, RecordReader

SIZES = [31, 0, 40, 22]
COUNT = sum(SIZES)
LANES = 12
WORLDS = [1, 2, 3, 4, 6, 12]
SHUFFLE = tio.Shuffle(block=3, window=4, lanes=LANES)


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return write_files(tmp_path_factory.mktemp("lanes"), SIZES)


def make(paths: Any, **options: Any) -> Any:
    return open_records(paths, **{"shuffle": SHUFFLE, "seed": 5, "uneven": "keep", **options})


def ids_of(items: Any) -> list[Any]:
    return [item["id"].tolist() for item in items]


def flat(lists: list[Any]) -> list[Any]:
    return [number for one in lists for number in one]


def ranks_of(paths: Any, world: int, state: Any = None, **options: Any) -> list[list[Any]]:
    """Return what each rank yields."""
    found = []
    for rank in range(world):
        dataset = make(paths, rank=rank, world_size=world, **options)
        if state is not None:
            dataset.load_state_dict(state)
        found.append(ids_of(dataset))
    return found


def steps_of(ranks: list[list[list[int]]]) -> list[list[int]]:
    """Return the records of each global step, sorted."""
    return [sorted(flat([*step])) for step in itertools.zip_longest(*ranks, fillvalue=[])]


class TestSteps:
    @pytest.mark.parametrize(("uneven", "epochs"), [("keep", 1), ("drop", 2), ("pad", 2)])
    @pytest.mark.parametrize("of_lane", [1, 2])
    def test_the_same_for_each_number_of_ranks(
        self, paths: list[str], uneven: str, epochs: int, of_lane: int
    ) -> None:
        size = LANES * of_lane
        found = [
            steps_of(ranks_of(paths, world, batch_size=size // world, uneven=uneven, epochs=epochs))
            for world in WORLDS
        ]
        assert all(steps == found[0] for steps in found)
        epoch = flat(found[0][: len(found[0]) // epochs])
        assert len(epoch) == {"keep": COUNT, "drop": 84, "pad": 96}[uneven]
        assert len(set(epoch)) == min(COUNT, len(epoch))

    def test_samples_come_in_steps_of_all_lanes(self, paths: list[str]) -> None:
        (whole,) = ranks_of(paths, 1)
        for world in WORLDS:
            own = LANES // world
            ranks = ranks_of(paths, world)
            for step in range(COUNT // LANES):
                part = slice(step * own, (step + 1) * own)
                came = sorted(flat([rank[part] for rank in ranks]))
                assert came == sorted(whole[step * LANES : (step + 1) * LANES])
            assert sorted(flat(ranks)) == list(range(COUNT))

    def test_each_lane_stays_with_its_rank(self, paths: list[str]) -> None:
        # Blocks of three records, and a piece of eight or nine records for each lane.
        options = {"shuffle": tio.Shuffle(block=3, window=50, lanes=2), "batch_size": 4}
        first, second = ({n // 3 for n in flat(rank)} for rank in ranks_of(paths, 2, **options))
        assert not {block for block in first & second if block < 30}

    def test_fewer_records_than_lanes(self, tmp_path: Path) -> None:
        for count in range(5):
            path = write_files(tmp_path, [count])
            options: dict[str, Any] = {"shuffle": tio.Shuffle(block=2, window=2, lanes=4)}
            for world in (1, 2, 4):
                kept = ranks_of(path, world, batch_size=4 // world, **options)
                assert sorted(flat(flat(kept))) == list(range(count))
                padded = ranks_of(path, world, batch_size=4 // world, uneven="pad", **options)
                assert len(flat(flat(padded))) == (4 if count else 0)
                assert set(flat(flat(padded))) == set(range(count))
                left = ranks_of(path, world, batch_size=4 // world, uneven="drop", **options)
                assert len(flat(flat(left))) == (4 if count == 4 else 0)


class TestResuming:
    @pytest.mark.parametrize("taken", [1, 5, 13])
    def test_inside_a_step_the_same_ranks_must_continue(self, paths: list[str], taken: int) -> None:
        for world in (1, 2):
            dataset = make(paths, rank=0, world_size=world)
            items = iter(dataset)
            [*itertools.islice(items, taken)]
            state = dataset.state_dict()
            other = make(paths, rank=0, world_size=4)
            other.load_state_dict(state)
            with pytest.raises(tio.StateMismatchError, match="inside a global step"):
                list(other)
            same = make(paths, rank=0, world_size=world)
            same.load_state_dict(state)
            assert ids_of(same) == ids_of(items)


class TestArguments:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (
                {"rank": 0, "world_size": 5, "batch_size": 12},
                "got 12 lanes for 5 ranks: use lanes=10 or 15, or world_size=4 or 6",
            ),
            (
                {"rank": 0, "world_size": 2, "batch_size": 8},
                "got 2 x 8 records: use batch_size=6 or 12, or lanes=8",
            ),
            ({"rank": 0, "world_size": 24}, "use lanes=24, or world_size=12"),
        ],
    )
    @pytest.mark.parametrize("workers", [0, 1])
    def test_ranks_and_batches_that_do_not_fit(
        self, paths: list[str], options: Any, message: str, workers: int
    ) -> None:
        dataset = make(paths, **options)
        loader = DataLoader(
            dataset,
            batch_size=None,
            num_workers=workers,
            multiprocessing_context="fork" if workers else None,
        )
        error = error_of(loader)
        assert isinstance(error, ValueError)
        assert message in str(error)
        with pytest.raises(ValueError, match=re.escape(message)):
            len(dataset)

    def test_ranks_with_different_numbers_of_batches_are_an_error(self, paths: list[str]) -> None:
        dataset = make(paths, uneven=None, rank=3, world_size=12, batch_size=1)
        with pytest.raises(ValueError, match="numbers of batches, from 7 to 8"):
            list(dataset)


class TestSelections:
    @pytest.mark.parametrize("world", [1, 4])
    def test_parts_have_lanes_of_their_own(self, paths: list[str], world: int) -> None:
        whole = make(paths, batch_size=LANES // world)
        parts = [
            *whole.split(0.7, 0.3, seed=1),
            whole.where(lambda batch: batch["id"] % 3 == 0, features=["id"]),
            whole.select(range(5, 60)),
            make(paths, batch_size=LANES // world, split="[:50%]"),
        ]
        for part in parts:
            expected = sorted(flat(ids_of(part.replace(shuffle=False, rank=0, world_size=1))))
            ranks = [ids_of(part.replace(rank=rank, world_size=world)) for rank in range(world)]
            assert sorted(flat(flat(ranks))) == expected


# ---- reading ----


@pytest.fixture
def read_bytes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the bytes that are read from files of records."""
    counts = [0]
    read = RecordReader.read

    def counted(self: RecordReader, plan: ReadPlan) -> Any:
        counts[0] += int(plan.ranges[:, 1].sum())
        return read(self, plan)

    monkeypatch.setattr(RecordReader, "read", counted)
    return counts


class TestReading:
    @pytest.mark.parametrize(
        ("world", "block", "window", "batch_size", "uneven", "threads"),
        [
            (1, 10, 40, 16, "keep", 3),
            (2, 10, 40, 16, "drop", 1),
            (8, 10, 40, 16, "pad", 3),
            (8, 25, 5, 1, "keep", 1),
            (4, 7, 100, 64, "drop", 3),
            (4, 7, 100, 64, "pad", 1),
        ],
    )
    def test_a_rank_reads_what_it_yields(
        self,
        tmp_path: Path,
        read_bytes: list[int],
        *,
        threads: int,
        world: int,
        block: int,
        window: int,
        batch_size: int,
        uneven: Any,
    ) -> None:
        paths = write_files(tmp_path, [900, 637])
        shuffle = tio.Shuffle(block=block, window=window, lanes=8)
        dataset = tio.TFRecordDataset(
            paths,
            batch_size=batch_size,
            shuffle=shuffle,
            rank=world - 1,
            world_size=world,
            uneven=uneven,
            num_threads=threads,
        )
        for _ in range(2):
            read_bytes[0] = 0
            yielded = sum(len(bytes(record)) + 16 for batch in dataset for record in batch)
            assert yielded > 0
            assert read_bytes[0] <= 1.1 * yielded
