"""Commits to stores that fail or are killed at each of their requests."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import torchrec_io as tio
from tests.support.stores import S3Server
from torchrec_io.errors import InterruptedCommitError
from torchrec_io.storage.commit_journal import JOURNAL_NAME
from torchrec_io.storage.digest import digest_text
from torchrec_io.storage.paths import expand_paths
from torchrec_io.storage.remote import object_commit
from torchrec_io.storage.remote.object_commit import list_folder
from torchrec_io.storage.remote.options import RemoteOptions
from torchrec_io.storage.remote.process import ObjectAccess
from torchrec_io.storage.remote.upload import delete_objects, put_object

LARGE = [bytes([number]) * 1_000_000 for number in range(20)]


class Outcome(NamedTuple):
    """What a reader finds: records by the name of the object, or an error."""

    records: dict[str, list[bytes]]
    error: Exception | None


class Case(NamedTuple):
    """A writer, and what is there before it.

    Attributes:
        write: Function that writes records to a folder.
        has_old: Whether older objects of the same names are there.
    """

    write: Callable[[str, list[bytes], dict[str, Any]], object]
    has_old: bool = True


def one(folder: str, records: list[bytes], options: dict[str, Any]) -> None:
    with tio.TFRecordWriter(f"{folder}/a.tfrecord", index=True, storage_options=options) as writer:
        for record in records:
            writer.write(record)


def shards(folder: str, records: list[bytes], options: dict[str, Any]) -> None:
    with tio.ShardedWriter(f"{folder}/x", 2, index=True, storage_options=options) as writer:
        for record in records:
            writer.write(record)


def sized(folder: str, records: list[bytes], options: dict[str, Any]) -> None:
    with tio.ShardedWriter(f"{folder}/x", max_bytes=11_000_000, storage_options=options) as writer:
        for record in records:
            writer.write(record)


def parts(folder: str, records: list[bytes], options: dict[str, Any]) -> None:
    """Write files whose names do not tell how many there are."""
    source = f"{folder}-source/all.tfrecord"
    with tio.TFRecordWriter(source, storage_options=options) as writer:
        for record in records:
            writer.write(record)
    tio.tools.split(
        source, f"{folder}/", [0.5, 0.5], index=False, force=True, storage_options=options
    )


CASES = {
    "one": Case(one),
    "shards": Case(shards),
    "new shards": Case(shards, has_old=False),
    "shards by size": Case(sized),
    "parts": Case(parts),
}


OTHERS = [name for name in CASES if name != "shards"]


class FaultError(OSError):
    """A request that fails."""


def read(folder: str, options: dict[str, Any]) -> Outcome:
    """Return what a reader of a folder finds."""
    try:
        files = expand_paths(folder, remote=RemoteOptions(options))
        found = {
            os.path.basename(file): list(tio.TFRecordDataset(file, storage_options=options))
            for file in files
        }
    except (InterruptedCommitError, FileNotFoundError) as error:
        return Outcome({}, error)
    return Outcome(found, None)


class Faults:
    """Makes a fault before one of the requests of a process.

    Attributes:
        count: Number of requests so far.
    """

    def __init__(self, number: int, fault: Callable[[], None], *, lasts: bool) -> None:
        self.count = 0
        self._number, self._fault, self._lasts = number, fault, lasts

    def patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ask = ObjectAccess.ask

        def asking(way: ObjectAccess, url: str, name: str, *rest: Any, **others: Any) -> Any:
            self.count += 1
            if self.count == self._number or (self._lasts and self.count > self._number):
                self._fault()
            return ask(way, url, name, *rest, **others)

        monkeypatch.setattr(ObjectAccess, "ask", asking)


def fail() -> None:
    raise FaultError(5, "a fault of the test")


def is_whole(found: Outcome, old: Outcome, new: Outcome) -> bool:
    """Return whether a reader found the old or the new objects, or an error."""
    return found.error is not None or found.records in (old.records, new.records)


@pytest.fixture
def place(s3: S3Server, request: Any) -> tuple[str, dict[str, Any]]:
    name = request.node.name.replace("[", "-").replace("]", "").replace(" ", "-")
    return f"s3://data/commits/{name}", s3.options()


def small(start: int) -> list[bytes]:
    return [b"%d" % number * 3 for number in range(start, start + 10)]


@pytest.mark.slow
@pytest.mark.parametrize("lasts", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "name", ["shards", *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)]
)
def test_errors(
    place: tuple[str, dict[str, Any]], name: str, lasts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]
    folder, options = place
    case.write(f"{folder}-new", small(10), options)
    new = read(f"{folder}-new", options)
    for number in itertools.count(1):
        where = f"{folder}/{number}"
        if case.has_old:
            case.write(where, small(0), options)
        old = read(where, options)
        faults = Faults(number, fail, lasts=lasts)
        with monkeypatch.context() as patch:
            faults.patch(patch)
            try:
                case.write(where, small(10), options)
                is_done = True
            except FaultError:
                is_done = False
        found = read(where, options)
        assert is_whole(found, old, new), number
        if is_done:
            assert found == new
        if faults.count < number:
            break
        if not lasts:
            assert not isinstance(found.error, InterruptedCommitError), number
        tio.tools.clean(where, storage_options=options, older_than=0)
        case.write(where, small(10), options)
        assert read(where, options) == new
    assert number > 4


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_kills(place: tuple[str, dict[str, Any]], name: str) -> None:
    """Cleaning settles what a killed process has left."""
    case = CASES[name]
    folder, options = place
    case.write(f"{folder}-new", small(10), options)
    new = read(f"{folder}-new", options)
    for number in itertools.count(1):
        where = f"{folder}/{number}"
        if case.has_old:
            case.write(where, small(0), options)
        old = read(where, options)
        is_killed = in_child(functools.partial(case.write, where, small(10), options), number)
        found = read(where, options)
        assert is_whole(found, old, new), number
        if not is_killed:
            assert found == new
            break
        tio.tools.clean(where, storage_options=options, older_than=0)
        case.write(where, small(10), options)
        assert read(where, options) == new
    assert number > 4


def in_child(work: Callable[[], object], number: int) -> bool:
    """Run a function in a child, which ends before a request; return whether it did."""
    child = os.fork()
    if child == 0:
        try:
            Faults(number, lambda: os._exit(9), lasts=False).patch(pytest.MonkeyPatch())
            work()
            os._exit(0)
        except BaseException:  # noqa: BLE001
            os._exit(2)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in (0, 9)
    return status == 9


# ---- journals ----


def test_patterns_over_many_folders(s3: S3Server) -> None:
    """A commit to one folder is no matter for others."""
    remote = RemoteOptions(s3.options())
    for name in ("quiet", "busy"):
        one(f"s3://data/many/{name}", small(0), s3.options())
    journal = object_commit._encode({"b.tfrecord": 1}, {})
    put_object(f"s3://data/many/busy/{JOURNAL_NAME}", journal, remote)
    found = expand_paths("s3://data/man*/quiet/*.tfrecord", remote=RemoteOptions(s3.options()))
    assert found == ["s3://data/many/quiet/a.tfrecord"]
    assert expand_paths("s3://data/many/**/a.*", remote=RemoteOptions(s3.options()))[1:] == found
    for pattern in ("s3://data/many/**/*.tfrecord", "s3://data/man*/busy/[b]*"):
        with pytest.raises(InterruptedCommitError, match="s3://data/many/busy"):
            expand_paths(pattern, remote=RemoteOptions(s3.options()))


def test_a_commit_of_a_living_process(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers and writers refuse the folder, and cleaning keeps it."""
    folder, remote = "s3://data/living", RemoteOptions(s3.options())
    shards(folder, small(0), s3.options())
    put_object(f"{folder}/{JOURNAL_NAME}", object_commit._encode({"x-new": 1}, {}), remote)
    monkeypatch.setattr(object_commit, "_committing", {folder})
    for open_again in (
        lambda: tio.TFRecordDataset(folder, storage_options=remote),
        lambda: tio.TFRecordDataset(f"{folder}/x-*", storage_options=s3.options()),
        lambda: tio.TFRecordDataset("s3://data/livin?/x-*", storage_options=s3.options()),
        lambda: tio.TFRecordDataset("s3://data/**", storage_options=s3.options()),
        lambda: shards(folder, small(0), s3.options()),
    ):
        with pytest.raises(InterruptedCommitError, match="a process is writing files to this fol"):
            open_again()
    # A pattern over many folders has to do only with those of its matches.
    shards("s3://data/alive/other", small(0), s3.options())
    assert tio.TFRecordDataset("s3://data/*/other/x-*", storage_options=s3.options()).num_records
    with pytest.raises(InterruptedCommitError, match="living"):
        tio.TFRecordDataset("s3://data/liv*/x-*", storage_options=s3.options())
    [kept] = tio.tools.clean(folder, storage_options=s3.options())
    assert (kept.kind, kept.action) == ("commit", "keep")
    assert kept.path == f"{folder}/{JOURNAL_NAME}"


