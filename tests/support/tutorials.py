"""Parser of the pages of docs/tutorials."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from tests.conftest import ROOT

FOLDER = ROOT / "docs" / "tutorials"


@dataclass(frozen=True)
class Tutorial:
    """A page: its text, and the code of both sides.

    TensorFlow's blocks are marked ``py``, those of this library ``python``. Blocks before the first
    table of code are for both sides. So is a block directly after such a table: the output.
    """

    path: Path
    text: str
    ours: list[str]
    theirs: list[str]


def read_tutorials() -> list[Tutorial]:
    """Return all pages except the index."""
    return [_read(path) for path in sorted(FOLDER.glob("*.md")) if path.name != "index.md"]


def make_fruit(folder: Path) -> None:
    """Write the pictures that the page on apples and oranges uses."""
    (folder / "fruit").mkdir()
    for kind, color in (("apple", "red"), ("orange", "orange")):
        for number in range(10):
            image = Image.new("RGB", (40 + number, 50), color)
            image.save(folder / "fruit" / f"{kind}_{number:02}.jpg")


def _read(path: Path) -> Tutorial:
    text = path.read_text("utf-8")
    table = text.index("\n<table")
    page = Tutorial(path, text, [], [])
    for block in re.finditer(
        r"(</table>\n\n)?^```(py|python)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL
    ):
        after_table, language, code = block.groups()
        if language == "python":
            page.ours.append(code)
        if language == "py" or after_table or block.start() < table:
            page.theirs.append(code)
    return page
