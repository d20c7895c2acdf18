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
        self._beside: tuple[Position, Progress] | None = None

    def get(self) -> Position | None:
        """Return the position; None before the first iteration."""
        if self._main is not None and self._beside is not None:
            position, before = self._beside
            if self._main.progress == before:
                return position
        return self._main

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
        return self._followed(items, position, in_batches=in_batches)

    def _followed(
        self, items: Iterable[Any], position: Position, *, in_batches: bool
    ) -> Generator[Any, None, None]:
        if not self._is_running:
            self.start(position)
            self._is_running = True
            try:
                yield from items
            finally:
                self._is_running = False
            return
        for part in items:
            for item in (part,) if in_batches else part:
                self._note(position)
                yield item if in_batches else (item,)
        self._note(position)

    def _note(self, position: Position) -> None:
        assert self._main is not None
        self._beside = position, self._main.progress
