"""The Python of pages that have no more to be tested."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.pages import run_page
from torchrec_io._datasets import partition as sharing
from torchrec_io._tensors import columns, transport


@pytest.mark.parametrize(
    ("page", "num_blocks"),
    [
        ("copies.md", 1),
        ("index-format.md", 1),
        ("migration/dali.md", 3),
        ("migration/tf-data.md", 6),
        ("migration/tfrecord.md", 5),
        ("quickstart.md", 8),
        ("report.md", 4),
        ("selecting.md", 3),
        ("shuffling.md", 2),
        ("transforms.md", 5),
        ("wire-formats.md", 3),
    ],
)
def test_its_python_runs(
    page: str, num_blocks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page, tmp_path, [9, 4, 11], num_blocks)


def test_rows_are_rows_of_tables() -> None:
    """A row behind an empty line, or a table without a header, is shown as it is written."""
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        lines = ["", *page.read_text("utf-8").splitlines(), ""]
        for before, line, after in zip(lines, lines[1:], lines[2:], strict=False):
            if line.startswith("|") and not before.startswith("|"):
                assert before == "", (page, line)
                assert after.startswith("| ---"), (page, line)


def test_the_sizes_at_which_batches_cross_otherwise() -> None:
    text = (ROOT / "docs" / "copies.md").read_text("utf-8")
    inside, slots = transport._INLINE_BYTES >> 10, transport._MOST_SLOTS
    assert f"| up to {inside} KiB | inside the message |" in text
    assert f"all {slots} slots of the worker are in use" in text
    assert f"up to {columns._INLINE_BYTES >> 20} MiB inside the message" in text
    assert f"an arena of up to {sharing._MOST_AT_ONCE} records" in text
