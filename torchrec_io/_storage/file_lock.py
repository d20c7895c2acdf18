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
    """Return the descriptor of a file that is locked; None where that is not possible."""
    operation = fcntl.LOCK_EX | fcntl.LOCK_NB
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        except OSError:
            return None
        is_held = False
        with contextlib.ExitStack() as opened:
            opened.callback(os.close, descriptor)
            try:
                fcntl.flock(descriptor, operation)
                if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                    opened.pop_all()
                    return descriptor
            except BlockingIOError:
                is_held = True
            except FileNotFoundError:
                pass  # removed by the process that held the lock before
            except OSError as error:
                if error.errno in _NO_LOCKS:
                    with contextlib.suppress(OSError):
                        os.unlink(path)  # nobody can hold it
                return None
        if is_held:
            waiting()
            operation = fcntl.LOCK_EX


def release(descriptor: int) -> None:
    """Unlock and close a file. Forked processes may have it open, too."""
    with contextlib.suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)
