"""Removal of what killed writers left."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import torchrec_io as tio
from torchrec_io.cluster.parts import PartFolder
from torchrec_io.storage.commit_journal import CommitJournal
from torchrec_io.storage.temporary import temporary_name
from torchrec_io.tools.cleaning import Leftover


def killed(work: Callable[[], object]) -> int:
    """Run work in a process that is killed after it. Return the process."""
    child = os.fork()
    if not child:
        work()
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    return child


def killed_writers(*paths: Path) -> int:
    writers = []

    def work() -> None:
        for path in paths:
            writer = tio.TFRecordWriter(path, index=True)
            writer.write(b"x")
            writers.append(writer)  # otherwise it is discarded

    return killed(work)


def kinds(found: list[Leftover]) -> list[tuple[str, str]]:
    return [(leftover.kind, leftover.action) for leftover in found]


def test_files_of_killed_writers_are_removed(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / ".hidden-0123456789abcdef01234567x").touch()
    (tmp_path / ".hidden").touch()
    before = sorted(tmp_path.rglob("*"))
    child = killed_writers(tmp_path / "a", tmp_path / "inner" / "b")
    left = sorted({*tmp_path.rglob("*")} - {*before})
    assert len(left) == 2
    for dry_run in (True, False):
        found = tio.tools.clean(tmp_path, dry_run=dry_run)
        assert [leftover.path for leftover in found] == list(map(str, left))
        assert kinds(found) == [("file", "remove")] * 2
        assert found[0].reason == f"process {child} has ended"
        assert all(path.exists() == dry_run for path in left)
    assert sorted(tmp_path.rglob("*")) == before
    assert tio.tools.clean(tmp_path) == []


def test_folders_of_killed_conversions_are_removed(tmp_path: Path) -> None:
    records = tmp_path / "in.tfrecord"
    with tio.TFRecordWriter(records) as writer:
        writer.write({"data": b"content"})

    class Killing(tio.tools.Watcher):
        def advanced(self, size: int, records: int) -> None:
            del size, records
            if any(path.is_dir() for path in tmp_path.iterdir()):  # the schema is known
                os.kill(os.getpid(), signal.SIGKILL)

    killed(lambda: tio.convert.to_files(records, tmp_path / "out", "data", watcher=Killing()))
    killed(lambda: tio.tools.shuffle(records, tmp_path / "s", num_shards=2, watcher=Killing()))
    found = tio.tools.clean(tmp_path)
    assert kinds(found).count(("folder", "remove")) == 2
    assert kinds(found).count(("file", "remove")) == 2  # the shards
    assert max(leftover.size for leftover in found if leftover.kind == "folder") >= 7
    assert list(tmp_path.iterdir()) == [records]


def test_files_of_living_writers_are_kept(tmp_path: Path) -> None:
    with tio.TFRecordWriter(tmp_path / "a") as writer:
        writer.write(b"x")
        [found] = tio.tools.clean(tmp_path, older_than=0)
        assert (found.action, found.reason) == ("keep", f"process {os.getpid()} may still write it")
    assert tio.tools.clean(tmp_path) == []
    assert list(tio.TFRecordDataset(tmp_path / "a")) == [b"x"]


def test_files_of_other_machines_are_kept_for_a_day(tmp_path: Path) -> None:
    here = Path(temporary_name(tmp_path / "a"))
    other = tmp_path / f".a-{'0' * 8}{here.name[-16:]}"
    other.touch()
    assert kinds(tio.tools.clean(tmp_path)) == [("file", "keep")]
    written = other.stat().st_mtime - 5 * 3600
    os.utime(other, (written, written))
    [found] = tio.tools.clean(tmp_path)
    assert found.action == "keep"
    assert found.reason == "a process on another machine wrote it 5.0 hours ago"
    assert kinds(tio.tools.clean(tmp_path, older_than=4)) == [("file", "remove")]
    assert not other.exists()


def job(folder: Path, name: str, *, index: bool = False) -> PartFolder:
    return PartFolder.named(str(folder / name), ["job"], None, index=index)


def write_part(folder: Path, name: str) -> None:
    """Write a part in a job that goes on."""
    with PartFolder.of_job(str(folder / name), ["job"], None, index=False) as parts:
        parts.write(0, [b"x"], key="k")
        os.kill(os.getpid(), signal.SIGKILL)


def make_old(folder: Path, hours: float) -> None:
    for path in [folder, *folder.rglob("*")]:
        written = path.stat().st_mtime - hours * 3600
        os.utime(path, (written, written))


def test_folders_of_jobs_are_kept_for_a_day(tmp_path: Path) -> None:
    killed(lambda: write_part(tmp_path / "inner", "out"))
    parts = Path(job(tmp_path / "inner", "out").path)
    lock = Path(f"{parts}.lock")
    assert lock.exists()
    make_old(parts, 5)
    [found] = tio.tools.clean(tmp_path)
    assert (found.path, found.kind, found.action) == (str(parts), "folder", "keep")
    assert found.reason == "a job that does not run wrote it 5.0 hours ago"
    assert found.size > 0
    assert kinds(tio.tools.clean(tmp_path / "inner" / "ou", older_than=4, dry_run=True)) == [
        ("folder", "remove")
    ]
    assert tio.tools.clean(tmp_path / "inner" / "other") == []
    assert parts.exists()
    assert kinds(tio.tools.clean(tmp_path, older_than=4)) == [("folder", "remove")]
    assert list((tmp_path / "inner").iterdir()) == []


def test_folders_of_running_jobs_are_kept(tmp_path: Path) -> None:
    with PartFolder.of_job(str(tmp_path / "out"), ["job"], None, index=False) as parts:
        parts.write(0, [b"x"], key="k")
        make_old(tmp_path, 99)
        [found] = tio.tools.clean(tmp_path)
        assert (found.path, found.action, found.reason) == (parts.path, "keep", "a job uses it")
        assert parts.find(0, "k") is not None
    assert list(tmp_path.iterdir()) == []


def test_a_job_that_starts_while_it_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(lambda: write_part(tmp_path, "out"))
    monkeypatch.setattr("torchrec_io.tools.cleaning.is_locked", lambda _: False)
    with PartFolder.of_job(str(tmp_path / "out"), ["job"], None, index=False) as parts:
        [found] = tio.tools.clean(tmp_path, older_than=0)
        assert found.action == "remove"
        assert "a job uses the folder" in str(found.error)
        assert parts.find(0, "k") is not None


def test_a_lock_without_a_folder_is_removed(tmp_path: Path) -> None:
    parts = Path(job(tmp_path, "out").path)
    Path(f"{parts}.lock").touch()
    assert kinds(tio.tools.clean(tmp_path)) == [("file", "keep")]
    assert kinds(tio.tools.clean(tmp_path, older_than=0)) == [("file", "remove")]
    parts.touch()  # no folder, so it is not of a job
    assert tio.tools.clean(tmp_path, older_than=0) == []
    assert list(tmp_path.iterdir()) == [parts]


def test_start_of_names(tmp_path: Path) -> None:
    long = "x" * 60
    killed_writers(*(tmp_path / name for name in ("a1", "a2", "b", long)))
    assert len(tio.tools.clean(tmp_path / "a")) == 2
    assert len(tio.tools.clean([tmp_path / "a", tmp_path / long])) == 1
    assert len(tio.tools.clean(tmp_path)) == 1
    with pytest.raises(FileNotFoundError):
        tio.tools.clean(tmp_path / "missing" / "a")
    with pytest.raises(ValueError, match="older_than must be at least 0 hours, got -1"):
        tio.tools.clean(tmp_path, older_than=-1)


def half_renamed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write two shards in a process that is killed between them."""
    replace = os.replace

    def replace_and_die(*arguments: Any) -> None:
        replace(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    def work() -> None:
        with tio.ShardedWriter(folder / "a", 2) as writer:
            writer.write(b"new")
            writer.write(b"new")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", replace_and_die)
        killed(work)


@pytest.mark.parametrize("start", ["", "a", "b"])
def test_commits_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start: str) -> None:
    half_renamed(tmp_path, monkeypatch)
    before = set(tmp_path.iterdir())
    assert kinds(tio.tools.clean(tmp_path / start, dry_run=True)) == [("commit", "complete")]
    assert set(tmp_path.iterdir()) == before
    assert kinds(tio.tools.clean(tmp_path / start)) == [("commit", "complete")]
    shown = sorted(path.name for path in tmp_path.iterdir())
    assert shown == ["a-00000-of-00002", "a-00001-of-00002"]
    assert list(tio.TFRecordDataset(tmp_path)) == [b"new"] * 2


