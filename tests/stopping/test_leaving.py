"""Exits of the interpreter: nothing is printed, in whatever way a loop was left."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

# The package dill keeps the main module alive, so that all modules are emptied at exit.
CASES = [([], 2), (["dill"], 0), pytest.param([], 40, marks=pytest.mark.long)]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("imports", "times"), CASES)
def test_open_objects_print_nothing_at_exit(tmp_path: Path, imports: list[str], times: int) -> None:
    options = json.dumps({"folder": str(tmp_path), "imports": imports, "times": times})
    code = "from tests.stopping.leaving import main; main()"
    command = [sys.executable, "-c", code, options]
    ended = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
