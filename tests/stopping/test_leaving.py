"""Exits of the interpreter: nothing is printed, in whatever way a loop was left."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT


def check(folder: Path, cases: str, *imports: str) -> None:
    """Run the cases of ``leaving.py`` and check that each ends as it must."""
    options = json.dumps({"folder": str(folder), "cases": cases, "imports": imports})
    code = "from tests.stopping.leaving import main; main()"
    command = [sys.executable, "-c", code, options]
    ended = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


@pytest.mark.slow
def test_open_objects_print_nothing_at_exit(tmp_path: Path) -> None:
    check(tmp_path, "few")


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_no_way_to_leave_a_loop_prints_anything(tmp_path: Path) -> None:
    check(tmp_path, "all")


@pytest.mark.slow
def test_nothing_is_printed_beside_dill(tmp_path: Path) -> None:
    """The package dill keeps the main module alive, so that all modules are emptied at exit."""
    check(tmp_path, "few", "dill")
