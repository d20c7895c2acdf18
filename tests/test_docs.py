"""What the docs name is there."""

from __future__ import annotations

import re

from tests.conftest import ROOT, TESTS


def test_every_difference_has_a_test() -> None:
    text = (ROOT / "docs" / "differences.md").read_text("utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    rows = [row for row in rows if not row.startswith(("| subject", "| ---"))]
    assert len(rows) > 30
    for row in rows:
        [test] = re.findall(r"`([\w/]+\.(?:py|cpp))` \|$", row)
        assert (TESTS / test).is_file(), row
