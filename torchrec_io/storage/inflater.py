"""Decompression of files from front to back."""

from __future__ import annotations

import zlib
from typing import Any, cast

from isal import igzip_lib, isal_zlib

from ..errors import CorruptRecordError, TorchRecIOError, TruncatedFileError
from .block_search import BlockSearch, find_last_header, is_block_start
from .byte_source import ByteSource
from .compression import (
    WINDOW_BITS,
    Compression,
    is_gzip_magic,
    is_zlib_header,
    is_zlib_method,
    may_be_zstd_magic,
)
from .deflate_start import start_decoder
from .seek_points import START, SeekPoint, SeekPointRecorder, unpack_window
from .zstd import ZstdDecoder, decode_before_damage

# The isal package's stubs declare its error class as an instance.
_INFLATE_ERRORS = (cast("type[Exception]", igzip_lib.IsalError), zlib.error)
# Compressed bytes that are read at once: few, so that seek points are near where they are due and
# little is decoded again to find damage; where seek points are known, more, so that threads wait
# for each other less often.
_CHUNK_BYTES = 1 << 16
_LARGE_CHUNK_BYTES = 1 << 18
_UNLIMITED = 0
# Bytes after a candidate for a seek point that are decoded from it, to find out whether it is one.
_TRIAL_BYTES = 1 << 13
# Checksum and size after the deflate stream of a gzip member; checksum after that of a zlib stream.
_TRAILER_BYTES: dict[Compression, int] = {"gzip": 8, "zlib": 4}


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
    ) -> None:
        self.damage_offset: int | None = None
        self._file = file
        self._compression = compression
        self._start = start  # the last place where decoding could start again
        self._recorder = recorder
        self._file_offset = start.file_offset  # of the next compressed bytes to read
        self._stream_offset = start.stream_offset  # of the next bytes to return
        self._pending = b""  # compressed bytes that were read and not yet decoded
        self._decoder: Any = None
        self._has_member = False
        self._trailer_bytes = 0  # of a member that is decoded from its middle on
        self._error: TorchRecIOError | None = None
        self._saved = b""  # decoded bytes that come before the error, or before those to decode
        finds_blocks = recorder is not None and recorder.finds_blocks and compression != "zstd"
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
        if self._decoder is None:
            return self._file_offset - len(self._pending)
        return self._start.file_offset

    @property
    def stream_start(self) -> int:
        """Stream offset of the start of the member that is decoded, or of what follows the last."""
        return self._stream_offset if self._decoder is None else self._start.stream_offset

    def read(self, size: int) -> bytes:
        """Return between 1 and ``size`` decoded bytes; ``b""`` at the end of the file.

        Raises:
            TruncatedFileError: If the file ends inside a compressed stream.
            CorruptRecordError: If the stream is damaged, or followed by other bytes.
        """
        while True:
            if self._saved:
                data = self._take_saved(size)
            elif self._error is not None:
                raise self._error
            elif self._decoder is None and not self._begin_member():
                return b""
            else:
                data = self._decode(size)
            if data:
                self._note(data)
                return data
            # The decoder gets more input only once it has returned all that it buffers.
            if self._decoder is not None and self._error is None and not self._continue():
                self._error = TruncatedFileError(
                    f"the file ends inside a {self._compression} stream",
                    path=self._file.path,
                    offset=self._stream_offset,
                )

    def detach(self) -> None:
        """Release the file. Reading continues after :meth:`attach`."""
        del self._file

    def attach(self, file: ByteSource) -> None:
        """Continue with a file that was opened again."""
        self._file = file

    def _note(self, data: bytes) -> None:
        """Take note of bytes that are returned."""
        if self._recorder is not None:
            self._recorder.add_data(self._stream_offset, data)
        if self._blocks is not None:
            self._blocks.add_data(data)
        self._stream_offset += len(data)

    def _continue(self) -> bool:
        """Supply more input; return False at the end of the file."""
        if self._blocks is not None and self._blocks.has_candidate:
            self._try_block(self._blocks)
            return True
        return self._fill()

    def _fill(self) -> bool:
        """Read more of the file; return False at its end."""
        size = _LARGE_CHUNK_BYTES if self._recorder is None else _CHUNK_BYTES
        data = self._file.read(self._file_offset, size)
        self._file_offset += len(data)
        self._pending += data
        return len(data) > 0

    def _begin_inside(self, start: SeekPoint) -> None:
        """Start decoding inside a member."""
        try:
            window = unpack_window(start.window or b"")
        except _INFLATE_ERRORS:
            raise CorruptRecordError(
                "a seek point of the index is damaged: build the index again",
                path=self._file.path,
                offset=start.stream_offset,
            ) from None
        if self._blocks is not None:
            self._blocks.add_data(window)
        self._fill()
        bit = start.file_bit % 8
        try:
            self._decoder = start_decoder(
                isal_zlib.decompressobj, window, bit, self._pending[0] if self._pending else 0
            )
        except _INFLATE_ERRORS as error:  # the byte has the first bits of a block
            raise CorruptRecordError(
                f"the {self._compression} stream is damaged: {error}",
                path=self._file.path,
                offset=start.stream_offset,
            ) from None
        self._pending = self._pending[bit > 0 :]
        self._has_member = True
        self._trailer_bytes = _TRAILER_BYTES[self._compression]

    def _begin_member(self) -> bool:
        """Start decoding the next member; return False at the end of the file."""
        while len(self._pending) < self._trailer_bytes and self._fill():
            pass
        self._pending = self._pending[self._trailer_bytes :]
        self._trailer_bytes = 0
        # Zeros after a member are padding, as for gzip(1).
        padding = b"\0" if self._has_member and self._compression != "zstd" else b""
        self._pending = self._pending.lstrip(padding)
        while len(self._pending) < 4 and self._fill():
            self._pending = self._pending.lstrip(padding)
        if not self._pending:
            return False
        fault = self._find_header_fault()
        if fault is not None:
            self._error = CorruptRecordError(
                fault, path=self._file.path, offset=self._stream_offset
            )
            raise self._error
        self._has_member = True
        file_offset = self._file_offset - len(self._pending)
        self._start = SeekPoint(self._stream_offset, 8 * file_offset)
        if self._recorder is not None:
            self._recorder.add_start(self._stream_offset, file_offset)
        self._decoder = (
            ZstdDecoder()
            if self._compression == "zstd"
            else isal_zlib.decompressobj(WINDOW_BITS[self._compression])
        )
        return True

    def _find_header_fault(self) -> str | None:
        """Return the fault of a header that the decoder accepts or describes badly."""
        if self._has_member and not self._is_member():
            return f"stray bytes follow the last {self._compression} stream"
        # RFC 1952, section 2.3.1.2: a reserved flag is an error.
        if self._compression == "gzip" and len(self._pending) > 3 and self._pending[3] & 0xE0:
            return "the gzip header has a reserved flag set"
        # RFC 1950, section 2.2: larger windows than 32 KiB are not allowed.
        if self._compression == "zlib" and self._pending[0] >> 4 > 7:
            return "the zlib header has an invalid window size"
        return None

    def _is_member(self) -> bool:
        """Return whether the pending bytes start a member, as far as they go."""
        if self._compression == "zstd":
            return may_be_zstd_magic(self._pending)
        if len(self._pending) == 1:
            first = self._pending[0]
            return first == 0x1F if self._compression == "gzip" else is_zlib_method(first)
        is_header = is_gzip_magic if self._compression == "gzip" else is_zlib_header
        return is_header(self._pending)

    def _decode(self, size: int) -> bytes:
        chunk, self._pending = self._pending, b""
        if self._blocks is not None and self._recorder is not None:
            file_offset = self._file_offset - len(chunk)
            if self._recorder.is_due(self._stream_offset, file_offset):
                chunk = self._blocks.cut(chunk, file_offset)
        return self._inflate(chunk, size)

    def _inflate(self, chunk: bytes, size: int) -> bytes:
        """Decode some input; what is left of it precedes the pending input."""
        try:
            data: bytes = self._decoder.decompress(chunk, size)
        except _INFLATE_ERRORS as error:
            self._error = CorruptRecordError(
                f"the {self._compression} stream is damaged: {error}", path=self._file.path
            )
            self._saved = self._decode_before_damage()
            self._error.offset = self._stream_offset + len(self._saved)
            return b""
        if self._decoder.eof:
            following = b"" if self._blocks is None else self._blocks.give_up()
            self._pending = self._decoder.unused_data + following + self._pending
            self._decoder = None
            self._correct_last_point()
        else:
            self._pending = self._decoder.unconsumed_tail + self._pending
        return data

    def _try_block(self, blocks: BlockSearch) -> None:
        """Decode what follows a candidate; record it if it is the start of a block."""
        found, following = blocks.take()
        trial, self._pending = following[:_TRIAL_BYTES], following[_TRIAL_BYTES:]
        data = self._inflate(trial, _UNLIMITED)
        if self._error is not None:
            return
        window = blocks.window
        if self._recorder is not None and is_block_start(found, trial, window, data):
            self._recorder.add_block(self._stream_offset, found.file_bit, window)
            if self._decoder is None:
                self._correct_last_point()
            self._start = self._recorder.points[-1]
        self._saved = data

    def _correct_last_point(self) -> None:
        """Correct the seek point inside of a member that has ended, if it is at its last block."""
        recorder = self._recorder
        if recorder is None or not recorder.is_inside:
            return
        end = self._file_offset - len(self._pending)
        if not self._trailer_bytes:  # the decoder has read the trailer
            end -= _TRAILER_BYTES[self._compression]
        file_bit = find_last_header(self._file, recorder.points[-1].file_bit, end)
        if file_bit is not None:
            recorder.points[-1] = recorder.points[-1]._replace(file_bit=file_bit)

    def _take_saved(self, size: int) -> bytes:
        data, self._saved = self._saved[:size], self._saved[size:]
        return data

    def _decode_before_damage(self) -> bytes:
        """Return the bytes before the damage that were not returned yet.

        The fast decoder drops the output of a failing call. So zlib decodes again from the last
        start on, byte by byte in the chunk where it fails.
        """
        if not self._file.is_seekable:
            return b""
        file_at = self._start.file_offset
        skip = self._stream_offset - self._start.stream_offset
        if self._compression == "zstd":
            found, self.damage_offset = decode_before_damage(self._file.read, file_at, skip)
            return found
        if self._start.window is None:
            decoder = zlib.decompressobj(WINDOW_BITS[self._compression])
        else:
            bit = self._start.file_bit % 8
            first = self._file.read(file_at, 1)
            window = unpack_window(self._start.window)
            try:
                decoder = start_decoder(zlib.decompressobj, window, bit, first[0] if first else 0)
            except zlib.error:
                return b""
            file_at += bit > 0
        saved = bytearray()
        while chunk := self._file.read(file_at, _CHUNK_BYTES):
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
