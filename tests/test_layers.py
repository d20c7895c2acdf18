"""The house rules: rooms import only rooms above them, and nothing is loaded that is not used."""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.metadata
import re
import subprocess
import sys
import types
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

import torchrec_io
from tests.support.examples import example_of
from tests.support.pages import public_names
from tests.support.tfrecord import write_tfrecord

PACKAGE = Path(torchrec_io.__file__).parent

# The rooms, in the order in which data flows through them. A room imports only rooms above it.
ROOMS = (
    "errors",
    "checks",
    "display",
    "timing",
    "_storage",
    "_records",
    "_order",
    "_schema",
    "_images",
    "_parsing",
    "_tensors",
    "_writing",
    "_datasets",
    "_loading",
    # Optional rooms: they use the core, which imports them only inside the functions of FACADE.
    "inspection",
    "tfds",
    "episodes",
    "ranking",
    "csv",
    "presets",
    "messages",
    "tools",
    "convert",
    "reports",
    "integrations",
    "cluster",
    "cli",
)
FIRST_OPTIONAL = ROOMS.index("inspection")
WITH_TORCH = {"_tensors", "_datasets", "_loading"}
EVERYWHERE = {"_core", "_jpeg", "_png", "__version__"}

# Functions of the core that import a room below them, when they are called: the file, the function
# and the room. "TYPE_CHECKING" stands for imports that only type checkers see.
FACADE = {
    ("_schema/schema.py", "Schema.infer", "inspection"),
    ("_schema/schema.py", "Schema.from_tfds", "tfds"),
    ("_schema/schema.py", "TYPE_CHECKING", "inspection"),
    ("_schema/feature_mapping.py", "TYPE_CHECKING", "inspection"),
    ("_parsing/parser.py", "_hint_at", "inspection"),
    ("_datasets/absent_features.py", "_warning", "inspection"),
    ("_tensors/trainers.py", "trainer_hooks", "integrations"),
    ("_datasets/tfrecord.py", "TFRecordDataset.from_tfds", "tfds"),
    ("_datasets/tfrecord.py", "TFRecordDataset.steps", "episodes"),
    ("_datasets/tfrecord.py", "TYPE_CHECKING", "episodes"),
    ("_datasets/tfrecord.py", "TYPE_CHECKING", "tfds"),
    ("_datasets/map_style.py", "TFRecordMapDataset.from_tfds", "tfds"),
    ("_datasets/map_style.py", "TYPE_CHECKING", "tfds"),
    ("_datasets/formats.py", "TYPE_CHECKING", "csv"),
}

# Functions below the public ones that take ``storage_options``, to make the locations of files.
LOCATING = {
    ("cluster/shared_paths.py", "expand_shared_paths"),
    ("tools/outputs.py", "check_file_name"),
    ("tools/record_files.py", "RecordFiles.__init__"),
    ("_writing/record_writer.py", "Writer.__init__"),
}

SOURCES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


class Import(NamedTuple):
    """What a file imports, and in which function; "" at the top of the file."""

    name: str
    function: str


