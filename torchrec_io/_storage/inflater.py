"""The decompressed content of a compressed file, read from front to back."""

from __future__ import annotations

import re

import numpy as np

from ..errors import CorruptRecordError, TorchRecIOError, TruncatedFileError
from .block_search import BlockSearch
from .byte_source import ByteSource, DecodedStream, Ints, read_bytes
from .compression import Compression, may_start
from .decoder import DECODE_ERRORS, Decoder, start_inside, start_member, unpack_window
from .deflate_start import lead_in
from .seek_points import START, SeekPoint, SeekPointRecorder

# Compressed bytes that a decoder gets at once. With fewer, threads pass the interpreter on more
# often. If they are damaged, the decoder gets them again one by one.
_INPUT_BYTES = 1 << 17
# Decoded bytes that a decoder returns at once. Larger results take longer for each byte.
_OUTPUT_BYTES = 1 << 20
# Decoded bytes that are read and kept for readers of ranges.
_READ_BYTES = 1 << 18
_KEPT_BYTES = 1 << 12
# Larger gzip headers are an error. Those of encoders have a file name at most.
_MOST_HEADER_BYTES = 1 << 20
# Checksum and size after the deflate stream of a gzip member; checksum after that of a zlib stream.
_TRAILER_BYTES: dict[Compression, int] = {"gzip": 8, "zlib": 4}


