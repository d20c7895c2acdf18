"""Tools and conversions that are interrupted, which leave no incomplete files.

``tests/faults`` has failures of the system and kills.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import torchrec_io as tio
from tests.support.tfrecord import write_tfrecord
from tests.tools.test_rearrange import OPERATIONS as TOOLS
from torchrec_io.convert.file_export import to_files
from torchrec_io.convert.table_export import to_parquet
from torchrec_io.convert.webdataset_export import to_webdataset
from torchrec_io.tools.report import Result, Watcher

OPERATIONS: dict[str, Callable[..., Result]] = {
    **TOOLS,
    "parquet": lambda paths, out, **how: to_parquet(paths, out / "x", num_shards=2, **how),
    "webdataset": lambda paths, out, **how: to_webdataset(paths, out / "x", max_bytes=30000, **how),
    "files": lambda paths, out, **how: to_files(paths, out / "x", "data", **how),
}


def write_inputs(folder: Path) -> list[str]:
    record = tio.encode_example({"data": b"\xff" * 1000, "n": 1})
    names = [folder / f"in{number}.tfrecord" for number in range(3)]
    return [str(write_tfrecord(name, [record] * 20)) for name in names]


class Interrupting(Watcher):
    """Watcher that raises KeyboardInterrupt after some records."""

    def __init__(self) -> None:
        self.calls = 0

    def advanced(self, size: int, records: int) -> None:
        del size, records
        self.calls += 1
        if self.calls == 2:
            raise KeyboardInterrupt


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_interrupt_keeps_existing_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, jobs: int
) -> None:
    monkeypatch.setattr("torchrec_io.tools.record_files.BLOCK_BYTES", 4000)
    monkeypatch.setattr("torchrec_io.convert.table_export._MAX_BYTES", 4000)
    paths = write_inputs(tmp_path)
    out = tmp_path / "out"
    force: dict[str, Any] = {}
    if name != "files":  # to_files needs a new folder
        OPERATIONS[name](paths[:1], out)
        force["force"] = True
    else:
        out.mkdir()
    before = {path: path.read_bytes() for path in out.rglob("*")}
    with pytest.raises(KeyboardInterrupt):
        OPERATIONS[name](paths, out, jobs=jobs, watcher=Interrupting(), **force)
    assert {path: path.read_bytes() for path in out.rglob("*")} == before
    assert sorted(tmp_path.iterdir()) == sorted([out, *map(Path, paths)])


@pytest.mark.parametrize("name", ["parquet", "files"])
def test_output_does_not_depend_on_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("torchrec_io.tools.record_files.BLOCK_BYTES", 4000)
    monkeypatch.setattr("torchrec_io.convert.table_export._MAX_BYTES", 4000)
    paths = write_inputs(tmp_path)
    trees = []
    for jobs in (1, 2):
        out = tmp_path / f"out{jobs}"
        OPERATIONS[name](paths, out, jobs=jobs)
        files = [path for path in out.rglob("*") if path.is_file()]
        trees.append({str(path.relative_to(out)): path.read_bytes() for path in files})
    assert trees[0] == trees[1]
    assert trees[0]
