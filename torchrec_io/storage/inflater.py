"""Decompression of files from front to back."""

from __future__ import annotations

import functools
import zlib
from typing import Any

import numpy as np

from ..errors import CorruptRecordError, TorchRecIOError, TruncatedFileError
from .block_search import BlockSearch, Candidate, find_last_header, is_block_start
from .byte_source import ByteBuffer, ByteSource, read_bytes
from .compression import (
    WINDOW_BITS,
    Compression,
    is_gzip_magic,
    is_zlib_header,
    is_zlib_method,
    may_be_zstd_magic,
)
from .decoder import Decoder, decode_parts, start_inside, start_member, unpack_window
from .deflate_start import start_decoder
from .seek_points import CHECKED_BYTES, START, SeekPoint, SeekPointRecorder
from .zstd import decode_before_damage

# Compressed bytes that are read at once, if the caller does not know better. Each read costs as
# much as decoding some KiB.
_CHUNK_BYTES = 1 << 18
# Bytes that are decoded at once while seek points are searched, so that they are near where they
# are due.
_STEP_BYTES = 1 << 20
# Compressed bytes that are decoded again at once to find damage.
_AGAIN_BYTES = 1 << 16
# Bytes after a candidate for a seek point that are decoded from it, to find out whether it is one.
_TRIAL_BYTES = 1 << 11
_TRIAL_STEP_BYTES = 1 << 14
# Checksum and size after the deflate stream of a gzip member; checksum after that of a zlib stream.
_TRAILER_BYTES: dict[Compression, int] = {"gzip": 8, "zlib": 4}
# More input than this is never left when more is read: the start of a header, or of a symbol.
_MOST_LEFT_BYTES = 64
_NO_BYTES = np.empty(0, np.uint8)


