"""The command ``torchrec-io clean``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.tools.test_cleaning import half_renamed, killed_writers


def test_what_it_prints(run: Run, tmp_path: Path) -> None:
    child = killed_writers(tmp_path / "a")
    [left] = tmp_path.glob(".a-*")
    result = run("clean", "--dry-run", ".")
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        f"./{left.name}: would be removed: process {child} has ended",
        "1 item would be removed, 0 bytes",
    ]
    result = run("clean", "--json", ".")
    assert result.returncode == 0, result.stderr
    [line] = result.stdout.splitlines()
    assert json.loads(line) == {
        "path": f"./{left.name}",
        "kind": "file",
        "size": 0,
        "action": "remove",
        "reason": f"process {child} has ended",
        "error": None,
    }
    assert run("clean", ".").stdout == "0 items removed, 0 bytes\n"
    assert list(tmp_path.iterdir()) == []


def test_status(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    half_renamed(tmp_path, monkeypatch)
    next(tmp_path.glob(".a-*")).rename(tmp_path / ".away")
    result = run("clean", ".")
    assert result.returncode == 1
    assert result.stdout.startswith("./.torchrec_io.commit: could not be completed: ")
    (tmp_path / ".away").rename(next(iter(names_in_journal(tmp_path))))
    result = run("clean", ".")
    assert result.returncode == 0
    assert "completed: its process was interrupted" in result.stdout
    assert run("clean", "missing/x").returncode == 2


def names_in_journal(folder: Path) -> list[Path]:
    fields = json.loads((folder / ".torchrec_io.commit").read_bytes().partition(b" ")[2])
    return [folder / fields["renames"][1][0]]
