"""Decompression of files from front to back."""

from __future__ import annotations

import zlib

import numpy as np

from ..errors import CorruptRecordError, TorchRecIOError, TruncatedFileError
from .block_search import BlockSearch
from .byte_source import ByteBuffer, ByteSource
from .compression import Compression, may_start
from .decoder import Decoder, start_inside, start_member, unpack_window
from .seek_points import START, SeekPoint, SeekPointRecorder

# Compressed bytes that are read at once. Each read costs as much as decoding some KiB.
_CHUNK_BYTES = 1 << 18
_SKIPPED_AT_ONCE_BYTES = 1 << 20
# Sizes of reads near damage, when it is searched.
_SMALL_READS = (1 << 8, 1)
# Checksum and size after the deflate stream of a gzip member; checksum after that of a zlib stream.
_TRAILER_BYTES: dict[Compression, int] = {"gzip": 8, "zlib": 4}
# More input than this is never left when more is read: the start of a header, or of a symbol.
_MOST_LEFT_BYTES = 64
_NO_BYTES = np.empty(0, np.uint8)


class Inflater:
    """Decompresses a file from front to back: all members, streams or frames, in order.

    All bytes that can be decoded are returned before an error is raised, but for the last symbols
    before damage or the end of a truncated file: at most 516 bytes. A damaged pipe also loses the
    bytes that would be decoded together with the damage.

    Args:
        file: Compressed file.
        compression: Compression of the file.
        start: Seek point to start at. The checksum of a member that is decoded from its middle on
            is not compared.
        recorder: Chooses seek points on the way. The file must be seekable.
        small_reads: File offset from which on reads are small, and their size.

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
        small_reads: tuple[int, int] | None = None,
    ) -> None:
        self.damage_offset: int | None = None
        self._file = file
        self._compression = compression
        self._start = start  # of the member that is decoded, or the place inside of it
        self._recorder = recorder
        self._input = _NO_BYTES  # memory of compressed bytes
        self._at = self._end = 0  # part of it that was read and not decoded yet
        self._file_offset = start.file_offset  # of the next compressed bytes to read
        self._fed = start.file_offset  # where the last input of the decoder starts
        self._small_reads = small_reads
        self._stream_offset = start.stream_offset  # of the next bytes to return
        self._decoder: Decoder | None = None
        self._has_member = False
        self._trailer_bytes = 0  # of a member that is decoded from its middle on
        self._error: TorchRecIOError | None = None
        self._saved = _NO_BYTES  # decoded bytes that come before the error
        window = b"" if start.window is None else self._begin_inside(start, start.window)
        self._blocks: BlockSearch | None = None
        if recorder is not None and recorder.finds_blocks and compression != "zstd":
            self._blocks = BlockSearch(recorder, window)

    @property
    def file_bytes_read(self) -> int:
        """File offset up to which compressed bytes were read."""
        return self._file_offset

    @property
    def member_offset(self) -> int:
        """File offset of the member that is decoded, or of what follows the last one."""
        return self._position if self._decoder is None else self._start.file_offset

    @property
    def sound_end(self) -> int:
        """Stream offset where the members end that were decoded to their ends without an error."""
        return self._stream_offset if self._decoder is None else self._start.stream_offset

    def read_into(self, out: ByteBuffer) -> int:
        """Fill ``out`` with at least one decoded byte; return their number, 0 at the end.

        What follows the decoded bytes in ``out`` is undefined.

        Raises:
            TruncatedFileError: If the file ends inside a compressed stream.
            CorruptRecordError: If the stream is damaged, or followed by other bytes.
        """
        while True:
            if self._error is not None:
                size = self._take_saved(out)
                if not size:
                    raise self._error
            elif self._decoder is None and not self._begin_member():
                return 0
            else:
                try:
                    size = self._decode(out)
                except zlib.error as error:
                    self._note_damage(str(error), len(out))
                    continue
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
        memory = np.empty(min(count, _SKIPPED_AT_ONCE_BYTES), np.uint8)
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
        if self._blocks is not None:
            self._blocks.add_data(self._stream_offset, data)
        if self._recorder is not None:
            self._recorder.add_data(self._stream_offset, data.data)
        self._stream_offset += len(data)

    # ---- input ----

    @property
    def _position(self) -> int:
        """File offset of the next compressed byte to decode."""
        return self._file_offset - (self._end - self._at)

    def _continue(self) -> bool:
        """Supply more input; return False at the end of the file."""
        if self._blocks is not None and self._blocks.has_candidate:
            self._blocks.try_candidate(self._input[: self._end], self._file_offset - self._end)
            return True
        return self._fill()

    def _fill(self) -> bool:
        """Read more of the file; return False at its end."""
        if len(self._input) == 0:
            self._input = np.empty(_CHUNK_BYTES + _MOST_LEFT_BYTES, np.uint8)
        left = self._end - self._at
        self._input[:left] = self._input[self._at : self._end]
        self._at, self._end = 0, left
        room = len(self._input) - left
        if self._small_reads is not None:
            begin, size = self._small_reads
            room = min(room, max(size, begin - self._file_offset))
        size = self._file.read_into(self._file_offset, self._input[left : left + room].data)
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

    def _begin_inside(self, start: SeekPoint, packed: bytes) -> bytes:
        """Start decoding inside a member; return the bytes of the stream before that."""
        try:
            window = unpack_window(packed)
        except zlib.error:
            raise CorruptRecordError(
                "a seek point of the index is damaged: build the index again",
                path=self._file.path,
                offset=start.stream_offset,
            ) from None
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
        return window

    def _begin_member(self) -> bool:
        """Start decoding the next member; return False at the end of the file."""
        if self._blocks is not None:
            read_trailer = 0 if self._trailer_bytes else _TRAILER_BYTES[self._compression]
            self._blocks.end_member(self._file, self._position - read_trailer)
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
        if self._recorder is not None:
            self._recorder.add_start(self._stream_offset, self._position)
        self._decoder = start_member(self._compression)
        return True

    def _find_header_fault(self, head: bytes) -> str | None:
        """Return the fault of a header that the decoder accepts or describes badly."""
        if not may_start(self._compression, head):
            if self._has_member:
                return f"stray bytes follow the last {self._compression} stream"
            return f"the {self._compression} stream is damaged: its header is invalid"
        # RFC 1952, section 2.3.1.2: a reserved flag is an error.
        if self._compression == "gzip" and len(head) > 3 and head[3] & 0xE0:
            return "the gzip header has a reserved flag set"
        # RFC 1950, section 2.2: the dictionary would have to be known.
        if self._compression == "zlib" and len(head) > 1 and head[1] & 0x20:
            return "the zlib stream needs a dictionary"
        return None

    # ---- decoding ----

    def _decode(self, out: ByteBuffer) -> int:
        """Decode some of the input; return the number of decoded bytes."""
        assert self._decoder is not None
        end = self._end
        if self._blocks is not None:
            data = self._input[self._at : end]
            size, most = self._blocks.limit(data, self._position, self._stream_offset)
            end, out = self._at + size, out[:most]
        if self._at < end:
            self._fed = self._position
        consumed, produced = self._decoder.decode(self._input[self._at : end], out)
        self._advance(consumed)
        if self._decoder.is_done:
            self._decoder = None
        return produced

    def _take_saved(self, out: ByteBuffer) -> int:
        size = min(len(out), len(self._saved))
        out[:size] = self._saved[:size]
        self._saved = self._saved[size:]
        return size

    def _note_damage(self, reason: str, wanted: int) -> None:
        """Prepare the error of damage, and the bytes before it that were not returned yet.

        The output of a failing call is undefined. So they are decoded again from the last start on,
        with little input at a time near the damage.
        """
        start = self._start
        for point in () if self._recorder is None else self._recorder.points[-1:]:
            if start.stream_offset < point.stream_offset <= self._stream_offset:
                start = point
        near = self._fed
        for size in _SMALL_READS if self._file.is_seekable else ():
            again = Inflater(self._file, self._compression, start, small_reads=(near, size))
            self._saved = again._decode_to_damage(self._stream_offset - start.stream_offset, wanted)
            near, self.damage_offset = again._fed, again._file_offset - 1
        self._error = CorruptRecordError(
            f"the {self._compression} stream is damaged: {reason}",
            path=self._file.path,
            offset=self._stream_offset + len(self._saved),
        )

    def _decode_to_damage(self, skip: int, wanted: int) -> ByteBuffer:
        """Return what can be decoded of a member.

        Args:
            skip: Number of first bytes to leave out.
            wanted: Number of bytes that a reader wants. Damage after them loses none of these.
        """
        if self._decoder is None:
            self._begin_member()
        found = bytearray()
        memory = np.empty(_CHUNK_BYTES, np.uint8)
        left = skip + wanted
        try:
            while self._decoder is not None:
                size = self._decode(memory[:left] if left > 0 else memory)
                left -= size
                found += memory[skip:size].data
                skip -= min(skip, size)
                if not size and self._decoder is not None and not self._fill():
                    break
        except zlib.error:
            pass
        return np.frombuffer(found, np.uint8)
