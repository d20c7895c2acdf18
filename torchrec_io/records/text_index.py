"""Text indexes of DALI and ``tfrecord``: a line ``offset size`` for each frame."""

from __future__ import annotations

import os

import numpy as np

from ..errors import IndexFormatError
from ..storage.byte_source import Ints, Offsets
from ..storage.local import StrPath
from .formats import TFRECORD


def parse_text(path: StrPath) -> Offsets:
    """Read a text index.

    Returns:
        Offset and size of each frame; uint64 ``[n, 2]``.

    Raises:
        IndexFormatError: If a line is malformed, or the frames have gaps.
    """
    name = os.fspath(path)
    frames: list[tuple[int, int]] = []
    expected = 0
    with open(name, "rb") as file:
        for number, line in enumerate(file, 1):
            fields = line.split()
            # isdigit: int() would also accept signs, underscores and digits of other scripts.
            if len(fields) != 2 or not all(f.isdigit() and len(f) < 19 for f in fields):
                raise IndexFormatError(
                    f"line {number} of the index is not 'offset size': {line[:40]!r}", path=name
                )
            offset, size = int(fields[0]), int(fields[1])
            if offset != expected or size < TFRECORD.overhead_bytes:
                raise IndexFormatError(
                    f"line {number} of the index: a frame of size {size} at offset {offset} cannot "
                    f"follow one that ends at {expected}",
                    path=name,
                )
            frames.append((offset, size))
            expected += size
    return np.array(frames, np.uint64).reshape(-1, 2)


def format_text(starts: Ints, ends: Ints) -> bytes:
    """Return the text index of frames that start and end at some offsets; int64 ``[n]``."""
    lines = (
        f"{start} {end - start}\n"
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    )
    return "".join(lines).encode("ascii")
