"""Checks of arguments, counts in words, and text that is safe to print."""

from __future__ import annotations

import difflib
import itertools
import numbers
from collections.abc import Collection
from typing import Any

# The largest integer of a size or a state; they are stored in 64 bits.
MOST = 2**62

# Number of names that are shown in a message, of names compared, and of characters of a name.
_SHOWN_NAMES, _COMPARED_NAMES, _NAME_LENGTH = 10, 1000, 60


def is_integer(value: Any) -> bool:
    """Return whether a value is an integer, of Python or NumPy. A bool is not one."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def check_integer(
    name: str,
    value: Any,
    least: int = 0,
    most: int = MOST,
    error: type[Exception] = ValueError,
) -> int:
    """Return an argument as an int.

    Args:
        name: Name of the argument, for the error message.
        value: Value of the argument.
        least: Smallest value allowed.
        most: Largest value allowed.
        error: Class of the error that is raised.

    Raises:
        Exception: If the value is not an integer in this range; of the class ``error``.
    """
    if is_integer(value) and least <= value <= most:
        return int(value)
    if most < MOST:
        wanted = f"an integer from {least} to {most}"
    elif least > 1:
        wanted = f"an integer of at least {least}"
    else:
        wanted = "a positive integer" if least == 1 else "a non-negative integer"
    raise error(f"{name} must be {wanted}, got {value!r}")


def check_choice(
    name: str, value: Any, choices: Collection[Any], error: type[Exception] = ValueError
) -> None:
    """Raise an error unless an argument is one of its choices."""
    if value not in choices:
        is_near = isinstance(value, str) and value.lower() in choices
        remedy = f": write {value.lower()!r}" if is_near else ""
        raise error(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}{remedy}")


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun: "1 file", "1,200 files"."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def with_article(noun: str) -> str:
    """Return the name of a class or kind with its article: "a Tensor", "an Image"."""
    return f"{'an' if noun[:1] in tuple('AEIOaeio') else 'a'} {noun}"


def printable(text: object) -> str:
    """Escape control characters and line breaks, so that text cannot change a terminal or log."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def joined_names(names: Collection[str]) -> str:
    """Return the first names as text: "'a', 'b' and 3 more"."""
    shown = [
        repr(name if len(name) <= _NAME_LENGTH else f"{name[:_NAME_LENGTH]}…")
        for name in itertools.islice(names, _SHOWN_NAMES)
    ]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")


def suggest_names(name: str, known: Collection[str], holder: str) -> str:
    """Return a hint for an unknown name: "did you mean 'label'? The record has: 'id', 'label'".

    Args:
        name: The unknown name.
        known: The names that exist.
        holder: The thing that has them, such as "the record has".
    """
    if not known:
        return f"{holder} no features"
    compared = [*itertools.islice(known, _COMPARED_NAMES)]
    tail = _last_part(name)
    near = [
        *difflib.get_close_matches(name, compared, 2),
        *(each for each in compared if _last_part(each) == tail),
    ]
    listed = f"{holder}: {joined_names(known)}"
    if not near:
        return listed
    guesses = " or ".join(map(repr, [*dict.fromkeys(near)][:2]))
    return f"did you mean {guesses}? {listed[0].upper()}{listed[1:]}"


def _last_part(name: str) -> str:
    return name.rpartition("/")[2].casefold()


class UnknownNameError(KeyError):
    """A name does not exist. The nearest ones are only looked for when the error is shown.

    Args:
        name: The name.
        known: The names that exist.
        holder: The thing that has them, such as "the batch has".
    """

    def __str__(self) -> str:
        name, known, holder = self.args
        return f"{name!r}: {suggest_names(str(name), [*map(str, known)], holder)}"
