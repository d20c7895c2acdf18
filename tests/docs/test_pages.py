"""The Python of pages that have no more to be tested."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.meshes import being_rank
from tests.support.pages import run_page
from torchrec_io._datasets import partition as sharing
from torchrec_io._tensors import columns, transport

USUAL = [9, 4, 11]  # records of the files


@pytest.mark.parametrize(
    ("page", "num_blocks", "sizes"),
    [
        ("batching.md", 3, [40, 20]),
        ("copies.md", 1, USUAL),
        ("episodes.md", 3, []),
        ("index-format.md", 1, USUAL),
        ("migration/dali.md", 2, USUAL),
        ("migration/tf-data.md", 3, USUAL),
        ("migration/tfrecord.md", 4, USUAL),
        ("migration/torchdata.md", 1, USUAL),
        ("order.md", 12, [6, 5]),
        ("quickstart.md", 6, USUAL),
        ("record-files.md", 5, USUAL),
        ("report.md", 4, USUAL),
        ("resuming.md", 6, USUAL),
        ("schemas.md", 10, [1]),
        ("selecting.md", 3, USUAL),
        ("shuffling.md", 3, USUAL),
        ("streams.md", 4, USUAL),
        ("transforms.md", 4, USUAL),
        ("wire-formats.md", 2, USUAL),
    ],
)
# What torchdata 0.11 does when it makes a loader.
@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning")
def test_its_python_runs(
    page: str, num_blocks: int, sizes: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page, tmp_path, sizes, num_blocks)


def test_the_python_of_meshes_runs(tmp_path: Path) -> None:
    found = []
    for rank in (1, 2, 9):
        with being_rank(rank, 16):
            names = run_page("meshes.md", tmp_path, USUAL, 2)
            found.append([batch["id"].tolist() for batch in names["loader"]])
            assert [batch["id"].tolist() for batch in names["dataset"]] == [[rank]]
            names.clear()  # the mesh is of this process group
    assert found[0] == found[1] != found[2]


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
