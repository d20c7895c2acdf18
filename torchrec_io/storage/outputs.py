"""Opening of paths as outputs. Files and remote objects are distinguished here."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Protocol

from .byte_source import ByteSource
from .local import StrPath
from .opening import is_remote, local_name, public_name
from .pending_file import PendingFile, check_replaceable, output_exists, write_atomically
from .remote.options import RemoteOptions

if TYPE_CHECKING:
    from .remote.pending_object import PendingObject


class Pending(Protocol):
    """An output that appears under its name only when it is complete.

    Attributes:
        path: Name that it gets.
        size: Number of bytes written.
    """

    path: str
    size: int

    def write(self, *parts: bytes | memoryview) -> None:
        """Append bytes."""

    def sync(self) -> None:
        """Wait until all that can be stored without a name is stored."""

    def source(self) -> ByteSource:
        """Return what was written. Of an object only its two ends can be read."""

    def discard(self) -> None:
        """Drop what was written. Nothing happens if it has its name."""


def open_pending(
    path: StrPath, remote: RemoteOptions, *, has_name: bool = True
) -> PendingFile | PendingObject:
    """Open an output for writing.

    Args:
        path: Path or URL.
        remote: Options for remote objects.
        has_name: Whether the output keeps this name; see :class:`PendingObject`.

    Raises:
        OSError: If it cannot be created, or is a URL of HTTP.
    """
    if not is_remote(path):
        return PendingFile(local_name(path))
    from .remote.pending_object import PendingObject  # noqa: PLC0415  # not for local files

    return PendingObject(public_name(path, remote), remote, has_name=has_name)


def write_output(path: StrPath, data: bytes, remote: RemoteOptions) -> None:
    """Write a complete file or object, or none. One that is there is replaced.

    Raises:
        OSError: If it cannot be written.
    """
    if not is_remote(path):
        write_atomically(local_name(path), data)
        return
    from .remote.upload import put_object  # noqa: PLC0415  # not for local files

    put_object(public_name(path, remote), data, remote)


def remove_output(path: StrPath, remote: RemoteOptions) -> None:
    """Remove a file or object, if there is one.

    Raises:
        OSError: If it cannot be removed.
    """
    if not is_remote(path):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(local_name(path))
        return
    from .remote.upload import delete_objects  # noqa: PLC0415  # as above

    delete_objects([public_name(path, remote)], remote)


def check_output(path: StrPath) -> None:
    """Check that a path can be the name of an output: that it is no directory, device or HTTP.

    Raises:
        OSError: If it is one.
    """
    if not is_remote(path):
        check_replaceable(local_name(path))
        return
    from .remote.upload import check_writable  # noqa: PLC0415  # not for local files

    check_writable(public_name(path, None))


def split_output(path: StrPath) -> tuple[str, str]:
    """Return the folder and the name of an output, normalized.

    Raises:
        OSError: If a URL is one of HTTP.
        ValueError: If a URL names a store, or a folder.
    """
    name = local_name(path)
    if not is_remote(name):
        return os.path.split(os.path.normpath(name))
    check_output(name)
    folder, _, last = name.rpartition("/")
    if not last or folder.endswith(("/", ":")):
        raise ValueError(f"an output must be the URL of an object in a store, got {name!r}")
    return folder, last


def names_in(folder: str, remote: RemoteOptions) -> set[str]:
    """Return the names of what is in a folder; none if it does not exist."""
    if not is_remote(folder):
        listed = local_name(folder) or os.curdir
        return set(os.listdir(listed)) if os.path.isdir(listed) else set()
    from .remote.listing import list_folder  # noqa: PLC0415  # as above

    return set(list_folder(public_name(folder, remote), remote))


def refuse_existing(path: StrPath, remote: RemoteOptions | None = None) -> None:
    """Raise an error if an output exists.

    Raises:
        FileExistsError: If there is a file, folder, link or object of this name.
    """
    if is_remote(path):
        from .remote.upload import exists  # noqa: PLC0415  # as above

        check_output(path)
        remote = remote or RemoteOptions()
        is_there = exists(public_name(path, remote), remote)
    else:
        is_there = os.path.lexists(local_name(path))
    if is_there:
        raise output_exists(path)
