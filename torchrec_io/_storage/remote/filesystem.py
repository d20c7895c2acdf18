"""Requests to filesystems of fsspec, for the schemes that obstore does not know.

They run in this process: a filesystem may be an object of the user, or exist in this process alone,
as ``memory://`` does. fsspec makes new filesystems after a fork. An object of the user stays the
same, and cannot be used after a fork if it has a thread of its own.
"""

from __future__ import annotations

import contextlib
import ftplib
import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import datetime
from typing import Any

import fsspec.core  # type: ignore[import-untyped]
import numpy as np
from fsspec.implementations.ftp import FTPFileSystem  # type: ignore[import-untyped]

from ... import _core
from ..byte_source import ByteBuffer
from ..stamp import NANOSECONDS, Stamp
from .attempts import OWN_OPTIONS, most_attempts, repeat
from .failures import Failure, FetchError, Kind, RequestError, classify_status
from .messages import StoreAddress
from .ranges import RangeRequest

# Ranges that are fetched at the same time, by all readers of this process.
_THREADS = 16
_IDENTITIES = ("ETag", "etag", "e_tag", "checksum", "generation", "sha", "blob_id", "xet_hash")
_REPLACED = Failure(Kind.changed, "the file was replaced")
_FAILURES = {
    FileNotFoundError: Failure(Kind.missing, "no such file"),
    FileExistsError: Failure(Kind.exists, "the file exists"),
    PermissionError: Failure(
        Kind.denied, "permission denied", tried="the credentials that fsspec finds"
    ),
}
_STATUSES = ("status", "status_code", "code")
# Errors that stay. That of FTP is of a login or a name.
_MISTAKES = (
    TypeError, ValueError, NotImplementedError, ImportError, IsADirectoryError, NotADirectoryError,
    ftplib.error_perm,
)  # fmt: skip
_TIMES = ("mtime", "LastModified", "last_modified", "updated", "created")
_one_connection = threading.Lock()  # held while the connection of a filesystem of FTP is used


