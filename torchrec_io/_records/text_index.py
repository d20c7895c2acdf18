"""Text indexes of DALI and ``tfrecord``: a line ``offset size`` for each frame."""

from __future__ import annotations

import io

import numpy as np

from .. import _core
from .._storage.byte_source import ByteSource, Ints, Offsets, read_bytes
from ..errors import IndexFormatError
from .formats import TFRECORD


def parse_text(file: ByteSource) -> Offsets:
    """Read a text index.

    Args:
        file: Text index.

    Returns:
        Offset and size of each frame; uint64 ``[n, 2]``.

    Raises:
        IndexFormatError: If a line is malformed, or the frames overlap.
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
        # A frame before this one may be left out: at least its header and its checksum.
        follows = offset == expected or offset >= expected + TFRECORD.overhead_bytes
        if not follows or size < TFRECORD.overhead_bytes:
            raise IndexFormatError(
                f"line {number} of the index: a frame of size {size} at offset {offset} cannot "
                f"follow one that ends at {expected}",
                path=name,
            )
        frames.append((offset, size))
        expected = offset + size
    return np.array(frames, np.uint64).reshape(-1, 2)


def find_gaps(frames: Offsets, size: int) -> list[_core.Gap]:
    """Return the parts of a data file that frames leave out.

    Args:
        frames: Offset and size of each frame; uint64 ``[n, 2]``.
        size: Size of the data file in bytes.
    """
    begins = np.concatenate((np.zeros(1, np.uint64), frames.sum(axis=1)))
    ends = np.append(frames[:, 0], np.uint64(size))
    parts = np.stack((begins, ends), axis=1)[begins != ends]
    return [_core.Gap(begin, end, _core.GapKind.left_out) for begin, end in parts.tolist()]


def format_text(starts: Ints, ends: Ints) -> bytes:
    """Return the text index of frames that start and end at some offsets; int64 ``[n]``."""
    lines = (
        f"{start} {end - start}\n"
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True)
    )
    return "".join(lines).encode("ascii")
