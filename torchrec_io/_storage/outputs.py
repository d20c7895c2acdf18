"""Opening of paths as outputs. Files and remote objects are distinguished here."""

from __future__ import annotations

import os
from typing import TypeAlias

from .folders import stamps_in
from .location import Location
from .pending_file import PendingFile, check_replaceable, output_exists, write_atomically
from .remote.pending_object import PendingObject
from .remote.upload import check_writable, exists, put_object
from .stamp import Stamp

# An output that appears under its name only when it is complete.
Pending: TypeAlias = PendingFile | PendingObject


def open_pending(location: Location, *, has_name: bool = True) -> Pending:
    """Open an output for writing.

    Args:
        location: Path or URL.
        has_name: Whether the output keeps this name; see :class:`PendingObject`.

    Raises:
        OSError: If it cannot be created, or is a URL of HTTP.
    """
    if location.options is None:
        return PendingFile(location)
    return PendingObject(location.name, location.options, has_name=has_name)


def write_output(location: Location, data: bytes) -> Stamp | None:
    """Write a complete file or object, or none.

    Args:
        location: Path or URL. What is there is replaced.
        data: Content.

    Returns:
        Stamp of a new object; None for a file.

    Raises:
        OSError: If it cannot be written.
    """
    if location.options is None:
        write_atomically(location, data)
        return None
    return put_object(location.name, data, location.options)


def check_output(location: Location) -> None:
    """Check that a path can be the name of an output: that it is no directory, device or HTTP.

    Raises:
        OSError: If it is one.
    """
    if location.options is None:
        check_replaceable(location.name)
        return
    check_writable(location.name)


def split_output(location: Location) -> tuple[Location, str]:
    """Return the folder and the name of an output, normalized.

    Raises:
        OSError: If a URL is one of HTTP.
        ValueError: If a URL names a store, or a folder.
    """
    if location.options is None:
        folder, name = os.path.split(os.path.normpath(location.name))
        return Location(folder), name
    check_output(location)
    folder, _, name = location.name.rpartition("/")
    if not name or folder.endswith(("/", ":")):
        raise ValueError(
            f"an output must be the URL of an object in a store, got {location.name!r}"
        )
    return Location(folder, location.options), name


def names_in(folder: Location) -> set[str]:
    """Return the names of the files and folders in a folder; none if it does not exist."""
    if folder.options is None:
        listed = folder.name or os.curdir
        return set(os.listdir(listed)) if os.path.isdir(listed) else set()
    return set(stamps_in(folder))


def exists_now(location: Location) -> bool:
    """Return whether there is a file, folder, link or object of this name now.

    Raises:
        OSError: If a request failed, or the URL is one of HTTP.
    """
    if location.options is None:
        return os.path.lexists(location)
    check_output(location)
    return exists(location.name, location.options)


def refuse_existing(location: Location) -> None:
    """Raise an error if an output exists.

    Raises:
        FileExistsError: If there is a file, folder, link or object of this name.
    """
    if exists_now(location):
        raise output_exists(location)