class Inflater(DecodedStream):
    """Decompresses a file from front to back: all members, streams or frames, in order.

    As a byte source, it is read forwards by one thread, with :meth:`read_into` or :meth:`read`.
    Only the last bytes are kept, so that a reader can go back to the start of a record.

    All bytes that can be decoded are returned before an error is raised, but for the last symbols
    before damage or the end of a truncated file: at most 516 bytes. A damaged pipe also loses the
    bytes that would be decoded together with the damage.

    Args:
        file: Compressed file.
        compression: Compression of the file.
        start: Seek point to start at. The checksum of a member that is decoded from its middle on
            is not compared.
        recorder: Chooses seek points on the way. The file must be seekable.

    Attributes:
        damage_offset: File offset of the first byte that could not be decoded, once it is known.

    Raises:
        CorruptRecordError: If the window of the start is damaged.
    """

    def __init__(
        self,
        file: ByteSource,
        compression: Compression,
        start: SeekPoint = START,
        recorder: SeekPointRecorder | None = None,
    ) -> None:
        self.path = file.path
        self.stamp = file.stamp
        self.is_seekable = file.is_seekable
        self.file_watch = file.file_watch
        self._file = file
        self._recent = b""  # the last bytes that read_into() has read
        self.damage_offset: int | None = None
        self._compression = compression
        self._recorder = recorder
        self._search: BlockSearch | None = None
        if recorder is not None and compression != "zstd":
            self._search = BlockSearch(recorder)
        self._start = start  # of the member that is decoded, or the place inside of it
        self._stream_offset = start.stream_offset  # of the next bytes to return
        self._input = memoryview(b"")  # compressed bytes that the decoder did not get yet
        self._file_offset = start.file_offset  # of the next compressed bytes to read
        self._last_input = range(0)  # file offsets of the last input of the decoder
        self._one_by_one = range(0)  # file offsets of bytes that the decoder gets one by one
        self._returned_before = 0  # next bytes of the decoder that were returned already
        self._decoder: Decoder | None = None
        self._has_member = False
        self._header_bytes = 0  # of a gzip member whose decoder has no input yet
        self._trailer_bytes = 0  # of a member that is decoded from its middle on
        self._error: TorchRecIOError | None = None
        if start.window is not None:
            self._begin_inside(start, start.window)

    @property
    def decoded(self) -> int:
        return self._stream_offset

    @property
    def file_bytes_read(self) -> int:
        return self._file_offset

    @property
    def member_offset(self) -> int:
        """File offset of the member that is decoded; after the last one, the offset of its end."""
        return self._position if self._decoder is None else self._start.file_offset

    @property
    def valid_end(self) -> int:
        return self._stream_offset if self._decoder is None else self._start.stream_offset

    def read_into(self, offset: int, out: memoryview) -> int:
        if offset < self._stream_offset - len(self._recent):
            raise ValueError(f"a compressed file is read from front to back, got offset {offset}")
        done = 0
        try:
            while True:
                at = offset + done - self._stream_offset + len(self._recent)
                found = memoryview(self._recent)[at : at + len(out) - done]
                out[done : done + len(found)] = found
                done += len(found)
                # The writer of a pipe may send more only later.
                is_done = done == len(out) or (done > 0 and not self.is_seekable)
                if is_done or not (data := self.read(_READ_BYTES)):
                    break
                self._recent = self._recent[-_KEPT_BYTES:] + data
        except TorchRecIOError:
            if not done:
                raise
        return done

    def drop_kept(self, ranges: Ints) -> bool:
        del ranges
        assert self._file.size is not None  # pipes have no caches
        return self._file.drop_kept(np.array([(0, self._file.size, 0)]))

    def close(self) -> None:
        self._file.close()
        self.file_watch = None

    def read(self, most: int) -> bytes:
        """Return at least one decoded byte, and at most some; none at the end of the file.

        Args:
            most: Largest number of bytes to return, at least 1.

        Raises:
            TruncatedFileError: If the file ends inside a compressed stream.
            CorruptRecordError: If the stream is damaged, or followed by other bytes.
        """
        if self._error is not None:
            raise self._error
        data = b""
        try:
            while not data and (self._decoder is not None or self._begin_member()):
                data = self._decode(most)
        except TorchRecIOError as error:
            self._error = error
            raise
        if self._search is not None:
            self._search.add_data(self._stream_offset, data)
        if self._recorder is not None:
            self._recorder.add_data(data)
        self._stream_offset += len(data)
        return data

    def skip(self, count: int) -> None:
        """Decode bytes and drop them, up to the end of the stream."""
        while count and (data := self.read(count)):
            count -= len(data)

    # ---- input ----

    @property
    def _position(self) -> int:
        """File offset of the next compressed byte that the decoder gets."""
        return self._file_offset - len(self._input)

    def _peek(self, count: int) -> bytes:
        """Return the next bytes of the input; fewer at the end of the file."""
        while len(self._input) < count:
            data = read_bytes(self._file, self._file_offset, _INPUT_BYTES)
            if not data:
                break
            self._file_offset += len(data)
            self._input = memoryview(bytes(self._input) + data)
        return bytes(self._input[:count])

    def _skip_zeros(self) -> None:
        while (head := self._peek(1)) == b"\0":
            self._input = memoryview(bytes(self._input).lstrip(head))

    def _next_input(self) -> memoryview:
        """Return the next input of the decoder, which is empty at the end of the file."""
        self._peek(1)
        at, size = self._position, len(self._input)
        if self._header_bytes:
            size, self._header_bytes = self._header_bytes, 0
        elif at in self._one_by_one:
            size = min(size, 1)
        elif at < self._one_by_one.start:
            size = min(size, self._one_by_one.start - at)
        elif self._search is not None and size:
            size = self._search.limit(self._input, at, self._stream_offset)
        data, self._input = self._input[:size], self._input[size:]
        self._last_input = range(at, at + size)
        return data

    # ---- members ----

    def _begin_inside(self, start: SeekPoint, packed: bytes) -> None:
        """Start decoding inside a member."""
        try:
            self._decoder = start_inside(unpack_window(packed))
        except DECODE_ERRORS:
            raise CorruptRecordError(
                "a seek point of the index is damaged: build the index again",
                path=self._file.path,
                offset=start.stream_offset,
            ) from None
        bit = start.file_bit % 8
        first = self._peek(1)
        if bit and first:
            self._input = memoryview(lead_in(bit, first[0]) + self._input[1:])
        self._has_member = True
        self._trailer_bytes = _TRAILER_BYTES[self._compression]

    def _begin_member(self) -> bool:
        """Start decoding the next member; return False at the end of the file."""
        if self._search is not None and self._has_member:
            self._search.end_member(self._file, self._position - _TRAILER_BYTES[self._compression])
        self._input = self._input[len(self._peek(self._trailer_bytes)) :]
        self._trailer_bytes = 0
        if self._has_member and self._compression != "zstd":
            self._skip_zeros()  # padding after a member, as for gzip(1)
        head = self._peek(4)
        if not head:
            return False
        fault = self._find_header_fault(head)
        if fault is not None:
            raise CorruptRecordError(fault, path=self._file.path, offset=self._stream_offset)
        self._has_member = True
        self._start = SeekPoint(self._stream_offset, 8 * self._position)
        if self._recorder is not None:
            self._recorder.add_start(self._stream_offset, self._position)
        self._start_member()
        return True

    def _start_member(self) -> None:
        self._decoder = start_member(self._compression)
        if self._compression != "gzip":
            return
        # ISA-L gets the header at once, because it misreads one that comes in parts.
        count = 10
        while (size := _gzip_header_bytes(self._peek(count))) is None and len(self._input) >= count:
            count *= 4
            if count > _MOST_HEADER_BYTES:
                raise CorruptRecordError(
                    "the gzip stream is damaged: its header is too long",
                    path=self._file.path,
                    offset=self._stream_offset,
                )
        self._header_bytes = len(self._input) if size is None else size

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

    def _decode(self, most: int) -> bytes:
        """Decode some of the input; return new bytes of the stream, which may be none."""
        assert self._decoder is not None
        data = self._next_input() if self._decoder.needs_input else memoryview(b"")
        if self._decoder.needs_input and not len(data):
            raise TruncatedFileError(
                f"the file ends inside a {self._compression} stream",
                path=self._file.path,
                offset=self._stream_offset,
            )
        try:
            size = min(max(most, self._returned_before), _OUTPUT_BYTES)
            decoded = self._decoder.decompress(data, size)
        except DECODE_ERRORS as error:
            self._come_to_damage(_reason_of(error))
            return b""
        if self._decoder.eof:
            self._input = memoryview(self._decoder.unused_data + self._input)
            self._decoder = None
        known = min(self._returned_before, len(decoded))
        self._returned_before -= known
        return decoded[known:]

    def _come_to_damage(self, reason: str) -> None:
        """Decode again, to return all bytes before damage.

        A decoder that fails returns nothing of its last input. So decoding starts again, and the
        decoder gets the bytes of that input one by one.

        Raises:
            CorruptRecordError: If the bytes before the damage were returned.
        """
        if self._file.is_seekable and not self._one_by_one:
            self._one_by_one = self._last_input
            self._returned_before = self._stream_offset - self._start.stream_offset
            self._search = None
            self._input, self._file_offset = memoryview(b""), self._start.file_offset
            if self._start.window is None:
                self._start_member()
            else:
                self._begin_inside(self._start, self._start.window)
            return
        if self._file.is_seekable:
            self.damage_offset = self._last_input.start
        raise CorruptRecordError(
            f"the {self._compression} stream is damaged: {reason}",
            path=self._file.path,
            offset=self._stream_offset,
        )


def _reason_of(error: Exception) -> str:
    """Return the message of an error of a decoder without the number that ISA-L puts before it."""
    reason = re.sub(r"^Error -?\d+ ", "", str(error))
    return reason[:1].lower() + reason[1:]


def _gzip_header_bytes(head: bytes) -> int | None:
    """Return the size of a gzip header (RFC 1952); None if it does not end in the given bytes."""
    size, flags = 10, head[3] if len(head) > 3 else 0
    if flags & 4:  # an extra field
        size += 2 + int.from_bytes(head[10:12], "little")
    for flag in (8, 16):  # a name and a comment, which end with a zero
        if flags & flag:
            size = head.find(b"\0", size) + 1 or len(head) + 1
    size += flags & 2  # a checksum
    return size if size <= len(head) else None
