"""Exits of the interpreter while daemon threads use the package: status 0, nothing is printed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.stopping.daemons import PROGRAMS


def check(folder: Path, times: int, *names: str) -> None:
    code = "from tests.stopping.daemons import main; main()"
    command = [sys.executable, "-c", code, str(folder), str(times), *names]
    ended = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


@pytest.mark.slow
def test_exit_while_daemon_threads_are_in_native_code(tmp_path: Path) -> None:
    check(tmp_path, 2, "one thread", "map-style", "verify")


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", PROGRAMS)
def test_exit_while_daemon_threads_use_the_package(name: str, tmp_path: Path) -> None:
    check(tmp_path, 8, name)
