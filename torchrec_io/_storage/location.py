"""Paths and URLs, each together with the options to reach it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from dataclasses import dataclass

from .byte_source import ByteSource
from .compression import CompressionChoice, check_compression, detect_compression
from .local import LocalFile, PipeFile, StrPath, head_of, is_seekable_file, stamp_of
from .opening import open_decompressed
from .remote import listing
from .remote.options import RemoteOptions, StorageOptions
from .remote.remote_file import RemoteFile, identity_of
from .remote.urls import can_pin, is_url, is_web_url, local_path, scheme_of
from .stamp import Stamp
from .thread_pool import REMOTE_THREADS


@dataclass(frozen=True, slots=True, repr=False)
class Location(os.PathLike[str]):
    """A path or URL, together with the options to reach it.

    It is made once, by :meth:`of`, where a user's argument enters. As a path-like object, and in
    messages, it is its name. It is pickled without secrets, except to start a process.

    Attributes:
        name: Path, or URL without its secrets.
        options: Options for remote objects, which only this room uses; None for a local file.
    """

    name: str
    options: RemoteOptions | None = None

    @staticmethod
    def of(path: StrPath, storage_options: StorageOptions = None) -> Location:
        """Return the location that a user's path or URL stands for.

        Args:
            path: Path or URL; a location stands for itself.
            storage_options: Options of an object store; by default those that its own tools use.

        Raises:
            ValueError: If the URL is not valid.
        """
        if isinstance(path, Location):
            return path
        name = local_name(path)
        if not is_url(name):
            return Location(name)
        options = RemoteOptions.of(storage_options)
        return Location(options.name(name), options)

    def __fspath__(self) -> str:
        return self.name

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return repr(self.name)

    def __hash__(self) -> int:
        return hash(self.name)

    # ---- names ----

    @property
    def local_path(self) -> str | None:
        """Path for native code and other libraries; None if it is not a file of this machine."""
        return self.name if self.options is None else None

    @property
    def basename(self) -> str:
        """Last part of the name."""
        return os.path.basename(self.name)

    @property
    def parent(self) -> Location:
        """Folder of the file or object."""
        return Location(os.path.dirname(self.name), self.options)

    def child(self, name: str) -> Location:
        """Return the location of a name in this folder."""
        if self.options is None:
            return Location(os.path.join(self.name, name))
        return Location(f"{self.name}{'' if self.name.endswith('/') else '/'}{name}", self.options)

    def at(self, path: StrPath, storage_options: StorageOptions = None) -> Location:
        """Return the location of another path or URL, by default with these options."""
        return Location.of(path, self.options if storage_options is None else storage_options)

    def beside(self, suffix: str) -> Location:
        """Return the location whose name ends with a suffix after this name."""
        return Location(self.name + suffix, self.options)

    def absolute(self) -> Location:
        """Return the same location for processes in other working directories."""
        return self if self.options is not None else Location(os.path.abspath(self.name))

    @property
    def identity(self) -> str:
        """Text that is equal for two paths of the same file or remote object."""
        return self.name if self.options is not None else os.path.realpath(self.name)

    # ---- reading ----

    def open(self, stamp: Stamp | None = None) -> ByteSource:
        """Open the file or object for reading its stored bytes at any offset.

        Args:
            stamp: Stamp of an object as it was first seen, if that is known. It is read then
                exactly as it was, and nothing is requested to open it.

        Raises:
            FileNotFoundError, IsADirectoryError: If there is no such file.
            OSError: If it is a pipe, or cannot be opened.
        """
        if self.options is None:
            return LocalFile(self.name)
        return RemoteFile(self.name, stamp or self.stamp(), self.options)

    def open_now(self) -> ByteSource:
        """Open the file or object as it is now, also if it was another one before."""
        return self.open(self.stamp_now() if self.options is not None else None)

    def open_stream(self, compression: CompressionChoice = "auto") -> ByteSource:
        """Open the file, pipe or object for reading its decompressed content from front to back.

        An object is read as it is now.

        Args:
            compression: ``"auto"`` (by content), None, ``"gzip"``, ``"zlib"`` or ``"zstd"``.

        Raises:
            FileNotFoundError, IsADirectoryError: If there is no such file.
            ValueError: If ``compression`` is not one of its values.
        """
        check_compression(compression)
        file = self.open_now() if self.is_seekable() else PipeFile(self.name)
        return open_decompressed(
            file, detect_compression(head_of(file)) if compression == "auto" else compression
        )

    def is_seekable(self) -> bool:
        """Return whether it can be read at any offset, and more than once.

        Raises:
            FileNotFoundError: If there is no such file.
        """
        return self.options is not None or is_seekable_file(os.stat(self.name))

    # ---- versions ----

    def stamp(self) -> Stamp:
        """Return the stamp of the file, or that of an object as it was when it was listed.

        Raises:
            FileNotFoundError: If there is no such file.
        """
        if self.options is None:
            return self.stamp_now()
        if self.is_known_missing():
            raise FileNotFoundError(errno.ENOENT, "no such object", self.name)
        stamps = self.options.stamps
        if self.name not in stamps:
            stamps[self.name] = self.stamp_now()
        return stamps[self.name]

    def stamp_now(self) -> Stamp:
        """Return the stamp of the file or object as it is now, without opening it.

        Raises:
            FileNotFoundError: If there is no such file.
        """
        if self.options is None:
            return stamp_of(os.stat(self.name))
        return listing.read_remote_stamp(self.name, self.options)

    @property
    def seen_stamp(self) -> Stamp | None:
        """Stamp of the object when it was last seen; None if it was not seen, or is a file."""
        return None if self.options is None else self.options.stamps.get(self.name)

    def see(self, stamp: Stamp | None) -> None:
        """Remember the stamp of an object; None if it is not known anymore."""
        if self.options is None:
            return
        if stamp is None:
            self.options.stamps.pop(self.name, None)
        else:
            self.options.stamps[self.name] = stamp

    def content_identity(self, stamp: Stamp) -> str | None:
        """Return text that identifies the content of one version of the file or object.

        Args:
            stamp: Stamp of the version.

        Returns:
            None if nothing of a remote object is sure to change with its content.
        """
        if self.options is None:
            return repr((self.identity, stamp))
        return identity_of(self.name, stamp, self.options)

    def is_known_missing(self) -> bool:
        """Return whether a listing showed that the object does not exist."""
        if self.options is None:
            return False
        return listing.is_known_missing(self.name, self.options)

    # ---- what stores can do ----

    @property
    def is_versioned(self) -> bool:
        """Whether reads can be of exactly the version that was seen."""
        return self.options is not None and can_pin(self.name)

    @property
    def has_listing(self) -> bool:
        """Whether its folder can be listed; a server of HTTP has no listing."""
        return not is_web_url(self.name)

    @property
    def fetch_bytes(self) -> int | None:
        """Memory for prefetched ranges, in bytes; None for a local file."""
        return None if self.options is None else self.options.fetch_bytes


def local_name(path: StrPath) -> str:
    """Return a path as text: that of a ``file://`` URL, or the same path or URL."""
    name = os.fspath(path)
    return local_path(name) if scheme_of(name) == "file" else name


def threads_for(locations: Iterable[Location]) -> int | None:
    """Return the number of threads for work that waits for files or objects; None for few."""
    return REMOTE_THREADS if any(each.options is not None for each in locations) else None


def remember_stamps(locations: Iterable[Location]) -> None:
    """Find the stamps of existing remote objects, by few requests, and remember them.

    Raises:
        OSError: If a request failed.
    """
    stores: dict[int, tuple[RemoteOptions, list[str]]] = {}
    for each in locations:
        if each.options is not None:
            stores.setdefault(id(each.options), (each.options, []))[1].append(each.name)
    for options, urls in stores.values():
        listing.find_objects(urls, options)
