"""Short digests (BLAKE2b) that identify data, files and orders."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from typing_extensions import Buffer

    Part: TypeAlias = str | Buffer


def digest(*parts: Part, size: int = 8) -> bytes:
    """Return a digest of text and buffers, one after another.

    Args:
        parts: Strings, hashed as UTF-8, and contiguous buffers.
        size: Size of the digest, in bytes.
    """
    hashed = hashlib.blake2b(digest_size=size)
    for part in parts:
        hashed.update(part.encode() if isinstance(part, str) else part)
    return hashed.digest()


def digest_text(*parts: Part, size: int = 8) -> str:
    """Return :func:`digest` in hexadecimal digits."""
    return digest(*parts, size=size).hex()


def digest_number(*parts: Part) -> int:
    """Return :func:`digest` as an unsigned integer of 64 bits."""
    return int.from_bytes(digest(*parts), "little")
