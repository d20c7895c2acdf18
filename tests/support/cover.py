"""Choice of a few cases that together have every pair of values."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


def pairs(*values: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return arguments for a parametrized test: a few combinations that have each pair of values.

    Args:
        values: The values of each argument.
    """
    places = cover(list(itertools.product(*(range(len(some)) for some in values))))
    return [tuple(some[at] for some, at in zip(values, case, strict=True)) for case in places]


def pairs_of(cell: Any) -> set[Any]:
    """Return the pairs of values of a tuple or a dataclass, with their places."""
    values = cell if isinstance(cell, tuple) else vars(cell).values()
    return set(itertools.combinations(enumerate(values), 2))


def cover(cells: Sequence[T], chosen: Iterable[T] = ()) -> list[T]:
    """Return cells that have every pair of values that any of the cells has.

    Each time, the cell with the most missing pairs is chosen, the first one of several. So the
    result is the same in every run.

    Args:
        cells: The cells to choose from, tuples or instances of a dataclass.
        chosen: Cells that are part of the result in any case.
    """
    result = list(dict.fromkeys(chosen))
    pairs = {cell: pairs_of(cell) for cell in cells}
    missing = set().union(*pairs.values()).difference(*map(pairs_of, result))
    while missing:
        best = max(pairs, key=lambda cell: len(pairs[cell] & missing))
        result.append(best)
        missing -= pairs.pop(best)
    return result
