"""Reading of the records of a file from front to back, without an index, in bounded memory."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .. import _core
from ..errors import (
    CorruptRecordError,
    RecordTooLargeError,
    TorchRecIOError,
    TruncatedFileError,
)
from ..storage.byte_source import ByteBuffer, ByteSource, Ints, Offsets
from ..storage.compression import CompressionChoice
from ..storage.local import StrPath
from ..storage.location import Location
from .formats import TFRECORD, Fault, FrameFault
from .record_size import MAX_RECORD_BYTES, too_large
from .stream_window import StreamWindow


@dataclass(frozen=True)
class FrameBlock:
    """Whole frames that follow each other.

    Attributes:
        buffer: Buffer with the frames, valid until the next block is requested; uint8.
        offset: Stream offset of the first frame.
        first: Number of the first record.
        starts: Offset of each frame in ``buffer``; int64 ``[n]``.
        lengths: Size of each record's data in bytes; int64 ``[n]``.
        faults: Position, error class and reason of each damaged record.
        file_bytes_read: Number of bytes of the file read so far.
        too_large: Error of a record that follows these frames and is not read, as it is too large.
        too_large_bytes: Size of its frame in bytes.
    """

    buffer: ByteBuffer
    offset: int
    first: int
    starts: Ints
    lengths: Ints
    faults: Sequence[Fault]
    file_bytes_read: int
    too_large: RecordTooLargeError | None = None
    too_large_bytes: int = 0

    def __len__(self) -> int:
        return len(self.starts)

    def records(self, stop: int) -> Iterator[tuple[int, bytes]]:
        """Yield stream offset of the frame, and data, of the records before position ``stop``."""
        data = memoryview(self.buffer.data)
        for start, length in zip(
            self.starts[:stop].tolist(), self.lengths[:stop].tolist(), strict=True
        ):
            begin = start + TFRECORD.header_bytes
            yield self.offset + start, bytes(data[begin : begin + length])

    def errors(self, path: str) -> list[TorchRecIOError]:
        """Return an error for each damaged record, and for one that is too large."""
        damaged = [
            error_class(
                reason,
                path=path,
                record=self.first + position,
                offset=self.offset + int(self.starts[position]),
            )
            for position, error_class, reason in self.faults
        ]
        return damaged if self.too_large is None else [*damaged, self.too_large]


def iter_records(
    path: StrPath,
    *,
    compression: CompressionChoice = "auto",
    verify_crc: bool = True,
    max_record_bytes: int = MAX_RECORD_BYTES,
) -> Iterator[tuple[int, bytes]]:
    """Iterate over the records of a TFRecord file, from the first.

    Args:
        path: Data file, or a pipe such as ``/dev/stdin``.
        compression: Compression of the file: ``"auto"`` (by content), None, ``"gzip"``,
            ``"zlib"`` or ``"zstd"``.
        verify_crc: Whether checksums are compared, those of lengths and of data.
        max_record_bytes: Largest size of a record in bytes.

    Yields:
        Offset of the record's frame in the file, or in its decompressed stream; and its data.

    Raises:
        CorruptRecordError: If the next record, or the compressed stream at that point, is damaged.
        RecordTooLargeError: If the next record is too large.
        TruncatedFileError: If the file ends inside the next record.
        FileNotFoundError, IsADirectoryError: If there is no such file.
    """
    # Closed at once, so that the writer of a pipe is notified.
    with contextlib.closing(Location.of(path).open_stream(compression)) as source:
        blocks = iter_blocks(source, verify_crc=verify_crc, max_record_bytes=max_record_bytes)
        for block in blocks:
            if block.faults:
                yield from block.records(block.faults[0][0])
                raise block.errors(source.path)[0]
            yield from block.records(len(block))
            if block.too_large is not None:
                raise block.too_large


def iter_valid_records(path: StrPath) -> Iterator[tuple[int, bytes]]:
    """Iterate over the undamaged records of a TFRecord file.

    Args:
        path: Data file.

    Yields:
        The same as :func:`iter_records`, up to the point where no further record can be found.
    """
    with (
        contextlib.suppress(CorruptRecordError, TruncatedFileError),
        contextlib.closing(Location.of(path).open_stream()) as source,
    ):
        for block in iter_blocks(source):
            damaged = {position for position, _, _ in block.faults}
            for position, record in enumerate(block.records(len(block))):
                if position not in damaged:
                    yield record


def iter_blocks(
    source: ByteSource,
    *,
    start: int = 0,
    first: int = 0,
    verify_crc: bool = True,
    checks_data: bool = True,
    max_record_bytes: int = MAX_RECORD_BYTES,
) -> Iterator[FrameBlock]:
    """Iterate over the frames of a stream, about a MiB at a time.

    A larger frame makes a block of its own. The frame of a record that is too large is skipped.

    Args:
        source: Stream to read.
        start: Stream offset of a frame, to start from.
        first: Number of the record at that offset.
        verify_crc: Whether checksums are compared, those of lengths and of data.
        checks_data: Whether those of data are, too; False if the caller does that.
        max_record_bytes: Largest size of a record in bytes.

    Raises:
        CorruptRecordError, TruncatedFileError: If the start or the end of the next record cannot be
            found. The error has its number and offset.
    """
    window = StreamWindow(source, start)
    max_frame_bytes = max_record_bytes + TFRECORD.overhead_bytes
    count = first
    while True:
        scan = _core.scan_frames(window.content, window.at, window.stream_end, verify_crc)
        starts, following, fault = scan.starts, scan.next, scan.fault
        ends = np.append(starts, np.uint64(following))[1:]
        whole = int(np.searchsorted(ends, window.at + len(window.content), side="right"))
        sizes = ends - starts
        allowed = len(starts)
        if allowed and int(sizes.max()) > max_frame_bytes:
            allowed = int(np.argmax(sizes > max_frame_bytes))
        whole = min(whole, allowed)
        if whole:
            yield _block(window, starts[:whole], ends[:whole], count, verify_crc and checks_data)
            count += whole
            window.drop(int(ends[whole - 1]) - window.at)
            continue
        if allowed < len(starts):
            start, size = window.at, int(sizes[0])
            if not verify_crc:  # what a file of another format starts with is no length
                past_end = FrameFault.past_end
                foreign = TFRECORD.error_of(past_end, source.path, start, window.content)
                if isinstance(foreign, CorruptRecordError):
                    foreign.record = count
                    raise foreign
            yield _too_large(window, size, count, max_record_bytes)
            if not window.skip(size):
                raise _error_past_end(window, start, count)
            count += 1
            continue
        need = following - window.at if len(starts) else TFRECORD.header_bytes
        if fault is not None or not window.fill(need):
            end_fault = FrameFault.past_end if len(starts) else FrameFault.truncated_header
            error = _error_at_end(window, fault or end_fault)
            if error is None:
                return
            error.record = count
            raise error


def _too_large(window: StreamWindow, size: int, first: int, max_record_bytes: int) -> FrameBlock:
    """Return a block without frames, with the error of the record that follows."""
    error = too_large(
        size - TFRECORD.overhead_bytes,
        max_record_bytes,
        path=window.source.path,
        record=first,
        offset=window.at,
    )
    none = np.empty(0, np.uint64)
    block = _block(window, none, none, first, verify_crc=False)
    return dataclasses.replace(block, too_large=error, too_large_bytes=size)


def _error_past_end(window: StreamWindow, offset: int, record: int) -> TorchRecIOError:
    """Return why the stream ends inside a record that is skipped."""
    error = window.damage
    if error is None:
        error = TFRECORD.error_of(FrameFault.past_end, window.source.path, offset)
    error.record = record
    return error


def _block(
    window: StreamWindow, starts: Offsets, ends: Offsets, first: int, verify_crc: bool
) -> FrameBlock:
    content = window.content
    starts_inside = (starts - np.uint64(window.at)).astype(np.int64)
    lengths = (ends - starts).astype(np.int64) - TFRECORD.overhead_bytes
    faults = TFRECORD.check(content, starts_inside, lengths, verify_crc)
    return FrameBlock(
        content, window.at, first, starts_inside, lengths, faults, window.file_bytes_read
    )


def _error_at_end(window: StreamWindow, fault: FrameFault) -> TorchRecIOError | None:
    """Return why no frame follows; None if the stream ends after a whole frame."""
    if fault is not FrameFault.length_crc and window.damage is not None:
        return window.damage
    if len(window.content) == 0:
        return None
    return TFRECORD.error_of(fault, window.source.path, window.at, window.content)
