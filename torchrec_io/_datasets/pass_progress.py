"""Progress of long passes over a dataset's records, in terminals and notebooks."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

# Passes that take less time show nothing.
_QUIET_SECONDS = 2.0


class PassProgress:
    """A bar on the error output that appears if a pass takes longer than about two seconds.

    Nothing is shown if the error output is neither a terminal nor a notebook.

    Args:
        text: Name of the work.
        total: Number of records.
    """

    def __init__(self, text: str, total: int) -> None:
        self._text = text
        self._total = total
        self._done = 0
        self._began = time.monotonic()
        self._is_tried = False
        self._bar: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, count: int) -> None:
        """Count records that are done."""
        self._done += count
        if not self._is_tried and time.monotonic() - self._began > _QUIET_SECONDS:
            self._is_tried = True
            self._bar = _open_bar(self._text, self._total)
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self._done)


def _open_bar(text: str, total: int) -> Any:
    """Return a bar; None if there is no terminal or notebook to show it."""
    from rich.console import Console  # noqa: PLC0415  # only for long passes

    console = Console(stderr=True)
    is_shown = console.is_jupyter or (sys.stderr.isatty() and console.is_interactive)
    if not is_shown:
        return None
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    bar.add_task(text, total=total)
    bar.start()
    return bar
