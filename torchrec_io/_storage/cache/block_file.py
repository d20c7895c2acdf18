"""Files of the cache: a block of data, checksums of its chunks, and a checksum of these.

A file has the data first, so that offsets are those in the block; then the CRC-32C of each chunk
(uint32); then the magic number, the size of the data, a digest of the block's name, and the CRC-32C
of all that follows the data. Damage, and a file with another name, are found when it is read.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable

import numpy as np

from ... import _core
from ..byte_source import ByteBuffer
from ..digest import digest

_MAGIC = b"TIOBLK01"
_TRAILER = struct.Struct("<8sQ16s")
_CRC = struct.Struct("<I")
_CHUNK_BYTES = 4096


class CachedBlock:
    """An open block of the cache. It is closed when the last reference to it is dropped.

    Args:
        name: Name of the block.
        descriptor: Descriptor of its file, which belongs to the block from then on.
        size: Size of its data in bytes.

    Attributes:
        file: The file, for :func:`torchrec_io._core.read_blocks`.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If it is damaged. Damage to the data is found when that is read.
    """

    __slots__ = ("_close", "_descriptor", "_size", "file")

    def __init__(self, name: str, descriptor: int, size: int) -> None:
        self._close: Callable[[int], None] = os.close  # gone at the exit of the interpreter
        self._descriptor = descriptor
        self._size = size
        tail_bytes = file_bytes(size) - size
        tail = os.pread(descriptor, tail_bytes + 1, size)
        body = tail[: -_CRC.size]
        is_whole = len(tail) == tail_bytes and body.endswith(_trailer(name, size))
        if not is_whole or _crc_of(body) != tail[-_CRC.size :]:
            raise ValueError("the block is damaged")
        checksums = np.frombuffer(body[: -_TRAILER.size], np.uint8)
        self.file: _core.CheckedFile = _core.CheckedFile(descriptor, size, checksums)

    def __del__(self) -> None:
        self._close(self._descriptor)

    def read(self) -> ByteBuffer | None:
        """Return all data; None if it is damaged."""
        data = np.empty(self._size, np.uint8)
        ranges = np.array([(0, self._size, 0)])
        is_damaged = _core.read_blocks([self.file], ranges, max(1, self._size), data)
        return None if is_damaged else data


def write_block(descriptor: int, name: str, data: memoryview) -> None:
    """Write the file of a block, replacing its content.

    Raises:
        OSError: If it cannot be written, as on a full disk.
    """
    tail = _core.chunk_checksums(np.frombuffer(data, np.uint8)) + _trailer(name, len(data))
    with open(descriptor, "wb", closefd=False) as file:
        file.truncate(0)
        file.write(data)
        file.write(tail + _crc_of(tail))


def file_bytes(size: int) -> int:
    """Return the size of the file of a block."""
    return size + 4 * -(-size // _CHUNK_BYTES) + _TRAILER.size + _CRC.size


def _crc_of(data: bytes) -> bytes:
    return _CRC.pack(_core.crc32c(np.frombuffer(data, np.uint8)))


def _trailer(name: str, size: int) -> bytes:
    return _TRAILER.pack(_MAGIC, size, digest(name, size=16))
