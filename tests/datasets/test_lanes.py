"""Datasets whose shuffle has lanes: what each rank yields and reads, and how runs are resumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import torchrec_io as tio
from tests.support.datasets import ids_of, numbers_of, open_records, write_files
from torchrec_io._records.record_reader import ReadPlan, RecordReader

SIZES = [31, 0, 40, 22]
LANES = 12
SHUFFLE = tio.Shuffle(block=3, window=4, lanes=LANES)


def make(paths: Any, **options: Any) -> Any:
    return open_records(paths, **{"shuffle": SHUFFLE, "seed": 5, "uneven": "keep", **options})


def flat(lists: list[Any]) -> list[Any]:
    return [number for one in lists for number in one]


def test_a_number_of_ranks_that_does_not_fit(paths: list[str]) -> None:
    dataset = make(paths, rank=0, world_size=5, batch_size=12)
    for use in (list, len):
        with pytest.raises(ValueError, match="got 12 lanes for 5 ranks: use lanes=10 or 15, or"):
            use(dataset)


@pytest.mark.parametrize("world", [1, 4])
def test_parts_have_lanes_of_their_own(paths: list[str], world: int) -> None:
    whole = make(paths, batch_size=LANES // world)
    parts = [
        *whole.split(0.7, 0.3, seed=1),
        whole.where(lambda batch: batch["id"] % 3 == 0, features=["id"]),
        whole.select(range(5, 60)),
        make(paths, batch_size=LANES // world, split="[:50%]"),
    ]
    for part in parts:
        expected = sorted(numbers_of(part.replace(shuffle=False, rank=0, world_size=1)))
        ranks = [ids_of(part.replace(rank=rank, world_size=world)) for rank in range(world)]
        assert sorted(flat(flat(ranks))) == expected


@pytest.mark.parametrize(
    ("options", "block", "window"),
    [
        ({"world_size": 1, "batch_size": 16}, 10, 40),
        ({"world_size": 2, "batch_size": 16, "uneven": "drop", "num_threads": 1}, 10, 40),
        ({"world_size": 8, "batch_size": 16, "uneven": "pad"}, 10, 40),
        ({"world_size": 8, "batch_size": 1, "num_threads": 1}, 25, 5),
        ({"world_size": 4, "batch_size": 64, "uneven": "pad", "num_threads": 1}, 7, 100),
    ],
)
def test_a_rank_reads_what_it_yields(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: Any, block: int, window: int
) -> None:
    sizes: list[int] = []
    read = RecordReader.read

    def counted(self: RecordReader, plan: ReadPlan) -> Any:
        sizes.append(int(plan.ranges[:, 1].sum()))
        return read(self, plan)

    monkeypatch.setattr(RecordReader, "read", counted)
    paths = write_files(tmp_path, [900, 637])
    shuffle = tio.Shuffle(block=block, window=window, lanes=8)
    rank = options["world_size"] - 1
    dataset = make(paths, shuffle=shuffle, rank=rank, **options).replace(schema=None)
    for _ in range(2):
        sizes.clear()
        yielded = sum(len(record) + 16 for batch in dataset for record in batch)
        assert 0 < sum(sizes) <= 1.1 * yielded
