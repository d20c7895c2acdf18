"""The house rules: rooms import rooms above them, and nothing is loaded that is not used."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import torchrec_io

PACKAGE = Path(torchrec_io.__file__).parent
# In the order that data flows through them.
ROOMS = (
    "errors",
    "records",
    "order",
    "features",
    "presets",
    "writing",
    "sharded",
    "convert",
    "tensors",
    "feed",
    "source",
    "options",
    "batching",
    "stepping",
    "sharing",
    "control",
    "iteration",
    "iterable",
    "indexed_dataset",
    "dataset",
    "format_datasets",
    "map_dataset",
    "mixing",
    "places",
    "loader",
    "cli",
    "messages",
)
WITH_TORCH = {
    "tensors",
    "control",
    "iterable",
    "indexed_dataset",
    "dataset",
    "map_dataset",
    "loader",
}
EVERYWHERE = {"_core", "__version__"}

SOURCES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def module_of(path: Path) -> str:
    parts = ("torchrec_io", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str | None:
    """The room of a module of the package; None for other packages' modules."""
    top, _, rest = module.partition(".")
    return rest.partition(".")[0] if top == "torchrec_io" else None


def imports_of(path: Path) -> Iterator[str]:
    """Full names of all that a file imports, anywhere in it."""
    package = module_of(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) + 1 - node.level] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def test_the_files_are_found() -> None:
    assert len(SOURCES) > 10
    assert "torchrec_io.records.index" in map(module_of, SOURCES)


def test_imports_are_seen() -> None:
    assert "torchrec_io.records.reader.RecordBlock" in imports_of(PACKAGE / "features/parse.py")
    assert "torchrec_io._core" in imports_of(PACKAGE / "features/parse.py")
    assert "torch.utils.data.IterableDataset" in imports_of(PACKAGE / "iterable.py")


@pytest.mark.parametrize("path", SOURCES, ids=module_of)
def test_a_room_imports_only_rooms_above_it(path: Path) -> None:
    room = room_of(module_of(path))
    assert room in ROOMS
    allowed = set(ROOMS[: ROOMS.index(room) + 1]) | EVERYWHERE
    if room == "cli":
        allowed -= WITH_TORCH
    if room == "messages":  # for users alone; last, so that nothing imports it either
        allowed = set()
    assert {room_of(name) for name in imports_of(path)} - {None} <= allowed


@pytest.mark.parametrize("path", SOURCES, ids=module_of)
def test_only_the_last_rooms_import_torch(path: Path) -> None:
    if room_of(module_of(path)) not in WITH_TORCH:
        tops = {name.partition(".")[0] for name in imports_of(path)}
        assert not tops & {"torch", "torchvision", "tensorflow"}


def loaded_after(statement: str) -> set[str]:
    """Top-level modules that a fresh interpreter has loaded after a statement."""
    code = f"import sys; {statement}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = {"torch", "numpy", "PIL", "isal", "google", "typer", "rich", "pydantic", "tensorflow"}
    assert not loaded_after("import torchrec_io") & heavy


def test_what_needs_no_torch_starts_without_it() -> None:
    parts = ["records.reader", "order.plan", "order.distributed", "features.parse"]
    if (PACKAGE / "cli").exists():
        parts.append("cli")
    names = "torchrec_io.DecodeError, torchrec_io.RecordIndex, torchrec_io.Schema"
    imports = ", ".join(f"torchrec_io.{part}" for part in parts)
    rank = "torchrec_io.order.distributed.resolve_rank(None, None)"
    loaded = loaded_after(f"import torchrec_io, {imports}; {names}; {rank}")
    assert "numpy" in loaded
    assert not loaded & {"torch", "tensorflow", "google"}


# ---- the package's names ----


@pytest.mark.parametrize("name", torchrec_io.__all__)
def test_every_public_name_resolves(name: str) -> None:
    value = getattr(torchrec_io, name)
    home = importlib.import_module(value.__module__)
    assert getattr(home, value.__name__) is value
    assert getattr(torchrec_io, name) is value
    assert value.__doc__


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse((PACKAGE / "__init__.py").read_text("utf-8"))
    [block] = [
        node
        for node in tree.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    imported = [
        alias.name
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module is not None  # else it is a module
        for alias in node.names
    ]
    assert sorted(imported) == sorted(torchrec_io.__all__)
    assert len(set(imported)) == len(imported)


def test_the_names_are_listed() -> None:
    assert list(torchrec_io.__all__) == sorted(torchrec_io.__all__)
    assert set(torchrec_io.__all__) <= set(dir(torchrec_io))


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match=r"'torchrec_io'.*'no_such_name'"):
        torchrec_io.no_such_name  # noqa: B018