def test_two_commits_at_the_same_time(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, options = "s3://data/turns", s3.options()
    put = put_object

    def late(url: str, data: bytes, remote: RemoteOptions, **others: Any) -> Any:
        put(url, data, remote, only_if="absent")
        return put(url, data, remote, **others)

    monkeypatch.setattr(object_commit, "put_object", late)
    with pytest.raises(InterruptedCommitError, match="a process is writing files"):
        shards(folder, small(0), options)
    assert sorted(list_folder(folder, RemoteOptions(options))) == [JOURNAL_NAME]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"x",
        b"0123456789abcdef {}",
        b"\xff" * 100,
        digest_text(b"[" * 99999).encode() + b" " + b"[" * 99999,
    ],
)
def test_a_journal_that_cannot_be_read(s3: S3Server, content: bytes) -> None:
    folder, options = "s3://data/unreadable", s3.options()
    put_object(f"{folder}/{JOURNAL_NAME}", content, RemoteOptions(options))
    with pytest.raises(InterruptedCommitError, match="the journal of a commit cannot be read"):
        shards(folder, small(0), options)
    [kept] = tio.tools.clean("s3://data/unreadable", storage_options=options)
    assert (kept.action, kept.error is not None) == ("keep", True)
    delete_objects([f"{folder}/{JOURNAL_NAME}"], RemoteOptions(options))


