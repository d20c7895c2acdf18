"""Groups of output files that appear together or not at all."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.tfrecord import frame
from torchrec_io._records.index import RecordIndex
from torchrec_io._storage.location import Location
from torchrec_io._storage.temporary import make_temporary_folder
from torchrec_io._writing.output_group import OutputGroup


def names(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def write(group: OutputGroup, path: Path, text: str) -> None:
    with group.open_file(Location.of(path)) as file:
        file.write(text.encode())


def test_all_kinds_of_files_in_one_group(tmp_path: Path) -> None:
    group = OutputGroup()
    records = group.open_records(Location.of(tmp_path / "a.tfrecord"), index=True)
    records.write(b"record")
    write(group, tmp_path / "a.labels.txt", "cat")
    (Path(group.open_folder(Location.of(tmp_path / "folder"))) / "x").write_text("x")
    assert all(path.name.startswith(".") for path in tmp_path.iterdir())
    group.prepare()
    assert all(path.name.startswith(".") for path in tmp_path.iterdir())
    group.commit()
    group.discard()  # there is nothing to discard
    assert names(tmp_path) == {"a.tfrecord", "a.tfrecord.tfidx", "a.labels.txt", "folder/x"}
    assert (tmp_path / "a.tfrecord").read_bytes() == frame(b"record")
    assert len(RecordIndex.load(tmp_path / "a.tfrecord")) == 1
    assert records.counts == [1]


def test_discarded_group_leaves_nothing(tmp_path: Path) -> None:
    group = OutputGroup()
    group.open_records(Location.of(tmp_path / "a"), index=True).write(b"record")
    write(group, tmp_path / "b", "b")
    (Path(group.open_folder(Location.of(tmp_path / "c"))) / "x").write_text("x")
    group.prepare()
    group.discard()
    assert list(tmp_path.iterdir()) == []


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


def test_all_outputs_are_in_one_folder(tmp_path: Path) -> None:
    with (
        pytest.raises(ValueError, match="all outputs must be in the folder"),
        OutputGroup() as group,
    ):
        write(group, tmp_path / "a", "a")
        write(group, tmp_path / "new" / "b", "b")
    assert names(tmp_path) == set()


def test_more_files_than_can_be_open_at_once(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with OutputGroup() as group:
        for number in range(50):
            write(group, tmp_path / str(number), "x")
        assert len(os.listdir("/proc/self/fd")) == before
    assert {path.read_text() for path in tmp_path.iterdir()} == {"x"}


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


def test_target_that_cannot_be_replaced(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x").touch()
    with pytest.raises(OSError, match="b'"), OutputGroup() as group:
        for name in ("a", "b"):
            write(group, tmp_path / name, name)
    assert names(tmp_path) == {"b/x"}


def test_missing_folders_are_created_on_request(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), OutputGroup(create_folders=False) as group:
        group.open_records(Location.of(tmp_path / "new" / "a"))
    assert list(tmp_path.iterdir()) == []


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


@pytest.fixture
def staged(tmp_path: Path) -> str:
    """Write a complete file with an index to a hidden folder, and return its name."""
    staging = Path(make_temporary_folder(tmp_path / "a"))
    with OutputGroup() as group:
        group.open_records(Location.of(staging / "0"), index=True).write(b"new")
    return str(staging / "0")


@pytest.mark.parametrize("index", [False, True])
def test_a_complete_file_is_adopted(tmp_path: Path, staged: str, index: bool) -> None:
    (tmp_path / "a").write_bytes(frame(b"old"))
    RecordIndex.build(tmp_path / "a").save()
    group = OutputGroup()
    group.adopt(Location.of(staged), Location.of(tmp_path / "a"), index=index)
    assert (tmp_path / "a").read_bytes() == frame(b"old")
    group.commit()
    assert (tmp_path / "a").read_bytes() == frame(b"new")
    assert (tmp_path / "a.tfidx").exists() == index
    if index:
        assert len(RecordIndex.load(tmp_path / "a")) == 1


def test_adopted_files_stay_if_their_group_fails(tmp_path: Path, staged: str) -> None:
    with pytest.raises(KeyError), OutputGroup(force=False) as group:
        group.adopt(Location.of(staged), Location.of(tmp_path / "a"), index=True)
        raise KeyError
    assert not list(tmp_path.glob("a*"))
    assert sorted(os.listdir(os.path.dirname(staged))) == ["0", "0.tfidx"]


def test_an_adopted_file_replaces_nothing_without_force(tmp_path: Path) -> None:
    (tmp_path / "0").write_bytes(frame(b"new"))
    (tmp_path / "a").write_bytes(frame(b"old"))
    with pytest.raises(FileExistsError), OutputGroup(force=False) as group:
        group.adopt(Location.of(tmp_path / "0"), Location.of(tmp_path / "a"), index=False)
    assert names(tmp_path) == {"0", "a"}
