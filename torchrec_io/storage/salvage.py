"""The readable content of damaged compressed files."""

from __future__ import annotations

import bisect
import re
from dataclasses import dataclass

import numpy as np

from ..errors import TorchRecIOError, TruncatedFileError
from .byte_source import ByteSource, DecodedStream, read_bytes
from .compressed_chunks import CompressedChunks
from .compression import Compression
from .inflater import Inflater
from .seek_points import SeekPoint, SeekPoints

_SEARCH_BYTES = 1 << 20
# Headers of members. zlib has no magic number: all encoders write 0x78, a window of 32 KiB, and one
# of four levels.
_HEADERS: dict[Compression, re.Pattern[bytes]] = {
    "gzip": re.compile(rb"\x1f\x8b\x08[\x00-\x1f]"),
    "zlib": re.compile(rb"\x78[\x01\x5e\x9c\xda]"),
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd"),
}
_HEADER_BYTES = {"gzip": 4, "zlib": 2, "zstd": 4}


@dataclass(frozen=True)
class LostPart:
    """A part of a compressed file that cannot be decompressed.

    Attributes:
        offset: File offset where decompression fails. The damage may be before it.
        size: Size of the part in bytes. The next member that can be decompressed follows it.
        reason: Reason of the error.
    """

    offset: int
    size: int
    reason: str


class SalvagedFile(DecodedStream):
    """All bytes of a damaged compressed file that can be decompressed, joined.

    After damage, decompression continues with the next member of gzip, stream of zlib or frame of
    Zstandard that can be decoded. It is searched from the second byte of the damaged one on,
    because a damaged decoder may run past its end. Bytes of a damaged member may be wrong: the
    checksums of the records show which of them are sound, up to the first that is not; see
    :meth:`damaged_member_end`.

    The content can be read once, from front to back, by one thread.

    Args:
        file: Compressed file that can be read at any offset.
        compression: Compression of the file.

    Attributes:
        damaged_members: Stream offsets of the start and the end of each member whose content cannot
            be checked, because it is damaged or cut; so far.
    """

    def __init__(self, file: ByteSource, compression: Compression) -> None:
        self.path = file.path
        self.stamp = file.stamp
        self.is_seekable = False
        self.damaged_members: list[tuple[int, int]] = []
        self._all_damaged_members: list[tuple[int, int]] | None = None
        self._lost: list[LostPart] = []
        self._file = file
        self._compression = compression
        self._inflater: Inflater | None = Inflater(file, compression)
        self._decoded = 0
        self._file_bytes_read = 0

    @property
    def decoded(self) -> int:
        return self._decoded

    @property
    def file_bytes_read(self) -> int:
        return self._file_bytes_read

    def read_into(self, offset: int, out: memoryview) -> int:
        while self._inflater is not None:
            try:
                size = self._inflater.read_into(np.frombuffer(out, np.uint8))
            except TorchRecIOError as error:
                self._inflater = self._after_damage(self._inflater, error, offset)
                continue
            self._file_bytes_read = max(self._file_bytes_read, self._inflater.file_bytes_read)
            self._decoded = offset + size
            return size
        return 0

    def take_lost(self) -> list[LostPart]:
        """Return the parts that were skipped since the last call."""
        lost, self._lost = self._lost, []
        return lost

    def damaged_member_end(self, offset: int) -> int | None:
        """Return the stream offset where the damaged member around an offset ends.

        Damage to compressed data may repeat earlier bytes, so what follows it in its member may be
        records that look sound, but are others again. The first call decompresses the whole file.

        Returns:
            The offset, or None if the member is sound.
        """
        if self._all_damaged_members is None:
            whole = self._restarted()
            at = 0
            memory = memoryview(bytearray(_SEARCH_BYTES))
            while count := whole.read_into(at, memory):
                at += count
            self._all_damaged_members = whole.damaged_members
        members = self._all_damaged_members
        number = bisect.bisect(members, offset, key=lambda member: member[0]) - 1
        return members[number][1] if number >= 0 and offset < members[number][1] else None

    def _restarted(self) -> SalvagedFile:
        """Return the same content from its start."""
        return SalvagedFile(self._file, self._compression)

    def close(self) -> None:
        self._file.close()

    def _add_lost(self, start: int, end: int, reason: str) -> None:
        """Add a lost part. What looked like a member, but was none, belongs to the part before."""
        if self._lost and self._lost[-1].offset + self._lost[-1].size >= start:
            start, reason = self._lost[-1].offset, self._lost[-1].reason
            self._lost.pop()
        self._lost.append(LostPart(start, max(end - start, 0), reason))

    def _after_damage(
        self, damaged: Inflater, error: TorchRecIOError, stream_offset: int
    ) -> Inflater | None:
        """Return a decoder at the next member, None if there is none."""
        size = self._file.stamp.size
        if damaged.sound_end < stream_offset:
            self.damaged_members.append((damaged.sound_end, stream_offset))
        member = self._find_member(damaged.member_offset + 1)
        end = size if member is None else member
        start = damaged.damage_offset
        if start is None:
            start = size if isinstance(error, TruncatedFileError) else damaged.member_offset
        self._add_lost(start, end, error.reason)
        self._file_bytes_read = max(self._file_bytes_read, end)
        if member is None:
            return None
        return Inflater(self._file, self._compression, SeekPoint(stream_offset, 8 * member))

    def _find_member(self, start: int) -> int | None:
        """Return the file offset of the next member of which something can be decoded."""
        header = _HEADERS[self._compression]
        overlap = _HEADER_BYTES[self._compression] - 1
        while data := read_bytes(self._file, start, _SEARCH_BYTES):
            for found in header.finditer(data):
                if self._can_decode(start + found.start()):
                    return start + found.start()
            start += max(len(data) - overlap, 1)
        return None

    def _can_decode(self, file_offset: int) -> bool:
        try:
            start = SeekPoint(0, 8 * file_offset)
            inflater = Inflater(self._file, self._compression, start)
            return inflater.read_into(np.empty(1, np.uint8)) > 0
        except TorchRecIOError:
            return False


