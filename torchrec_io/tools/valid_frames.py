"""Search for all valid records of a damaged TFRecord file, from front to back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from .. import _core
from .._records.formats import TFRECORD
from .._records.record_block import RecordBlock
from .._records.record_size import MAX_RECORD_BYTES
from .._records.scanned_block import Gap, ScannedBlock
from .._records.stream_window import StreamWindow
from .._storage.byte_source import ByteSource
from ..errors import TorchRecIOError
from .salvage import SalvagedFile


def iter_valid_frames(
    source: ByteSource, *, max_record_bytes: int = MAX_RECORD_BYTES
) -> Iterator[ScannedBlock]:
    """Find all valid records of a stream, in order, past any damage.

    A record is valid if its length and its data match their checksums, 64 bits in all. A record
    with a valid length and damaged data is skipped by its length, if the header of a record with a
    valid length, or the end of the stream, follows. In every other case, the next valid record is
    searched at every offset after the start of the damaged one. In a damaged member of a compressed
    file, no record after the first one that is not valid counts as valid.

    Args:
        source: Stream to read.
        max_record_bytes: Largest size of a record in bytes. A larger one counts as damaged. Memory
            is bounded by a small multiple of it, and grows only with the lengths that are found.
    """
    steps = _sweep(source, max_record_bytes)
    return _trusted(steps, source) if isinstance(source, SalvagedFile) else steps


def _sweep(source: ByteSource, max_record_bytes: int) -> Iterator[ScannedBlock]:
    """Yield the valid records and the gaps of a stream; see :func:`iter_valid_frames`."""
    window = StreamWindow(source)
    opened: TorchRecIOError | None = None  # error of a gap that continues
    is_at_end = False
    count = end = 0
    while True:
        left = len(window.content) if is_at_end else window.stream_end - window.at
        sweep = _core.sweep_frames(window.content, left, max_record_bytes, opened is not None)
        gaps = []
        for found in sweep.gaps:
            error = opened or _error_of(found, window)
            opened = None
            gaps.append(_gap(error, window.at + found.end, found.is_one_frame))
        if sweep.open_gap is not None:
            opened = opened or _error_of(sweep.open_gap, window)
        is_decided = left == len(window.content)
        if is_decided and opened is not None:
            gaps.append(_gap(opened, window.at + left, False))
        starts = sweep.starts.astype(np.int64)
        numbers = np.arange(count, count + len(starts))
        block = RecordBlock(
            window.content, starts + TFRECORD.header_bytes, sweep.lengths.astype(np.int64), numbers
        )
        content = range(end, window.at + len(window.content))
        yield ScannedBlock(
            source.path, block, window.at + starts, gaps, content, window.file_bytes_read
        )
        if is_decided:
            return
        count, end = count + len(starts), content.stop
        window.drop(sweep.at)
        is_at_end = not _fill(window, sweep.needed)


def _trusted(blocks: Iterator[ScannedBlock], source: SalvagedFile) -> Iterator[ScannedBlock]:
    """Extend a gap in a damaged member to the end of the member."""
    opened: Gap | None = None  # its size is not known yet
    until = 0  # stream offset where its member ends
    block = None
    for block in blocks:
        kept: list[int] = []
        gaps: list[Gap] = []
        for start, item in _in_order(block):
            if opened is not None and start >= until:
                gaps.append(opened._replace(size=start - opened.offset))
                opened = None
            if isinstance(item, int):
                if opened is None:
                    kept.append(item)
                continue
            end = source.damaged_member_end(start + item.size - 1) or 0
            if opened is None and end > start + item.size:
                opened = item._replace(is_one_record=False)
            elif opened is None:
                gaps.append(item)
            until = max(until, end, start + item.size)
        rows = np.array(kept, np.int64)
        yield replace(block, block=block.block.rows(rows), offsets=block.offsets[rows], gaps=gaps)
    if opened is not None and block is not None:
        last = opened._replace(size=block.content.stop - opened.offset)
        yield ScannedBlock.of_gap(source.path, last, file_bytes_read=block.file_bytes_read)


def _in_order(block: ScannedBlock) -> list[tuple[int, int | Gap]]:
    """Return the stream offsets of records and gaps, with the record's position or the gap."""
    found: list[tuple[int, int | Gap]] = [
        (offset, position) for position, offset in enumerate(block.offsets.tolist())
    ]
    found += [(gap.offset, gap) for gap in block.gaps]
    return sorted(found, key=lambda each: each[0])


def _fill(window: StreamWindow, need: int) -> bool:
    """Read until the window has enough bytes; return False if the stream ends before."""
    while len(window.content) < need:
        # More than is needed: hostile headers could each ask for a little more than the last one.
        if not window.fill(need + need // 2):
            return False
    return True


def _error_of(gap: _core.FrameGap, window: StreamWindow) -> TorchRecIOError:
    head = window.content[gap.start :]
    return TFRECORD.error_of(gap.fault, window.source.path, window.at + gap.start, head)


def _gap(error: TorchRecIOError, end: int, is_one_record: bool) -> Gap:
    assert error.offset is not None
    return Gap(error, error.offset, end - error.offset, is_one_record)
