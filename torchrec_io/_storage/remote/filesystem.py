"""Requests to filesystems of fsspec, for the schemes that obstore does not know.

They run in threads of this process: a filesystem may be an object of the user, or exist in this
process alone, as ``memory://`` does. fsspec makes new filesystems after a fork. An object of the
user stays the same, and cannot be used after a fork if it has a thread of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import ftplib
import os
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any, Literal, TypeVar

import fsspec.core  # type: ignore[import-untyped]
from fsspec.implementations.ftp import FTPFileSystem  # type: ignore[import-untyped]

from .attempts import OWN_OPTIONS, most_attempts
from .client import Client
from .failures import Failure, Kind, RequestError, classify_status
from .helper import Helper
from .messages import ObjectInfo

_Result = TypeVar("_Result")

# Filesystems wait for their answers most of the time.
_THREADS = 16
_IDENTITIES = ("ETag", "etag", "e_tag", "checksum", "generation", "sha", "blob_id", "xet_hash")
_REPLACED = Failure(Kind.changed, "the file was replaced")
_FAILURES = {
    FileNotFoundError: Failure(Kind.missing, "no such file"),
    FileExistsError: Failure(Kind.exists, "the file exists"),
    PermissionError: Failure(Kind.denied, "permission denied"),
}
_STATUSES = ("status", "status_code", "code")
# Errors that stay. That of FTP is of a login or a name.
_MISTAKES = (
    TypeError, ValueError, NotImplementedError, ImportError, IsADirectoryError, NotADirectoryError,
    ftplib.error_perm,
)  # fmt: skip
_TIMES = ("mtime", "LastModified", "last_modified", "updated", "created")
_inherited: list[Client] = []  # after a fork
_one_connection = threading.Lock()  # held while the connection of a filesystem of FTP is used


class FilesystemClient(Client):
    """A thread of this process that makes requests to filesystems.

    Args:
        memory_bytes: Size of the memory.
    """

    def __init__(self, memory_bytes: int) -> None:
        super().__init__(memory_bytes)
        is_ready = threading.Event()
        work = self._serve(is_ready)
        threading.Thread(
            target=asyncio.run, args=[work], name="torchrec_io fsspec", daemon=True
        ).start()
        is_ready.wait()

    def send(self, name: str, *arguments: Any) -> None:
        if not self.has_failed():
            self._loop.call_soon_threadsafe(self._helper.handle, name, *arguments)

    def close(self) -> None:
        if not self.has_failed():
            self._fail("the requests to filesystems were ended")
            self._loop.call_soon_threadsafe(self._end.set)

    def close_in_child(self) -> None:
        # To end the loop here would also end it in the parent, which shares its files.
        _inherited.append(self)

    async def _serve(self, is_ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.set_default_executor(ThreadPoolExecutor(_THREADS, "torchrec_io-fsspec"))
        self._helper = Helper(self._descriptor, Filesystem, self._answer)
        self._end = asyncio.Event()
        is_ready.set()
        await self._end.wait()


class Filesystem:
    """A filesystem of fsspec.

    Args:
        root: The store: scheme and host of the URL.
        options: The user's ``storage_options``.

    Attributes:
        tried: Credentials that requests have, in words.
        most_attempts: Largest number of attempts of a request.

    Raises:
        ImportError: If a package is missing.
        ValueError: If the options are not valid, or no package knows the scheme.
    """

    tried = "the credentials that fsspec finds"

    def __init__(self, root: str, options: Mapping[str, Any]) -> None:
        self.most_attempts = most_attempts(options)
        self._root = root
        self._given = options.get("filesystem")
        self._options = {name: value for name, value in options.items() if name not in OWN_OPTIONS}
        scheme = root.partition("://")[0]
        try:
            if self._given is None:
                fsspec.get_filesystem_class(scheme)
        except ImportError as error:
            raise ImportError(f"fsspec cannot read {scheme}://: {type(error).__name__}") from None
        except ValueError:
            raise ValueError(
                f"URLs of {scheme}:// cannot be read: no installed package knows them"
            ) from None

    @staticmethod
    def classify(error: BaseException) -> Failure:
        """Return the failure that an error of a filesystem stands for, without its text."""
        if isinstance(error, RequestError):
            return error.failure
        for kind, failure in _FAILURES.items():
            if isinstance(error, kind):
                return failure
        if "not fork-safe" in str(error):
            return Failure(
                Kind.refused,
                "the filesystem object cannot be used in a forked process: use the start method "
                "spawn",
            )
        if (status := _status_of(error)) is not None:
            return classify_status(status)
        reason = type(error).__name__  # the text may have secrets
        if isinstance(error, OSError) and error.errno:
            reason = os.strerror(error.errno)
        return Failure(Kind.refused if isinstance(error, _MISTAKES) else Kind.temporary, reason)

    async def _run(self, work: Callable[[Any], _Result]) -> _Result:
        """Use the filesystem in another thread; alone, if it has one connection."""

        def use() -> _Result:
            # The class keeps one instance for each process and its arguments. Those in the URL,
            # such as the host, come before those in the options.
            found = self._given or fsspec.core.url_to_fs(self._root, **self._options)[0]
            is_alone = isinstance(found, FTPFileSystem)
            with _one_connection if is_alone else contextlib.nullcontext():
                return work(found)

        return await asyncio.get_running_loop().run_in_executor(None, use)

    # ---- requests ----

    async def chunks(self, pin: ObjectInfo, begin: int, end: int) -> AsyncIterator[memoryview]:
        """Yield a range of a file, as a whole."""
        data = await self._run(lambda files: files.cat_file(pin.key, start=begin, end=end))
        if len(data) != end - begin:
            raise RequestError(_REPLACED)
        yield memoryview(data)

    async def head(self, path: str) -> ObjectInfo:
        """Request the size and version of a file."""
        info = await self._run(lambda files: files.info(path))
        if info["type"] != "file":
            raise FileNotFoundError(path)
        return _info_of(info, path)

    async def list_objects(self, path: str, is_recursive: bool) -> list[ObjectInfo]:
        """Return the files in a folder."""

        def find(files: Any) -> list[ObjectInfo]:
            root = files._strip_protocol(path).rstrip("/")  # noqa: SLF001  # its only name
            found = files.find(path, maxdepth=None if is_recursive else 1, detail=True)
            # Names in listings are those of the filesystem, which may differ from those of the URL.
            return [
                _info_of(info, path + name.removeprefix(root).lstrip("/"))
                for name, info in found.items()
            ]

        return await self._run(find)

    async def list_folders(self, path: str) -> list[str]:
        """Return the folders in a folder."""
        entries = await self._run(lambda files: files.ls(path, detail=True))
        return [entry["name"] for entry in entries if entry["type"] == "directory"]

    async def put(
        self, path: str, data: bytes, only_if: ObjectInfo | Literal["absent"] | None
    ) -> ObjectInfo:
        """Write a file. Conditions are compared just before it, for lack of better ones."""

        def info(files: Any) -> ObjectInfo:
            return _info_of(files.info(path), path)

        def write(files: Any) -> ObjectInfo:
            # An attempt before this one may have written the file.
            if only_if is not None and files.exists(path) and files.cat_file(path) == data:
                return info(files)
            if only_if == "absent" and files.exists(path):
                raise FileExistsError(path)
            if isinstance(only_if, ObjectInfo) and only_if[1:] != info(files)[1:]:
                raise RequestError(_REPLACED)
            files.pipe_file(path, data)
            return info(files)

        return await self._run(write)

    async def put_file(self, path: str, local: str) -> None:
        """Copy a file of this machine to a filesystem."""
        await self._run(lambda files: files.put_file(local, path))

    async def copy(self, source: str, target: str) -> None:
        """Copy a file."""
        await self._run(lambda files: files.cp_file(source, target))

    async def delete(self, paths: list[str]) -> None:
        """Delete files. Those that do not exist are no error."""

        def remove(files: Any) -> None:
            for path in paths:
                with contextlib.suppress(FileNotFoundError):
                    files.rm_file(path)

        await self._run(remove)


def _info_of(info: Mapping[str, Any], path: str) -> ObjectInfo:
    identity = next((str(info[name]) for name in _IDENTITIES if info.get(name)), "")
    changed = next((info[name] for name in _TIMES if info.get(name)), 0)
    if isinstance(changed, datetime):
        identity = identity or changed.isoformat()
        changed = changed.timestamp()
    seconds = int(changed) if isinstance(changed, (int, float)) else 0
    return ObjectInfo(path, int(info["size"]), identity, "", seconds)


def _status_of(error: BaseException) -> int | None:
    """Return the status of HTTP that an error of a filesystem has; None if it has none."""
    answer = getattr(error, "response", None)
    given = [getattr(error, name, None) for name in _STATUSES]
    given += [getattr(answer, name, None) for name in _STATUSES]
    return next((each for each in given if isinstance(each, int) and 400 <= each < 600), None)
