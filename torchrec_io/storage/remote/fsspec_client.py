"""Requests to filesystems of fsspec, for the schemes that obstore does not know.

They run in threads of this process: a filesystem may be an object of the user, or exist in this
process alone, as ``memory://`` does. fsspec makes new filesystems after a fork. An object of the
user stays the same, and cannot be used after a fork if it has a thread of its own.
"""

from __future__ import annotations

import contextlib
import ftplib
import functools
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from typing import Any, TypeVar

import fsspec.core  # type: ignore[import-untyped]
import numpy as np
from fsspec.implementations.ftp import FTPFileSystem  # type: ignore[import-untyped]

from ..byte_source import ByteBuffer
from ..cache.filling import BlockFill
from .attempts import OWN_OPTIONS, most_attempts, seconds_after
from .connection import FetchMemory, Ticket
from .failures import Failure, Kind, classify_status
from .messages import Fetch, FetchReport, ObjectInfo, Put

_Result = TypeVar("_Result")

# Filesystems wait for their answers most of the time.
_THREADS = 16
_LONGEST_SLEEP = 0.1
# Requests that repeat a part of themselves: a second attempt to put finds the object of the first.
_OWN_ATTEMPTS = frozenset({"store", "put"})
_IDENTITIES = ("ETag", "etag", "e_tag", "checksum", "generation", "sha", "blob_id", "xet_hash")
_FAILURES = {
    FileNotFoundError: Failure(Kind.missing, "no such file"),
    FileExistsError: Failure(Kind.exists, "the file exists"),
    PermissionError: Failure(Kind.denied, "permission denied"),
    EOFError: Failure(Kind.changed, "the file has become shorter"),
}
_STATUSES = ("status", "status_code", "code")
# Errors that stay. That of FTP is of a login or a name.
_MISTAKES = (
    TypeError, ValueError, NotImplementedError, ImportError, IsADirectoryError, NotADirectoryError,
    ftplib.error_perm,
)  # fmt: skip
_TIMES = ("mtime", "LastModified", "last_modified", "updated", "created")