def test_a_job_whose_commit_cannot_be_completed_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work() -> None:
        with PartFolder.of_job(str(tmp_path / "a"), ["job"], None, index=True) as folder:
            parts = [folder.write(number, [b"new"], key="k") for number in range(2)]
            monkeypatch.setattr(CommitJournal, "follow", die)
            folder.commit(str(tmp_path / "a"), parts, force=False)

    def die(_: CommitJournal) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    killed(work)
    folder = Path(job(tmp_path, "a", index=True).path)
    make_old(folder, 50)
    part = (folder / "000000001").rename(tmp_path / "elsewhere")
    [found] = tio.tools.clean(tmp_path)
    assert (found.kind, found.action) == ("commit", "complete")
    assert "a part of the new files is missing" in str(found.error)
    part.rename(folder / "000000001")
    assert kinds(tio.tools.clean(tmp_path, dry_run=True)) == [("commit", "complete")]
    assert kinds(tio.tools.clean(tmp_path)) == [("commit", "complete"), ("folder", "keep")]
    assert list(tio.TFRecordDataset(tmp_path)) == [b"new"] * 2


def test_files_of_a_commit_that_cannot_be_completed_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half_renamed(tmp_path, monkeypatch)
    (tmp_path / "a-00000-of-00002").unlink()
    before = set(tmp_path.iterdir())
    [found] = tio.tools.clean(tmp_path)
    assert found.error is not None
    assert "a part of the new files is missing" in found.error
    assert set(tmp_path.iterdir()) == before
    journal = tmp_path / ".torchrec_io.commit"
    journal.unlink()
    journal.symlink_to(tmp_path)
    [found] = tio.tools.clean(tmp_path)
    assert (found.action, found.reason) == ("keep", "it cannot be read")
    journal.unlink()
    assert kinds(tio.tools.clean(tmp_path)) == [("file", "remove")]
