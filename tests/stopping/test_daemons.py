"""Exits of the interpreter while daemon threads use the package: status 0, nothing is printed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.stopping.daemons import PROGRAMS


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "times", [pytest.param(2, marks=pytest.mark.slow), pytest.param(40, marks=pytest.mark.long)]
)
def test_exit_while_daemon_threads_use_the_package(times: int, tmp_path: Path) -> None:
    code = "from tests.stopping.daemons import main; main()"
    command = [sys.executable, "-c", code, str(tmp_path), str(times), *PROGRAMS]
    ended = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
