"""Search for deflate blocks while a stream is decoded, to make them seek points."""

from __future__ import annotations

import zlib
from collections import deque
from typing import NamedTuple, cast

import numpy as np
from isal import igzip_lib, isal_zlib

from .. import _core
from .byte_source import ByteSource
from .deflate_start import start_decoder
from .seek_points import WINDOW_BYTES

_INFLATE_ERRORS = (cast("type[Exception]", igzip_lib.IsalError), zlib.error)
# The header of a block is shorter than this many bits. At the end of the input it may be cut.
_MOST_HEADER_BITS = 320 * 14
# Fewer bytes after a candidate prove nothing.
_LEAST_TRIAL_BYTES = 64
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


class BlockSearch:
    """Finds candidates in the input of a decoder, and cuts the input there.

    The decoder gets the input before the cut. Once it has returned all of that, the stream is at
    the candidate.
    """

    def __init__(self) -> None:
        self._searched = 0  # file bit before which nothing is searched
        self._candidate: Candidate | None = None
        self._following = b""  # input after the cut
        self._recent: deque[bytes] = deque()  # at least a window of the stream, if it has that much
        self._recent_bytes = 0

    @property
    def has_candidate(self) -> bool:
        """True if the input was cut."""
        return self._candidate is not None

    @property
    def window(self) -> bytes:
        """The last bytes of the stream."""
        last = self._recent[-1]
        if len(last) < WINDOW_BYTES:
            last = b"".join(part[-WINDOW_BYTES:] for part in self._recent)
        return last[-WINDOW_BYTES:]

    def add_data(self, data: bytes) -> None:
        """Take note of the next bytes of the stream."""
        self._recent.append(data)
        self._recent_bytes += len(data)
        while self._recent_bytes - len(self._recent[0]) >= WINDOW_BYTES:
            self._recent_bytes -= len(self._recent.popleft())

    def cut(self, chunk: bytes, file_offset: int) -> bytes:
        """Return the input before the next candidate, or all of it.

        Args:
            chunk: Input of the decoder.
            file_offset: Offset of the input in the file.
        """
        if self._candidate is not None:
            return chunk
        front, end = 8 * file_offset, 8 * len(chunk)
        begin = max(0, self._searched - front)
        found = None
        if begin < end:
            found = _core.find_deflate_block(np.frombuffer(chunk, np.uint8), begin, end)
        self._searched = max(self._searched, front + end - _MOST_HEADER_BITS)
        at = end if found is None else (found + 7) // 8
        if found is None or len(chunk) - at < _LEAST_TRIAL_BYTES:
            return chunk
        self._searched = front + found + 1
        self._candidate = Candidate(front + found, chunk[found // 8])
        self._following = chunk[at:]
        return chunk[:at]

    def take(self) -> tuple[Candidate, bytes]:
        """Return the candidate that the stream has reached, and the input after it."""
        assert self._candidate is not None
        candidate, self._candidate = self._candidate, None
        return candidate, self._following

    def give_up(self) -> bytes:
        """Drop the candidate, if there is one, and return the input after it."""
        following = self._following if self._candidate is not None else b""
        self._candidate = None
        return following


def is_block_start(candidate: Candidate, trial: bytes, window: bytes, data: bytes) -> bool:
    """Return whether decoding from a candidate on gives the same bytes as the stream.

    Args:
        candidate: The candidate.
        trial: Input after it.
        window: The stream before it.
        data: The stream from it on, as far as the input contains it.
    """
    try:
        decoder = start_decoder(
            isal_zlib.decompressobj, window, candidate.file_bit % 8, candidate.first
        )
        found: bytes = decoder.decompress(trial)
    except _INFLATE_ERRORS:
        return False
    return len(found) > 0 and data[: len(found)] == found


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
    head = file.read(sizes_at - 2, 4)
    is_stored = file_bit % 8 == _STORED_BIT and head[1] >> _STORED_BIT == 0
    if not is_stored or sizes_at + _SIZES_BYTES + int.from_bytes(head[2:], "little") != end:
        return None
    # Its first bit says that it is the last block. Only zeros are between that and the size.
    return 8 * (sizes_at - 2) + int.from_bytes(head[:2], "little").bit_length() - 1
