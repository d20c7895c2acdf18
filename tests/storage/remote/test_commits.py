"""Commits to stores that fail or are killed at each of their requests."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

import torchrec_io as tio
from tests.support.stores import S3Server
from torchrec_io._storage.paths import expand_paths
from torchrec_io._storage.remote import object_commit
from torchrec_io._storage.remote.connection import HelperConnection
from torchrec_io._storage.remote.pending_object import PendingObject


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


class FaultError(OSError):
    """A request that fails."""


def read(folder: str, options: dict[str, Any]) -> Outcome:
    """Return what a reader of a folder finds."""
    try:
        files = expand_paths(folder, one_set=False, storage_options=options)
        found = {
            os.path.basename(file): list(tio.TFRecordDataset(file, storage_options=options))
            for file in files
        }
    except FileNotFoundError as error:
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
        ask = HelperConnection.ask

        def asking(client: HelperConnection, *request: Any, **options: Any) -> Any:
            self.count += 1
            if self.count == self._number or (self._lasts and self.count > self._number):
                self._fault()
            return ask(client, *request, **options)

        monkeypatch.setattr(HelperConnection, "ask", asking)


def fail() -> None:
    raise FaultError(5, "a fault of the test")


def is_whole(found: Outcome, old: Outcome, new: Outcome) -> bool:
    """Return whether a reader found old or new objects, or an error, and never a mixture.

    Some may be missing if their names do not tell how many there are.
    """
    has_total = all("-of-" in name for name in new.records)
    return found.error is not None or any(
        found.records == each.records
        or (not has_total and found.records.items() <= each.records.items())
        for each in (old, new)
    )


@pytest.fixture
def place(s3: S3Server, request: Any) -> tuple[str, dict[str, Any]]:
    name = request.node.name.replace("[", "-").replace("]", "").replace(" ", "-")
    return f"s3://data/commits/{name}", s3.options()


def small(start: int) -> list[bytes]:
    return [b"%d" % number * 3 for number in range(start, start + 10)]


def fails(work: Callable[[], object], number: int, *, lasts: bool = False) -> bool:
    """Run a function, with an error at a request; return whether it has got that far."""
    faults = Faults(number, fail, lasts=lasts)
    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(FaultError):
        faults.patch(patch)
        work()
    return faults.count >= number


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["one error", "errors", "kill"])
@pytest.mark.parametrize("name", CASES)
def test_faults(place: tuple[str, dict[str, Any]], name: str, fault: str) -> None:
    """What a commit has left, whose requests fail or which is killed, can be written again."""
    case = CASES[name]
    folder, options = place
    case.write(f"{folder}-new", small(10), options)
    new = read(f"{folder}-new", options)
    run = in_child if fault == "kill" else functools.partial(fails, lasts=fault == "errors")
    for number in itertools.count(1):
        where = f"{folder}/{number}"
        if case.has_old:
            case.write(where, small(0), options)
        old = read(where, options)
        has_fault = run(functools.partial(case.write, where, small(10), options), number)
        found = read(where, options)
        assert is_whole(found, old, new), number
        if not has_fault:
            assert found == new
            break
        case.write(where, small(10), options)
        assert read(where, options) == new
    assert number > 3


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


def test_two_commits_at_the_same_time(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that another one has overtaken fails, and no mixture is left."""
    folder, options = "s3://data/turns", s3.options()
    rename, calls = PendingObject.rename, []

    def overtaken(pending: PendingObject, url: str, **others: Any) -> Any:
        stamp = rename(pending, url, **others)
        calls.append(url)
        if len(calls) == 1:
            shards(folder, small(10), options)
        return stamp

    monkeypatch.setattr(PendingObject, "rename", overtaken)
    monkeypatch.setattr(object_commit, "_MOST_AT_ONCE", 1)
    with pytest.raises(FileExistsError, match="another process wrote objects of the same names"):
        shards(folder, small(0), options)
    with pytest.raises(FileNotFoundError):
        expand_paths(folder, storage_options=options)