class FsspecClient:
    """Carries out requests to filesystems; see :class:`HelperConnection`.

    Args:
        memory_bytes: Size of the memory.

    Attributes:
        memory: The memory; uint8.
    """

    def __init__(self, memory_bytes: int) -> None:
        self._file = FetchMemory()
        self.memory: ByteBuffer = self._file.map(memory_bytes)
        self._numbers = itertools.count(1)
        self._tickets: dict[int, Ticket] = {}
        self._condition = threading.Condition()
        self._pool = ThreadPoolExecutor(_THREADS, "torchrec_io-fsspec")
        self._filesystems: dict[int, Any] = {}
        self._options: dict[int, Mapping[str, Any]] = {}
        self._alone = threading.Lock()
        self._is_closed = False

    def new_ticket(self) -> Ticket:
        """Return the ticket of a new request."""
        ticket = Ticket(next(self._numbers))
        with self._condition:
            self._tickets[ticket.number] = ticket
        return ticket

    def send(self, messages: Sequence[tuple[Any, ...]]) -> None:
        """Start the requests of messages."""
        for name, *arguments in messages:
            if name == "fetch":
                fetch = Fetch(*arguments)
                work = functools.partial(self._fetch, fetch)
                self._start(fetch.ticket, functools.partial(self._repeat, fetch.store, work))

    def ask(self, name: str, *arguments: Any) -> Any:
        """Make a request and return its answer."""
        ticket = self.new_ticket()
        work = functools.partial(getattr(self, f"_{name}"), *arguments)
        if name not in _OWN_ATTEMPTS:
            work = functools.partial(self._repeat, arguments[0], work)
        self._start(ticket.number, work)
        self.wait([ticket])
        return ticket.result

    def wait(self, tickets: Iterable[Ticket]) -> None:
        """Wait until each of some requests is answered."""
        with self._condition:
            for ticket in tickets:
                while not ticket.is_done:
                    self._condition.wait()

    def grow(self, memory_bytes: int) -> None:
        """Make the memory larger. Requests that run still write to it."""
        self.memory = self._file.map(memory_bytes)

    def has_failed(self) -> bool:
        """Return False: there is no other process that could end."""
        return False

    def close(self) -> None:
        """End the threads."""
        self._is_closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)

    def forget(self) -> None:
        """Do nothing: the threads of the parent do not exist in its child."""

    def _start(self, number: int, work: Any) -> None:
        future = self._pool.submit(work)
        future.add_done_callback(lambda done: self._answer(number, done))

    def _answer(self, number: int, done: Future[Any]) -> None:
        error = None if done.cancelled() else done.exception()
        with self._condition:
            ticket = self._tickets.pop(number)
            ticket.result = done.result() if error is None else _failure_of(error)
            ticket.is_done = True
            self._condition.notify_all()

    def _repeat(self, store: int, work: Callable[[], _Result]) -> _Result | Failure:
        """Do something until it succeeds; return its result, or the failure of the last attempt."""
        attempt = 0
        while True:
            attempt += 1
            try:
                return work()
            except Exception as error:  # noqa: BLE001  # filesystems have no common class of these
                failure = _failure_of(error)._replace(attempts=attempt)
            is_last = attempt >= most_attempts(self._options[store])
            if failure.kind is not Kind.temporary or is_last or not self._pause(attempt):
                return failure

    def _pause(self, attempt: int) -> bool:
        """Wait after an attempt; return whether there is a next one."""
        end = time.monotonic() + seconds_after(attempt)
        while (left := end - time.monotonic()) > 0:
            # The threads are waited for when the interpreter ends.
            if self._is_closed or not threading.main_thread().is_alive():
                return False
            time.sleep(min(left, _LONGEST_SLEEP))
        return True

    @contextlib.contextmanager
    def _using(self, store: int) -> Iterator[Any]:
        """Use a filesystem; alone, if it has one connection."""
        filesystem = self._filesystems[store]
        with self._alone if isinstance(filesystem, FTPFileSystem) else contextlib.nullcontext():
            yield filesystem

    # ---- requests ----

    def _store(self, store: int, root: str, options: Mapping[str, Any]) -> Any:
        try:
            most_attempts(options)
        except ValueError as error:
            return error
        self._options[store] = options
        return self._repeat(store, lambda: self._make_filesystem(store, root, options))

    def _make_filesystem(self, store: int, root: str, options: Mapping[str, Any]) -> Any:
        given = options.get("filesystem")
        scheme = root.partition("://")[0]
        rest = {name: value for name, value in options.items() if name not in OWN_OPTIONS}
        try:
            # The class keeps one instance for each process and its arguments. Those in the URL,
            # such as the host, come before those in the options.
            filesystem = fsspec.core.url_to_fs(root, **rest)[0] if given is None else given
            self._filesystems[store] = filesystem
        except (ImportError, TypeError) as error:
            return ImportError(f"fsspec cannot read {scheme}://: {type(error).__name__}")
        except ValueError:
            return ValueError(
                f"URLs of {scheme}:// cannot be read: no installed package knows them"
            )
        return "the credentials that fsspec finds"

    def _fetch(self, fetch: Fetch) -> FetchReport:
        """Fetch a range, with a cache only what that lacks."""
        if fetch.blocks is None:
            return self._fetch_range(fetch)
        memory = self.memory.data[fetch.target : fetch.target + fetch.size]
        fill = BlockFill(fetch.blocks, fetch.begin, memory)
        try:
            while not fill.is_done:
                runs = fill.next_runs()
                for begin, size in runs:
                    self._fetch_range(fetch.part(begin, size))
                    fill.store(begin, size)
                if not runs and not fill.is_done:
                    time.sleep(fill.pause())
        finally:
            fill.close()
        return FetchReport(0.0, 0.0, fill.trouble)

    def _fetch_range(self, fetch: Fetch) -> FetchReport:
        path, end = fetch.pin.key, fetch.begin + fetch.size
        with self._using(fetch.store) as filesystem:
            data = filesystem.cat_file(path, start=fetch.begin, end=end)
        if len(data) != fetch.size:
            raise EOFError
        found = np.frombuffer(data, np.uint8)
        for offset, size, target in fetch.pieces:
            self.memory[target : target + size] = found[offset : offset + size]
        return FetchReport(0.0, 0.0)

    def _head(self, store: int, path: str) -> ObjectInfo:
        with self._using(store) as filesystem:
            info = filesystem.info(path)
        if info["type"] != "file":
            raise FileNotFoundError(path)
        return _info_of(info, path)

    def _list(self, store: int, path: str, is_recursive: bool) -> list[ObjectInfo]:
        with self._using(store) as filesystem:
            root = filesystem._strip_protocol(path).rstrip("/")  # noqa: SLF001  # its only name
            find = filesystem.find(path, maxdepth=None if is_recursive else 1, detail=True)
        # Names in listings are those of the filesystem, which may differ from those of the URL.
        return [
            _info_of(info, path + name.removeprefix(root).lstrip("/"))
            for name, info in find.items()
        ]

    def _folders(self, store: int, path: str) -> list[str]:
        with self._using(store) as filesystem:
            entries = filesystem.ls(path, detail=True)
        return [entry["name"] for entry in entries if entry["type"] == "directory"]

    def _put(self, store: int, *fields: Any) -> ObjectInfo | Failure:
        """Write an object. Conditions are looked at just before it, for lack of better ones."""
        put = Put(*fields)
        with self._using(store) as filesystem:
            if put.only_if == "absent" and filesystem.exists(put.key):
                raise FileExistsError(put.key)
        before = put.only_if
        if isinstance(before, ObjectInfo) and self._head(store, put.key)[1:] != before[1:]:
            raise EOFError
        return self._repeat(store, lambda: self._write(store, put))

    def _write(self, store: int, put: Put) -> ObjectInfo:
        with self._using(store) as filesystem:
            filesystem.pipe_file(put.key, put.data)
        return self._head(store, put.key)

    def _put_file(self, store: int, path: str, local: str) -> None:
        with self._using(store) as filesystem:
            filesystem.put_file(local, path)

    def _copy(self, store: int, source: str, target: str) -> None:
        with self._using(store) as filesystem:
            filesystem.cp_file(source, target)

    def _delete(self, store: int, paths: list[str]) -> None:
        for path in paths:
            with contextlib.suppress(FileNotFoundError), self._using(store) as filesystem:
                filesystem.rm_file(path)


