"""Runs on meshes of four processes: which records each reads, and how a checkpoint continues."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.trainers.cells import EPOCHS, NUM_RECORDS, Cell
from tests.trainers.launch import Result, launch_jobs

CELL = Cell("fsdp2", "mesh", "make_loader", "iterable", "dataset", 4, "none")
GLOBAL_BATCH = 400
STEPS = -(-NUM_RECORDS // GLOBAL_BATCH)
SAVE_AT = [1, STEPS, STEPS + 2]
# Sizes of the dimensions. The ranks of each mesh have the same global batch together.
TENSOR_PARALLEL = {"dp": 2, "tp": 2}
PIPELINE = {"pp": 2, "dp": 2}
HYBRID = {"dp_replicate": 2, "dp_shard": 2}


def job(sizes: Mapping[str, int], folder: Path, **options: Any) -> tuple[Cell, dict[str, Any]]:
    ranks = 4 if sizes is HYBRID else 2
    size = GLOBAL_BATCH // ranks
    return CELL, {"folder": str(folder), "sizes": sizes, "batch_size": size, **options}


def steps_of(ranks: list[Result], sizes: Mapping[str, int]) -> list[list[int]]:
    """Return the records of each global step, in the order of the ranks that divide them.

    Peers must read the same records.
    """
    for rank in ranks:
        assert rank.get("error") is None, rank["place"]
    by_rank = [[numbers for epoch in rank["epochs"] for numbers in epoch] for rank in ranks]
    if sizes is TENSOR_PARALLEL:
        assert by_rank[0::2] == by_rank[1::2]
        by_rank = by_rank[0::2]
    elif sizes is PIPELINE:
        assert by_rank[:2] == by_rank[2:]
        by_rank = by_rank[:2]
    return [[*itertools.chain(*batches)] for batches in zip(*by_rank, strict=True)]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_checkpoint_is_loaded_on_another_mesh(tmp_path: Path) -> None:
    jobs = [job(TENSOR_PARALLEL, tmp_path / "checkpoints", save_at=SAVE_AT)]
    for sizes in (TENSOR_PARALLEL, PIPELINE, HYBRID):
        jobs += [job(sizes, tmp_path / "checkpoints", resume_at=step) for step in SAVE_AT]
    found = launch_jobs(jobs, tmp_path)
    whole = steps_of(found[0], TENSOR_PARALLEL)
    assert len(whole) == STEPS * EPOCHS
    for epoch in range(EPOCHS):
        numbers = [*itertools.chain(*whole[STEPS * epoch : STEPS * (epoch + 1)])]
        assert len(set(numbers)) == len(numbers) == NUM_RECORDS - 1  # that are even
    assert whole[:STEPS] != whole[STEPS:]
    for (_, options), ranks in zip(jobs[1:], found[1:], strict=True):
        assert steps_of(ranks, options["sizes"]) == whole[options["resume_at"] :], options
