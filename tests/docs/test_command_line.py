"""The page of the command line names all commands, and the site has all their options."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from tests.conftest import ROOT
from tests.support.pages import hook

maker = hook("command_line")
PAGE = (ROOT / "docs" / "command-line.md").read_text("utf-8")


@pytest.fixture(scope="module")
def made() -> str:
    """The page that typer makes."""
    return str(maker.made_by_typer())


def test_the_table_names_every_command(made: str) -> None:
    rows = re.findall(r"^\| (`.*?) \| ", PAGE, re.MULTILINE)
    named = re.findall(r"`(\w+)`", " ".join(rows))
    assert sorted(named) == sorted(re.findall(r"^## `torchrec-io (\w+)`", made, re.MULTILINE))


def test_the_site_has_every_option(made: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maker, "made_by_typer", lambda: made)
    file = SimpleNamespace(src_uri="command-line.md")
    page = maker.on_page_markdown(PAGE, page=SimpleNamespace(file=file))
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
