"""Search for deflate blocks while a stream is decoded, to make them seek points."""

from __future__ import annotations

import zlib

import numpy as np

from .. import _core
from .byte_source import ByteBuffer, ByteSource, read_bytes
from .decoder import WINDOW_BYTES, start_inside
from .seek_points import SeekPointRecorder

# Bytes that are decoded at once while points are searched, so that they are near where they are
# due.
_STEP_BYTES = 1 << 20

# The header of a block is shorter than this many bits. At the end of the input it may be cut.
_MOST_HEADER_BITS = 320 * 14
# Fewer bytes after a candidate prove nothing.
_LEAST_TRIAL_BYTES = 64
_TRIAL_BYTES = 1 << 11
_TRIAL_OUTPUT_BYTES = 1 << 14
# Fewer equal bytes prove nothing, if a reader takes so few at a time.
_LEAST_EQUAL_BYTES = 1 << 9
# A stored block is found by its size, in whole bytes, and the three zeros before that (RFC 1951).
_STORED_BIT = 5
_SIZES_BYTES = 4


class BlockSearch:
    """Finds blocks in the input of a decoder, and makes them seek points.

    What looks like the start of a block may be other data. So decoding from there on must give the
    same bytes as the stream.

    Args:
        recorder: Receiver of the points.
        window: The last bytes of the stream before the decoder starts.
    """

    def __init__(self, recorder: SeekPointRecorder, window: bytes = b"") -> None:
        self._candidate: int | None = None  # file bit that the decoder comes to
        self._recorder = recorder
        self._window = window
        self._searched = 0  # file bit before which nothing is searched
        self._found: tuple[int, bytes, ByteBuffer] | None = None  # its bit, window, what follows

    @property
    def has_candidate(self) -> bool:
        """True if the decoder comes to a place where a block may start."""
        return self._candidate is not None

    def limit(self, data: ByteBuffer, file_offset: int, stream_offset: int) -> tuple[int, int]:
        """Search a candidate if a point is due.

        Args:
            data: Input of the decoder.
            file_offset: Offset of the input in the file.
            stream_offset: Offset of the next bytes of the stream.

        Returns:
            Numbers of bytes that the decoder may read and return at once.
        """
        if self._found is not None:
            return len(data), _TRIAL_OUTPUT_BYTES
        room = self._recorder.bytes_until_due(stream_offset, file_offset)
        if room == 0 and self._candidate is None:
            self._search(data, file_offset)
        end = len(data) if self._candidate is None else _first_byte(self._candidate) - file_offset
        return end, room or _STEP_BYTES

    def try_candidate(self, data: ByteBuffer, file_offset: int) -> None:
        """Decode from the candidate on, when the decoder has come to it.

        Args:
            data: Input of the decoder, also before the candidate.
            file_offset: Offset of the input in the file.
        """
        assert self._candidate is not None
        at, bit = divmod(self._candidate - 8 * file_offset, 8)
        begin = _first_byte(self._candidate) - file_offset
        found = np.empty(_TRIAL_OUTPUT_BYTES, np.uint8)
        try:
            decoder = start_inside(self._window, bit, int(data[at]))
            _, size = decoder.decode(data[begin : begin + _TRIAL_BYTES], found)
        except zlib.error:
            size = 0
        if size:
            self._found = self._candidate, self._window, found[:size]
        self._candidate = None

    def end_member(self, file: ByteSource, end: int) -> None:
        """Correct the last point if it is at the last block of a stream that has ended.

        Args:
            file: Compressed file.
            end: File offset of the end of the deflate stream.
        """
        self._candidate = self._found = None
        points = self._recorder.points
        if self._recorder.is_inside:
            file_bit = _find_last_header(file, points[-1].file_bit, end)
            points[-1] = points[-1]._replace(file_bit=file_bit)

    def add_data(self, stream_offset: int, data: ByteBuffer) -> None:
        """Take note of the next bytes of the stream, before the recorder does."""
        if self._found is not None:
            file_bit, window, expected = self._found
            size = min(len(data), len(expected))
            is_enough = size >= min(len(expected), _LEAST_EQUAL_BYTES)
            if is_enough and np.array_equal(data[:size], expected[:size]):
                self._recorder.add_block(stream_offset, file_bit, window)
            self._found = None
        last = data[-WINDOW_BYTES:].tobytes()
        before = WINDOW_BYTES - len(last)
        self._window = self._window[-before:] + last if before else last

    def _search(self, data: ByteBuffer, file_offset: int) -> None:
        front, end = 8 * file_offset, 8 * len(data)
        begin = max(0, self._searched - front)
        found = None if begin >= end else _core.find_deflate_block(data, begin, end)
        self._searched = max(self._searched, front + end - _MOST_HEADER_BITS)
        if found is None:
            return
        if _first_byte(found) + _LEAST_TRIAL_BYTES <= len(data):
            self._candidate = front + found
            self._searched = self._candidate + 1


def _first_byte(bit: int) -> int:
    """Return the offset of the byte that starts at a bit, or after it.

    A decoder that has all input before this has returned the stream before the bit.
    """
    return (bit + 7) // 8


def _find_last_header(file: ByteSource, file_bit: int, end: int) -> int:
    """Return where the header of a block starts, in bits, when the end of its stream is known.

    The zeros before the size of a stored block are its header, or align it. So what was found looks
    like a block that others follow. The first bit of the last block says that none do.

    Args:
        file: Compressed file.
        file_bit: Offset where the block was found, in bits.
        end: File offset of the end of the deflate stream.
    """
    sizes_at = file_bit // 8 + 1
    head = read_bytes(file, sizes_at - 2, 4)
    is_stored = file_bit % 8 == _STORED_BIT and head[1] >> _STORED_BIT == 0
    if not is_stored or sizes_at + _SIZES_BYTES + int.from_bytes(head[2:], "little") != end:
        return file_bit
    # Only zeros are between that bit and the size.
    return 8 * (sizes_at - 2) + int.from_bytes(head[:2], "little").bit_length() - 1
