"""Choice of a few cases that together have every pair of values."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


def pairs(*values: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return arguments for a parametrized test: a few combinations that have each pair of values.

    Args:
        values: The values of each argument.
    """
    left = {
        (first, one, second, other)
        for first, second in itertools.combinations(range(len(values)), 2)
        for one in range(len(values[first]))
        for other in range(len(values[second]))
    }
    all_cases = list(itertools.product(*(range(len(some)) for some in values)))
    pairs_of_case = {
        case: {
            (first, case[first], second, case[second])
            for first, second in itertools.combinations(range(len(case)), 2)
        }
        for case in all_cases
    }
    chosen = []
    while left:
        best = max(all_cases, key=lambda case: len(pairs_of_case[case] & left))
        chosen.append(best)
        left -= pairs_of_case[best]
    return [tuple(some[i] for some, i in zip(values, case, strict=True)) for case in chosen]


def pairs_of(cell: Any) -> set[tuple[tuple[str, Any], tuple[str, Any]]]:
    """Return the pairs of fields of a dataclass with their values."""
    values = [(field.name, getattr(cell, field.name)) for field in dataclasses.fields(cell)]
    return set(itertools.combinations(values, 2))


def cover(cells: Sequence[T], chosen: Iterable[T] = ()) -> list[T]:
    """Return cells that have every pair of values that any of the cells has.

    Each time, the cell with the most missing pairs is chosen, the first one of several. So the
    result is the same in every run.

    Args:
        cells: The cells to choose from, instances of a dataclass.
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