class FilesystemClient:
    """Makes requests to filesystems, in the threads that need them, and for ranges in others.

    It has the requests of :class:`HelperConnection`, but no limit of time.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, "torchrec_io-fsspec")

    def ask(
        self, store: StoreAddress, name: str, *arguments: Any, timeout: float | None = None
    ) -> Any:
        del timeout
        _check_scheme(store)

        def work() -> Any:
            files = _open(store)
            is_alone = isinstance(files, FTPFileSystem)
            with _one_connection if is_alone else contextlib.nullcontext():
                return getattr(Filesystem(files), name)(*arguments)

        return repeat(work, most_attempts(store.options), _classify)

    def fetch(
        self,
        store: StoreAddress,
        key: str,
        stamp: Stamp,
        requests: Sequence[RangeRequest],
        out: ByteBuffer,
    ) -> None:
        del stamp  # nothing compares it

        def fetch_one(request: RangeRequest) -> None:
            begin, size, copies = request
            try:
                data = self.ask(store, "fetch", key, begin, size)
            except RequestError as error:
                raise FetchError(error.failure, begin, begin + size) from None
            _core.gather(np.frombuffer(data, np.uint8), copies, out)

        jobs = [self._pool.submit(fetch_one, request) for request in requests]
        try:
            for job in jobs:
                job.result()
        finally:
            wait([job for job in jobs if not job.cancel()])  # they write to the buffer


def _check_scheme(store: StoreAddress) -> None:
    scheme = store.root.partition("://")[0]
    try:
        if store.options.get("filesystem") is None:
            fsspec.get_filesystem_class(scheme)
    except ImportError as error:
        raise ImportError(f"fsspec cannot read {scheme}://: {type(error).__name__}") from None
    except ValueError:
        raise ValueError(
            f"URLs of {scheme}:// cannot be read: no installed package knows them"
        ) from None


def _open(store: StoreAddress) -> Any:
    """Return the filesystem of the user, or that of a URL.

    Its class keeps one instance for each process and its arguments. Those in the URL, such as the
    host, come before those in the options.
    """
    given = store.options.get("filesystem")
    if given is not None:
        return given
    options = {name: value for name, value in store.options.items() if name not in OWN_OPTIONS}
    return fsspec.core.url_to_fs(store.root, **options)[0]


def _classify(error: BaseException) -> Failure:
    """Return the failure that an error of a filesystem stands for, without its text."""
    if isinstance(error, RequestError):
        return error.failure
    for kind, failure in _FAILURES.items():
        if isinstance(error, kind):
            return failure
    if "not fork-safe" in str(error):
        return Failure(
            Kind.refused,
            "the filesystem object cannot be used in a forked process: use the start method spawn",
        )
    if (status := _status_of(error)) is not None:
        return classify_status(status)
    reason = type(error).__name__  # the text may have secrets
    if isinstance(error, OSError) and error.errno:
        reason = os.strerror(error.errno)
    return Failure(Kind.refused if isinstance(error, _MISTAKES) else Kind.temporary, reason)


def _status_of(error: BaseException) -> int | None:
    """Return the status of HTTP that an error of a filesystem has; None if it has none."""
    answer = getattr(error, "response", None)
    given = [getattr(each, name, None) for each in (error, answer) for name in _STATUSES]
    return next((each for each in given if isinstance(each, int) and 400 <= each < 600), None)


class Filesystem:
    """A filesystem of fsspec, with the same requests as :class:`ObjectStore`.

    Args:
        files: The filesystem.
    """

    def __init__(self, files: Any) -> None:
        self._files = files

    def fetch(self, path: str, begin: int, size: int) -> bytes:
        """Return a range of a file, which is fetched as a whole."""
        data: bytes = self._files.cat_file(path, start=begin, end=begin + size)
        if len(data) != size:
            raise RequestError(_REPLACED)
        return data

    def head(self, path: str) -> Stamp:
        """Request the stamp of a file."""
        info = self._files.info(path)
        if info["type"] != "file":
            raise FileNotFoundError(path)
        return _stamp_of(info)

    def list_folder(self, path: str, is_recursive: bool) -> tuple[dict[str, Stamp], list[str]]:
        """Return the stamps of the files in a folder by their names, and the folders in it."""
        root = self._files._strip_protocol(path).rstrip("/")  # noqa: SLF001  # its only name
        if is_recursive:
            entries = self._files.find(path, detail=True).values()
        else:
            entries = self._files.ls(path, detail=True)
        # Names in listings are those of the filesystem, which may differ from those of the URL.
        stamps = {
            path + entry["name"].removeprefix(root).lstrip("/"): _stamp_of(entry)
            for entry in entries
            if entry["type"] == "file"
        }
        return stamps, [entry["name"] for entry in entries if entry["type"] == "directory"]

    def put(self, path: str, data: bytes, must_be_new: bool) -> Stamp:
        """Write a file. If it must be new, it is looked for just before."""
        files = self._files
        # An attempt before this one may have written the file.
        is_there = must_be_new and files.exists(path)
        if is_there and files.cat_file(path) != data:
            raise FileExistsError(path)
        if not is_there:
            files.pipe_file(path, data)
        return self.head(path)

    def put_file(self, path: str, local: str) -> None:
        """Copy a file of this machine to a filesystem."""
        self._files.put_file(local, path)

    def copy(self, path: str, source: str) -> None:
        """Copy a file to this name."""
        self._files.cp_file(source, path)

    def delete(self, *paths: str) -> None:
        """Delete files. Those that do not exist are no error."""
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                self._files.rm_file(path)


def _stamp_of(info: Mapping[str, Any]) -> Stamp:
    identity = next((str(info[name]) for name in _IDENTITIES if info.get(name)), "")
    changed = next((info[name] for name in _TIMES if info.get(name)), 0)
    if isinstance(changed, datetime):
        identity = identity or changed.isoformat()
        changed = changed.timestamp()
    seconds = int(changed) if isinstance(changed, (int, float)) else 0
    return Stamp((identity, ""), int(info["size"]), seconds * NANOSECONDS)
