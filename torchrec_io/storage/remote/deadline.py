"""Time limit of an attempt that makes no progress."""

from __future__ import annotations

import asyncio
from types import TracebackType

from typing_extensions import Self


class Deadline:
    """Ends a block of code with a TimeoutError if it makes no progress for some time.

    One timer serves all awaits of the block: ``asyncio.wait_for`` would make a task for each of
    them, which costs more than a small answer.

    Args:
        seconds: Time without progress after which the block ends.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._has_passed = False

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(self._seconds, self._pass)
        return self

    def extend(self) -> None:
        """Start the time again, because there is progress."""
        self._timer.cancel()
        self._timer = self._loop.call_later(self._seconds, self._pass)

    def _pass(self) -> None:
        self._has_passed = True
        self._task.cancel()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        if self._has_passed and kind is asyncio.CancelledError:
            if hasattr(self._task, "uncancel"):  # since Python 3.11
                self._task.uncancel()
            raise TimeoutError from error
