"""Attempts of a request: their number, their total time, and the pauses between them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from ...checks import check_integer

# Options of storage_options that are this package's own. The others are those of the store.
OWN_OPTIONS = frozenset({"max_attempts", "timeout", "client_options"})
_DEFAULT_ATTEMPTS, _DEFAULT_TIMEOUT = 10, 30.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 15.0


def most_attempts(options: Mapping[str, Any]) -> int:
    """Return the largest number of attempts of a request.

    Raises:
        ValueError: If the option is not a positive integer.
    """
    return check_integer("max_attempts", options.get("max_attempts", _DEFAULT_ATTEMPTS), 1)


def seconds_to_wait(options: Mapping[str, Any]) -> float:
    """Return the time without progress after which an attempt ends.

    Raises:
        ValueError: If the option is not a positive number.
    """
    given = options.get("timeout", _DEFAULT_TIMEOUT)
    if not isinstance(given, (int, float)) or not given > 0:
        raise ValueError(f"timeout must be a positive number of seconds, got {given!r}")
    return float(given)


def seconds_after(attempt: int) -> float:
    """Return the pause after an attempt: longer each time, and not the same for all."""
    longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(attempt - 1, 10))
    return random.uniform(longest / 2, longest)  # noqa: S311  # no secret
