"""The latest results of a function, kept because threads ask for the same ones again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Latest(Generic[T]):
    """Calls a function of a number, and keeps its latest results.

    No lock is needed: threads that ask for the same number may both call the function.

    Args:
        function: Function whose results depend on the number alone.
        keep: Number of results to keep.
    """

    def __init__(self, function: Callable[[int], T], keep: int) -> None:
        self._function = function
        self._keep = keep
        self._kept: tuple[tuple[int, T], ...] = ()

    def get(self, number: int) -> T:
        """Return the result for a number."""
        for kept, result in self._kept:
            if kept == number:
                return result
        found = self._function(number)
        self._kept = ((number, found), *self._kept[: self._keep - 1])
        return found
