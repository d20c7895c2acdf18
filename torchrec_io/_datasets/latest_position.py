"""The position of the iteration that yielded last, of several in a process."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from typing import Any

from .._order.progress import Progress
from .iteration import Position


class LatestPosition:
    """Finds the position of the iteration of this process that yielded last.

    One iteration runs as fast as it can, and its position shows whether it has yielded. Others that
    start beside it, such as a look at the first batch inside a loop, note each of their items.
    """

    def __init__(self) -> None:
        self._main: Position | None = None
        self._is_running = False  # the main iteration
        # Position of the other iteration that yielded last, and progress of the main one then.
        self._beside: tuple[Position, Progress | None] | None = None
        self._times_cleared = 0

    def get(self) -> Position | None:
        """Return the position; None before the first iteration and after :meth:`clear`."""
        if self._beside is not None:
            position, before = self._beside
            if self._main_progress() == before:
                return position
        return self._main

    def clear(self) -> None:
        """Forget all positions: another one was set. Running iterations no longer count."""
        self._main = self._beside = None
        self._times_cleared += 1

    def start(self, position: Position) -> None:
        """Follow a new iteration in place of one that has ended."""
        if not self._is_running:
            self._main, self._beside = position, None

    def followed(
        self, items: Iterable[Any], position: Position, *, in_batches: bool
    ) -> Generator[Any, None, None]:
        """Return the items of a new iteration, and note which one yields last.

        Args:
            items: Batches, or iterables over samples.
            position: Position of the iteration.
            in_batches: Whether the items are batches.
        """
        self.start(position)
        return self._followed(items, position, self._times_cleared, in_batches=in_batches)

    def _followed(
        self, items: Iterable[Any], position: Position, times_cleared: int, *, in_batches: bool
    ) -> Generator[Any, None, None]:
        if not self._is_running:
            if times_cleared == self._times_cleared:
                self.start(position)
            self._is_running = True
            try:
                yield from items
            finally:
                self._is_running = False
            return
        for part in items:
            for item in (part,) if in_batches else part:
                self._note(position, times_cleared)
                yield item if in_batches else (item,)
        self._note(position, times_cleared)

    def _note(self, position: Position, times_cleared: int) -> None:
        if times_cleared == self._times_cleared:
            self._beside = position, self._main_progress()

    def _main_progress(self) -> Progress | None:
        return None if self._main is None else self._main.progress
