"""The script of docs/shuffling.md runs, and the page shows its numbers."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys

import pytest

from tests.conftest import ROOT, skip_or_fail

PAGE = (ROOT / "docs" / "shuffling.md").read_text("utf-8")
SCRIPT = ROOT / "docs" / "plots" / "window_shuffle.py"


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the tables that the script prints."""
    if importlib.util.find_spec("matplotlib") is None:
        skip_or_fail("matplotlib is not installed; it is in the extra 'dev'")
    picture = tmp_path_factory.mktemp("picture") / "picture.png"
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(picture)], check=True, capture_output=True, text=True
    )
    return done.stdout


@pytest.mark.slow
def test_the_tables_match_the_orders(tables: str) -> None:
    whole, of_ranks = tables.split("\n\n")
    assert whole.count("\n") > 8
    assert of_ranks.count("\n") > 5
    assert whole in PAGE
    assert of_ranks in PAGE


def test_numbers_in_the_text_match_the_table(tables: str) -> None:
    after = PAGE.partition(tables.split("\n\n", maxsplit=1)[0])[2]
    text = "\n".join(line for line in after.splitlines() if not line.startswith("|"))
    quoted = re.findall(r"\b\d+\.\d\b|\b\d{2,3},\d{3} positions\b", text)
    assert len(quoted) >= 6
    in_table = {cell.strip() for cell in tables.split("|")}
    assert {number.removesuffix(" positions") for number in quoted} <= in_table
