"""Groups of output files that appear together or not at all."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import pytest

from torchrec_io._storage.location import Location
from torchrec_io._writing.output_group import OutputGroup


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def write(group: OutputGroup, path: Path, text: str) -> None:
    with group.open_file(Location.of(path)) as file:
        file.write(text.encode())


def test_old_and_new_files_are_never_mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [tmp_path / name for name in ("a", "b", "c")]
    for path in paths:
        path.write_text("old")
    seen: list[list[bool]] = []
    replace = os.replace

    def note(source: str, target: str) -> None:
        seen.append([path.exists() for path in paths])
        replace(source, target)

    monkeypatch.setattr(os, "replace", note)
    with OutputGroup() as group:
        group.open_records(Location.of(paths[0])).write(b"new")
        for path in paths[1:]:
            write(group, path, "new")
    assert seen == [[False] * 3, [True, False, False], [True, True, False]]
    assert names(tmp_path) == {"a", "b", "c"}


def test_an_interrupt_between_old_and_new_files_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("old")
    replace = os.replace

    def interrupt(source: str, target: str) -> None:
        replace(source, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt), OutputGroup() as group:
        for name in ("a", "b"):
            write(group, tmp_path / name, name)
    assert names(tmp_path) == set()
    assert "a: the old files were removed before: write them again" in caplog.text


def test_interrupt_during_creation_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = os.open

    def create_and_press_ctrl_c(*arguments: Any) -> int:
        os.close(create(*arguments))
        raise KeyboardInterrupt

    with OutputGroup() as group:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(os, "open", create_and_press_ctrl_c)
            write(group, tmp_path / "a", "a")
        gc.collect()
        assert names(tmp_path) == set()


def test_duplicate_name_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="written twice"), OutputGroup() as group:
        write(group, tmp_path / "a", "a")
        group.open_records(Location.of(f"{tmp_path}/./a"))
    assert names(tmp_path) == set()


def test_existing_files_are_refused_if_asked(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    (tmp_path / "link").symlink_to("nowhere")
    group = OutputGroup(force=False)
    for name in ("a", "link"):
        with pytest.raises(FileExistsError, match="the output exists; choose another name"):
            group.open_records(Location.of(tmp_path / name))
    write(group, tmp_path / "b", "new")
    (tmp_path / "b").write_text("old")
    with pytest.raises(FileExistsError, match="the output exists"):
        group.commit()
    group.discard()
    assert {name for name in names(tmp_path) if not name.startswith(".")} == {"a", "b"}
    assert (tmp_path / "b").read_text() == "old"


@pytest.mark.parametrize("count", [1, 2])
def test_other_files_are_removed_with_the_commit(tmp_path: Path, count: int) -> None:
    old = [tmp_path / name for name in ("old", "old.tfidx", "older")]
    for path in old:
        path.write_text("old")
    with pytest.raises(KeyboardInterrupt), OutputGroup() as group:
        write(group, tmp_path / "new", "new")
        group.remove([Location.of(tmp_path / "old"), Location.of(tmp_path / "older")])
        raise KeyboardInterrupt
    assert names(tmp_path) == {"old", "old.tfidx", "older"}
    with OutputGroup() as group:
        for number in range(count):
            write(group, tmp_path / f"new{number}", "new")
        group.remove([Location.of(tmp_path / "old"), Location.of(tmp_path / "older")])
        assert names(tmp_path) >= {"old", "old.tfidx", "older"}
    assert names(tmp_path) == {f"new{number}" for number in range(count)}
