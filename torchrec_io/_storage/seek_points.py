"""Seek points: places in a compressed file where decompression can start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

from .byte_source import Ints
from .compression import CHECKED_BYTES
from .decoder import WINDOW_BYTES

# Between two seek points about this many bytes of the stream are decoded: for each random read half
# of them. A window takes about 10 KiB in the index.
CHUNK_BYTES = 4 << 20
# A longer part of a stream without a seek point makes several chunks. All of it before a chunk must
# be decoded to reach that, unless the chunk before it was decoded last.
_MOST_CHUNK_BYTES = 16 << 20
# By default, windows are at most this part of the compressed file.
_MOST_WINDOWS = 0.009
_TYPICAL_WINDOW_BYTES = 11_500
# Members that are shorter than this part of a chunk are decoded together.
_SHORT_MEMBERS = 16
# Higher levels take twice as long for windows that are a twentieth smaller.
_WINDOW_LEVEL = 1

_HEAD = np.dtype([("points", "<u8"), ("checks", "<u8")])
_ENTRY = np.dtype([("stream_offset", "<u8"), ("file_bit", "<u8"), ("window_bytes", "<u8")])
_CHECK = np.dtype("<u4")
# Size of the window of a point where a gzip member or zlib stream starts, which needs none.
_NO_WINDOW = (1 << 64) - 1
_MOST_WINDOW_BYTES = 2 * WINDOW_BYTES


class SeekPoint(NamedTuple):
    """A place where decompression can start.

    Attributes:
        stream_offset: Offset in the decompressed stream.
        file_bit: Offset in the compressed file, in bits. Bit 0 is the lowest one of a byte.
        window: The bytes of the stream before this point, up to 32 KiB, compressed; None if a gzip
            member or a zlib stream starts here.
    """

    stream_offset: int
    file_bit: int
    window: bytes | None = None

    @property
    def file_offset(self) -> int:
        """File offset of the byte with the first bit."""
        return self.file_bit // 8


START = SeekPoint(0, 0)


def pack_window(window: bytes) -> bytes:
    """Compress a window."""
    packed: bytes = isal_zlib.compress(window, _WINDOW_LEVEL)
    return packed


class SeekPoints:
    """The seek points of a file, in ascending order. The first one is at the start of the stream.

    Args:
        points: Stream offset, offset in the file in bits, and size of the window of each point;
            the latter is ``_NO_WINDOW`` where a member or stream starts.
        checks: CRC-32 of the parts of the stream after each point; see :meth:`check_bounds`.
        read_windows: Function that returns windows by offset and size in all of them.

    Attributes:
        stream_offsets: Offset of each point in the decompressed stream; int64 ``[n]``.
        file_bits: Offset of each point in the file, in bits; int64 ``[n]``.
        checks: CRC-32 of the parts of the stream after each point; uint32.
    """

    def __init__(
        self,
        points: npt.NDArray[Any],
        checks: npt.NDArray[np.uint32],
        read_windows: Callable[[int, int], bytes],
    ) -> None:
        self.stream_offsets: Ints = points["stream_offset"].astype(np.int64)
        self.file_bits: Ints = points["file_bit"].astype(np.int64)
        self.checks = checks
        self._entries = points
        self._is_start = points["window_bytes"] == _NO_WINDOW
        sizes = np.where(self._is_start, 0, points["window_bytes"]).astype(np.int64)
        self._window_bounds = np.concatenate([[0], np.cumsum(sizes)])
        self._read_windows = read_windows

    def __len__(self) -> int:
        return len(self.stream_offsets)

    def point(self, number: int) -> SeekPoint:
        """Return a point with its window."""
        window = None
        if not self._is_start[number]:
            begin, end = self._window_bounds[number : number + 2].tolist()
            window = self._read_windows(begin, end - begin)
        return SeekPoint(int(self.stream_offsets[number]), int(self.file_bits[number]), window)

    @property
    def has_windows(self) -> bool:
        """True if a point is inside of a member or stream."""
        return not self._is_start.all()

    def chunk_starts(self, stream_bytes: int) -> tuple[Ints, Ints]:
        """Return the stream offset of each chunk, and the number of the last point up to it.

        A chunk starts at a point, or :data:`_MOST_CHUNK_BYTES` after the chunk before it.
        """
        counts = self._count_chunks(stream_bytes)
        point_of = np.repeat(np.arange(len(self)), counts)
        part = np.arange(len(point_of)) - np.repeat(np.cumsum(counts) - counts, counts)
        return self.stream_offsets[point_of] + part * _MOST_CHUNK_BYTES, point_of

    def chunks_to_reach(self, stream_bytes: int) -> float:
        """Return the mean number of chunks decoded to reach one: 1 if all of them have points."""
        counts = self._count_chunks(stream_bytes)
        return float((counts * (counts + 1)).sum() / 2 / counts.sum())

    def _count_chunks(self, stream_bytes: int) -> Ints:
        """Return the number of chunks from each point to the next one."""
        sizes = np.diff(self.stream_offsets, append=stream_bytes)
        counts: Ints = np.maximum(1, -(-sizes // _MOST_CHUNK_BYTES))
        return counts

    def check_bounds(self, stream_bytes: int) -> Ints:
        """Return the number of the first checksum after each point, and of all; int64 ``[n + 1]``.

        After each point, every part of :data:`CHECKED_BYTES` has a checksum, and what is left
        before the next point.
        """
        sizes = np.diff(self.stream_offsets, append=stream_bytes)
        return np.append(0, np.cumsum(-(-sizes // CHECKED_BYTES)))

    def encode(self) -> bytes:
        """Return the section of an index file."""
        head = np.array((len(self), len(self.checks)), _HEAD)
        windows = self._read_windows(0, int(self._window_bounds[-1]))
        return head.tobytes() + self._entries.tobytes() + self.checks.tobytes() + windows

    @classmethod
    def decode(
        cls, read: Callable[[int, int], bytes], size: int, stream_bytes: int, file_bytes: int
    ) -> SeekPoints:
        """Read the section of an index file.

        Args:
            read: Function that returns bytes of the section by offset and size.
            size: Size of the section in bytes.
            stream_bytes: Size of the decompressed stream.
            file_bytes: Size of the compressed file.

        Raises:
            ValueError: If the section is invalid. The message explains why.
        """
        at = _HEAD.itemsize
        if size < at:
            raise ValueError("its section of seek points is too short")
        count, checks = np.frombuffer(read(0, at), _HEAD)[0].tolist()
        tables_bytes = count * _ENTRY.itemsize + checks * _CHECK.itemsize
        if tables_bytes > size - at or count == 0:
            raise ValueError("the number of its seek points is invalid")
        tables = read(at, tables_bytes)
        points = np.frombuffer(tables, _ENTRY, count)
        table = np.frombuffer(tables, _CHECK, checks, count * _ENTRY.itemsize)
        is_start = points["window_bytes"] == _NO_WINDOW
        sizes = points["window_bytes"][~is_start]
        if (sizes > _MOST_WINDOW_BYTES).any() or at + tables_bytes + int(sizes.sum()) != size:
            raise ValueError("the windows of its seek points have an invalid size")
        offsets, bits = points["stream_offset"], points["file_bit"]
        is_ordered = (offsets[1:] > offsets[:-1]).all() and (bits[1:] > bits[:-1]).all()
        is_inside = offsets[-1] <= stream_bytes and bits[-1] <= 8 * file_bytes
        if not is_ordered or not is_inside or offsets[0] != 0 or (bits[is_start] % 8).any():
            raise ValueError("its seek points are out of order")
        found = cls(points, table, lambda begin, length: read(at + tables_bytes + begin, length))
        if found.check_bounds(stream_bytes)[-1] != checks:
            raise ValueError("the number of the checksums of its seek points is invalid")
        return found

    @classmethod
    def of(cls, points: Sequence[SeekPoint], checks: Sequence[int]) -> SeekPoints:
        """Return points in memory, with the checksums of the stream."""
        entries = np.zeros(len(points), _ENTRY)
        for number, (stream_offset, file_bit, window) in enumerate(points):
            size = _NO_WINDOW if window is None else len(window)
            entries[number] = (stream_offset, file_bit, size)
        windows = b"".join(point.window or b"" for point in points)
        return cls(entries, np.array(checks, _CHECK), lambda at, length: windows[at : at + length])


class SeekPointRecorder:
    """Chooses seek points while a file is decompressed from front to back.

    Args:
        distance: Number of bytes of the stream between two points. Default: about 4 MiB, and
            more where windows would take more than 0.9 % of the file.

    Attributes:
        points: The points so far.
    """

    def __init__(self, distance: int | None = None) -> None:
        self.points: list[SeekPoint] = []
        self._distance = CHUNK_BYTES if distance is None else distance
        self._limits_windows = distance is None
        self._window_bytes = 0
        self._checks: list[int] = []
        self._checked = 0  # bytes with checksums after the last point

    def add_start(self, stream_offset: int, file_offset: int) -> None:
        """Take note of a member or stream, which becomes a point unless it is short."""
        least = self._distance // _SHORT_MEMBERS
        if not self.points or stream_offset - self.points[-1].stream_offset >= max(least, 1):
            self._add(SeekPoint(stream_offset, 8 * file_offset))

    def add_block(self, stream_offset: int, file_bit: int, window: bytes) -> None:
        """Add a point inside a member."""
        packed = pack_window(window)
        self._window_bytes += len(packed)
        self._add(SeekPoint(stream_offset, file_bit, packed))

    def add_data(self, data: bytes | memoryview) -> None:
        """Record the next bytes of the stream."""
        rest = memoryview(data)
        while rest:
            part = rest[: CHECKED_BYTES - self._checked % CHECKED_BYTES]
            if self._checked % CHECKED_BYTES:
                self._checks[-1] = isal_zlib.crc32(part, self._checks[-1])
            else:
                self._checks.append(isal_zlib.crc32(part))
            self._checked += len(part)
            rest = rest[len(part) :]

    def bytes_until_due(self, stream_offset: int, file_offset: int) -> int:
        """Return the number of bytes of the stream after which the next block needs a point.

        Args:
            stream_offset: Offset in the stream, after the first point.
            file_offset: Offset in the file that belongs to it.
        """
        windows = self._window_bytes + _TYPICAL_WINDOW_BYTES
        if self._limits_windows and windows > _MOST_WINDOWS * file_offset:
            return self._distance  # not now
        return max(0, self.points[-1].stream_offset + self._distance - stream_offset)

    def finish(self) -> SeekPoints:
        """Return all points."""
        return SeekPoints.of(self.points or [START], self._checks)

    def _add(self, point: SeekPoint) -> None:
        self.points.append(point)
        self._checked = 0  # checksums start again
