"""Values of options as text. Those that are invalid are usage errors."""

from __future__ import annotations

import re
from collections.abc import Iterable

from typer import BadParameter

_UNITS = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4}
_BINARY_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)\s*(?:([KMGT]?)B?|([KMGT])iB)", re.IGNORECASE)


def parse_size(text: str | int) -> int:
    """Return the number of bytes in a text such as "100MB", "1.5G", "64 MiB" or "4096".

    Raises:
        BadParameter: If the text is not a size of at least 1 byte.
    """
    found = _SIZE.fullmatch(str(text).strip())
    if found is None:
        raise BadParameter(f"a size must look like 100MB, 1.5GB, 64MiB or 4096, got {text!r}")
    number, unit, binary = found.groups()
    factor = _BINARY_UNITS[binary.upper()] if binary else _UNITS[unit.upper()]
    size = round(float(number) * factor)
    if size < 1:
        raise BadParameter(f"a size must be at least 1 byte, got {text!r}")
    return size


def parse_range(text: str) -> tuple[int, int]:
    """Return the first number and the end of a range such as "5", which is "0:5", or "10:15".

    Raises:
        BadParameter: If the text is not a range of at least 1 number.
    """
    found = re.fullmatch(r"(?:(\d{1,18}):)?(\d{1,18})", text.strip())
    start, stop = (int(found[1] or 0), int(found[2])) if found else (0, 0)
    if start >= stop:
        raise BadParameter(f"--records must be N or START:STOP with START < STOP, got {text!r}")
    return start, stop


def parse_list(text: str) -> list[str]:
    """Return the parts of "a,b,c"."""
    return text.split(",")


def parse_fractions(text: str) -> list[float]:
    """Return the numbers of "0.8,0.2", "80,20", "80 20" or "80%, 20%"."""
    parts = re.split(r"\s*,\s*|\s+", text.strip())
    is_percent = all(part.endswith("%") for part in parts)
    try:
        numbers = [float(part.removesuffix("%") if is_percent else part) for part in parts]
    except ValueError:
        raise BadParameter(
            f"fractions must be numbers, such as 0.8,0.1,0.1 or 80,10,10, got {text!r}"
        ) from None
    return [number / 100 for number in numbers] if is_percent else numbers


def parse_image_size(text: str) -> tuple[int, int] | int:
    """Return the width and height in "640x480", or the number in "640"."""
    found = re.fullmatch(r"(\d{1,6})(?:[xX](\d{1,6}))?", text)
    if found is None:
        raise BadParameter(f"--resize must be WIDTHxHEIGHT or one number, got {text!r}")
    return int(found[1]) if found[2] is None else (int(found[1]), int(found[2]))


def parse_pairs(texts: Iterable[str]) -> dict[str, str]:
    """Return the values by name of "a=x,b=y"."""
    pairs = {}
    for item in ",".join(texts).split(","):
        name, equals, value = item.rpartition("=")
        if not equals:
            raise BadParameter(f"--types and --extensions must be NAME=VALUE,..., got {item!r}")
        pairs[name] = value
    return pairs
