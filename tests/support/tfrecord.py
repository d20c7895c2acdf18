"""Writer of TFRecord files that is independent of the code under test."""

from __future__ import annotations

import gzip
import os
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path

import crc32c


def masked_crc(data: bytes) -> int:
    """Return the masked CRC-32C that TFRecord stores."""
    crc: int = crc32c.crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def frame(data: bytes) -> bytes:
    """Return the frame of one record."""
    length = struct.pack("<Q", len(data))
    return b"".join(
        [length, struct.pack("<I", masked_crc(length)), data, struct.pack("<I", masked_crc(data))]
    )


def write_tfrecord(
    path: str | os.PathLike[str], records: Iterable[bytes], compression: str | None = None
) -> Path:
    """Write a TFRecord file. ``compression`` is None, ``"gzip"`` or ``"zlib"``."""
    stream = b"".join(map(frame, records))
    if compression == "gzip":
        stream = gzip.compress(stream, mtime=0)
    elif compression == "zlib":
        stream = zlib.compress(stream)
    elif compression is not None:
        raise ValueError(f"no such compression: {compression!r}")
    target = Path(path)
    target.write_bytes(stream)
    return target
