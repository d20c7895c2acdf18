"""Files appear together, or not at all."""

from __future__ import annotations

import gc
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from torchrec_io.convert.staging import StagedFiles


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_they_get_their_names_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("old")
    with StagedFiles() as staged:
        for name in ("new/a", "b"):
            Path(staged.add(tmp_path / name)).write_text(name)
        assert "new/a" not in names(tmp_path)
        assert (tmp_path / "b").read_text() == "old"
        assert all(Path(name).name.startswith(".") for name in names(tmp_path) - {"b"})
    assert names(tmp_path) == {"new/a", "b"}
    assert (tmp_path / "b").read_text() == "b"
    (tmp_path / "plain").touch()
    modes = {stat.S_IMODE(os.stat(tmp_path / name).st_mode) for name in ("b", "plain")}
    assert len(modes) == 1


def test_they_may_be_more_than_can_be_open_at_once(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with StagedFiles() as staged:
        for number in range(50):
            Path(staged.add(tmp_path / str(number))).write_text("x")
        assert len(os.listdir("/proc/self/fd")) == before
    assert {path.read_text() for path in tmp_path.iterdir()} == {"x"}


def test_an_exception_removes_them(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("old")
    with pytest.raises(KeyboardInterrupt), StagedFiles() as staged:
        for name in ("a", "b"):
            Path(staged.add(tmp_path / name)).write_text(name)
        raise KeyboardInterrupt
    assert names(tmp_path) == {"b"}
    assert (tmp_path / "b").read_text() == "old"


def test_an_interrupt_while_one_is_made_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = os.open

    def make_and_press_ctrl_c(*arguments: Any) -> int:
        os.close(make(*arguments))
        raise KeyboardInterrupt

    with StagedFiles() as staged:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(os, "open", make_and_press_ctrl_c)
            staged.add(tmp_path / "a")
        gc.collect()
        assert names(tmp_path) == set()


def test_a_failure_to_rename_leaves_no_temporaries(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x").touch()
    with pytest.raises(OSError, match="b'"), StagedFiles() as staged:
        for name in ("b", "c"):
            staged.add(tmp_path / name)
    assert names(tmp_path) == {"b/x"}


def test_one_name_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="written twice"), StagedFiles() as staged:
        staged.add(tmp_path / "a")
        staged.add(tmp_path / "." / "a")
    assert names(tmp_path) == set()
