"""The table of results.md is what came of the cells."""

from __future__ import annotations

from tests.trainers.expected import known_results
from tests.trainers.full import PAGE
from tests.trainers.table import make_table


def test_the_page_has_the_results() -> None:
    results = known_results()
    assert make_table(results) in PAGE.read_text("utf-8")
    assert not [name for name, text in results.items() if text.startswith("WRONG")]
