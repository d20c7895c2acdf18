"""Locks between processes of one machine, or of several that share a file system."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def file_lock(path: str, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold a lock during a ``with`` block. It ends with the process, however that ends.

    The lock is a file, which exists only while the lock is held or waited for. Where it cannot be
    created or locked, as in a folder that cannot be written, the block runs without a lock.

    Args:
        path: Name of the file.
        waiting: Called once if another process holds the lock, before waiting for it.
    """
    descriptor = _locked_file(path, waiting)
    try:
        yield
    finally:
        if descriptor is not None:
            with contextlib.suppress(OSError):
                os.unlink(path)  # first: nobody else can hold it now
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)  # forked processes have the file open, too
            os.close(descriptor)


def _locked_file(path: str, waiting: Callable[[], None]) -> int | None:
    has_waited = False
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError:
            return None
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not has_waited:
                    waiting()
                has_waited = True
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_file(descriptor, path):
                return descriptor
        except OSError:  # the file system has no locks
            os.close(descriptor)
            return None
        except BaseException:  # such as Ctrl-C while waiting
            os.close(descriptor)
            raise
        os.close(descriptor)  # it was removed by the process that held the lock before


def _is_file(descriptor: int, path: str) -> bool:
    """Return whether an open file still has its name."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
