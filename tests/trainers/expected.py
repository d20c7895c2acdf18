"""What must come of each cell of the matrix: the results that results.md shows."""

from __future__ import annotations

import json
from pathlib import Path

from tests.trainers.cells import Cell
from tests.trainers.launch import Outcome

RESULTS = Path(__file__).parent / "results.json"


def known_results() -> dict[str, str]:
    """Return what came of each cell, by its name."""
    cells: dict[str, str] = json.loads(RESULTS.read_text("utf-8"))["cells"]
    return cells


def check(cell: Cell, found: Outcome, known: str | None = None) -> str | None:
    """Return what is wrong with an outcome; None if it is right.

    Args:
        cell: The cell.
        found: What came of it.
        known: Result that the cell must have. None for any that does not lose records.
    """
    if found.problem:
        return found.problem
    if found.error is not None:
        wrong = _remedy(cell) not in found.error
    else:
        is_new = found.new_order or not _has_new_order(cell)
        # Whole batches of a map-style dataset are left over for some ranks.
        is_equal = found.equal_steps or "uneven" in cell.mode
        wrong = any(found.lost) or len({*found.repeated}) > 1 or not (is_new and is_equal)
    if wrong or found.in_short() != (known or found.in_short()):
        return f"{found} where {known!r} was expected"
    return None


def trainer_divides(cell: Cell) -> bool:
    """Return whether Accelerate divides what the loader yields among the processes."""
    if cell.loader == "make_loader":
        return False  # it has the share of its process
    if cell.trainer == "transformers":
        return True  # Accelerate does
    return cell.trainer == "accelerate" and cell.mode not in ("unprepared", "ranked")


def _has_new_order(cell: Cell) -> bool:
    """Return whether each epoch must have another order."""
    if cell.mode in ("validate", "evaluate", "predict"):
        return False  # not shuffled
    # PyTorch's DistributedSampler must be told the epoch.
    told = cell.mode == "set_epoch" or cell.trainer == "lightning" or trainer_divides(cell)
    is_told = told or cell.loader == "make_loader" or cell.world_size == 1
    return cell.kind == "iterable" or is_told


def _remedy(cell: Cell) -> str:
    """Return what the error of a cell must name, if there is one."""
    if cell.mode in ("unprepared", "ranked prepared") and cell.world_size > 1:
        return "prepare" if cell.mode == "unprepared" else "world_size"
    if cell.batched_by == "loader":  # whose workers start before it is known who divides records
        return "dispatch_batches=False"
    if cell.trainer == "transformers" and cell.loader == "DataLoader":
        # The trainer makes batches of the batches. Its own function may refuse them before.
        return "" if cell.mode == "train sharded" and cell.world_size == 1 else "make_loader"
    if "split" in cell.mode:
        return "split_batches"  # from Accelerate, because the loader has no batch size
    return "max_steps" if cell.trainer == "transformers" else "make_loader"
