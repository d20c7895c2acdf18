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
        self._shown_from = time.monotonic() + _QUIET_SECONDS
        self._bar: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, count: int) -> None:
        """Count records that are done."""
        self._done += count
        if self._bar is None and time.monotonic() > self._shown_from:
            self._bar = _open_bar(self._text, self._total)
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=self._done)


def _open_bar(text: str, total: int) -> Any:
    """Return a bar, which shows nothing if there is no terminal or notebook."""
    from rich import progress  # noqa: PLC0415  # only for long passes
    from rich.console import Console  # noqa: PLC0415

    console = Console(stderr=True)
    is_shown = console.is_jupyter or (sys.stderr.isatty() and console.is_interactive)
    bar = progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
        console=console,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
        disable=not is_shown,
    )
    bar.add_task(text, total=total)
    bar.start()
    return bar
