"""Tools and conversions that are interrupted or killed, which leave no incomplete files."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import torchrec_io as tio
from tests.support.tfrecord import write_tfrecord
from tests.writing.test_endings import new_namespace
from torchrec_io._storage.paths import expand_paths
from torchrec_io.convert.file_export import to_files
from torchrec_io.convert.table_export import to_parquet
from torchrec_io.convert.webdataset_export import to_webdataset
from torchrec_io.tools.rearrange import merge, reshard, split
from torchrec_io.tools.recompress import compress
from torchrec_io.tools.report import Result, Watcher
from torchrec_io.tools.shuffling import shuffle

# Outputs that exist are replaced.
SHARDS: dict[str, Any] = {"num_shards": 2, "force": True}
OPERATIONS: dict[str, Callable[..., Result]] = {
    "merge": lambda paths, out, **how: merge(paths, out / "all.tfrecord", force=True, **how),
    "split": lambda paths, out, **how: split(paths, out / "x", [0.5, 0.5], force=True, **how),
    "reshard": lambda paths, out, **how: reshard(paths, out / "x", **SHARDS, **how),
    "shuffle": lambda paths, out, **how: shuffle(paths, out / "x", **SHARDS, **how),
    "compress": lambda paths, out, **how: compress(paths, out, force=True, **how),
    "parquet": lambda paths, out, **how: to_parquet(paths, out / "x", **SHARDS, **how),
    "webdataset": lambda paths, out, **how: to_webdataset(
        paths, out / "x", max_bytes=30000, force=True, **how
    ),
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


@pytest.mark.parametrize("name", ["split", "reshard", "shuffle", "parquet"])
def test_a_failed_renaming_leaves_no_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    paths = write_inputs(tmp_path)
    outputs = list(map(Path, OPERATIONS[name](paths[:1], tmp_path / "out").paths))
    others = list(map(Path, OPERATIONS[name](paths, tmp_path / "other").paths))
    seen: list[list[bool]] = []
    rename = os.replace

    def look_and_fail(source: str, target: str) -> None:
        seen.append([path.exists() for path in outputs])
        if len(seen) == 2:
            raise OSError(5, "no more", source, None, target)
        rename(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", look_and_fail)
        reason = "no more; the old files were removed before: write them again"
        with pytest.raises(OSError, match=reason) as caught:
            OPERATIONS[name](paths, tmp_path / "out")
    assert Path(caught.value.filename).parent == tmp_path / "out"
    assert seen[0] == [False, False]
    assert os.listdir(tmp_path / "out") == []
    OPERATIONS[name](paths, tmp_path / "out")
    names = list(map(str, outputs))
    assert [file.name for file in expand_paths(names)] == names
    assert [path.name for path in outputs] == [path.name for path in others]
    assert [path.read_bytes() for path in outputs] == [path.read_bytes() for path in others]
    for path in names:
        if os.path.exists(path + ".tfidx"):
            tio.RecordIndex.load(path)
    assert not list((tmp_path / "out").glob(".*"))


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_interrupt_keeps_existing_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, jobs: int
) -> None:
    monkeypatch.setattr("torchrec_io.tools.record_files.BLOCK_BYTES", 4000)
    monkeypatch.setattr("torchrec_io.convert.table_export._MAX_BYTES", 4000)
    paths = write_inputs(tmp_path)
    out = tmp_path / "out"
    if name != "files":  # to_files needs a new folder
        OPERATIONS[name](paths[:1], out)
    else:
        out.mkdir()
    before = {path: path.read_bytes() for path in out.rglob("*")}
    with pytest.raises(KeyboardInterrupt):
        OPERATIONS[name](paths, out, jobs=jobs, watcher=Interrupting())
    assert {path: path.read_bytes() for path in out.rglob("*")} == before
    assert sorted(tmp_path.iterdir()) == sorted([out, *map(Path, paths)])


# Each operation runs in a separate process that is killed after the second piece.
KILLED = """
import os, signal, sys
from pathlib import Path
from torchrec_io.tools.report import Watcher
from tests.convert.test_interrupted import OPERATIONS

sys.modules["torchrec_io.tools.record_files"].BLOCK_BYTES = 4000
sys.modules["torchrec_io.convert.table_export"]._MAX_BYTES = 4000

class Killing(Watcher):
    def __init__(self, out):
        self.out, self.calls = out, 0
    def advanced(self, size, records):
        self.calls += 1
        if self.calls >= 2 and self.out.exists():  # a schema may be inferred before
            os.kill(os.getpid(), signal.SIGKILL)

for name, operation in OPERATIONS.items():
    child = os.fork()
    if not child:
        out = Path(sys.argv[1], name)
        operation(sys.argv[2:], out, watcher=Killing(out))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL, (name, status)
"""


def test_kill_and_run_again(tmp_path: Path) -> None:
    paths = write_inputs(tmp_path)
    subprocess.run([sys.executable, "-c", KILLED, tmp_path, *paths], check=True, timeout=60)
    for name, operation in OPERATIONS.items():
        out = tmp_path / name
        # The remaining files are not mistaken for data.
        assert all(path.name.startswith(".") for path in out.iterdir()), name
        with pytest.raises(FileNotFoundError):
            expand_paths(out)
        done = operation(paths, out)
        assert done.records == 60, name
        assert all(Path(path).exists() for path in done.paths)


FULL = """
import sys
from pathlib import Path
import pytest
from tests.convert.test_interrupted import OPERATIONS

full = Path(sys.argv[1])
for name, operation in OPERATIONS.items():
    with pytest.raises(OSError, match="No space left") as caught:
        operation(sys.argv[2:], full / "out", jobs=2)
    assert str(caught.value.filename).startswith(f"{full}/out/"), name
    left = [path for path in full.rglob("*") if path != full / "out"]
    assert not left, (name, left)
"""


def test_full_disk_leaves_nothing(tmp_path: Path) -> None:
    namespace = new_namespace()
    make = random.Random(0).randbytes
    records = [tio.encode_example({"data": make(50000), "n": n}) for n in range(30)]
    path = write_tfrecord(tmp_path / "in.tfrecord", records)
    full = tmp_path / "full"
    full.mkdir()
    mount = 'mount -t tmpfs -o size=1m none "$0" && exec "$@"'
    program = [sys.executable, "-c", FULL, str(full), str(path)]
    done = subprocess.run(
        [*namespace, "sh", "-c", mount, str(full), *program],
        check=False,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr


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
