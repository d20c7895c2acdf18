"""Journals of commits that were interrupted: readers and writers refuse, `clean` completes."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import torchrec_io as tio
from torchrec_io import _core
from torchrec_io.storage import commit_journal
from torchrec_io.storage.commit_journal import (
    JOURNAL_NAME,
    CommitJournal,
    Rename,
    finish_interrupted,
)
from torchrec_io.storage.paths import expand_paths
from torchrec_io.storage.temporary import job_folder, temporary_name

NAMES = ("a-00000-of-00002", "a-00001-of-00002")


def interrupted(folder: Path) -> Path:
    """Make a folder of old files, with new ones whose process was interrupted before renaming."""
    renames = []
    for name in NAMES:
        (folder / name).write_text("old")
        temporary = Path(temporary_name(folder / name))
        temporary.write_text("newer")
        renames.append(Rename(temporary.name, name, 5))
    journal = CommitJournal(str(folder), [], renames)
    journal.write()
    journal._unlock()  # as the end of the process does
    return folder / JOURNAL_NAME


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(errors="replace") for path in folder.iterdir()}


NEW = dict.fromkeys(NAMES, "newer")


def rewrite(journal: Path, **changes: Any) -> None:
    """Change fields of a journal, with a valid checksum."""
    fields = json.loads(journal.read_bytes().partition(b" ")[2]) | changes
    body = json.dumps(fields).encode()
    journal.write_bytes(b"%08x %s\n" % (commit_journal._crc_of(body), body))


@contextmanager
def as_nobody() -> Iterator[None]:
    if os.geteuid() != 0:
        pytest.skip("only root can act as another user")
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize(
    "paths", ["{}", "{}/a-*", "{}/a-00001-of-00002", "{}*", "{}/../*/a-*", "{}/../**/a-*"]
)
def test_readers_refuse_the_folder_and_change_nothing(tmp_path: Path, paths: str) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    interrupted(folder)
    for path in map(Path, NAMES):
        (folder / path).unlink()  # the old files are removed before the first is renamed
    before = contents(folder)
    error = FileNotFoundError if paths == "{}*" else tio.InterruptedCommitError
    for read in (expand_paths, tio.TFRecordDataset, tio.TFRecordStream, tio.Schema.infer):
        with pytest.raises(error):
            read(paths.format(folder))
    assert contents(folder) == before


def test_a_link_leads_to_its_folder(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "x"
    link.symlink_to(tmp_path / "data" / NAMES[0])
    interrupted(tmp_path / "data")
    with pytest.raises(tio.InterruptedCommitError):
        expand_paths(link)
    tio.tools.clean(tmp_path / "data")
    assert expand_paths(link) == [str(link)]
    assert link.read_text() == "newer"


def test_a_writer_refuses_the_folder_until_it_is_cleaned(tmp_path: Path) -> None:
    interrupted(tmp_path)
    before = contents(tmp_path)
    for write in (
        lambda: tio.ShardedWriter(tmp_path / "b", 2),
        lambda: tio.TFRecordWriter(tmp_path / "c"),
    ):
        with pytest.raises(tio.InterruptedCommitError, match="run torchrec-io clean"), write():
            pass
        assert contents(tmp_path) == before
    tio.tools.clean(tmp_path)
    with tio.ShardedWriter(tmp_path / "b", 2):
        assert NEW.items() <= contents(tmp_path).items()
    assert set(contents(tmp_path)) == {*NAMES, "b-00000-of-00002", "b-00001-of-00002"}


@pytest.mark.parametrize("size", [0, 1, 20, -1])
def test_an_incomplete_journal_is_not_followed(tmp_path: Path, size: int) -> None:
    journal = interrupted(tmp_path)
    journal.write_bytes(journal.read_bytes()[:size])
    expand_paths(tmp_path)
    assert journal.exists()
    with tio.ShardedWriter(tmp_path / "b", 2):
        pass
    assert not journal.exists()
    assert {key: text for key, text in contents(tmp_path).items() if key in NAMES} == dict.fromkeys(
        NAMES, "old"
    )


def test_a_part_is_missing(tmp_path: Path) -> None:
    interrupted(tmp_path)
    next(tmp_path.glob(f".{NAMES[1]}-*")).unlink()
    for _ in range(2):
        with pytest.raises(tio.InterruptedCommitError, match="a part of the new files is missing"):
            finish_interrupted(str(tmp_path))
    assert (tmp_path / NAMES[0]).read_text() == "old"


@pytest.mark.parametrize(
    "changes",
    [
        {"stale": ["../x"]},
        {"stale": [".."]},
        {"renames": [["x", "y", 5]]},
        {"renames": [["../.x-" + "0" * 24, "y", 5]]},
        {"renames": [[".x-" + "0" * 24, "../y", 5]]},
        {"renames": [["data/x", "y", 5]]},
        {"renames": [[".x-parts-" + "0" * 32 + "/..", "y", 5]]},
        {"renames": [[".x-parts-" + "0" * 32 + "/a/b", "y", 5]]},
        {"renames": [[".x-parts-" + "0" * 32 + ".lock/b", "y", 5]]},
        {"renames": [[".x-" + "0" * 24, "y", "5"]]},
        {"renames": [[".x-" + "0" * 24]]},
        {"renames": 3},
        {"process": "x"},
        {"process": float("inf")},
        {"stale": ["\0"]},
        {"stale": ["\ud800"]},
        {"version": 2},
    ],
)
def test_a_journal_of_someone_else(tmp_path: Path, changes: dict[str, Any]) -> None:
    """A journal may come with data from anywhere: it must not lead out of the folder."""
    folder = tmp_path / "data"
    folder.mkdir()
    (tmp_path / "x").touch()
    rewrite(interrupted(folder), **changes)
    reason = "another release" if "version" in changes else "names that are not valid"
    with pytest.raises(tio.InterruptedCommitError, match=reason):
        expand_paths(folder)
    [found] = tio.tools.clean(folder)
    assert found.action == "keep"
    assert (tmp_path / "x").exists()
    assert (folder / NAMES[0]).read_text() == "old"


def test_files_in_the_folder_of_a_job(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    inside = Path(job_folder(folder / "x", "0" * 32))
    inside.mkdir(parents=True)
    (inside / "1").write_text("new")
    journal = CommitJournal(str(folder), [], [Rename(f"{inside.name}/1", NAMES[0], 3)])
    journal.write()
    journal._unlock()
    elsewhere = inside.rename(tmp_path / "elsewhere")
    inside.symlink_to(elsewhere)
    with pytest.raises(tio.InterruptedCommitError, match="completing its work failed"):
        finish_interrupted(str(folder))
    assert (elsewhere / "1").exists()
    inside.unlink()
    elsewhere.rename(inside)
    finish_interrupted(str(folder))
    assert expand_paths(folder, allow_missing=True) == [str(folder / NAMES[0])]
    assert (folder / NAMES[0]).read_text() == "new"


def test_a_journal_that_is_a_link(tmp_path: Path) -> None:
    journal = interrupted(tmp_path)
    elsewhere = journal.rename(tmp_path / "elsewhere")
    journal.symlink_to(elsewhere)
    with pytest.raises(tio.InterruptedCommitError, match="not a file that can be read"):
        expand_paths(tmp_path)


@pytest.mark.parametrize("body", [b"1", b"[]", b"[" * 100_000, b"{", b"\xff", b'{"version": 1}'])
def test_a_journal_that_is_malformed(tmp_path: Path, body: bytes) -> None:
    journal = interrupted(tmp_path)
    journal.write_bytes(b"%08x %s\n" % (commit_journal._crc_of(body), body))
    before = contents(tmp_path)
    with pytest.raises(tio.InterruptedCommitError, match="names that are not valid"):
        expand_paths(tmp_path)
    assert contents(tmp_path) == before


def test_a_planted_journal_removes_nothing(tmp_path: Path) -> None:
    """A journal may come with data: reading must not remove or replace the files that it names."""
    names = [str(tmp_path / name) for name in ("a.tfrecord", "precious")]
    for name in names:
        with tio.TFRecordWriter(name) as writer:
            writer.write({"label": 1})
    journal = CommitJournal(str(tmp_path), ["precious"], [])
    journal.write()
    journal._unlock()
    for read in (tio.TFRecordDataset, tio.TFRecordStream, tio.Schema.infer):
        with pytest.raises(tio.InterruptedCommitError, match="otherwise remove this file"):
            read(names[0])
    assert all(map(os.path.exists, names))


def test_a_journal_that_is_a_pipe(tmp_path: Path) -> None:
    interrupted(tmp_path).unlink()
    os.mkfifo(tmp_path / JOURNAL_NAME)
    with pytest.raises(tio.InterruptedCommitError, match="not a file that can be read"):
        expand_paths(tmp_path)


def test_who_may_not_write_cannot_complete_a_commit() -> None:
    with tempfile.TemporaryDirectory() as name:  # where other users can read, unlike tmp_path
        folder = Path(name)
        folder.chmod(0o755)
        journal = interrupted(folder)
        with (
            as_nobody(),
            pytest.raises(tio.InterruptedCommitError, match=f"run torchrec-io clean {folder} as a"),
        ):
            finish_interrupted(name)
        journal.write_bytes(b"")  # the old files are untouched
        with as_nobody():
            assert expand_paths(folder) == [str(folder / name) for name in NAMES]


def test_a_journal_of_another_user_is_not_followed(tmp_path: Path) -> None:
    journal = interrupted(tmp_path)
    if os.geteuid() != 0:
        pytest.skip("only root can act as another user")
    os.chown(journal, 65534, 65534)
    with pytest.raises(tio.InterruptedCommitError, match=r"it was of another user \(65534\)"):
        finish_interrupted(str(tmp_path))
    os.chown(tmp_path, 65534, 65534)  # who may do everything in the folder
    finish_interrupted(str(tmp_path))
    assert contents(tmp_path) == NEW


def test_a_failure_before_the_first_change_leaves_the_old_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tio.ShardedWriter(tmp_path / "a", 2) as writer:
        writer.write(b"old")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    writer = tio.ShardedWriter(tmp_path / "a", 2)
    unlink = os.unlink

    def refuse(path: Any) -> None:
        if Path(path).name in NAMES:
            raise PermissionError(errno.EPERM, "a file of another user", path)
        unlink(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        with pytest.raises(PermissionError, match="a file of another user"):
            writer.close()
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_commit_in_progress_is_waited_for(tmp_path: Path, caplog: Any) -> None:
    """A reader in another process waits until all files are renamed."""
    with tio.ShardedWriter(tmp_path / "a", 2) as writer:
        writer.write(b"old")
    ready, begun = os.pipe()
    child = os.fork()
    if not child:
        replace = os.replace

        def slowly(*arguments: Any) -> None:
            os.write(begun, b"x")
            time.sleep(0.2)
            replace(*arguments)

        os.replace = slowly  # type: ignore[assignment]
        with tio.ShardedWriter(tmp_path / "a", 2) as writer:
            writer.write(b"new")
        os._exit(0)
    os.read(ready, 1)
    with caplog.at_level("INFO", "torchrec_io"):
        paths = expand_paths(tmp_path)
    assert list(tio.TFRecordDataset(paths)) == [b"new"]
    assert len(paths) == 2
    assert "waiting for the process that renames the files" in caplog.text
    assert "completed" not in caplog.text
    assert os.waitpid(child, 0)[1] == 0


def test_locks_are_not_supported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOTSUP, "no locks")

    monkeypatch.setattr(fcntl, "flock", refuse)
    journal = interrupted(tmp_path)
    with pytest.raises(tio.InterruptedCommitError, match="try again later"):
        finish_interrupted(str(tmp_path))  # this process lives
    rewrite(journal, process=dead_process())
    finish_interrupted(str(tmp_path))
    assert contents(tmp_path) == NEW
    journal = interrupted(tmp_path)
    rewrite(journal, machine="0" * 8)
    with pytest.raises(tio.InterruptedCommitError, match="try again later"):
        finish_interrupted(str(tmp_path))
    os.utime(journal, (0, 0))
    finish_interrupted(str(tmp_path))
    assert contents(tmp_path) == NEW
    with tio.ShardedWriter(tmp_path / "a", 2) as writer:
        writer.write(b"x")
    assert set(contents(tmp_path)) == set(NAMES)


def dead_process() -> int:
    child = os.fork()
    if not child:
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    return child


def test_the_checksum_is_that_of_the_records() -> None:
    """Other programs can check a journal."""
    assert commit_journal._crc_of(b"123456789") == 0xE3069283
    assert _core.crc32c is not None
