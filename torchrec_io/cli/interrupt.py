"""Handling of Ctrl-C: the command line ends with one line and status 130."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

STATUS = 130  # 128 and the number of the signal, as in shells
MESSAGE = "interrupted"


def end_at_interrupt() -> None:
    """Make Ctrl-C end the process at once, while there is nothing to clean up.

    A KeyboardInterrupt would show a traceback, or would be lost if it is raised in a callback. If
    Ctrl-C is ignored, as in a background job, it stays so.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


@contextlib.contextmanager
def raised_at_interrupt() -> Iterator[None]:
    """Make Ctrl-C raise KeyboardInterrupt in the block, which must clean up."""
    if signal.getsignal(signal.SIGINT) is not _end:
        yield
        return
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, _end)


def _end(*_: object) -> None:
    os.write(2, f"{MESSAGE}\n".encode())
    os._exit(STATUS)
