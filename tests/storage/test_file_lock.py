"""Locks between processes."""

from __future__ import annotations

import fcntl
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from torchrec_io._storage.file_lock import file_lock


def never() -> None:
    pytest.fail("nobody holds the lock")


def test_one_at_a_time(tmp_path: Path) -> None:
    """Threads count without another lock."""
    path = str(tmp_path / "lock")
    inside = 0
    most = 0
    waits: list[int] = []

    def work() -> None:
        nonlocal inside, most
        for _ in range(50):
            with file_lock(path, lambda: waits.append(1)):
                inside += 1
                most = max(most, inside)
                threading.Event().wait(0.0001)
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert waits
    assert not os.path.exists(path)


def test_without_locks_the_block_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with file_lock(str(tmp_path / "missing" / "lock"), never):
        pass

    def refuse(*_: Any) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with file_lock(str(tmp_path / "lock"), never):
        pass
    assert not list(tmp_path.iterdir())
