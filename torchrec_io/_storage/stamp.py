"""Identities of stored files."""

from __future__ import annotations

from typing import NamedTuple

NANOSECONDS = 1_000_000_000  # of a second


class Stamp(NamedTuple):
    """Identity of a stored file. It differs from that of another file, or of a changed one.

    Attributes:
        file: Identity of the file among those that have had its name: device and inode of a local
            file; ETag, with quotes, and version of an object, ``""`` where there is none.
        size: Size in bytes.
        mtime_ns: Time of the last change, in nanoseconds since 1970; 0 if it is unknown.
    """

    file: tuple[int | str, ...]
    size: int
    mtime_ns: int
