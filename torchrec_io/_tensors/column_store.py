"""Stores of the columns of a batch: one arena, or separate memory for each column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .._parsing.layout import Column
from .ragged import TensorParts
from .views import make_views


class ArenaColumns:
    """Columns that are views of one buffer. They are copied as a whole.

    Attributes:
        arena: uint8 ``[n]``, the data of all columns.
        columns: Positions of the columns in the arena.
    """

    def __init__(self, arena: Tensor, columns: Sequence[Column]) -> None:
        self.arena = arena
        self.columns = tuple(columns)

    def views(self) -> dict[str, Any]:
        """Return new views of the columns by flat name."""
        return make_views(self.arena, self.columns)

    def to(self, device: torch.device | str | int, *, non_blocking: bool) -> ArenaColumns:
        return self._moved(self.arena.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> ArenaColumns:
        return self._moved(self.arena.pin_memory())

    def _moved(self, arena: Tensor) -> ArenaColumns:
        return self if arena is self.arena else ArenaColumns(arena, self.columns)

    def is_pinned(self) -> bool:
        return self.arena.is_pinned()

    def record_stream(self, stream: Any) -> None:
        self.arena.record_stream(stream)

    @property
    def device(self) -> torch.device:
        return self.arena.device


class OwnColumns:
    """Columns that are independent of each other. They may be any objects.

    Methods that need Tensors, or columns made of Tensors, raise a TypeError for others.

    Attributes:
        arena: None, because there is no common buffer.
        columns: No positions in an arena.
    """

    arena = None
    columns = ()

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def views(self) -> dict[str, Any]:
        """Return the columns by flat name."""
        return dict(self._values)

    def to(self, device: torch.device | str | int, *, non_blocking: bool) -> OwnColumns:
        return self._changed("to", lambda part: part.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> OwnColumns:
        return self._changed("pin_memory", lambda part: part.pin_memory())

    def is_pinned(self) -> bool:
        return all(part.is_pinned() for part in self._parts("is_pinned"))

    def record_stream(self, stream: Any) -> None:
        for part in self._parts("record_stream"):
            part.record_stream(stream)

    @property
    def device(self) -> torch.device:
        """Device of the first column."""
        device: torch.device = next(self._parts("to")).device
        return device

    def _parts(self, method: str) -> Iterator[Any]:
        """Yield each column that has a method, or those in a list."""
        for name, value in self._values.items():
            for part in value if isinstance(value, list) else [value]:
                if not callable(getattr(part, method, None)):
                    found = f"{'a list with ' if part is not value else ''}{type(part).__name__}"
                    # The lengths of a padded column are a column with a hidden name.
                    shown = name.partition("\0")[0]
                    raise TypeError(f"column {shown!r} must be made of Tensors, got {found}")
                yield part

    def _changed(self, method: str, change: Callable[[Any], Any]) -> OwnColumns:
        for _ in self._parts(method):  # before any work is done
            pass
        changed = {
            name: [*map(change, value)] if isinstance(value, list) else change(value)
            for name, value in self._values.items()
        }
        return self if are_same(changed.values(), self._values.values()) else OwnColumns(changed)


def are_same(values: Iterable[Any], others: Iterable[Any]) -> bool:
    """Return whether columns consist of the very same Tensors."""
    return all(map(_is_same, values, others))


def _is_same(value: Any, other: Any) -> bool:
    if value is other:
        return True
    if type(value) is not type(other):
        return False
    if isinstance(value, list):
        return len(value) == len(other) and are_same(value, other)
    return isinstance(value, TensorParts) and are_same(value.parts, other.parts)
