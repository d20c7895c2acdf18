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
# Rooms whose names are used as torchrec_io.ROOM.NAME.
ROOMS = ("convert", "csv", "presets", "ranking", "tfds", "tools")

_ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):`~?([\w.]+)`")
_CODE = re.compile(r"``(.+?)``", re.DOTALL)
_PAGE = re.compile(r"\bdocs/([\w-]+)\.md")


class Docstrings(griffe.Extension):
    """Rewrites all docstrings of a package once it is read."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Rewrites them."""
        names = dict(SHOWN_AS)
        for module in (pkg, *(pkg[room] for room in ROOMS)):
            for name in _public_names(module):
                names[module.members[name].canonical_path] = f"{module.path}.{name}"
        _rewrite_all(pkg, names)


def _public_names(module: griffe.Module) -> list[str]:
    """Names that a module exports; in a room with a stub, the names that the stub imports."""
    if module.exports is not None:
        return [name for name in map(str, module.exports) if name in module.members]
    inside = f"{module.path}."
    return [
        name
        for name, member in module.members.items()
        if isinstance(member, griffe.Alias) and member.target_path.startswith(inside)
    ]


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
    name = name.removeprefix("torchrec_io.")
    for shown in names.values():
        is_elsewhere = shown in SHOWN_AS.values()  # its path is not the one that users import
        known = shown.rpartition(".")[2] if is_elsewhere else shown.removeprefix("torchrec_io.")
        member = name[len(known) + 1 :]
        if f"{name}.".startswith(f"{known}.") and not member.startswith("_"):
            return f"{shown}.{member}" if member else shown
    return None


def _link(page: str) -> str:
    """A link from a page of docs/api to one of docs/, by its title."""
    title = (PAGES / f"{page}.md").read_text("utf-8").partition("\n")[0].removeprefix("# ")
    return f"[{title}](../{page}.md)"
