"""The scenarios of ``make sanitize`` run, here without a sanitizer and for one round."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.sanitize.__main__ import SCENARIOS, main

EXITS = ["exits", "spawned_workers"]


@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if name not in EXITS])
def test_scenario(scenario: str, tmp_path: Path) -> None:
    main(str(tmp_path), 0, scenario)


@pytest.mark.long
@pytest.mark.parametrize("scenario", EXITS)
def test_scenario_of_new_processes(scenario: str, tmp_path: Path) -> None:
    main(str(tmp_path), 0, scenario)
