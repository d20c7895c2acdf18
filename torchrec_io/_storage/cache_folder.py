"""The user's cache directory. Only files that nobody else could have written are read from it."""

from __future__ import annotations

import functools
import logging
import os
import stat

from ..checks import printable
from .local import StrPath
from .pending_file import write_atomically

logger = logging.getLogger("torchrec_io")


def cache_folder() -> str:
    """Return the directory of all that is cached.

    It is ``$TORCHREC_IO_CACHE``; else ``torchrec_io`` in the user's cache directory
    (``$XDG_CACHE_HOME``, else ``~/.cache``).
    """
    user = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.environ.get("TORCHREC_IO_CACHE") or os.path.join(user, "torchrec_io")


def make_cache_folder(folder: str) -> None:
    """Create a cache directory if it does not exist, for this user alone.

    Raises:
        OSError: If it cannot be created.
    """
    if not os.path.isdir(folder):
        os.makedirs(os.path.dirname(os.path.abspath(folder)), exist_ok=True)
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:  # by another process
            if not os.path.isdir(folder):
                raise


def write_cached(path: StrPath, data: bytes) -> None:
    """Write a file of the cache, which a failure of the machine may destroy.

    Args:
        path: Path of a file in the :func:`cache_folder`.
        data: Content of the file, with a checksum.

    Raises:
        OSError: If the file cannot be written.
    """
    make_cache_folder(os.path.dirname(path))
    write_atomically(path, data, durable=False, mode=0o600)


def is_own_cache_file(path: StrPath, status: os.stat_result | None = None) -> bool:
    """Return whether a file belongs to this user or root, and others cannot write it.

    Otherwise one line is logged for each directory. A missing file is not an own one.

    Args:
        path: Path of the file.
        status: Its status, if it is open.
    """
    if status is None:
        try:
            status = os.stat(path)
        except (OSError, ValueError):
            return False
    shared = stat.S_IMODE(status.st_mode) & (stat.S_IWGRP | stat.S_IWOTH)
    if status.st_uid in (os.geteuid(), 0) and not shared:
        return True
    _log_once(os.path.dirname(path))
    return False


@functools.lru_cache(maxsize=1024)
def _log_once(folder: str) -> None:
    logger.warning(
        "files of the cache %s are ignored, because they belong to another user or others can "
        "write them",
        printable(folder),
    )
