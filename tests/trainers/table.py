"""The table of results.md, from the results of all cells."""

from __future__ import annotations

from collections.abc import Mapping

from tests.trainers.cells import LOADERS, TRAINERS, Cell, all_cells

TITLES = {
    "ddp": "a loop of your own",
    "fsdp2": "FSDP2",
    "accelerate": "Accelerate",
    "transformers": "`transformers.Trainer`",
    "lightning": "Lightning",
}
# Kind of the dataset and what makes the batches.
KINDS = {
    ("iterable", "loader"): "samples",
    ("iterable", "dataset"): "batches",
    ("map", "loader"): "map-style",
}
_HEADER = "| Trainer | How it is used | Dataset | " + " | ".join(f"`{name}`" for name in LOADERS)


def make_table(results: Mapping[str, str]) -> str:
    """Return the table of what comes in two processes.

    Args:
        results: What came of each cell, by its name.
    """
    rows = [f"{_HEADER} |", "| --- " * (3 + len(LOADERS)) + "|"]
    for trainer in TRAINERS:
        modes = _modes_by_outcome(trainer, results)
        for (kind, *outcomes), names in modes.items():
            rows.append(f"| {' | '.join([TITLES[trainer], ', '.join(names), kind, *outcomes])} |")
    return "\n".join(rows) + "\n"


def _modes_by_outcome(trainer: str, results: Mapping[str, str]) -> dict[tuple[str, ...], list[str]]:
    """Return the modes of a trainer that have the same outcomes, by kind and outcome."""
    cells = [cell for cell in all_cells(trainer) if cell.world_size == 2]
    modes: dict[tuple[str, ...], list[str]] = {}
    for mode in dict.fromkeys(cell.mode for cell in cells):
        for values, kind in KINDS.items():
            same = [c for c in cells if c.mode == mode and (c.kind, c.batched_by) == values]
            if same:
                row = (kind, *(_outcome(same, loader, results) for loader in LOADERS))
                modes.setdefault(row, []).append(mode)
    return modes


def _outcome(cells: list[Cell], loader: str, results: Mapping[str, str]) -> str:
    """Return what comes with a loader, whatever its workers."""
    found = {results[c.name] for c in cells if c.loader == loader and c.name in results}
    return " or ".join(sorted(found)) if found else "-"
