"""Folders of local files or remote objects."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager

from .file_lock import file_lock
from .local import StrPath
from .opening import find_stamp, is_remote, public_name
from .remote.options import RemoteOptions


def folder_name(path: StrPath, remote: RemoteOptions | None) -> str:
    """Return the path of a local folder, with the user's home in place of ``~``, or a public URL.

    A URL has no slash at its end.
    """
    name = public_name(path, remote)
    return name.rstrip("/") if is_remote(name) else os.path.expanduser(name)


def has_file(path: str, remote: RemoteOptions | None) -> bool:
    """Return whether there is a file or object of this name.

    Raises:
        OSError: If a request failed.
    """
    if not is_remote(path):
        return os.path.isfile(path)
    try:
        find_stamp(path, remote)
    except FileNotFoundError:
        return False
    return True


def remember_folder(folder: str, remote: RemoteOptions | None) -> str:
    """List a remote folder, so that what is asked about its objects needs no request; return it."""
    if remote is not None and is_remote(folder):
        from .remote.listing import list_once  # noqa: PLC0415  # not for local files

        with contextlib.suppress(PermissionError):  # objects may be read where listing is denied
            list_once(folder, remote)
    return folder


def file_names(folder: str, remote: RemoteOptions | None) -> list[str]:
    """Return the names of the files in a folder; none if it does not exist.

    Raises:
        OSError: If a request failed.
        ValueError: If it is a URL of HTTP, where folders have no listing.
    """
    if not is_remote(folder):
        return os.listdir(folder) if os.path.exists(folder) else []
    from .remote.listing import checked_for_listing, list_once  # noqa: PLC0415  # as above

    listed = list_once(checked_for_listing(folder), remote or RemoteOptions())
    return [os.path.basename(url) for url in listed]


def subfolder_names(folder: str, remote: RemoteOptions | None) -> list[str]:
    """Return the names of the folders in a folder, in order; none if it does not exist.

    HTTP servers have no listing, so the folders of a URL of HTTP are not known.

    Raises:
        OSError: If a request failed.
    """
    if is_remote(folder):
        from .remote.listing import list_subfolders  # noqa: PLC0415  # as above

        return list_subfolders(folder, remote or RemoteOptions())
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []


# ---- folders of jobs ----


def make_folder(folder: str) -> None:
    """Create a folder, unless it exists. A folder of a store needs no creating."""
    if not is_remote(folder):
        os.makedirs(folder, exist_ok=True)


def has_files(folder: str, remote: RemoteOptions) -> bool:
    """Return whether there is a file or object in a folder, or in a folder of it.

    Raises:
        OSError: If a request failed.
    """
    if not is_remote(folder):
        return any(files for _, _, files in os.walk(folder))
    from .remote.listing import list_folder  # noqa: PLC0415  # not for local files

    return bool(list_folder(folder, remote, is_recursive=True))


def remove_folder(folder: str, remote: RemoteOptions) -> None:
    """Remove a folder with all that is in it, as far as that is possible."""
    if not is_remote(folder):
        shutil.rmtree(folder, ignore_errors=True)
        return
    from .remote.listing import list_folder  # noqa: PLC0415  # as above
    from .remote.upload import delete_objects  # noqa: PLC0415  # as above

    with contextlib.suppress(OSError):
        names = list_folder(folder, remote, is_recursive=True)
        delete_objects([f"{folder}/{name}" for name in names], remote)


def lock_of(path: str, waiting: Callable[[], None]) -> AbstractContextManager[None]:
    """Return a lock, to be held during a ``with`` block. Stores have none.

    Args:
        path: Name of its file, which exists while the lock is held.
        waiting: Called if another process holds the lock.
    """
    return contextlib.nullcontext() if is_remote(path) else file_lock(path, waiting)
