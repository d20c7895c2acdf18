"""Locks between processes."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import Any

import pytest

from torchrec_io._storage.file_lock import file_lock


def never() -> None:
    pytest.fail("nobody holds the lock")


def test_without_locks_the_block_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with file_lock(str(tmp_path / "missing" / "lock"), never):
        pass

    def refuse(*_: Any) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with file_lock(str(tmp_path / "lock"), never):
        pass
    assert not list(tmp_path.iterdir())
