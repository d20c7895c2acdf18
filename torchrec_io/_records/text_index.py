"""Text indexes of DALI and ``tfrecord``: a line ``offset size`` for each frame."""

from __future__ import annotations

import io

import numpy as np

from .._storage.byte_source import ByteSource, Ints, Offsets, read_bytes
from ..errors import IndexFormatError, StaleIndexError
from .formats import TFRECORD


def parse_text(file: ByteSource) -> Offsets:
    """Read a text index.

    Args:
        file: Text index.

    Returns:
        Offset and size of each frame; uint64 ``[n, 2]``.

    Raises:
        IndexFormatError: If a line is malformed, or the frames overlap.
        StaleIndexError: If frames are left out.
    """
    name = file.path
    frames: list[tuple[int, int]] = []
    expected = 0
    for number, line in enumerate(io.BytesIO(read_bytes(file, 0, file.stamp.size)), 1):
        fields = line.split()
        # isdigit: int() would also accept signs, underscores and digits of other scripts.
        if len(fields) != 2 or not all(f.isdigit() and len(f) < 19 for f in fields):
            raise IndexFormatError(
                f"line {number} of the index is not 'offset size': {line[:40]!r}", path=name
            )
        offset, size = int(fields[0]), int(fields[1])
        if offset >= expected + TFRECORD.overhead_bytes:
            raise records_left_out(expected, offset, name)
        if offset != expected or size < TFRECORD.overhead_bytes:
            raise IndexFormatError(
                f"line {number} of the index: a frame of size {size} at offset {offset} cannot "
                f"follow one that ends at {expected}",
                path=name,
            )
        frames.append((offset, size))
        expected = offset + size
    return np.array(frames, np.uint64).reshape(-1, 2)


def records_left_out(begin: int, end: int, path: str) -> StaleIndexError:
    """Return the error of an index that leaves out some bytes of its data file."""
    return StaleIndexError(
        f"the index leaves out bytes {begin:,} to {end:,} of the data file: build it again",
        path=path,
    )


def format_text(starts: Ints, ends: Ints) -> bytes:
    """Return the text index of frames that start and end at some offsets; int64 ``[n]``."""
    lines = (
        f"{start} {end - start}\n"
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    )
    return "".join(lines).encode("ascii")
