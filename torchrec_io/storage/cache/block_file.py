"""Files of the cache: a block of data, checksums of its chunks, and a checksum of these.

A file has the data first, so that offsets are those in the block; then the CRC-32C of each chunk
(uint32); then the magic number, the size of the data, a digest of the block's name, and the CRC-32C
of all that follows the data. Damage, and a file with another name, are found when it is read.
"""

from __future__ import annotations

import contextlib
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
# The time of the last use of a block is stored when it is older than this.
SECONDS_BETWEEN_TOUCHES = 10.0


class CachedBlock:
    """An open block of the cache. It is closed when the last reference to it is dropped.

    Args:
        name: Name of the block.
        descriptor: Descriptor of its file, which is closed with the block.
        size: Size of its data in bytes.
        checksums: Checksums of its chunks.

    Attributes:
        name: Name of the block.
        size: Size of its data in bytes.
        file: The file, for :func:`torchrec_io._core.read_blocks`.
        touched: When its last use was stored, by the clock of :func:`time.monotonic`.
    """

    __slots__ = ("_close", "_descriptor", "file", "name", "size", "touched")

    def __init__(self, name: str, descriptor: int, size: int, checksums: bytes) -> None:
        self._close: Callable[[int], None] = os.close  # gone at the exit of the interpreter
        self._descriptor = descriptor
        self.touched = 0.0
        self.name = name
        self.size = size
        self.file = _core.CheckedFile(descriptor, size, np.frombuffer(checksums, np.uint8))

    def __del__(self) -> None:
        self._close(self._descriptor)

    def touch(self, now: float) -> None:
        """Store that the block was used now. Other users' files may not allow it."""
        self.touched = now
        with contextlib.suppress(OSError):
            os.utime(self._descriptor)

    def read(self, out: ByteBuffer) -> bool:
        """Read all data into a buffer; return whether it is undamaged."""
        ranges = np.array([(0, self.size, 0)])
        return not _core.read_blocks([self.file], ranges, max(1, self.size), out)


def file_bytes(size: int) -> int:
    """Return the size of the file of a block."""
    return size + _tail_bytes(size)


def _tail_bytes(size: int) -> int:
    return 4 * -(-size // _CHUNK_BYTES) + _TRAILER.size + _CRC.size


def write_block(descriptor: int, name: str, data: memoryview) -> None:
    """Write the file of a block.

    Raises:
        OSError: If it cannot be written, as on a full disk.
    """
    checksums = _core.chunk_checksums(np.frombuffer(data, np.uint8))
    tail = checksums + _trailer(name, len(data))
    parts = [data, memoryview(tail + _crc_of(tail))]
    offset = 0
    for part in parts:
        done = 0
        while done < len(part):
            done += os.pwrite(descriptor, part[done:], offset + done)
        offset += done


def open_block(name: str, descriptor: int, size: int) -> CachedBlock | None:
    """Return the block in an open file, which belongs to it then; None if the file is damaged."""
    tail = os.pread(descriptor, _tail_bytes(size) + 1, size)
    body = tail[: -_CRC.size]
    is_valid = (
        len(tail) == _tail_bytes(size)
        and body.endswith(_trailer(name, size))
        and _crc_of(body) == tail[-_CRC.size :]
    )
    if not is_valid:
        return None
    return CachedBlock(name, descriptor, size, body[: -_TRAILER.size])


def _crc_of(data: bytes) -> bytes:
    return _CRC.pack(_core.crc32c(np.frombuffer(data, np.uint8)))


def _trailer(name: str, size: int) -> bytes:
    return _TRAILER.pack(_MAGIC, size, digest(name, size=16))
