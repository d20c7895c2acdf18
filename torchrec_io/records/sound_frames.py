"""Search for all sound records of a damaged TFRecord file, from front to back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from .. import _core
from ..errors import TorchRecIOError
from ..storage.byte_source import ByteSource
from ..storage.salvage import SalvagedFile
from .formats import TFRECORD
from .record_size import MAX_RECORD_BYTES
from .stream_window import StreamWindow


@dataclass(frozen=True)
class Gap:
    """Bytes of a stream that belong to no sound record.

    Attributes:
        error: Error of the first record that is lost, with its stream offset.
        offset: Stream offset of the first byte.
        size: Size in bytes.
        is_one_record: True if exactly one record is lost: its data is damaged, its length is not.
    """

    error: TorchRecIOError
    offset: int
    size: int
    is_one_record: bool


@dataclass(frozen=True)
class SoundFrames:
    """The sound records and the gaps of a part of a stream.

    Attributes:
        records: Data of the records, in order.
        starts: Stream offsets of their frames.
        gaps: Gaps that end in this part, in order.
        end: Stream offset up to which the stream was read.
        file_bytes_read: Number of bytes of the file read so far.
    """

    records: Sequence[bytes]
    starts: Sequence[int]
    gaps: Sequence[Gap]
    end: int
    file_bytes_read: int


def iter_sound_frames(
    source: ByteSource, *, max_record_bytes: int = MAX_RECORD_BYTES
) -> Iterator[SoundFrames]:
    """Find all sound records of a stream, in order, past any damage.

    A record is sound if its length and its data match their checksums, 64 bits in all. A record
    with a sound length and damaged data is skipped by its length, if the header of a record with a
    sound length, or the end of the stream, follows. In every other case, the next sound record is
    searched at every offset after the start of the damaged one. In a damaged member of a compressed
    file, no record after the first one that is not sound counts as sound.

    Args:
        source: Stream to read.
        max_record_bytes: Largest size of a record in bytes. A larger one counts as damaged. Memory
            is bounded by a small multiple of it, and grows only with the lengths that are found.
    """
    steps = _sweep(source, max_record_bytes)
    return _trusted(steps, source) if isinstance(source, SalvagedFile) else steps


def _sweep(source: ByteSource, max_record_bytes: int) -> Iterator[SoundFrames]:
    window = StreamWindow(source)
    opened: TorchRecIOError | None = None  # error of a gap that continues
    is_at_end = False
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
        end = window.at + len(window.content)
        starts = (sweep.starts + window.at).tolist()
        yield SoundFrames(_records(window, sweep), starts, gaps, end, window.file_bytes_read)
        if is_decided:
            return
        window.drop(sweep.at)
        is_at_end = not _fill(window, sweep.needed)


def _trusted(steps: Iterator[SoundFrames], source: SalvagedFile) -> Iterator[SoundFrames]:
    """Add what follows a gap in a damaged member to the gap, up to the end of the member."""
    opened: Gap | None = None  # its size is not known yet
    until = 0  # stream offset where its member ends
    step = None
    for step in steps:
        frames: list[tuple[int, bytes]] = []
        gaps: list[Gap] = []
        for start, item in _in_order(step):
            if opened is not None and start >= until:
                gaps.append(replace(opened, size=start - opened.offset))
                opened = None
            if isinstance(item, bytes):
                if opened is None:
                    frames.append((start, item))
                continue
            end = source.damaged_member_end(start + item.size - 1) or 0
            if opened is None and end > start + item.size:
                opened = replace(item, is_one_record=False)
            elif opened is None:
                gaps.append(item)
            until = max(until, end, start + item.size)
        starts, records = [start for start, _ in frames], [data for _, data in frames]
        yield replace(step, records=records, starts=starts, gaps=gaps)
    if opened is not None and step is not None:
        last = replace(opened, size=step.end - opened.offset)
        yield replace(step, records=[], starts=[], gaps=[last])


def _in_order(step: SoundFrames) -> list[tuple[int, bytes | Gap]]:
    """Return the stream offsets of records and gaps, with their data or the gap."""
    found: list[tuple[int, bytes | Gap]] = [*zip(step.starts, step.records, strict=True)]
    found += [(gap.offset, gap) for gap in step.gaps]
    return sorted(found, key=lambda each: each[0])


def find_frame(source: ByteSource, at: int) -> int | None:
    """Return the offset of the first sound record of a stream from an offset on.

    It may also be in the content of another record.

    Args:
        source: Stream to read.
        at: Stream offset to search from.

    Returns:
        The stream offset of its frame, or None if there is no sound record.
    """
    window = StreamWindow(source, at)
    is_at_end = not _fill(window, 1)
    while len(window.content):
        left = len(window.content) if is_at_end else window.stream_end - window.at
        sweep = _core.sweep_frames(window.content, left, MAX_RECORD_BYTES, True)
        if len(sweep.starts):
            return window.at + int(sweep.starts[0])
        if left == len(window.content):
            return None
        window.drop(sweep.at)
        is_at_end = not _fill(window, sweep.needed)
    return None


def _fill(window: StreamWindow, need: int) -> bool:
    """Read until the window has enough bytes; return False if the stream ends before."""
    while len(window.content) < need:
        # More than is needed: hostile headers could each ask for a little more than the last one.
        if not window.fill(need + need // 2):
            return False
    return True


def _records(window: StreamWindow, sweep: _core.FrameSweep) -> list[bytes]:
    data = window.content.data
    begins = (sweep.starts + TFRECORD.header_bytes).tolist()
    lengths = sweep.lengths.tolist()
    return [bytes(data[at : at + size]) for at, size in zip(begins, lengths, strict=True)]


def _error_of(gap: _core.FrameGap, window: StreamWindow) -> TorchRecIOError:
    head = window.content[gap.start :]
    return TFRECORD.error_of(gap.fault, window.source.path, window.at + gap.start, head)


def _gap(error: TorchRecIOError, end: int, is_one_record: bool) -> Gap:
    assert error.offset is not None
    return Gap(error, error.offset, end - error.offset, is_one_record)
