"""The command ``torchrec-io cache``."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np

from tests.cli.conftest import Run
from torchrec_io._storage.cache.folder import CacheFolder

SIZE = 10_000
EACH = 3 * 4096 + 256


def fill(path: Path) -> CacheFolder:
    """Make a cache with three blocks of two objects."""
    folder = CacheFolder(str(path), 1 << 20)
    for digest, number in ((1, 0), (1, 1), (2, 0)):
        folder.store(f"{digest:032x}-{number}", np.zeros(SIZE, np.uint8))
    oldest = time.mktime((2026, 1, 2, 3, 4, 5, 0, 0, -1))
    os.utime(folder.block_path(f"{1:032x}-1"), (oldest, oldest))
    return folder


def test_what_it_prints(run: Run, tmp_path: Path) -> None:
    fill(tmp_path / "blocks")
    result = run("cache", "blocks")
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        str(tmp_path / "blocks"),
        "  size      37.6 kB of at most 1.0 MB",
        "  blocks    3, of 2 objects",
        "  last use  2026-01-02 03:04:05 for the block that was not used for longest",
    ]
    result = run("cache", "--json", "blocks")
    assert json.loads(result.stdout) == {
        "directory": str(tmp_path / "blocks"),
        "size": 3 * EACH,
        "max_bytes": 1 << 20,
        "blocks": 3,
        "objects": 2,
        "oldest": time.mktime((2026, 1, 2, 3, 4, 5, 0, 0, -1)),
    }


def test_clear(run: Run, tmp_path: Path) -> None:
    folder = fill(tmp_path / "blocks")
    (tmp_path / "blocks" / "notes").write_text("mine")
    result = run("cache", "--clear", "blocks")
    assert (result.returncode, result.stdout) == (0, "3 blocks removed, 37.6 kB\n")
    folder.store(f"{3:032x}-0", np.zeros(SIZE, np.uint8))
    found = json.loads(run("cache", "blocks", "--clear", "--json").stdout)
    assert (found["blocks"], found["removed_blocks"], found["removed_bytes"]) == (0, 1, EACH)
    assert run("cache", "blocks").stdout.splitlines()[1:] == [
        "  size      0 bytes of at most 1.0 MB",
        "  blocks    0, of 0 objects",
    ]
    assert (tmp_path / "blocks" / "notes").exists()


def test_a_directory_without_a_cache(run: Run, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    for arguments, message in (
        (["other"], "error: other: the directory has no cache"),
        (["--clear", "other"], "error: other: the directory has no cache"),
        (["missing"], "error: missing: No such file or directory"),
    ):
        result = run("cache", *arguments)
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr.strip() == message
    assert not list((tmp_path / "other").iterdir())
