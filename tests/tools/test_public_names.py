"""The public names of the rooms ``tools`` and ``convert``, which are imported on first use."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import torchrec_io as tio
from tests.support.tfrecord import write_tfrecord

ROOMS = [tio.tools, tio.convert]
each_room = pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.__name__)


def submodules(room: object) -> list[str]:
    return [found.name for found in pkgutil.iter_modules(room.__path__)]  # type: ignore[attr-defined]


@each_room
def test_submodules_have_no_public_names(room: object) -> None:
    """The import of such a submodule would replace the function of that name."""
    assert len(submodules(room)) > 5
    assert not set(submodules(room)) & set(room.__all__)  # type: ignore[attr-defined]


@each_room
def test_names_stay_the_same_after_all_imports(room: object) -> None:
    name = room.__name__  # type: ignore[attr-defined]
    code = (
        f"import importlib, torchrec_io\nroom = torchrec_io.{name.rpartition('.')[2]}\n"
        "before = {name: getattr(room, name) for name in room.__all__}\n"
        f"for name in {submodules(room)!r}:\n    importlib.import_module(f'{name}.{{name}}')\n"
        "for name, value in before.items():\n"
        "    assert getattr(room, name) is value is getattr(room, name), name\n"
        "    assert callable(value), name\n"
        "    home = importlib.import_module(value.__module__)\n"
        "    assert getattr(home, value.__name__) is value and value.__doc__, name\n"
        "    assert name in dir(room)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@each_room
def test_unknown_names_are_rejected(room: object) -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        room.no_such_name  # type: ignore[attr-defined]  # noqa: B018


def test_tools_work_after_all_imports(tmp_path: Path) -> None:
    for module in submodules(tio.tools):
        importlib.import_module(f"torchrec_io.tools.{module}")
    path = write_tfrecord(tmp_path / "in", [b"record"] * 10)
    for number in range(2):
        out = tmp_path / f"out{number}"
        results = [
            tio.tools.merge(path, out / "all.tfrecord"),
            tio.tools.split(path, out / "part", [0.5, 0.5]),
            tio.tools.reshard(path, out / "shard", num_shards=2),
            tio.tools.shuffle(path, out / "shuffled", num_shards=2),
            tio.tools.compress(path, out / "packed"),
            tio.tools.decompress(path, out / "plain"),
        ]
        assert all(isinstance(result, tio.tools.Result) for result in results)
        assert [result.records for result in results] == [10] * 6
        assert tio.tools.subset(path, out / "some", every=5).counts == (2,)


LOADED = """
import sys, torchrec_io
before = set(sys.modules)
{statement}
loaded = set(sys.modules) - before
print(*(name.partition(".")[0] for name in loaded))
"""


@pytest.mark.parametrize(
    ("statement", "unused"),
    [
        ("torchrec_io.tools, torchrec_io.convert", {"PIL", "pyarrow", "csv", "numpy", "tarfile"}),
        ("torchrec_io.tools.merge", {"PIL", "pyarrow", "csv", "torch", "multiprocessing"}),
        ("torchrec_io.tools.repair", {"PIL", "pyarrow", "csv", "torch", "multiprocessing"}),
        ("torchrec_io.convert.from_csv", {"PIL", "pyarrow", "torch"}),
        ("torchrec_io.convert.from_parquet", {"PIL", "pyarrow", "csv", "torch"}),
        ("torchrec_io.convert.to_parquet", {"pyarrow", "csv", "torch"}),
        ("torchrec_io.convert.from_images", {"pyarrow", "torch"}),
    ],
)
def test_only_used_modules_are_loaded(statement: str, unused: set[str]) -> None:
    code = LOADED.format(statement=statement)
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    assert not unused & set(done.stdout.split())
