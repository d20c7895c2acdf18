"""What an index is checked against: the data file it is of, and the lines of a text index."""

from __future__ import annotations

import hashlib
import os

import numpy as np
import numpy.typing as npt

from ..errors import IndexFormatError
from .compressed import is_record_header
from .formats import TFRECORD
from .storage import LocalFile, StrPath

# The fingerprint covers this much at each end of the data file.
_SAMPLE_BYTES = 1 << 16


def first_misplaced(
    file: LocalFile, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> int | None:
    """Where the first of some frames should start that does not, or is of another size."""
    overhead = TFRECORD.header_bytes + TFRECORD.footer_bytes
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        head = file.read(start, TFRECORD.header_bytes)
        length = int.from_bytes(head[:8], "little")
        if not is_record_header(head) or length != end - start - overhead:
            return int(start)
    return None


def fingerprint(file: LocalFile, size: int) -> int:
    """64 bits over the first and the last 64 KiB of a file."""
    head = file.read(0, _SAMPLE_BYTES)
    # Of a small file both are the whole: it is read once.
    tail = head if size <= _SAMPLE_BYTES else file.read(size - _SAMPLE_BYTES, _SAMPLE_BYTES)
    digest = hashlib.blake2b(head, digest_size=8)
    digest.update(tail)
    return int.from_bytes(digest.digest(), "little")


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
