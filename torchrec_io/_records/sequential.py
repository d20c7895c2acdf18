"""Reading of the records of a file from front to back, without an index, in bounded memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from .. import _core
from .._storage.byte_source import ByteSource
from .._storage.compression import CompressionChoice
from .._storage.local import StrPath
from .._storage.location import Location
from ..errors import CorruptRecordError
from .formats import TFRECORD, FrameFault
from .record_block import RecordBlock
from .record_size import MAX_RECORD_BYTES, too_large
from .scanned_block import Gap, ScannedBlock, raise_at_gaps
from .stream_window import UNKNOWN_END, StreamWindow


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
        for block in raise_at_gaps(blocks):
            yield from block.records()


def iter_blocks(
    source: ByteSource,
    *,
    start: int = 0,
    end: int = UNKNOWN_END,
    first: int = 0,
    verify_crc: bool = True,
    checks_data: bool = True,
    max_record_bytes: int = MAX_RECORD_BYTES,
) -> Iterator[ScannedBlock]:
    """Iterate over the records of a stream, about a MiB at a time.

    A larger record makes a block of its own. One that is damaged or too large is a gap.

    Args:
        source: Stream to read.
        start: Stream offset of a frame, to start from.
        end: Stream offset after the last frame.
        first: Number of the record at that offset.
        verify_crc: Whether checksums are compared, those of lengths and of data.
        checks_data: Whether those of data are, too; False if the caller does that.
        max_record_bytes: Largest size of a record in bytes.

    Raises:
        CorruptRecordError, TruncatedFileError: If the start or the end of the next record cannot be
            found. The error has its number and offset.
    """
    window = StreamWindow(source, start, end)
    max_frame_bytes = max_record_bytes + TFRECORD.overhead_bytes
    past_end = FrameFault.past_end
    count = first
    while True:
        scan = _core.scan_frames(window.content, window.at, window.stream_end, verify_crc)
        starts, following, fault = scan.starts, scan.next, scan.fault
        ends = np.append(starts, np.uint64(following))[1:]
        sizes = ends - starts
        is_whole = ends <= window.at + len(window.content)
        is_read = is_whole & (sizes <= max_frame_bytes)
        whole = int(np.argmin(np.append(is_read, False)))  # frames before the first other one
        if whole:
            frames = RecordBlock(
                window.content,
                starts[:whole].astype(np.int64) - window.at,
                sizes[:whole].astype(np.int64),
                np.arange(count, count + whole),
            )
            yield _block(window, frames, verify_crc and checks_data)
            count += whole
            window.drop(int(ends[whole - 1]) - window.at)
            continue
        if len(starts) and sizes[0] > max_frame_bytes:
            start, size = window.at, int(sizes[0])
            if not verify_crc:  # what a file of another format starts with is no length
                foreign = TFRECORD.error_of(past_end, source.path, start, window.content)
                if isinstance(foreign, CorruptRecordError):
                    foreign.record = count
                    raise foreign
            length = size - TFRECORD.overhead_bytes
            reason = too_large(
                length, max_record_bytes, path=source.path, record=count, offset=start
            )
            yield ScannedBlock.of_gap(
                source.path,
                Gap(reason, start, size),
                content=range(start, start + size),
                file_bytes_read=window.file_bytes_read,
            )
            if not window.skip(size):
                lost = window.damage or TFRECORD.error_of(past_end, source.path, start)
                lost.record = count
                raise lost
            count += 1
            continue
        need = following - window.at if len(starts) else TFRECORD.header_bytes
        if fault is not None or not window.fill(need):
            end_fault = past_end if len(starts) else FrameFault.truncated_header
            error = TFRECORD.error_at_end(window, fault or end_fault)
            if error is None:
                return
            error.record = count
            window.drop_kept()
            raise error


def _block(window: StreamWindow, frames: RecordBlock, verify_crc: bool) -> ScannedBlock:
    """Return the valid records of frames in a window, and a gap for each damaged one."""
    path, offsets = window.source.path, frames.starts + window.at
    block, faults = TFRECORD.extract(frames, verify_crc)
    gaps = []
    for at, error_class, reason in faults:
        number, offset, size = (int(of[at]) for of in (frames.numbers, offsets, frames.lengths))
        error = error_class(reason, path=path, record=number, offset=offset)
        gaps.append(Gap(error, offset, size))
    damaged = [position for position, _, _ in faults]
    if damaged:
        window.drop_kept()
    return ScannedBlock(
        path,
        block.without(damaged),
        np.delete(offsets, damaged) if damaged else offsets,
        gaps,
        range(window.at, window.at + len(window.content)),
        window.file_bytes_read,
    )
