"""The table of docs/trainers.md is what came of the cells."""

from __future__ import annotations

import json

from tests.trainers.cells import TRAINERS, covering_cells
from tests.trainers.expected import expected
from tests.trainers.full import PAGE, RESULTS
from tests.trainers.table import make_table

CELLS = json.loads(RESULTS.read_text("utf-8"))["cells"]


def test_the_page_has_the_results() -> None:
    assert make_table(CELLS) in PAGE.read_text("utf-8")


def test_the_results_are_as_expected() -> None:
    for trainer in TRAINERS:
        for cell in covering_cells(trainer):
            must = expected(cell)
            repeated = f", {must.repeated} repeated" if must.repeated else ""
            assert CELLS[cell.name] == ("error" if must.error is not None else f"once{repeated}"), (
                cell.name
            )
    assert not [name for name, text in CELLS.items() if text.startswith("WRONG")]
