"""The tutorials: our side of each page runs, and the index has all of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.support.tutorials import FOLDER, Tutorial, make_fruit, read_tutorials

PAGES = read_tutorials()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path.stem)
def test_pages(page: Tutorial, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They have both sides, and ours runs."""
    check_sides(page)
    monkeypatch.chdir(tmp_path)
    make_fruit(tmp_path)
    assert any("assert" in block for block in page.ours)
    names: dict[str, Any] = {"__name__": "page"}
    for block in page.ours:
        exec(compile(block, page.path.name, "exec"), names)  # noqa: S102  # our own page


def test_the_index_has_all_pages_and_their_scripts() -> None:
    text = (FOLDER / "index.md").read_text("utf-8")
    rows = re.findall(r"^\| \[.*\]\((.*\.md)\) \| \[`(.*)`\]\((.*)\) \|$", text, re.MULTILINE)
    assert sorted(page for page, _, _ in rows) == [page.path.name for page in PAGES]
    for page, script, link in rows:
        assert (FOLDER / link).resolve() == ROOT / "examples" / script
        assert link in (FOLDER / page).read_text("utf-8"), page
        assert Path(script).stem.replace("_", "-") == Path(page).stem


def check_sides(page: Tutorial) -> None:
    assert "\n| TensorFlow 1 | torchrec_io" in page.text
    cells = re.findall(
        r"<td markdown>\n\n```py(?:thon)?\n(.*?)^```$", page.text, re.MULTILINE | re.DOTALL
    )
    assert len(cells) >= 2
    assert len(cells) % 2 == 0
    # A wide block would push the other one off the page.
    assert max(len(line) for cell in cells for line in cell.splitlines()) <= 64
