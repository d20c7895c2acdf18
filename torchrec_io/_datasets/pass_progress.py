"""Progress of long passes over a dataset's records, in terminals and notebooks."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

# Passes that take less time show nothing.
_QUIET_SECONDS = 2.0


@contextmanager
def shown_progress(text: str, total: int) -> Iterator[Callable[[int], None]]:
    """Return a function that counts records that are done.

    A bar appears on the error output if the pass takes longer than about two seconds, and the error
    output is a terminal or a notebook.

    Args:
        text: Name of the work.
        total: Number of records.
    """
    shown_from = time.monotonic() + _QUIET_SECONDS
    done = 0
    bar: Any = None

    def advance(count: int) -> None:
        nonlocal bar, done
        done += count
        if bar is None and time.monotonic() > shown_from:
            bar = _open_bar(text, total)
        if bar is not None:
            bar.update(bar.task_ids[0], completed=done)

    try:
        yield advance
    finally:
        if bar is not None:
            bar.stop()


def _open_bar(text: str, total: int) -> Any:
    """Return a bar, which shows nothing if there is no terminal or notebook."""
    from rich.console import Console  # noqa: PLC0415  # only for long passes
    from rich.progress import Progress  # noqa: PLC0415

    console = Console(stderr=True)
    is_shown = console.is_jupyter or (sys.stderr.isatty() and console.is_interactive)
    # What a predicate prints stays where it belongs.
    bar = Progress(
        console=console,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
        disable=not is_shown,
    )
    bar.add_task(text, total=total)
    bar.start()
    return bar