def module_of(path: Path) -> str:
    parts = ("torchrec_io", *path.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str | None:
    """The room of a module of the package; None for other packages' modules."""
    top, _, rest = module.partition(".")
    return rest.partition(".")[0] if top == "torchrec_io" else None


@functools.cache
def imports_of(path: Path) -> list[Import]:
    """Full names of all that a file imports, anywhere in it."""
    package = module_of(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    return list(_imports_in(ast.parse(path.read_text("utf-8")), package, "", ""))


def _imports_in(node: ast.AST, package: list[str], scope: str, function: str) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, function) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            start = package[: len(package) + 1 - child.level] if child.level else []
            base = ".".join([*start, *([child.module] if child.module else [])])
            yield from (Import(f"{base}.{alias.name}", function) for alias in child.names)
        elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inner = f"{scope}.{child.name}".lstrip(".")
            is_class = isinstance(child, ast.ClassDef)
            yield from _imports_in(child, package, inner, function if is_class else inner)
        elif isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            yield from _imports_in(child, package, scope, "TYPE_CHECKING")
        else:
            yield from _imports_in(child, package, scope, function)


def test_the_files_are_found() -> None:
    assert len(SOURCES) > 10
    assert "torchrec_io._records.index" in map(module_of, SOURCES)


def test_imports_are_seen() -> None:
    parser = set(imports_of(PACKAGE / "_parsing/parser.py"))
    assert Import("torchrec_io._records.record_block.RecordBlock", "") in parser
    assert Import("torchrec_io._core", "") in parser
    in_functions = set(imports_of(PACKAGE / "_schema/schema.py"))
    assert Import("torchrec_io.tfds.directory.Directory", "Schema.from_tfds") in in_functions


def test_folders_are_rooms() -> None:
    assert {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in SOURCES} == set(
        ROOMS
    )
    assert len(list(PACKAGE.glob("*.py"))) <= 5


def test_a_room_imports_only_rooms_above_it() -> None:
    for path in SOURCES:
        room = room_of(module_of(path))
        assert room in ROOMS
        name = str(path.relative_to(PACKAGE))
        above = set(ROOMS[: ROOMS.index(room) + 1]) | EVERYWHERE
        if room == "cli":
            above -= WITH_TORCH
        if room == "messages":  # for users alone; only messages are declared in the same way
            above = {"inspection"}
        for imported, function in imports_of(path):
            target = room_of(imported)
            if target is not None and target not in above:
                place = function or "the file"
                assert (name, function, target) in FACADE, f"{name} imports {imported} in {place}"


def test_files_do_not_import_each_other_in_a_circle() -> None:
    """Imports in functions count, too. Those of FACADE and of type checkers do not."""
    files = {module_of(path): str(path.relative_to(PACKAGE)) for path in SOURCES}
    imported: dict[str, set[str]] = {}
    for path in SOURCES:
        name = files[module_of(path)]
        imported[module_of(path)] = {
            module
            for full, function in imports_of(path)
            if function != "TYPE_CHECKING" and (name, function, room_of(full)) not in FACADE
            if (module := _file_of(full, files)) is not None
        } - {module_of(path)}
    circular = sorted(module for module in files if module in _reachable(module, imported))
    assert not circular


def _file_of(imported: str, files: Collection[str]) -> str | None:
    """The file that has an imported name, which may be that of the file itself."""
    while imported and imported not in files:
        imported = imported.rpartition(".")[0]
    return imported or None


def _reachable(start: str, imported: Mapping[str, set[str]]) -> set[str]:
    """All files that a file imports, directly or not; the file itself if it is in a circle."""
    found: set[str] = set()
    left = {start}
    while left:
        left = {each for module in left for each in imported[module]} - found
        found |= left
    return found


def test_only_storage_knows_what_is_remote() -> None:
    """Other rooms have locations: they do not carry options for stores, nor ask what is remote."""
    public = set(public_names(torchrec_io)).union(
        *(getattr(torchrec_io, room).__all__ for room in ROOMS_OF_NAMES)
    )
    for path in SOURCES:
        if room_of(module_of(path)) != "_storage":
            _check_what_is_remote(path, public)


def _check_what_is_remote(path: Path, public: Collection[str]) -> None:
    name = str(path.relative_to(PACKAGE))
    imported = {each.name.rpartition(".")[2] for each in imports_of(path)}
    assert not imported & {"RemoteOptions", "is_remote", "is_url"}, name
    for function, node in _functions_in(ast.parse(path.read_text("utf-8"))):
        arguments = {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
        assert "remote" not in arguments, (name, function)
        if "storage_options" in arguments:
            is_public = function.partition(".")[0] in public
            assert is_public or (name, function) in LOCATING, (name, function)
        for inner in ast.walk(node):
            if isinstance(inner, ast.Attribute) and name != "cluster/tasks.py":  # ray.remote
                assert inner.attr != "remote", f"{name}: {function} has an attribute of that name"
                owner = inner.value
                is_location = isinstance(owner, ast.Attribute) and owner.attr == "location"
                assert not (is_location and inner.attr == "options"), (name, function)


def _functions_in(node: ast.AST, scope: str = "") -> Iterator[tuple[str, ast.FunctionDef]]:
    for child in ast.iter_child_nodes(node):
        inner = scope
        if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
            inner = f"{scope}.{child.name}".lstrip(".")
        if isinstance(child, ast.FunctionDef):
            yield inner, child
        yield from _functions_in(child, inner)


@pytest.mark.slow
def test_the_facade_is_complete() -> None:
    found = {
        (str(path.relative_to(PACKAGE)), function, room_of(imported))
        for path in SOURCES
        for imported, function in imports_of(path)
        if function
    }
    assert found >= FACADE
    assert all(ROOMS.index(room) >= FIRST_OPTIONAL for _, _, room in FACADE)


def test_only_some_rooms_import_torch() -> None:
    for path in SOURCES:
        room = room_of(module_of(path))
        tops = {imported.partition(".")[0] for imported, _ in imports_of(path)}
        assert not tops & {"torchvision", "tensorflow"}, path
        if room not in WITH_TORCH | {"episodes", "ranking", "csv", "presets", "integrations"}:
            assert "torch" not in tops, path


def test_the_core_names_no_trainer() -> None:
    """What knows a training library stands in ``integrations``."""
    core = ROOMS[:FIRST_OPTIONAL]
    for path in SOURCES:
        if room_of(module_of(path)) in core:
            found = re.search(
                "accelerat|lightning|transformers", path.read_text("utf-8"), re.IGNORECASE
            )
            assert found is None, f"{path} has {found}"


def test_only_the_command_line_needs_the_extra_cli() -> None:
    for path in SOURCES:
        if room_of(module_of(path)) != "cli":
            tops = {each.name.partition(".")[0] for each in imports_of(path)}
            assert not tops & {"rich", "typer"}, path


def loaded_after(statement: str) -> set[str]:
    """Return the modules that a fresh interpreter has loaded after some statements."""
    code = f"import sys\nbefore = {{*sys.modules}}\n{statement}\nprint(*{{*sys.modules}} - before)"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    return set(done.stdout.split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = {"torch", "numpy", "PIL", "isal", "google", "typer", "rich", "pydantic", "tensorflow"}
    assert not loaded_after("import torchrec_io") & heavy


def test_importing_the_package_on_windows_says_why_it_fails() -> None:
    script = "import sys; sys.platform = 'win32'; import torchrec_io"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert "ImportError: torchrec_io does not support Windows: it reads, locks" in done.stderr


def test_parts_that_start_without_torch() -> None:
    parts = ["_records.reader", "_order.plan", "_order.distributed", "_parsing.parser", "cli"]
    names = "torchrec_io.DecodeError, torchrec_io.RecordIndex, torchrec_io.Schema"
    imports = ", ".join(f"torchrec_io.{part}" for part in parts)
    rank = "torchrec_io._order.distributed.resolve_rank(None, None)"
    loaded = loaded_after(f"import torchrec_io, {imports}; {names}; {rank}")
    assert "numpy" in loaded
    assert not loaded & {"torch", "tensorflow", "google"}


@pytest.mark.slow
def test_a_dataset_loads_only_what_its_schema_needs(tmp_path: Path) -> None:
    """No optional room, no images and no decompressor is loaded for plain features.

    Of the trainers, only the module is loaded that looks for them among the imported modules.
    """
    write_tfrecord(tmp_path / "a.tfrecord", [example_of(x=[1], y=[2])] * 4)
    loaded = loaded_after(
        "import torchrec_io as tio\n"
        f"dataset = tio.TFRecordDataset({str(tmp_path / 'a.tfrecord')!r}, "
        "{'x': tio.FixedLenFeature([], 'int64'), 'y': tio.VarLenFeature('int64')}, batch_size=2)\n"
        "assert len([*dataset]) == len(dataset) == 2"
    )
    rooms = {f"torchrec_io.{room}" for room in (*ROOMS[FIRST_OPTIONAL:], "_images", "_writing")}
    assert "torchrec_io._datasets.tfrecord" in loaded
    trainers = {name for name in loaded if name.startswith("torchrec_io.integrations")}
    assert trainers <= {"torchrec_io.integrations", "torchrec_io.integrations.trainers"}
    assert not loaded & {*rooms - trainers, "PIL", "isal", "google.protobuf", "pyarrow", "typer"}
    lazy = ("_tensors.collate", "_tensors.transport", "_records.stream_reader", "_parsing.lengths")
    assert not loaded & {f"torchrec_io.{module}" for module in lazy}
    assert "torchrec_io.convert" in loaded_after("import torchrec_io; torchrec_io.convert.from_csv")


# ---- CONTRIBUTING.md ----


def test_the_table_of_rooms_is_complete_and_in_order() -> None:
    text = (PACKAGE.parent / "CONTRIBUTING.md").read_text("utf-8")
    [table] = re.findall(r"^\| Room \| Kind \|.*\n\| --- .*\n((?:\|.*\n)+)", text, re.MULTILINE)
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| \S.* \|$", table, re.MULTILINE)
    assert len(rows) == len(table.splitlines())
    kinds = ["core"] * FIRST_OPTIONAL + ["optional"] * (len(ROOMS) - FIRST_OPTIONAL)
    assert rows == list(zip(ROOMS, kinds, strict=True))


# ---- the package's names ----


def test_every_public_name_resolves() -> None:
    assert not {*public_names(torchrec_io)} & {*ROOMS}
    for name in public_names(torchrec_io):
        value = getattr(torchrec_io, name)
        home = importlib.import_module(value.__module__)
        assert getattr(home, value.__name__) is value, name
        assert getattr(torchrec_io, name) is value, name
        assert value.__doc__, name


# Rooms whose public names are used as torchrec_io.ROOM.NAME.
ROOMS_OF_NAMES = ("cluster", "convert", "csv", "inspection", "presets", "ranking", "tfds", "tools")
# Rooms whose names are modules.
ROOMS_OF_MODULES = ("integrations", "messages")


@pytest.mark.parametrize("room", ROOMS_OF_NAMES)
def test_public_names_of_a_room_resolve_after_all_its_submodules_are_imported(room: str) -> None:
    """A submodule with the name of a public function would replace it at its first import."""
    module = getattr(torchrec_io, room)
    submodules = [path.stem for path in (PACKAGE / room).glob("[!_]*.py")]
    assert submodules
    for submodule in submodules:
        importlib.import_module(f"torchrec_io.{room}.{submodule}")
    assert module.__all__
    assert not set(module.__all__) & set(submodules)
    with pytest.raises(AttributeError, match="no_such_name"):
        module.no_such_name  # noqa: B018
    for name in module.__all__:
        value = getattr(module, name)
        assert name in dir(module)
        assert getattr(module, name) is value
        assert isinstance(value, (type, types.FunctionType))
        assert value.__name__ == name
        assert getattr(importlib.import_module(value.__module__), name) is value
        assert value.__doc__


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "unused"),
    [
        ("tools convert", {"PIL", "pyarrow", "csv", "numpy", "tarfile"}),
        ("tools.merge tools.repair convert.to_parquet", {"PIL", "pyarrow", "csv", "torch"}),
        ("convert.from_csv", {"PIL", "pyarrow", "torch"}),
        ("convert.from_images convert.from_parquet", {"pyarrow", "torch"}),
        ("tfds.Directory tfds.Split ranking.Schema ranking.encode csv.Schema presets.nsynth",
         {"torch"}),
    ],
)  # fmt: skip
def test_rooms_load_only_what_they_need(names: str, unused: set[str]) -> None:
    used = ", ".join(f"torchrec_io.{name}" for name in names.split())
    assert not loaded_after(f"import torchrec_io; {used}") & unused


def test_each_public_name_is_written_once() -> None:
    stub = (PACKAGE / "__init__.pyi").read_text("utf-8")
    names = re.findall(r"^from \S+ import (\w+) as \1$", stub, re.MULTILINE)
    assert len(names) == len(stub.splitlines()) - len(["", "__version__: str"])
    assert len(set(names)) == len(names)
    rooms = {name for name in names if name not in public_names(torchrec_io)}
    assert rooms == {*ROOMS_OF_NAMES, *ROOMS_OF_MODULES}
    assert {*names} <= {*dir(torchrec_io)}


def test_version() -> None:
    assert torchrec_io.__version__ == importlib.metadata.version("torchrec-io")
    assert "torch" not in loaded_after("import torchrec_io; torchrec_io.__version__")


def test_other_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="torchrec_io attribute no_such_name"):
        getattr(torchrec_io, "no_such_name")  # noqa: B009
