"""Writers in two processes, and in a forked one.

``tests/faults`` has writers that are killed or find no space, at each system call.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from torchrec_io._writing.shards import ShardedWriter


def run(*command: str) -> None:
    done = subprocess.run(
        command, cwd=ROOT, check=False, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr


def program(name: str, folder: Path) -> list[str]:
    return [sys.executable, "-W", "error", "-m", "tests.writing.endings", name, str(folder)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["two_writers", "forked"])
def test_processes(tmp_path: Path, name: str) -> None:
    run(*program(name, tmp_path))


def test_data_is_synced_before_files_are_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a power failure, files with their final names must be complete."""
    log: list[str] = []
    fsync, replace = os.fsync, os.replace

    def noting_fsync(descriptor: int) -> None:
        name = os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))
        log.append("sync " + name.rsplit("-", 1)[0] if name.startswith(".") else "sync folder")
        fsync(descriptor)

    def noting_replace(source: str, target: str) -> None:
        log.append("name " + os.path.basename(target))
        replace(source, target)

    writer = ShardedWriter(tmp_path / "x", 2, index=True)
    monkeypatch.setattr(os, "fsync", noting_fsync)
    monkeypatch.setattr(os, "replace", noting_replace)
    writer.close()
    shards = ["x-00000-of-00002", "x-00001-of-00002"]
    assert log == [
        *(f"sync .{shard}{suffix}" for shard in shards for suffix in ("", ".tfidx")),
        *(f"name {shard}{suffix}" for shard in shards for suffix in ("", ".tfidx")),
        "sync folder",
    ]
