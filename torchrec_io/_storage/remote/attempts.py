"""Attempts of a request: their number, their total time, and the pauses between them."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ...checks import check_integer
from .failures import Failure, Kind, RequestError

_Result = TypeVar("_Result")

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


def repeat(
    work: Callable[[], _Result], most: int, classify: Callable[[BaseException], Failure]
) -> _Result:
    """Make a request until it succeeds, and return its result.

    The pauses between attempts become longer, and are not the same for all requests.

    Args:
        work: The request.
        most: Largest number of attempts.
        classify: Function that returns the failure that an error of the request stands for.

    Raises:
        RequestError: If the request failed for good. It has nothing of the error of the request,
            whose text may have secrets.
    """
    for attempt in itertools.count(1):
        try:
            return work()
        except BaseException as error:  # noqa: BLE001  # that of a panic of obstore is no Exception
            failure = classify(error)
        if failure.kind is not Kind.temporary or attempt >= most:
            raise RequestError(failure._replace(attempts=max(attempt, failure.attempts)))
        longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(attempt - 1, 10))
        time.sleep(random.uniform(longest / 2, longest))  # noqa: S311  # no secret
    raise AssertionError