def _info_of(info: Mapping[str, Any], path: str) -> ObjectInfo:
    identity = next((str(info[name]) for name in _IDENTITIES if info.get(name)), "")
    changed = next((info[name] for name in _TIMES if info.get(name)), 0)
    if isinstance(changed, datetime):
        identity = identity or changed.isoformat()
        changed = changed.timestamp()
    seconds = int(changed) if isinstance(changed, (int, float)) else 0
    return ObjectInfo(path, int(info["size"]), identity, "", seconds)


def _failure_of(error: BaseException) -> Failure:
    known = next((failure for kind, failure in _FAILURES.items() if isinstance(error, kind)), None)
    if known is not None:
        return known
    if "not fork-safe" in str(error):
        return Failure(
            Kind.refused,
            "the filesystem object cannot be used in a forked process: use the start method spawn",
        )
    if (status := _status_of(error)) is not None:
        return classify_status(status)
    kind = Kind.refused if isinstance(error, _MISTAKES) else Kind.temporary
    reason = type(error).__name__  # the text may have secrets
    if isinstance(error, OSError) and error.errno:
        reason = os.strerror(error.errno)
    return Failure(kind, reason)


def _status_of(error: BaseException) -> int | None:
    """Return the status of HTTP that an error of a filesystem has; None if it has none."""
    answer = getattr(error, "response", None)
    given = [getattr(error, name, None) for name in _STATUSES]
    given += [getattr(answer, name, None) for name in _STATUSES]
    return next((each for each in given if isinstance(each, int) and 400 <= each < 600), None)
