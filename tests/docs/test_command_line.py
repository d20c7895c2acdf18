"""The page of the command line matches its help texts."""

from __future__ import annotations

import re

import pytest

from tests.conftest import ROOT
from tests.support.pages import hook

maker = hook("command_line")


@pytest.fixture(scope="module")
def made() -> str:
    """The page that typer makes."""
    return str(maker.made_by_typer())


def test_it_is_up_to_date(made: str) -> None:
    """If not: ``make stub``."""
    page = (ROOT / "docs" / "command-line.md").read_text("utf-8")
    assert page == maker.shortened(made)


def test_every_command_has_all_its_options(made: str) -> None:
    page = maker.shortened(made)
    commands = re.split(r"^## ", made, flags=re.MULTILINE)[1:]
    assert len(commands) == 16
    for command in commands:
        title = command.partition("\n")[0]
        section = page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
        for name in re.findall(r"^\* `(?:-\w, )?(--[\w-]+|\w+)", command, re.MULTILINE):
            assert name in ("--help", "PATH") or re.search(rf"(?<![\w-]){name}\b", section), (
                title,
                name,
            )
