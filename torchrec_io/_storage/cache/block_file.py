"""Files of the cache: the data of a block, the checksums of its parts, and a trailer.

A file has the data first, so that offsets are those in the block; then the CRC-32C of every 4,096
bytes (uint32); then the magic number, the size of the data, a digest of the block's name, and the
CRC-32C of all that follows the data. Damage, and a file with another name, are found when it is
read.
"""

from __future__ import annotations

import os
import struct

import numpy as np

from ... import _core
from ..byte_source import ByteBuffer, Ints
from ..digest import digest

_MAGIC = b"TIOBLK01"
_TRAILER = struct.Struct("<8sQ16s")
_CRC = struct.Struct("<I")
_PART_BYTES = 4096


def read_block(descriptor: int, name: str, size: int, ranges: Ints, out: ByteBuffer) -> bool:
    """Read ranges of a block.

    Args:
        descriptor: Descriptor of its file.
        name: Name of the block.
        size: Size of its data in bytes.
        ranges: int64 ``[n, 3]``: offset, size, and offset in ``out``.
        out: Buffer; uint8.

    Returns:
        False if the file is damaged there. The buffer may have been written even so.

    Raises:
        OSError: If the file cannot be read.
    """
    tail_bytes = file_bytes(size) - size
    tail = os.pread(descriptor, tail_bytes + 1, size)
    body, checksums = tail[: -_CRC.size], tail[: -_CRC.size - _TRAILER.size]
    is_whole = len(tail) == tail_bytes and body.endswith(_trailer(name, size))
    if not is_whole or _crc_of(body) != tail[-_CRC.size :]:
        return False
    return _core.read_checked(
        descriptor, size, np.frombuffer(checksums, np.uint8), np.ascontiguousarray(ranges), out
    )


def write_block(descriptor: int, name: str, data: ByteBuffer) -> None:
    """Write the file of a block.

    Raises:
        OSError: If it cannot be written, as on a full disk.
    """
    tail = _core.chunk_checksums(data) + _trailer(name, len(data))
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data.data)
        file.write(tail + _crc_of(tail))


def file_bytes(size: int) -> int:
    """Return the size of the file of a block."""
    return size + 4 * -(-size // _PART_BYTES) + _TRAILER.size + _CRC.size


def _crc_of(data: bytes) -> bytes:
    return _CRC.pack(_core.crc32c(np.frombuffer(data, np.uint8)))


def _trailer(name: str, size: int) -> bytes:
    return _TRAILER.pack(_MAGIC, size, digest(name, size=16))
