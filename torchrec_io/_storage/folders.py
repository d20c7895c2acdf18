"""Folders of local files or remote objects."""

from __future__ import annotations

import contextlib
import os
import shutil

from .local import StrPath
from .location import Location
from .remote.listing import list_folder, list_once, no_listing
from .remote.options import StorageOptions
from .remote.upload import delete_objects
from .stamp import Stamp


def folder_of(path: StrPath, storage_options: StorageOptions = None) -> Location:
    """Return the location of a folder, with the user's home in place of ``~`` in a local path.

    A URL has no slash at its end.
    """
    found = Location.of(path, storage_options)
    if found.options is None:
        return Location(os.path.expanduser(found.name))
    return Location(found.name.rstrip("/"), found.options)


def has_file(location: Location) -> bool:
    """Return whether there is a file or object of this name.

    Raises:
        OSError: If a request failed.
    """
    if location.options is None:
        return os.path.isfile(location)
    try:
        location.stamp()
    except FileNotFoundError:
        return False
    return True


def remember_folder(folder: Location) -> Location:
    """List a remote folder, so that its objects need no further requests; return the folder."""
    if folder.options is not None:
        with contextlib.suppress(PermissionError):  # objects may be read where listing is denied
            list_once(folder.name, folder.options)
    return folder


def file_names(folder: Location) -> list[str]:
    """Return the names of the files in a folder; none if it does not exist.

    Raises:
        OSError: If a request failed.
        ValueError: If it is a URL of HTTP, where folders have no listing.
    """
    if folder.options is None:
        return os.listdir(folder) if os.path.exists(folder) else []
    if not folder.has_listing:
        raise no_listing(f"{folder}/")
    listed = list_once(folder.name, folder.options)
    return [os.path.basename(url) for url in listed]


def subfolder_names(folder: Location) -> list[str]:
    """Return the names of the folders in a folder, in order; none if it does not exist.

    HTTP servers have no listing, so the folders of a URL of HTTP are not known.

    Raises:
        OSError: If a request failed.
    """
    if folder.options is not None:
        return list_folder(folder.name, folder.options)[1]
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if os.path.isdir(entry))
    except (FileNotFoundError, NotADirectoryError):
        return []


def stamps_in(folder: Location, *, is_recursive: bool = False) -> dict[str, Stamp]:
    """Return the stamps of the objects in a folder of a store as it is now, by their names in it.

    Args:
        folder: The folder; its URL may end with a slash.
        is_recursive: Whether the objects in folders of the folder are listed, too.
    """
    assert folder.options is not None
    url = folder.name.rstrip("/")
    found, _ = list_folder(url, folder.options, is_recursive=is_recursive)
    return {each[len(url) + 1 :]: stamp for each, stamp in found.items()}


# ---- folders of jobs ----


def make_folder(folder: Location) -> None:
    """Create a folder, unless it exists. A folder of a store needs no creating."""
    if folder.options is None:
        os.makedirs(folder.name or os.curdir, exist_ok=True)


def remove_folder(folder: Location) -> None:
    """Remove a folder with all that is in it, as far as that is possible."""
    if folder.options is None:
        shutil.rmtree(folder, ignore_errors=True)
        return
    with contextlib.suppress(OSError):
        names = stamps_in(folder, is_recursive=True)
        delete_objects([f"{folder}/{name}" for name in names], folder.options)
