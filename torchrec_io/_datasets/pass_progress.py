"""Progress of long passes over a dataset's records, in terminals and notebooks."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Passes that take less time show nothing.
_QUIET_SECONDS = 2.0
_SECONDS_BETWEEN = 0.2


@contextmanager
def shown_progress(text: str, total: int) -> Iterator[Callable[[int], None]]:
    """Return a function that counts records that are done.

    A line appears on the error output if the pass takes longer than about two seconds, and the
    error output is a terminal or a notebook. It is removed at the end.

    Args:
        text: Name of the work.
        total: Number of records.
    """
    is_terminal = getattr(sys.stderr, "isatty", bool)()  # a daemon may have no error output
    is_shown = is_terminal or "ipykernel" in sys.modules
    shown_from = time.monotonic() + _QUIET_SECONDS
    done = 0
    line = ""

    def advance(count: int) -> None:
        nonlocal done, line, shown_from
        done += count
        if is_shown and time.monotonic() > shown_from:
            shown_from = time.monotonic() + _SECONDS_BETWEEN
            line = f"{text}: {done:,} of {total:,} records ({done / total:.0%})"
            _write(f"\r{line}")

    try:
        yield advance
    finally:
        if line:
            _write(f"\r{' ' * len(line)}\r")


def _write(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
