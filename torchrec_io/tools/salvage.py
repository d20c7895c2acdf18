"""The readable content of damaged compressed files."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator

from .._records.index import RecordIndex
from .._records.scanned_block import Gap
from .._storage.byte_source import ByteSource, DecodedStream, read_bytes
from .._storage.chunk_cache import ChunkCache
from .._storage.compressed_file import CompressedFile
from .._storage.compression import Compression
from .._storage.inflater import Inflater
from .._storage.seek_points import SeekPoint
from .._storage.stamp import Stamp
from ..errors import CorruptRecordError, TorchRecIOError, TruncatedFileError

_SEARCH_BYTES = 1 << 20
_PART_BYTES = 1 << 18
# Headers of members. zlib has no magic number: all encoders write 0x78, a window of 32 KiB, and one
# of four levels.
_HEADERS: dict[Compression, re.Pattern[bytes]] = {
    "gzip": re.compile(rb"\x1f\x8b\x08[\x00-\x1f]"),
    "zlib": re.compile(rb"\x78[\x01\x5e\x9c\xda]"),
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd"),
}
_HEADER_BYTES = {"gzip": 4, "zlib": 2, "zstd": 4}


class SalvagedFile(DecodedStream):
    """All bytes of a damaged compressed file that can be decompressed, joined.

    After damage, decompression continues at the next seek point of an index that was made before
    the damage. Without an index it continues with the next member of gzip, stream of zlib or frame
    of Zstandard that can be decoded. That is searched from the second byte of the damaged one on,
    because a damaged decoder may run past its end. Bytes of a damaged member may be wrong: the
    checksums of the records show which of them are valid, up to the first that is not; see
    :meth:`damaged_member_end`.

    The content can be read once, from front to back, by one thread.

    Args:
        file: Compressed file that can be read at any offset.
        compression: Compression of the file.
        index: Index of the file, if it was made before the damage.

    Attributes:
        damaged_members: Stream offsets of the start and the end of each member whose content cannot
            be checked, because it is damaged or cut; so far. With an index, of each such chunk.
    """

    def __init__(
        self, file: ByteSource, compression: Compression, index: RecordIndex | None = None
    ) -> None:
        self.path: str = file.path
        self.stamp: Stamp = file.stamp
        self.is_seekable = False
        self.damaged_members: list[tuple[int, int]] = []
        self._all_damaged_members: list[tuple[int, int]] | None = None
        self._lost: list[Gap] = []
        self._file = file
        self._compression: Compression = compression
        self._index = index
        self._parts = self._decode_members() if index is None else self._decode_chunks(index)
        self._part = memoryview(b"")  # what is left of the last one
        self._end = 0  # stream offset of its end
        self._file_bytes_read = 0

    @property
    def decoded(self) -> int:
        return self._end - len(self._part)

    @property
    def file_bytes_read(self) -> int:
        return self._file_bytes_read

    def read_into(self, offset: int, out: memoryview) -> int:
        del offset  # it is read from front to back
        if not len(self._part):
            self._part = next(self._parts, self._part)
        data, self._part = self._part[: len(out)], self._part[len(out) :]
        out[: len(data)] = data
        return len(data)

    def take_lost(self) -> list[Gap]:
        """Return the parts of the file that were skipped since the last call.

        A part begins where decompression fails; the damage may be before it. The next member that
        can be decompressed follows it.
        """
        lost, self._lost = self._lost, []
        return lost

    def damaged_member_end(self, offset: int) -> int | None:
        """Return the stream offset where the damaged member around an offset ends.

        Damage to compressed data may repeat earlier bytes, so what follows it in its member may be
        records that look valid, but repeat earlier ones. The first call decompresses the whole
        file.

        Returns:
            The offset, or None if the member is valid.
        """
        if self._all_damaged_members is None:
            whole = SalvagedFile(self._file, self._compression, self._index)
            for _ in whole._parts:
                pass
            self._all_damaged_members = whole.damaged_members
        members = self._all_damaged_members
        number = bisect.bisect(members, offset, key=lambda member: member[0]) - 1
        return members[number][1] if number >= 0 and offset < members[number][1] else None

    def close(self) -> None:
        self._file.close()

    def _decode_chunks(self, index: RecordIndex) -> Iterator[memoryview]:
        """Decode each chunk between seek points as far as possible; yield the decoded bytes."""
        chunks = CompressedFile(
            self._file,
            self._compression,
            index.seek_points,
            index.stream_bytes,
            ChunkCache(0),
            find_valid_end=lambda begin, decoded: begin + len(decoded),
            may_continue=True,
        )
        for number in range(chunks.count):
            size = chunks.size_of(number)
            data, damage = chunks.load(number, size)
            begin, file_size = chunks.file_range(number)
            self._file_bytes_read = begin + file_size
            if damage is not None:
                self.damaged_members.append((self._end, self._end + len(data)))
                if len(data) < size:
                    self._add_lost(begin, begin + file_size, damage.reason)
            self._end += len(data)
            yield from [data.data] if len(data) else []

    def _decode_members(self) -> Iterator[memoryview]:
        """Decode all members as far as possible; yield the decoded bytes."""
        member: int | None = 0  # file offset
        while member is not None:
            inflater = Inflater(self._file, self._compression, SeekPoint(self._end, 8 * member))
            try:
                while data := inflater.read(_PART_BYTES):
                    self._file_bytes_read = max(self._file_bytes_read, inflater.file_bytes_read)
                    self._end += len(data)
                    yield memoryview(data)
                member = None
            except TorchRecIOError as error:
                member = self._after_damage(inflater, error)

    def _after_damage(self, damaged: Inflater, error: TorchRecIOError) -> int | None:
        """Return the file offset of the next member that can be decoded, None if there is none."""
        size = self._file.stamp.size
        if damaged.valid_end < self._end:
            self.damaged_members.append((damaged.valid_end, self._end))
        member = self._find_member(damaged.member_offset + 1)
        end = size if member is None else member
        start = damaged.damage_offset
        if start is None:
            start = size if isinstance(error, TruncatedFileError) else damaged.member_offset
        self._add_lost(start, end, error.reason)
        self._file_bytes_read = max(self._file_bytes_read, end)
        return member

    def _add_lost(self, start: int, end: int, reason: str) -> None:
        """Add a lost part; one that touches the lost part before it is joined with that part."""
        if self._lost and self._lost[-1].offset + self._lost[-1].size >= start:
            first, start, *_ = self._lost.pop()
            reason = first.reason
        # The error of the decoder would keep its memory.
        error = CorruptRecordError(reason, path=self.path)
        self._lost.append(Gap(error, start, max(end - start, 0), is_one_record=False))

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
            return len(Inflater(self._file, self._compression, start).read(1)) > 0
        except TorchRecIOError:
            return False
