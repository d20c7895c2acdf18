"""Files of a block cache: a block whose reads are those of its checksums, or none.

Input: options and the size of the block (3 bytes); bytes of the file, of which all checksums may be
made right.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

import numpy as np

from tests.fuzz.python.inputs import cut_options
from torchrec_io import _core
from torchrec_io._storage.cache.block_file import file_bytes, read_block, write_block

NAME = f"{5:032x}-1"
_SIGNED = 1


def check(data: bytes) -> None:
    (bits, low, high), content = cut_options(data, 3)
    size = low | high << 8
    if bits & _SIGNED and len(content) >= file_bytes(size):
        content = signed(content[: file_bytes(size)], size)
    descriptor, found = file_with(content), np.zeros(size, np.uint8)
    try:
        is_read = read_block(descriptor, NAME, size, np.array([(0, size, 0)]), found)
    finally:
        os.close(descriptor)
    is_valid = len(content) == file_bytes(size) and content == written(content[:size])
    assert is_read == is_valid, "damage was not found, or a valid file was refused"
    assert not is_read or found.tobytes() == content[:size], "wrong data"


def file_with(content: bytes) -> int:
    descriptor = os.memfd_create("block")
    os.write(descriptor, content)
    return descriptor


def written(data: bytes) -> bytes:
    """Return the file of a block."""
    descriptor = os.memfd_create("block")
    try:
        write_block(descriptor, NAME, np.frombuffer(data, np.uint8))
        return os.pread(descriptor, file_bytes(len(data)) + 1, 0)
    finally:
        os.close(descriptor)


def signed(content: bytes, size: int) -> bytes:
    """Return a file with the right last checksum."""
    crc = _core.crc32c(np.frombuffer(content[size:-4], np.uint8))
    return content[:-4] + struct.pack("<I", crc)


def seeds() -> Iterator[bytes]:
    for size in (0, 1, 5000, 9000):
        valid = written(bytes(range(256)) * (size // 256) + bytes(size % 256))
        start = struct.pack("<BH", 0, size)
        yield start + valid
        yield start + valid[:-1]
        yield start + valid + b"x"
        for at in (*range(0, size, 999), *range(size, len(valid), 3)):
            changed = bytearray(valid)
            changed[at] ^= 1
            yield start + changed
            yield struct.pack("<BH", _SIGNED, size) + changed
