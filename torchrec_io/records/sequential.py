"""Reads the records of a file from front to back, without an index and in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import CorruptRecordError, TorchRecIOError, TruncatedFileError
from ..storage.compressed import (
    CompressedFile,
    CompressionChoice,
    Stream,
    read_up_to_damage,
    resolve_compression,
)
from ..storage.local import LocalFile, StrPath, open_file
from .formats import TFRECORD, UNKNOWN_END

_WINDOW_BYTES = 1 << 20


@dataclass(frozen=True)
class FrameBlock:
    """Some whole frames that follow each other.

    Attributes:
        buffer: uint8; their bytes. Valid until the next block is asked for.
        at: Stream offset of the first.
        first: Number of the first record.
        starts: int64 ``[n]``; where each frame starts in ``buffer``.
        lengths: int64 ``[n]``; bytes of each record's data.
        faults: (position, error class, reason) of the damaged ones.
        consumed: Bytes of the file read so far.
    """

    buffer: npt.NDArray[np.uint8]
    at: int
    first: int
    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    faults: list[tuple[int, type[TorchRecIOError], str]]
    consumed: int

    def __len__(self) -> int:
        return len(self.starts)

    def records(self, stop: int) -> Iterator[tuple[int, bytes]]:
        """(Stream offset of the frame, data) of the records before position ``stop``."""
        data = memoryview(self.buffer.data)
        for start, length in zip(
            self.starts[:stop].tolist(), self.lengths[:stop].tolist(), strict=True
        ):
            begin = start + TFRECORD.header_bytes
            yield self.at + start, bytes(data[begin : begin + length])

    def errors(self, path: str) -> list[TorchRecIOError]:
        """An error for each damaged record."""
        return [
            error_class(
                reason,
                path=path,
                record=self.first + position,
                offset=self.at + int(self.starts[position]),
            )
            for position, error_class, reason in self.faults
        ]


def iter_records(
    path: StrPath, *, compression: CompressionChoice = "auto", verify_crc: bool = True
) -> Iterator[tuple[int, bytes]]:
    """The records of a TFRecord file, one by one from the first.

    Args:
        path: The data file. A pipe will do, such as ``/dev/stdin``.
        compression: ``"auto"`` (by content), ``None``, ``"gzip"`` or ``"zlib"``.
        verify_crc: Whether data is checked against its checksum. Lengths always are.

    Yields:
        Offset of the record's frame in the file (in the decompressed stream of a compressed one),
        and its data.

    Raises:
        CorruptRecordError: the next record, or the compressed stream at that place, is damaged.
        TruncatedFileError: the file ends inside the next record.
        FileNotFoundError, IsADirectoryError: there is no such file.
    """
    source = open_stream(path, compression)
    try:
        for block in iter_blocks(source, verify_crc=verify_crc):
            if block.faults:
                yield from block.records(block.faults[0][0])
                raise block.errors(source.path)[0]
            yield from block.records(len(block))
    finally:
        source.close()  # who writes to a pipe learns at once that nobody reads on


def iter_sound_records(path: StrPath) -> Iterator[tuple[int, bytes]]:
    """As :func:`iter_records`, less records that are damaged, up to where none can be found."""
    source = open_stream(path, "auto")
    try:
        for block in iter_blocks(source):
            damaged = {position for position, _, _ in block.faults}
            for position, record in enumerate(block.records(len(block))):
                if position not in damaged:
                    yield record
    except (CorruptRecordError, TruncatedFileError):
        return
    finally:
        source.close()


def open_stream(path: StrPath, compression: CompressionChoice) -> Stream:
    """Opens a data file, or a pipe, for reading from front to back."""
    file = open_file(path)
    resolved = resolve_compression(file, compression)
    return file if resolved is None else CompressedFile(file, resolved)


def iter_blocks(source: Stream, *, verify_crc: bool = True) -> Iterator[FrameBlock]:
    """The frames of a stream, about a MiB at a time; a larger frame makes a block of its own.

    Raises:
        CorruptRecordError, TruncatedFileError: where the next record starts or ends cannot be
            known. Its number and offset are in the error.
    """
    window = _Window(source)
    count = 0
    while True:
        scan = _core.scan_frames(window.held, window.at, window.stream_end)
        starts, following, fault = scan.starts, scan.next, scan.fault
        ends = np.append(starts, np.uint64(following))[1:]
        whole = int(np.searchsorted(ends, window.at + len(window.held), side="right"))
        if whole:
            yield _block(window, starts[:whole], ends[:whole], count, verify_crc)
            count += whole
            window.drop(int(ends[whole - 1]) - window.at)
            continue
        need = following - window.at if len(starts) else TFRECORD.header_bytes
        if fault is not None or not window.fill(need):
            error = _what_ended(
                window,
                fault
                or (
                    _core.FrameFault.past_end if len(starts) else _core.FrameFault.truncated_header
                ),
            )
            if error is None:
                return
            error.record = count
            raise error


def _block(
    window: _Window,
    starts: npt.NDArray[np.uint64],
    ends: npt.NDArray[np.uint64],
    first: int,
    verify_crc: bool,
) -> FrameBlock:
    inside = (starts - np.uint64(window.at)).astype(np.int64)
    overhead = TFRECORD.header_bytes + TFRECORD.footer_bytes
    lengths = (ends - starts).astype(np.int64) - overhead
    faults = TFRECORD.check(window.held, inside, lengths, verify_crc)
    return FrameBlock(window.held, window.at, first, inside, lengths, faults, window.consumed)


def _what_ended(window: _Window, fault: _core.FrameFault) -> TorchRecIOError | None:
    """Why no frame follows; None if the stream ends where it should."""
    if fault is not _core.FrameFault.length_crc and window.damage is not None:
        return window.damage
    if len(window.held) == 0:
        return None
    return TFRECORD.error_of(fault, window.source.path, window.at, window.held)


class _Window:
    """A stretch of a stream, held in memory. It moves forwards only.

    Attributes:
        at: Stream offset of its first byte.
        damage: Why the stream cannot be read on, if so.
        stream_end: Where the stream ended when it was opened, or more than that.
    """

    def __init__(self, source: Stream) -> None:
        self.source = source
        self.at = 0
        self.damage: TorchRecIOError | None = None
        # A file that somebody appends to ends, for us, where it ends now.
        self.stream_end = source.size if isinstance(source, LocalFile) else UNKNOWN_END
        self._buffer = np.empty(_WINDOW_BYTES, np.uint8)
        self._size = 0

    @property
    def held(self) -> npt.NDArray[np.uint8]:
        """The bytes. They change with the next :meth:`drop` or :meth:`fill`."""
        return self._buffer[: self._size]

    @property
    def consumed(self) -> int:
        """Bytes of the file read so far."""
        if isinstance(self.source, CompressedFile):
            return self.source.consumed
        return self.at + self._size

    def fill(self, need: int) -> bool:
        """Reads on, where ``need`` bytes do not fit into a window, towards those; False at the end.

        Memory grows with the bytes that come, not with the bytes that a damaged length promises.
        """
        most = max(_WINDOW_BYTES, need)
        if self._size == len(self._buffer):
            self._move_into(np.empty(min(2 * self._size, most), np.uint8), 0)
        stop = min(len(self._buffer), most, self.stream_end - self.at)
        if self.damage is not None or stop <= self._size:
            return False
        got, self.damage = read_up_to_damage(
            self.source, self.at + self._size, self._buffer.data[self._size : stop]
        )
        self._size += got
        return got > 0

    def drop(self, count: int) -> None:
        """Gives up the first bytes."""
        fits = self._size - count <= _WINDOW_BYTES < len(self._buffer)
        self._move_into(np.empty(_WINDOW_BYTES, np.uint8) if fits else self._buffer, count)
        self.at += count

    def _move_into(self, buffer: npt.NDArray[np.uint8], skip: int) -> None:
        rest = self._size - skip
        buffer[:rest] = self._buffer[skip : self._size]
        self._buffer = buffer
        self._size = rest
