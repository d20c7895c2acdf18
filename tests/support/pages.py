"""Reader and runner of the pages of docs/."""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.conftest import ROOT
from tests.support.datasets import write_files

PACKAGE = ROOT / "torchrec_io"


def run_page(
    page: str, folder: Path, sizes: list[int], num_blocks: int, paths: list[str] | None = None
) -> dict[str, Any]:
    """Run the Python of a page with ``paths`` of files of the given sizes. Return its variables."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) == num_blocks
    names: dict[str, Any] = {"paths": paths or write_files(folder, sizes), "folder": folder}
    for block in blocks:
        exec(compile(block, page, "exec"), names)  # noqa: S102  # our own page
    return names


def texts_of_package() -> list[str]:
    """Return all strings in the package's sources.

    The parts of a message between its values are separate strings.
    """
    python = [
        node.value
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    native = [
        text
        for path in [*PACKAGE.rglob("*.cpp"), *PACKAGE.rglob("*.h")]
        for text in re.findall(r'"((?:[^"\\\n]|\\.)*)"', path.read_text("utf-8"))
    ]
    return [*python, *native]


def hook(name: str) -> ModuleType:
    """Return a module of docs/hooks."""
    spec = importlib.util.spec_from_file_location(
        f"docs_{name}", ROOT / "docs" / "hooks" / f"{name}.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def public_names(module: Any) -> list[str]:
    """Return the public names of a package or room, without the rooms in it."""
    return [name for name in module.__all__ if not isinstance(getattr(module, name), ModuleType)]


def links_of(page: Path) -> list[str]:
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8"))
    return [link for link in links if "://" not in link]


def headings_of(page: Path) -> list[str]:
    """Return the anchors of the page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]
