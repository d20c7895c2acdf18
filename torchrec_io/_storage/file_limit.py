"""The limit of the number of files that a process may have open."""

from __future__ import annotations

import errno
import os
import resource
import sys


def is_out_of_files(error: OSError) -> bool:
    """Return whether a file cannot be opened because too many are open."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


def most_open_files() -> int:
    """Return the number of files that this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def out_of_files(error: OSError) -> OSError:
    """Return the error of a file that cannot be opened, with the limit and what to do."""
    return OSError(
        error.errno,
        f"{os.strerror(error.errno or errno.EMFILE)}: this process may have {most_open_files():,} "
        "open. Raise the limit (ulimit -n), or use fewer files, threads or shards at a time",
        error.filename,
    )
