"""The Python of pages that have no more to be tested."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pages import run_page


@pytest.mark.parametrize(
    ("page", "num_blocks"),
    [
        ("copies.md", 1),
        ("migration/dali.md", 3),
        ("migration/tf-data.md", 6),
        ("migration/tfrecord.md", 5),
        ("quickstart.md", 6),
        ("wire-formats.md", 3),
    ],
)
def test_its_python_runs(
    page: str, num_blocks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page, tmp_path, [9, 4, 11], num_blocks)
