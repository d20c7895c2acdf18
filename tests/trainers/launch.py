"""Launch cells with torchrun, and judge what came of them."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.conftest import ROOT
from tests.trainers.cells import BATCH_SIZE, LIMIT, NUM_RECORDS, Cell
from tests.trainers.data import write_data


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What came of a cell, of all its ranks together.

    Attributes:
        lost: Number of records that did not come, in each epoch.
        repeated: Number of records that came again, in each epoch.
        new_order: Whether the second epoch had another order than the first.
        equal_steps: Whether all ranks had equally many steps.
        error: Error that was raised before the first step.
        problem: What else went wrong: an error after the first step, or a rank that had to be
            stopped.
    """

    lost: tuple[int, ...] = ()
    repeated: tuple[int, ...] = ()
    new_order: bool = False
    equal_steps: bool = True
    error: str | None = None
    problem: str | None = None

    def in_short(self) -> str:
        """Return the outcome for a table."""
        if self.error is not None:
            return "error"
        repeated = max(self.repeated)
        return f"once, {repeated} repeated" if repeated else "once"


Result = dict[str, Any]  # of one rank


def launch(cells: Sequence[Cell], folder: Path) -> list[Outcome]:
    """Run cells that have the same number of processes, and return what came of each.

    Args:
        cells: The cells.
        folder: An empty folder.
    """
    results = launch_jobs([(cell, {}) for cell in cells], folder)
    return [judge(cell, ranks) for cell, ranks in zip(cells, results, strict=True)]


def launch_jobs(jobs: Sequence[tuple[Cell, dict[str, Any]]], folder: Path) -> list[list[Result]]:
    """Run cells with arguments of ``run_resumably``, if any; return the results of their ranks."""
    [world_size] = {cell.world_size for cell, _ in jobs}
    write_data(folder)
    listed = [{"cell": dataclasses.asdict(cell), **job} for cell, job in jobs]
    (folder / "jobs.json").write_text(json.dumps(listed), "utf-8")
    run = [
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--local-addr=127.0.0.1",
        f"--nproc-per-node={world_size}",
    ]
    with (folder / "log.txt").open("w") as log:
        done = subprocess.run(
            [sys.executable, *run, "-m", "tests.trainers.run_cells", str(folder)],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
    if done.returncode:
        raise RuntimeError((folder / "log.txt").read_text("utf-8")[-5000:])
    return [
        [
            json.loads((folder / f"{job}-{rank}.json").read_text("utf-8"))
            for rank in range(world_size)
        ]
        for job in range(len(jobs))
    ]


def judge(cell: Cell, ranks: Sequence[Result]) -> Outcome:
    """Return what came of a cell from the results of its ranks."""
    errors = [rank["error"] for rank in ranks if rank.get("error")]
    if errors:
        begun = any(any(rank.get("epochs", [])) for rank in ranks)
        first = errors[0].splitlines()
        text = " ".join(line.strip() for line in first)
        return Outcome(problem=f"after the first step: {text}") if begun else Outcome(error=text)
    if any(rank.get("stopped") for rank in ranks):
        return Outcome(problem="a rank did not end")
    epochs = [
        [number for steps in parts for numbers in steps for number in numbers]
        for parts in zip(*(rank["epochs"] for rank in ranks), strict=True)
    ]
    steps = {tuple(map(len, rank["epochs"])) for rank in ranks}
    counts = [Counter(numbers) for numbers in epochs]
    expected = NUM_RECORDS
    if cell.mode == "limit":
        expected = BATCH_SIZE * LIMIT * len(ranks)
    return Outcome(
        lost=tuple(expected - len(count) for count in counts),
        repeated=tuple(count.total() - len(count) for count in counts),
        new_order=len(epochs) > 1 and epochs[0] != epochs[1],
        equal_steps=len(steps) == 1,
    )
