"""Inputs of fuzz targets: options at the front of the bytes, and folders in memory for files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MEMORY = "/dev/shm"


def cut_options(data: bytes, count: int) -> tuple[bytes, bytes]:
    """Return the first ``count`` bytes, with zeros for those that are missing, and the rest."""
    return data[:count].ljust(count, b"\0"), data[count:]


def cut_parts(data: bytes, count: int) -> list[bytes]:
    """Return parts of an input that are separated by a line ``---``; those missing are empty."""
    parts = data.split(b"\n---\n", count - 1)
    return parts + [b""] * (count - len(parts))


@contextmanager
def empty_folder() -> Iterator[Path]:
    """Make a folder for one input, with a cache of its own.

    A name is never used twice: a file that was written twice within the resolution of its time of
    last change looks unchanged.
    """
    parent = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    before = os.environ.get("TORCHREC_IO_CACHE")
    with tempfile.TemporaryDirectory(prefix="torchrec_io-fuzz-", dir=parent) as name:
        os.environ["TORCHREC_IO_CACHE"] = os.path.join(name, "cache")
        try:
            yield Path(name)
        finally:
            os.environ.pop("TORCHREC_IO_CACHE")
            if before is not None:
                os.environ["TORCHREC_IO_CACHE"] = before
