"""Each record comes once under each trainer, or there is an error before the first step.

Real processes are started by torchrun, once for each trainer and number of processes. This is a
choice of the cells; ``make trainers`` runs all of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.trainers.cells import TRAINERS, covering_cells
from tests.trainers.expected import check, known_results
from tests.trainers.launch import launch


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize("trainer", TRAINERS)
def test_each_record_comes_once(trainer: str, world_size: int, tmp_path: Path) -> None:
    cells = [cell for cell in covering_cells(trainer) if cell.world_size == world_size]
    found = launch(cells, tmp_path)
    known = known_results()
    wrong = {
        cell.name: problem
        for cell, outcome in zip(cells, found, strict=True)
        if (problem := check(cell, outcome, known[cell.name]))
    }
    assert not wrong
