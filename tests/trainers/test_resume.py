"""Training continues after a checkpoint with exactly the steps that an uninterrupted run has.

The resumed run is another process: it has nothing but the checkpoint.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.cover import cover
from tests.trainers.cells import BATCH_SIZE, EPOCHS, NUM_RECORDS, Cell
from tests.trainers.launch import Result, launch_jobs

pytestmark = pytest.mark.timeout(600)

CELLS = [
    Cell(trainer, mode, loader, "iterable", batched_by, 1, workers)
    for trainer, mode, loaders in [
        ("lightning", "fit", ["make_loader", "StatefulDataLoader"]),
        ("accelerate", "dispatch", ["make_loader", "StatefulDataLoader", "DataLoader"]),
        ("accelerate", "shard", ["StatefulDataLoader", "DataLoader"]),
        ("transformers", "train", ["make_loader", "StatefulDataLoader", "DataLoader"]),
    ]
    for loader in loaders
    for batched_by in ("loader", "dataset")
    for workers in ("none", "2 fork")
    # Accelerate takes the batches of a dataset only from make_loader.
    if not (batched_by == "dataset" and trainer != "lightning" and loader != "make_loader")
]


def steps_of(result: Result) -> list[list[int]]:
    assert result.get("error") is None, result["place"]
    return [numbers for epoch in result["epochs"] for numbers in epoch]


def num_steps(cell: Cell) -> int:
    """Number of steps in an epoch."""
    return -(-NUM_RECORDS // (BATCH_SIZE * cell.world_size))


def jobs_of(cell: Cell, folder: Path) -> list[dict[str, Any]]:
    """Return an uninterrupted run, and those that resume it in and after its epochs."""
    steps = num_steps(cell)
    save_at = [1, steps - 1, steps, steps + 4]
    is_stateful = cell.loader == "StatefulDataLoader"
    if is_stateful and (cell.trainer == "lightning" or cell.world_size > 1):
        save_at.remove(steps)  # docs/trainers.md says that this state is not exact
    jobs: list[dict[str, Any]] = [
        {"save_at": save_at},
        *({"resume_at": step} for step in save_at),
    ]
    if cell.trainer == "lightning" and not is_stateful:
        jobs += [{"epochs": 1}, {"resume_at": steps}]
    return [{"folder": str(folder), **job} for job in jobs]


@pytest.mark.parametrize(
    "world_size",
    [pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.long)],
)
@pytest.mark.parametrize("trainer", ["lightning", "accelerate", "transformers"])
def test_a_resumed_run_is_the_rest(trainer: str, world_size: int, tmp_path: Path) -> None:
    cells = [
        Cell(**{**vars(cell), "world_size": world_size})
        for cell in (CELLS if world_size > 1 else cover(CELLS))
        if cell.trainer == trainer
        # All processes write the same file: docs/trainers.md.
        and not (world_size > 1 and cell.mode == "dispatch" and cell.loader == "StatefulDataLoader")
    ]
    jobs = [
        (cell, job)
        for number, cell in enumerate(cells)
        for job in jobs_of(cell, tmp_path / f"run{number}")
    ]
    found = launch_jobs(jobs, tmp_path)
    wrong = []
    whole: list[list[list[int]]] = []
    for (cell, job), ranks in zip(jobs, found, strict=True):
        try:
            runs = [steps_of(rank) for rank in ranks]
        except (AssertionError, KeyError) as error:
            wrong.append(f"{cell.name} {job}: {str(error)[-2500:]}")
            continue
        resumed_at = job.get("resume_at", 0)
        if "save_at" in job:
            assert [len(run) for run in runs] == [num_steps(cell) * EPOCHS] * world_size
            whole = runs
        elif "epochs" not in job and runs != [run[resumed_at:] for run in whole]:
            wrong.append(f"{cell.name} {job}: {[len(run) for run in runs]} other steps")
    assert not wrong, "\n\n".join(wrong)
