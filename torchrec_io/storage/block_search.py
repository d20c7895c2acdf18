"""Search for deflate blocks while a stream is decoded, to make them seek points."""

from __future__ import annotations

import zlib
from typing import NamedTuple

import numpy as np

from .. import _core
from .byte_source import ByteBuffer, ByteSource, read_bytes
from .decoder import WINDOW_BYTES, start_inside

# The header of a block is shorter than this many bits. At the end of the input it may be cut.
_MOST_HEADER_BITS = 320 * 14
# Fewer bytes after a candidate prove nothing.
_LEAST_TRIAL_BYTES = 64
_TRIAL_OUTPUT_BYTES = 1 << 14
# A stored block is found by its size, in whole bytes, and the three zeros before that (RFC 1951).
_STORED_BIT = 5
_SIZES_BYTES = 4


class Candidate(NamedTuple):
    """A place in a file where a block may start.

    Attributes:
        file_bit: Its offset in bits.
        first: The byte with its first bit.
    """

    file_bit: int
    first: int

    @property
    def file_offset(self) -> int:
        """File offset of the byte where the block starts, or of the one after it if it is split.

        A decoder that has all input before this has returned the stream before the candidate.
        """
        return (self.file_bit + 7) // 8


class BlockSearch:
    """Finds candidates in the input of a decoder.

    Attributes:
        candidate: The candidate that the decoder comes to.
        window: The last bytes of the stream, if a point is due soon.
    """

    def __init__(self) -> None:
        self.candidate: Candidate | None = None
        self.window = b""
        self._searched = 0  # file bit before which nothing is searched

    def add_data(self, data: ByteBuffer | None) -> None:
        """Take note of the next bytes of the stream; None if no point is due soon after them."""
        if data is None:
            self.window = b""
            return
        last = data[-WINDOW_BYTES:].tobytes()
        before = WINDOW_BYTES - len(last)
        self.window = self.window[-before:] + last if before else last

    def search(self, data: ByteBuffer, file_offset: int) -> None:
        """Find the next candidate, if none was found before that the decoder comes to.

        Args:
            data: Input of the decoder.
            file_offset: Offset of the input in the file.
        """
        if self.candidate is not None:
            return
        front, end = 8 * file_offset, 8 * len(data)
        begin = max(0, self._searched - front)
        found = None if begin >= end else _core.find_deflate_block(data, begin, end)
        self._searched = max(self._searched, front + end - _MOST_HEADER_BITS)
        if found is None:
            return
        candidate = Candidate(front + found, int(data[found // 8]))
        if candidate.file_offset + _LEAST_TRIAL_BYTES <= file_offset + len(data):
            self._searched = candidate.file_bit + 1
            self.candidate = candidate


def is_block_start(
    candidate: Candidate, trial: ByteBuffer, window: bytes, data: ByteBuffer
) -> bool:
    """Return whether decoding from a candidate on gives the same bytes as the stream.

    Args:
        candidate: The candidate.
        trial: Input from its ``file_offset`` on.
        window: The stream before it.
        data: The stream from it on, as far as the input contains it.
    """
    found = np.empty(_TRIAL_OUTPUT_BYTES, np.uint8)
    at = 0
    try:
        decoder = start_inside(window, candidate.file_bit % 8, candidate.first)
        while True:
            consumed, produced = decoder.decode(trial, found)
            if not np.array_equal(found[:produced], data[at : at + produced]):
                return False
            trial, at = trial[consumed:], at + produced
            if not produced or decoder.is_done:
                return at > 0
    except zlib.error:
        return False


def find_last_header(file: ByteSource, file_bit: int, end: int) -> int | None:
    """Return where the header of a stored block starts if it is the last block of its stream.

    The zeros before the size of a stored block are its header, or align it. So what was found looks
    like a block that others follow, until the end of the stream is known.

    Args:
        file: Compressed file.
        file_bit: Offset where the block was found, in bits.
        end: File offset of the end of the deflate stream.

    Returns:
        Offset in bits; None if the block is of another kind, or if another one follows it.
    """
    sizes_at = file_bit // 8 + 1
    head = read_bytes(file, sizes_at - 2, 4)
    is_stored = file_bit % 8 == _STORED_BIT and head[1] >> _STORED_BIT == 0
    if not is_stored or sizes_at + _SIZES_BYTES + int.from_bytes(head[2:], "little") != end:
        return None
    # Its first bit says that it is the last block. Only zeros are between that and the size.
    return 8 * (sizes_at - 2) + int.from_bytes(head[:2], "little").bit_length() - 1