class Inflater:
    """Decompresses a file from front to back: all members, streams or frames, in order.

    All bytes that can be decoded are returned before an error is raised, but for the last symbols
    of a truncated file. Only a damaged pipe loses the bytes that would be decoded together with the
    damage.

    Args:
        file: Compressed file.
        compression: Compression of the file.
        start: Seek point to start at. The checksum of a member that is decoded from its middle on
            is not compared.
        recorder: Chooses seek points on the way. The file must be seekable.
        chunk_bytes: Number of compressed bytes that are read at once.

    Attributes:
        damage_offset: File offset of the first byte that could not be decoded, once it is known.

    Raises:
        CorruptRecordError: If the start, or its window, is damaged.
    """

    def __init__(
        self,
        file: ByteSource,
        compression: Compression,
        start: SeekPoint = START,
        recorder: SeekPointRecorder | None = None,
        chunk_bytes: int | None = None,
    ) -> None:
        self.damage_offset: int | None = None
        self._file = file
        self._compression = compression
        self._start = start  # the last place where decoding could start again
        self._member_start = start.stream_offset  # where the member starts that is decoded
        self._recorder = recorder
        self._chunk_bytes = _CHUNK_BYTES if chunk_bytes is None else chunk_bytes
        self._input = _NO_BYTES  # memory of compressed bytes
        self._at = self._end = 0  # part of it that was read and not decoded yet
        self._file_offset = start.file_offset  # of the next compressed bytes to read
        self._stream_offset = start.stream_offset  # of the next bytes to return
        self._decoder: Decoder | None = None
        self._has_member = False
        self._trailer_bytes = 0  # of a member that is decoded from its middle on
        self._error: TorchRecIOError | None = None
        self._saved = _NO_BYTES  # decoded bytes that come before the error, or those to decode
        finds_blocks = recorder is not None and recorder.finds_blocks and compression != "zstd"
        self._crcs: list[int] = []  # of the parts of the bytes to return, if they are known
        self._blocks = BlockSearch() if finds_blocks else None
        if start.window is not None:
            self._begin_inside(start)

    @property
    def file_bytes_read(self) -> int:
        """File offset up to which compressed bytes were read."""
        return self._file_offset

    @property
    def member_offset(self) -> int:
        """File offset of the member that is decoded, or of what follows the last one."""
        return self._position if self._decoder is None else self._start.file_offset

    @property
    def stream_start(self) -> int:
        """Stream offset of the start of the member that is decoded, or of what follows the last."""
        return self._stream_offset if self._decoder is None else self._start.stream_offset

    @property
    def sound_end(self) -> int:
        """Stream offset where the members end that were decoded to their ends without an error."""
        return self._stream_offset if self._decoder is None else self._member_start

    def read_into(self, out: ByteBuffer) -> int:
        """Fill ``out`` with at least one decoded byte; return their number, 0 at the end.

        What follows the decoded bytes in ``out`` is undefined.

        Raises:
            TruncatedFileError: If the file ends inside a compressed stream.
            CorruptRecordError: If the stream is damaged, or followed by other bytes.
        """
        while True:
            if len(self._saved):
                size = self._take_saved(out)
            elif self._error is not None:
                raise self._error
            elif self._decoder is None and not self._begin_member():
                return 0
            else:
                size = self._decode(out)
            if size:
                self._note(out[:size])
                return size
            # The decoder gets more input only once it has returned all that it buffers.
            if self._decoder is not None and self._error is None and not self._continue():
                self._error = TruncatedFileError(
                    f"the file ends inside a {self._compression} stream",
                    path=self._file.path,
                    offset=self._stream_offset,
                )

    def skip(self, count: int) -> None:
        """Decode bytes and drop them, up to the end of the stream."""
        memory = np.empty(min(count, _STEP_BYTES), np.uint8)
        while count and (size := self.read_into(memory[:count])):
            count -= size

    def detach(self) -> None:
        """Release the file, and memory. Reading continues after :meth:`attach`."""
        self._drop_input()
        del self._file

    def attach(self, file: ByteSource) -> None:
        """Continue with a file that was opened again."""
        self._file = file

    def _note(self, data: ByteBuffer) -> None:
        """Take note of bytes that are returned."""
        if self._recorder is not None:
            self._recorder.add_data(self._stream_offset, data.data, self._crcs)
            self._crcs = []
            if self._blocks is not None:
                is_soon = self._recorder.is_due_soon(self._stream_offset + len(data))
                self._blocks.add_data(data if is_soon else None)
        self._stream_offset += len(data)

    # ---- input ----

    @property
    def _position(self) -> int:
        """File offset of the next compressed byte to decode."""
        return self._file_offset - (self._end - self._at)

    def _continue(self) -> bool:
        """Supply more input; return False at the end of the file."""
        if self._blocks is not None and self._blocks.candidate is not None:
            self._try_block(self._blocks, self._blocks.candidate)
            return True
        return self._fill()

    def _fill(self) -> bool:
        """Read more of the file; return False at its end."""
        if len(self._input) == 0:
            self._input = np.empty(self._chunk_bytes + _MOST_LEFT_BYTES, np.uint8)
        left = self._end - self._at
        self._input[:left] = self._input[self._at : self._end]
        self._at, self._end = 0, left
        size = self._file.read_into(self._file_offset, self._input[left:].data)
        self._file_offset += size
        self._end += size
        return size > 0

    def _advance(self, count: int) -> None:
        """Move forwards in the input, or back."""
        self._at += count
        if self._at < 0:  # it is read again
            self._drop_input()

    def _drop_input(self) -> None:
        self._file_offset = self._position
        self._input, self._at, self._end = _NO_BYTES, 0, 0

    def _peek(self, count: int) -> bytes:
        """Return the next bytes of the input; fewer at the end of the file."""
        while self._end - self._at < count and self._fill():
            pass
        return self._input[self._at : min(self._end, self._at + count)].tobytes()

    def _skip_zeros(self) -> None:
        while (head := self._peek(4)) and head[0] == 0:
            rest = self._input[self._at : self._end].tobytes()
            self._at += len(rest) - len(rest.lstrip(b"\0"))

    # ---- members ----

    def _begin_inside(self, start: SeekPoint) -> None:
        """Start decoding inside a member."""
        try:
            window = unpack_window(start.window or b"")
        except zlib.error:
            raise CorruptRecordError(
                "a seek point of the index is damaged: build the index again",
                path=self._file.path,
                offset=start.stream_offset,
            ) from None
        if self._blocks is not None:
            self._blocks.window = window
        bit = start.file_bit % 8
        first = self._peek(1)
        try:
            self._decoder = start_inside(window, bit, first[0] if first else 0)
        except zlib.error as error:  # the byte has the first bits of a block
            raise CorruptRecordError(
                f"the {self._compression} stream is damaged: {error}",
                path=self._file.path,
                offset=start.stream_offset,
            ) from None
        self._at += len(first) if bit else 0
        self._has_member = True
        self._trailer_bytes = _TRAILER_BYTES[self._compression]

    def _begin_member(self) -> bool:
        """Start decoding the next member; return False at the end of the file."""
        self._at += len(self._peek(self._trailer_bytes))
        self._trailer_bytes = 0
        if self._has_member and self._compression != "zstd":
            self._skip_zeros()  # padding after a member, as for gzip(1)
        head = self._peek(4)
        if not head:
            return False
        fault = self._find_header_fault(head)
        if fault is not None:
            self._error = CorruptRecordError(
                fault, path=self._file.path, offset=self._stream_offset
            )
            raise self._error
        self._has_member = True
        self._start = SeekPoint(self._stream_offset, 8 * self._position)
        self._member_start = self._stream_offset
        if self._recorder is not None:
            self._recorder.add_start(self._stream_offset, self._position)
        self._decoder = start_member(self._compression)
        return True

    def _find_header_fault(self, head: bytes) -> str | None:
        """Return the fault of a header that the decoder accepts or describes badly."""
        if self._has_member and not self._is_member(head):
            return f"stray bytes follow the last {self._compression} stream"
        # RFC 1952, section 2.3.1.2: a reserved flag is an error.
        if self._compression == "gzip" and len(head) > 3 and head[3] & 0xE0:
            return "the gzip header has a reserved flag set"
        # RFC 1950, section 2.2: larger windows than 32 KiB are not allowed.
        if self._compression == "zlib" and head[0] >> 4 > 7:
            return "the zlib header has an invalid window size"
        return None

    def _is_member(self, head: bytes) -> bool:
        """Return whether bytes start a member, as far as they go."""
        if self._compression == "zstd":
            return may_be_zstd_magic(head)
        if len(head) == 1:
            return head[0] == 0x1F if self._compression == "gzip" else is_zlib_method(head[0])
        is_header = is_gzip_magic if self._compression == "gzip" else is_zlib_header
        return is_header(head)

    # ---- decoding ----

    def _decode(self, out: ByteBuffer) -> int:
        end = self._end
        if self._blocks is not None and self._recorder is not None:
            position = self._position
            room = self._recorder.bytes_until_due(self._stream_offset, position)
            if room == 0:
                self._blocks.search(self._input[self._at : end], position)
            out = out[: min(room or _STEP_BYTES, _STEP_BYTES)]
            if self._blocks.candidate is not None:
                end = self._input_at(self._blocks.candidate.file_offset)
        return self._inflate(end, out)

    def _input_at(self, file_offset: int) -> int:
        """Return the offset in the input of a byte of the file, at most its end."""
        return min(self._end, self._end - self._file_offset + file_offset)

    def _inflate(self, end: int, out: ByteBuffer) -> int:
        """Decode the input up to an offset; return the number of decoded bytes."""
        assert self._decoder is not None
        data = self._input[self._at : end]
        try:
            if self._blocks is None or self._recorder is None:
                consumed, produced = self._decoder.decode(data, out)
            else:
                consumed, produced, self._crcs = decode_parts(
                    self._decoder, data, out, self._recorder.part_room, CHECKED_BYTES
                )
        except zlib.error as error:
            self._error = CorruptRecordError(
                f"the {self._compression} stream is damaged: {error}", path=self._file.path
            )
            self._saved = np.frombuffer(self._decode_before_damage(), np.uint8)
            self._error.offset = self._stream_offset + len(self._saved)
            return 0
        self._advance(consumed)
        if self._decoder.is_done:
            if self._blocks is not None:
                self._blocks.candidate = None
            self._decoder = None
            self._correct_last_point()
        return produced

    def _try_block(self, blocks: BlockSearch, found: Candidate) -> None:
        """Decode what follows a candidate; record it if it is the start of a block."""
        blocks.candidate = None
        begin = self._input_at(found.file_offset)
        trial = self._input[begin : min(self._end, begin + _TRIAL_BYTES)]
        data = self._decode_trial(begin + len(trial))
        if self._error is not None:
            return
        window = blocks.window
        if self._recorder is not None and is_block_start(found, trial, window, data):
            self._recorder.add_block(self._stream_offset, found.file_bit, window)
            if self._decoder is None:
                self._correct_last_point()
            self._start = self._recorder.points[-1]
        self._saved = data

    def _decode_trial(self, end: int) -> ByteBuffer:
        """Return all that can be decoded with the input up to an offset."""
        data = bytearray()
        memory = np.empty(_TRIAL_STEP_BYTES, np.uint8)
        while self._decoder is not None and (size := self._inflate(end, memory)):
            data += memory[:size].data
        self._crcs = []  # of the last piece only
        return np.frombuffer(data, np.uint8)

    def _correct_last_point(self) -> None:
        """Correct the seek point inside of a member that has ended, if it is at its last block."""
        recorder = self._recorder
        if recorder is None or not recorder.is_inside:
            return
        end = self._position
        if not self._trailer_bytes:  # the decoder has read the trailer
            end -= _TRAILER_BYTES[self._compression]
        file_bit = find_last_header(self._file, recorder.points[-1].file_bit, end)
        if file_bit is not None:
            recorder.points[-1] = recorder.points[-1]._replace(file_bit=file_bit)

    def _take_saved(self, out: ByteBuffer) -> int:
        size = min(len(out), len(self._saved))
        out[:size] = self._saved[:size]
        self._saved = self._saved[size:]
        return size

    def _decode_before_damage(self) -> bytes:
        """Return the bytes before the damage that were not returned yet.

        The output of a failing call is undefined. So zlib decodes again from the last start on,
        byte by byte in the chunk where it fails.
        """
        if not self._file.is_seekable:
            return b""
        file_at = self._start.file_offset
        skip = self._stream_offset - self._start.stream_offset
        if self._compression == "zstd":
            found, self.damage_offset = decode_before_damage(
                functools.partial(read_bytes, self._file), file_at, skip
            )
            return found
        if self._start.window is None:
            decoder = zlib.decompressobj(WINDOW_BITS[self._compression])
        else:
            bit = self._start.file_bit % 8
            first = read_bytes(self._file, file_at, 1)
            window = unpack_window(self._start.window)
            try:
                decoder = start_decoder(zlib.decompressobj, window, bit, first[0] if first else 0)
            except zlib.error:
                return b""
            file_at += bit > 0
        saved = bytearray()
        while chunk := read_bytes(self._file, file_at, _AGAIN_BYTES):
            before = decoder.copy()
            try:
                data = decoder.decompress(chunk)
            except zlib.error:
                data, good = _decode_bytewise(before, chunk)
                self.damage_offset = file_at + good
                chunk = b""
            file_at += len(chunk)
            saved += data[skip:]
            skip -= min(skip, len(data))
            if not chunk or decoder.eof:
                break
        return bytes(saved)


def _decode_bytewise(decoder: Any, data: bytes) -> tuple[bytes, int]:
    """Return all bytes that a zlib decoder returns before it fails, and how many it can read."""
    out = bytearray()
    for number, byte in enumerate(data):
        try:
            out += decoder.decompress(bytes([byte]))
        except zlib.error:
            return bytes(out), number
    return bytes(out), len(data)
