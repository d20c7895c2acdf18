"""What the docs name is there."""

from __future__ import annotations

import re
import threading
from pathlib import Path
from typing import Any

import torchrec_io as tio
from tests.conftest import ROOT, TESTS
from tests.support.datasets import write_files


def test_every_difference_has_a_test() -> None:
    text = (ROOT / "docs" / "differences.md").read_text("utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    rows = [row for row in rows if not row.startswith(("| subject", "| ---"))]
    assert len(rows) > 30
    for row in rows:
        [test] = re.findall(r"`([\w/]+\.(?:py|cpp))` \|$", row)
        assert (TESTS / test).is_file(), row


class TestQueues:
    text = (ROOT / "docs" / "queues.md").read_text("utf-8")

    def test_its_python_runs(self, tmp_path: Path) -> None:
        blocks = re.findall(r"^```python\n(.*?)^```$", self.text, re.MULTILINE | re.DOTALL)
        assert len(blocks) == 8
        names: dict[str, Any] = {"paths": write_files(tmp_path, [9, 4, 11])}
        for block in blocks:
            exec(compile(block, "queues.md", "exec"), names)  # noqa: S102  # our own page
        # What the blocks have no room to say.
        assert names["key"] == f"{names['paths'][-1]}:{offset_of_last(tmp_path)}"
        assert names["tokens"].shape[0] == 4
        assert names["epochs"].num_records == 24
        names.clear()
        assert "torchrec_io" not in [thread.name for thread in threading.enumerate()]

    def test_what_is_not_there_yet(self) -> None:
        """The page has to say so as long as it is so, and no longer."""
        others = ["WholeFileDataset", "TextLineDataset", "FixedLengthRecordDataset"]
        there = [name for name in others if name in tio.__all__]
        assert there == [name for name in others if f"`{name}" in self.text]
        assert bool(there) != ("not there yet" in self.text)


def offset_of_last(folder: Path) -> int:
    path = max(folder.glob("data-*"))
    return int(tio.RecordIndex.build(path).offsets[-1])
