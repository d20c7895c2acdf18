"""Convert docstrings to Markdown: roles become references, double backticks single ones.

The docstrings of the package are Google style, with Sphinx markup such as ``code`` and
:class:`Name`, which also reads well in a terminal.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import griffe

PAGES = Path(__file__).resolve().parents[1]
# Pages that show base classes of public classes and results of public functions.
SHOWN_AS = {
    "torchrec_io._datasets.base.RecordDataset": "torchrec_io.TFRecordDataset",
    "torchrec_io._loading.loader.Loader": "torchrec_io._loading.loader.Loader",
}
# Packages whose names are used as torchrec_io.ROOM.NAME.
ROOMS = ("convert", "csv", "presets", "ranking", "tfds", "tools")

_ROLE = re.compile(r":(?:attr|class|data|func|meth|mod):`~?([\w.]+)`")
_CODE = re.compile(r"``(.+?)``", re.DOTALL)
_PAGE = re.compile(r"\bdocs/([\w-]+)\.md")


class Docstrings(griffe.Extension):
    """Rewrite all docstrings of a package after it was loaded."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Rewrite the docstrings."""
        names = dict(SHOWN_AS)
        for module in (pkg, *(pkg[room] for room in ROOMS)):
            for name in _public_names(module):
                names[module.members[name].canonical_path] = f"{module.path}.{name}"
        _rewrite_all(pkg, names)


def _public_names(module: griffe.Module) -> list[str]:
    """Return the names that a module exports; with a stub, the names that the stub imports."""
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
            continue  # its target is rewritten where it is defined
        if member.docstring is not None:
            member.docstring.value = to_markdown(member.docstring.value, member, names)
        _rewrite_all(member, names)


def to_markdown(text: str, place: griffe.Object, names: dict[str, str]) -> str:
    """Return a docstring in Markdown.

    Args:
        text: The docstring.
        place: Object that the docstring belongs to.
        names: Public path of each documented object, by its canonical path.

    Raises:
        FileNotFoundError: If the docstring names a page that does not exist.
    """
    text = _ROLE.sub(lambda found: _reference(found[1], place, names), text)
    text = _CODE.sub(r"`\1`", text)
    return _PAGE.sub(lambda found: _link(found[1]), text)


def _reference(name: str, place: griffe.Object, names: dict[str, str]) -> str:
    shown = _shown(name, place, names)
    label = name.rpartition(".")[2] if name.startswith("torchrec_io.") else name
    return f"`{label}`" if shown is None else f"[`{label}`][{shown}]"


def _shown(name: str, place: griffe.Object, names: dict[str, str]) -> str | None:
    """Return the public path of a name in a docstring; None if no page documents it."""
    own = place if place.is_class else place.parent
    if own is not None and own.is_class and name in own.all_members:
        shown = names.get(own.canonical_path)
        return None if shown is None or name.startswith("_") else f"{shown}.{name}"
    name = name.removeprefix("torchrec_io.")
    for shown in names.values():
        is_elsewhere = shown in SHOWN_AS.values()  # users do not import it from this path
        known = shown.rpartition(".")[2] if is_elsewhere else shown.removeprefix("torchrec_io.")
        member = name[len(known) + 1 :]
        if f"{name}.".startswith(f"{known}.") and not member.startswith("_"):
            return f"{shown}.{member}" if member else shown
    return None


def _link(page: str) -> str:
    """Return a link from a page of docs/api to a page of docs/, with its title as text."""
    title = (PAGES / f"{page}.md").read_text("utf-8").partition("\n")[0].removeprefix("# ")
    return f"[{title}](../{page}.md)"
