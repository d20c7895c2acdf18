"""Damage of stored files that their indexes do not notice."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def damage_silently(path: Path, offsets: Iterable[int]) -> None:
    """Change a bit at each offset, as a bad disk does: the time of the last change stays.

    An index still matches if the first and the last 64 KiB of the file are unchanged.
    """
    status = path.stat()
    content = bytearray(path.read_bytes())
    for offset in offsets:
        content[offset] ^= 0x10
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
