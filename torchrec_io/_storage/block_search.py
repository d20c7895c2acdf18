"""Search for deflate blocks while a stream is decoded, to make them seek points."""

from __future__ import annotations

import numpy as np

from .. import _core
from .byte_source import ByteSource, read_bytes
from .decoder import DECODE_ERRORS, WINDOW_BYTES, start_inside
from .deflate_start import lead_in
from .seek_points import SeekPointRecorder

# The header of a block is shorter than this many bits. At the end of the input it may be cut.
_MOST_HEADER_BITS = 320 * 14
# Fewer bytes after a candidate prove nothing.
_LEAST_TRIAL_BYTES = 64
_TRIAL_BYTES = 1 << 11
_TRIAL_OUTPUT_BYTES = 1 << 14
# Fewer equal bytes prove nothing, if a reader takes so few at a time.
_LEAST_EQUAL_BYTES = 1 << 9
# Input of a decoder after which the next block is searched for.
_STEP_BYTES = 1 << 16
# A stored block is found by its size, in whole bytes, and the three zeros before that (RFC 1951).
_STORED_BIT = 5
_SIZES_BYTES = 4


class BlockSearch:
    """Finds blocks in the input of a decoder, and makes them seek points.

    What looks like the start of a block may be other data. So decoding from there on must give the
    same bytes as the stream.

    Args:
        recorder: Receiver of the points.
    """

    def __init__(self, recorder: SeekPointRecorder) -> None:
        self._recorder = recorder
        self._window = b""  # the last bytes of the stream
        self._searched = 0  # file bit before which nothing is searched
        # File bit where a block may start, before the next input, and the byte around it.
        self._candidate: tuple[int, int] | None = None
        self._expected = b""  # bytes that follow the candidate in the stream if it is a block

    def limit(self, data: memoryview, file_offset: int, stream_offset: int) -> int:
        """Return the number of input bytes for a decoder that must stop where a block may start.

        Args:
            data: Next input of the decoder, which has returned all of the stream before it.
            file_offset: Offset of the input in the file.
            stream_offset: Offset of the next bytes of the stream.
        """
        data = data[:_STEP_BYTES]
        if self._candidate is not None:
            self._expected = self._decode_from(*self._candidate, data)
            return len(data)
        room = self._recorder.bytes_until_due(stream_offset, file_offset)
        if room:
            # Input is seldom longer than what it decodes to.
            return min(len(data), room)
        front, end = 8 * file_offset, 8 * len(data)
        begin = max(1, self._searched - front)
        found = None
        if begin < end:
            found = _core.find_deflate_block(np.frombuffer(data, np.uint8), begin, end)
        self._searched = max(self._searched, front + end - _MOST_HEADER_BITS)
        if found is None or (size := -(-found // 8)) + _LEAST_TRIAL_BYTES > len(data):
            return len(data)
        self._candidate = front + found, data[found // 8]
        self._searched = front + found + 1
        return size

    def add_data(self, stream_offset: int, data: bytes) -> None:
        """Take note of the next bytes of the stream, before the recorder does."""
        if self._candidate is not None and self._expected:
            size = min(len(data), len(self._expected))
            is_enough = size >= min(len(self._expected), _LEAST_EQUAL_BYTES)
            if is_enough and data[:size] == self._expected[:size]:
                self._recorder.add_block(stream_offset, self._candidate[0], self._window)
            self._candidate, self._expected = None, b""
        self._window = (self._window + data[-WINDOW_BYTES:])[-WINDOW_BYTES:]

    def end_member(self, file: ByteSource, end: int) -> None:
        """Correct the last point if it is at the last block of a stream that has ended.

        Args:
            file: Compressed file.
            end: File offset of the end of the deflate stream.
        """
        self._candidate, self._expected = None, b""
        points = self._recorder.points
        if points[-1].window is not None:
            file_bit = _find_last_header(file, points[-1].file_bit, end)
            points[-1] = points[-1]._replace(file_bit=file_bit)

    def _decode_from(self, file_bit: int, first: int, data: memoryview) -> bytes:
        """Decode from the candidate on; return no bytes if it cannot be a block."""
        bit = file_bit % 8
        head = lead_in(bit, first) if bit else b""
        try:
            found = start_inside(self._window).decompress(
                head + data[:_TRIAL_BYTES], _TRIAL_OUTPUT_BYTES
            )
        except DECODE_ERRORS:
            found = b""
        if not found:
            self._candidate = None
        return found


def _find_last_header(file: ByteSource, file_bit: int, end: int) -> int:
    """Return the offset of the header of a block, in bits, when the end of its stream is known.

    The zeros before the size of a stored block are its header, or align it. So a search finds it
    as a block that further blocks follow. The first bit of a block that ends its stream is 1.

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
