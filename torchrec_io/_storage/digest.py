"""Short digests (BLAKE2b) that identify data, files and orders."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from typing_extensions import Buffer

    Part: TypeAlias = str | Buffer


def digest(first: Part, *others: Part, size: int = 8) -> bytes:
    """Return a digest of text and buffers, one after another.

    Args:
        first: A string, hashed as UTF-8, or a contiguous buffer.
        others: More of them.
        size: Size of the digest, in bytes.
    """
    hashed = hashlib.blake2b(_bytes(first), digest_size=size)
    for part in others:
        hashed.update(_bytes(part))
    return hashed.digest()


def _bytes(part: Part) -> Buffer:
    return part.encode() if isinstance(part, str) else part


def digest_text(*parts: Part, size: int = 8) -> str:
    """Return :func:`digest` in hexadecimal digits."""
    return digest(*parts, size=size).hex()


def digest_number(*parts: Part) -> int:
    """Return :func:`digest` as an unsigned integer of 64 bits."""
    return int.from_bytes(digest(*parts), "little")
