"""The page of the command line matches its help texts."""

from __future__ import annotations

import subprocess
import sys

from tests.conftest import ROOT


def test_it_is_up_to_date() -> None:
    """If not: ``make stub``."""
    made = subprocess.run(
        [sys.executable, "-m", "typer", "torchrec_io.cli.commands", "utils", "docs",
         "--name", "torchrec-io", "--title", "Command line"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    page = (ROOT / "docs" / "command-line.md").read_text("utf-8")
    assert page.strip() == made.stdout.strip()
    assert page.count("\n## ") == 16
