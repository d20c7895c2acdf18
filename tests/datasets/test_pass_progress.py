"""Progress of long passes."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

import torchrec_io as tio
from tests.conftest import ROOT
from tests.support.datasets import SCHEMA, write_files

SCRIPT = """
import sys
sys.modules.update(rich=None, typer=None)  # only the command line needs them
import torchrec_io as tio
from tests.support.datasets import SCHEMA
from torchrec_io._datasets import pass_progress, record_scan
pass_progress._QUIET_SECONDS = float(sys.argv[2])
record_scan._BLOCK_BYTES = 1
part = tio.TFRecordDataset(sys.argv[1], SCHEMA).where(lambda batch: batch["id"] >= 0)
print(part.num_records)
"""


def run(path: str, seconds: str) -> tuple[str, str]:
    """Run a pass; return what it prints, and what a terminal shows of its errors."""
    terminal, errors = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"}
    printed = subprocess.run(
        [sys.executable, "-c", SCRIPT, path, seconds],
        check=True,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        env=environment,
    ).stdout
    os.close(errors)
    shown = b""
    while True:
        try:
            shown += os.read(terminal, 1 << 16)
        except OSError:  # all was read
            break
    os.close(terminal)
    return printed, shown.decode()


@pytest.mark.slow
def test_a_terminal_shows_long_passes(tmp_path: Path) -> None:
    [path] = write_files(tmp_path, [100])
    printed, shown = run(path, "-1")
    assert printed == "100\n"
    assert re.fullmatch(r"(\rwhere: [\d,]+ of 100 records \(\d+%\))+\r +\r", shown)
    assert run(path, "60") == ("100\n", "")


def test_a_pass_needs_no_error_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = tio.TFRecordDataset(write_files(tmp_path, [10]), SCHEMA)
    monkeypatch.setattr(sys, "stderr", None)  # as in a daemon
    assert dataset.where(lambda batch: batch["id"] >= 0).num_records == 10
