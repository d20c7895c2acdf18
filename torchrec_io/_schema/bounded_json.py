"""JSON from files that may be damaged or hostile, read within bounds."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

from ..errors import SchemaError

_MAX_DIGITS = 40
_MAX_SHOWN = 80


def parse_json(text: str | bytes) -> Any:
    """Parse JSON.

    Numbers have at most 40 characters and fit in float64; no key is used twice in one object.

    Raises:
        SchemaError: If this is not such JSON.
    """
    try:
        return json.loads(
            text,
            object_pairs_hook=_check_keys,
            parse_constant=_refuse_constant,
            parse_int=_parse_int,
            parse_float=_parse_float,
        )
    except RecursionError:
        raise SchemaError("the JSON is nested too deeply") from None
    except ValueError as error:  # also from text that is not UTF-8
        raise SchemaError(f"the text is not valid JSON: {error}") from None


def _check_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = next(name for name, count in counts.items() if count > 1)
        raise ValueError(f"the key {shown(twice)} is used twice in one object")
    return found


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a JSON number")


def _parse_int(text: str) -> int:
    return int(_check_digits(text))


def _parse_float(text: str) -> float:
    number = float(_check_digits(text))
    if math.isinf(number):
        raise ValueError(f"the number {text} does not fit in float64")
    return number


def _check_digits(text: str) -> str:
    if len(text) > _MAX_DIGITS:
        raise ValueError(f"a number has {len(text)} characters, more than {_MAX_DIGITS}")
    return text


def shown(value: Any) -> str:
    """Return the ``repr`` of a value for an error message, shortened if it is long."""
    try:
        return shortened(repr(value), _MAX_SHOWN)
    except RecursionError:
        return f"a deeply nested {type(value).__name__}"


def shortened(text: str, max_characters: int) -> str:
    """Return a text, or its start with an ellipsis if it is longer than that."""
    return text if len(text) <= max_characters else f"{text[: max_characters - 1]}…"
