"""Run all cells, and write their results and the table of results.md.

    python -m tests.trainers.full [--check] [TRAINER ...]

``--check`` only compares the results with those that were written. ``make trainers`` runs both,
with the two newest releases of Accelerate.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.conftest import ROOT
from tests.trainers.cells import TRAINERS, Cell, all_cells
from tests.trainers.expected import RESULTS, check, known_results
from tests.trainers.launch import launch
from tests.trainers.table import make_table

PAGE = ROOT / "tests" / "trainers" / "results.md"
_LIBRARIES = ("torch", "torchdata", "accelerate", "transformers", "lightning")


def results_of(cells: Sequence[Cell], known: Mapping[str, str]) -> dict[str, str]:
    """Run cells, and return what came of each, by its name; ``known`` is what must come."""
    results = {}
    for trainer in dict.fromkeys(cell.trainer for cell in cells):
        for world_size in (1, 2):
            some = [c for c in cells if (c.trainer, c.world_size) == (trainer, world_size)]
            with tempfile.TemporaryDirectory() as folder:
                found = launch(some, Path(folder)) if some else []
            for cell, outcome in zip(some, found, strict=True):
                wrong = check(cell, outcome, known.get(cell.name))
                results[cell.name] = f"WRONG: {wrong}" if wrong else outcome.in_short()
            print(f"{trainer}, {world_size} processes: {len(some)} cells", flush=True)
    return results


def write(results: dict[str, str]) -> None:
    """Write the results, and the table of the page."""
    versions = {name: importlib.metadata.version(name) for name in _LIBRARIES}
    RESULTS.write_text(json.dumps({"versions": versions, "cells": results}, indent=1) + "\n")
    text = PAGE.read_text("utf-8")
    # The lambda keeps backslashes of the table as they are.
    text = re.sub(
        r"(?ms)^\| Trainer \| How it is used .*?\n(?=\n)", lambda _: make_table(results), text
    )
    PAGE.write_text(text, "utf-8")


def main() -> None:
    """Run the cells of some trainers, or of all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("trainers", nargs="*", default=TRAINERS)
    args = parser.parse_args()
    cells = [cell for name in args.trainers for cell in all_cells(name)]
    results = results_of(cells, known_results() if args.check else {})
    wrong = {name: text for name, text in results.items() if text.startswith("WRONG")}
    if not args.check:
        write(results)
    sys.exit("\n".join(f"{name}: {text}" for name, text in wrong.items()) or 0)


if __name__ == "__main__":
    main()