def test_cleaning(s3: S3Server) -> None:
    folder, options = "s3://data/cleaning", s3.options()
    remote = RemoteOptions(options)
    work = lambda: sized(f"{folder}/inner", LARGE, options)  # noqa: E731
    assert in_child(work, number_of_request("copy", work, options, folder))
    names = list_folder(folder, remote, is_recursive=True)
    hidden = [name for name in names if name.startswith("inner/.x-")]
    assert hidden
    planned = tio.tools.clean(folder, dry_run=True, storage_options=options)
    assert list_folder(folder, remote, is_recursive=True).keys() == names.keys()
    assert {item.kind for item in planned} == {"file", "commit"}
    done = tio.tools.clean(folder, storage_options=options)
    assert [item.path for item in done] == [item.path for item in planned]
    assert all(item.error is None and item.action == "remove" for item in done)
    assert not list_folder(folder, remote, is_recursive=True)


def number_of_request(
    name: str, work: Callable[[], object], options: dict[str, Any], folder: str
) -> int:
    """Return the number of the first request of a name."""
    names: list[str] = []
    ask = ObjectAccess.ask

    def asking(way: ObjectAccess, url: str, kind: str, *rest: Any, **others: Any) -> Any:
        names.append(kind)
        return ask(way, url, kind, *rest, **others)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ObjectAccess, "ask", asking)
        work()
    remote = RemoteOptions(options)
    found = list_folder(folder, remote, is_recursive=True)
    delete_objects([f"{folder}/{each}" for each in found], remote)
    return names.index(name) + 1
