"""Locks between processes of one machine, or of several that share a file system."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Iterator

# ENOLCK is not one of them: the system may have locks later.
_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)


@contextlib.contextmanager
def file_lock(path: str, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold a lock during a ``with`` block. It ends with the process, however that ends.

    The lock is a file, which exists only while the lock is held or waited for. Where it cannot be
    created or locked, as in a folder that cannot be written, the block runs without a lock.

    Args:
        path: Name of the file.
        waiting: Called once if another process holds the lock, before waiting for it. If it
            raises an error, the block does not run.
    """
    descriptor = _locked_file(path, waiting)
    try:
        yield
    finally:
        if descriptor is not None:
            with contextlib.suppress(OSError):
                os.unlink(path)  # first: nobody else can hold it now
            release(descriptor)


def _locked_file(path: str, waiting: Callable[[], None]) -> int | None:
    has_waited = False
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        except OSError:
            return None
        try:
            is_locked = try_lock(descriptor)
            if has_waited and not is_locked:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                is_locked = True
            if is_locked and is_open_at(descriptor, path):
                return descriptor
        except OSError as error:
            if error.errno in _NO_LOCKS:
                with contextlib.suppress(OSError):
                    os.unlink(path)  # nobody can hold it
            os.close(descriptor)
            return None
        except BaseException:  # such as Ctrl-C while waiting
            os.close(descriptor)
            raise
        # Otherwise it was removed by the process that held the lock before.
        os.close(descriptor)
        if not is_locked:
            waiting()
            has_waited = True


def try_lock(descriptor: int) -> bool:
    """Lock an open file; return whether that was possible without waiting."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def release(descriptor: int) -> None:
    """Unlock and close a file. Forked processes may have it open, too."""
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def is_open_at(descriptor: int, path: str) -> bool:
    """Return whether an open file still has its name."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
