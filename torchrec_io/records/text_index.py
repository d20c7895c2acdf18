"""The lines of a text index."""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt

from ..errors import IndexFormatError
from ..storage.local import StrPath
from .formats import TFRECORD


def parse_text(path: StrPath) -> npt.NDArray[np.uint64]:
    """Frames of a text index as uint64 ``[n, 2]``: offset and size."""
    name = os.fspath(path)
    smallest = TFRECORD.header_bytes + TFRECORD.footer_bytes
    frames: list[tuple[int, int]] = []
    expected = 0
    with open(name, "rb") as file:
        for number, line in enumerate(file, 1):
            fields = line.split()
            # isdigit: int() would also take signs, underscores and other scripts' digits.
            if len(fields) != 2 or not all(f.isdigit() and len(f) < 19 for f in fields):
                raise IndexFormatError(
                    f"line {number} of the index is not 'offset size': {line[:40]!r}", path=name
                )
            offset, size = int(fields[0]), int(fields[1])
            if offset != expected or size < smallest:
                raise IndexFormatError(
                    f"line {number} of the index: a record of {size} bytes at {offset} cannot "
                    f"follow one that ends at {expected}",
                    path=name,
                )
            frames.append((offset, size))
            expected += size
    return np.array(frames, np.uint64).reshape(-1, 2)
