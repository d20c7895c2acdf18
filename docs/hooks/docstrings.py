"""Has docstrings read as Markdown: roles become references, double backticks single ones.

The docstrings of the package are Google style, with ``code`` and :class:`Name` as Sphinx has them,
which also read well in a terminal.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import griffe

PAGES = Path(__file__).resolve().parents[1]
# What public classes are made of, and what public functions give, has its own place on a page.
SHOWN_AS = {
    "torchrec_io.datasets.base.RecordDataset": "torchrec_io.TFRecordDataset",
    "torchrec_io.loading.loader.Loader": "torchrec_io.loading.loader.Loader",
}

_ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):`~?([\w.]+)`")
_CODE = re.compile(r"``(.+?)``", re.DOTALL)
_PAGE = re.compile(r"\bdocs/([\w-]+)\.md")


class Docstrings(griffe.Extension):
    """Rewrites all docstrings of a package once it is read."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Rewrites them."""
        names: dict[str, str] = {}
        for module in (pkg, pkg["convert"], pkg["tools"]):
            public = [name for name in map(str, module.exports or ()) if name in module.members]
            names |= {
                module.members[name].canonical_path: f"{module.path}.{name}" for name in public
            }
        _rewrite_all(pkg, names | SHOWN_AS)


def _rewrite_all(owner: griffe.Object, names: dict[str, str]) -> None:
    for member in owner.members.values():
        if isinstance(member, griffe.Alias):
            continue  # what it leads to is met where it is
        if member.docstring is not None:
            member.docstring.value = to_markdown(member.docstring.value, member, names)
        _rewrite_all(member, names)


def to_markdown(text: str, place: griffe.Object, names: dict[str, str]) -> str:
    """A docstring in Markdown.

    Args:
        text: The docstring.
        place: Whose it is.
        names: Where a page shows what has a canonical path.

    Raises:
        FileNotFoundError: it names a page that is not there.
    """
    text = _ROLE.sub(lambda found: _reference(found[1], place, names), text)
    text = _CODE.sub(r"`\1`", text)
    return _PAGE.sub(lambda found: _link(found[1]), text)


def _reference(name: str, place: griffe.Object, names: dict[str, str]) -> str:
    shown = _shown(name, place, names)
    label = name.rpartition(".")[2] if name.startswith("torchrec_io.") else name
    return f"`{label}`" if shown is None else f"[`{label}`][{shown}]"


def _shown(name: str, place: griffe.Object, names: dict[str, str]) -> str | None:
    """Where a page shows what a docstring names; None if it is the package's own affair."""
    own = place if place.is_class else place.parent
    if own is not None and own.is_class and name in own.all_members:
        shown = names.get(own.canonical_path)
        return None if shown is None or name.startswith("_") else f"{shown}.{name}"
    first, _, member = name.removeprefix("torchrec_io.").partition(".")
    paths = [shown for shown in names.values() if shown.rpartition(".")[2] == first]
    if not paths or member.startswith("_"):
        return None
    return f"{paths[0]}.{member}" if member else paths[0]


def _link(page: str) -> str:
    """A link from a page of docs/api to one of docs/, by its title."""
    title = (PAGES / f"{page}.md").read_text("utf-8").partition("\n")[0].removeprefix("# ")
    return f"[{title}](../{page}.md)"