class SalvagedChunks(SalvagedFile):
    """All bytes of a damaged file with seek points that can be decompressed, joined.

    After damage, decompression continues at the next seek point. The seek points are those of an
    index that was made before the damage.

    Args:
        file: Compressed file that can be read at any offset.
        compression: Compression of the file.
        points: Seek points of the file.
        stream_bytes: Size of the decompressed stream before the damage.
    """

    def __init__(
        self, file: ByteSource, compression: Compression, points: SeekPoints, stream_bytes: int
    ) -> None:
        super().__init__(file, compression)
        self._points = points
        self._chunks = CompressedChunks(file.path, compression, points, stream_bytes)
        self._next_chunk = 0
        self._left = memoryview(b"")  # of the last chunk

    def read_into(self, offset: int, out: memoryview) -> int:
        while not len(self._left) and self._next_chunk < self._chunks.count:
            self._left = self._read_chunk(self._next_chunk, offset)
            self._next_chunk += 1
        data, self._left = self._left[: len(out)], self._left[len(out) :]
        out[: len(data)] = data
        self._decoded = offset + len(data)
        return len(data)

    def _read_chunk(self, number: int, offset: int) -> memoryview:
        """Return what can be decoded of a chunk, which is at an offset of the joined content."""
        size = self._chunks.size_of(number)
        data, damage, decoded = self._chunks.load(self._file, number, size)
        file_begin, file_size = self._chunks.file_range(self._file, number)
        self._file_bytes_read = file_begin + file_size
        if damage is None:
            return data.data
        self.damaged_members.append((offset, offset + len(decoded)))
        if len(decoded) < size:
            self._add_lost(file_begin, file_begin + file_size, damage.reason)
        return decoded.data

    def _restarted(self) -> SalvagedFile:
        stream_bytes = int(self._chunks.starts[-1])
        return SalvagedChunks(self._file, self._compression, self._points, stream_bytes)
