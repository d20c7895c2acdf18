"""Sizes as people write them."""

from __future__ import annotations

import re

_UNITS = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4}
_BINARY = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)\s*(?:([KMGT]?)B?|([KMGT])iB)", re.IGNORECASE)


def parse_size(text: str) -> int:
    """Bytes that a text such as "100MB", "1.5G", "64 MiB" or "4096" means.

    Raises:
        ValueError: it means none.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no size: write one as 100MB, 1.5GB, 64MiB or 4096")
    number, unit, binary = found.groups()
    size = round(float(number) * (_BINARY[binary.upper()] if binary else _UNITS[unit.upper()]))
    if size < 1:
        raise ValueError(f"a size must be 1 byte or more, not {text!r}")
    return size
