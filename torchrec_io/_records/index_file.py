"""The content of index files; docs/index-format.md has the layout."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import _core
from .._storage.byte_source import ByteBuffer, ByteSource, Ints, Offsets, read_bytes
from .._storage.cache_folder import write_cached
from .._storage.compression import Compression
from .._storage.local import StrPath
from .._storage.location import Location
from .._storage.pending_file import write_atomically
from ..errors import IndexFormatError, StaleIndexError
from .formats import TFRECORD, RecordFormat

if TYPE_CHECKING:
    from .._storage.seek_points import SeekPoints

SUFFIX = ".tfidx"
MAGIC = _core.INDEX_SIGNATURE

_COMPRESSION_CODES: dict[Compression | None, _core.Compression] = {
    None: _core.Compression.none,
    "gzip": _core.Compression.gzip,
    "zlib": _core.Compression.zlib,
    "zstd": _core.Compression.zstd,
}
_COMPRESSIONS = {code: name for name, code in _COMPRESSION_CODES.items()}
_HEADER_BYTES = _core.INDEX_HEADER_BYTES
# Smaller index files are kept in memory. A dataset may have thousands of them.
_SMALLEST_PAGED = 1 << 14
_SCAN_BYTES = 1 << 20
# Pages that are kept for the lookups in a single index: 4 MiB.
_PAGES_OF_ONE_FILE = 1 << 10


class IndexFacts(NamedTuple):
    """Facts about an index that are known without its content.

    Attributes:
        records: Number of records.
        data_bytes: Size of the data file in bytes.
        fingerprint: Fingerprint of the data file; 0 if it is not known.
        compression: Compression of the data file.
    """

    records: int
    data_bytes: int
    fingerprint: int = 0
    compression: Compression | None = None


class IndexFile:
    """An index file, or a new index that is not saved yet.

    New indexes and small files are in memory. Larger files are checked when they are opened, and
    their offsets are read by pages when they are needed. Each page is compared with its checksum,
    so that a file that changes is an error.

    Args:
        core: Index for native code.
        head: Bytes of the header.
        name: File that errors name.
        path: File that has this content, if there is one.
        content: Bytes of the index file, if they are in memory.

    Attributes:
        core: Index for native code.
        header: Header of the index file.
        head: Bytes of the header.
        name: File that errors name.
        path: File that has this content, if there is one.
        facts: Facts that are known without the content.
    """

    def __init__(
        self,
        core: _core.Index,
        head: bytes,
        name: str,
        path: str | None = None,
        *,
        content: ByteBuffer | None = None,
    ) -> None:
        self.core = core
        self.header: _core.IndexHeader = core.header
        self.facts: IndexFacts = IndexFacts(
            self.header.records,
            self.header.data_bytes,
            self.header.data_fingerprint,
            _COMPRESSIONS[self.header.compression],
        )
        self.head = head
        self.name = name
        self.path = path
        self._content = content

    @classmethod
    def decode(cls, content: bytes | ByteBuffer, name: str, path: str | None = None) -> IndexFile:
        """Check the content of an index file.

        Raises:
            IndexFormatError: If the content is damaged, or of another release.
        """
        content = np.frombuffer(content, np.uint8)
        try:
            core = _core.Index(content)
        except ValueError as error:
            raise _damaged(error, name) from None
        head = content[:_HEADER_BYTES].tobytes()
        return cls(core, head, name, path, content=content)

    @classmethod
    def read(cls, file: ByteSource) -> IndexFile:
        """Read and check an open index file.

        Raises:
            IndexFormatError: If the file is damaged, or of another release.
        """
        size = file.stamp.size
        if size == 0:
            raise IndexFormatError("the index is damaged: it is empty", path=file.path)
        # Pages of a remote file would take a request each.
        if file.is_pinned or size < _SMALLEST_PAGED:
            path = None if file.is_pinned else file.path
            return cls.decode(_read_whole(file), file.path, path)
        scan = _core.IndexScan(size)
        head = b""
        for at in range(0, size, _SCAN_BYTES):
            part = read_bytes(file, at, min(_SCAN_BYTES, size - at))
            head = head or part[:_HEADER_BYTES]
            if not scan.add(np.frombuffer(part, np.uint8)):
                break
        try:
            core = scan.finish()
        except ValueError as error:
            raise _damaged(error, file.path) from None
        return cls(core, head, file.path, file.path)

    @classmethod
    def read_again(cls, path: str, head: bytes) -> IndexFile:
        """Read an index file that was read before, in another process.

        Args:
            path: Index file.
            head: Header that it had.

        Raises:
            StaleIndexError: If the file was removed or replaced in the meantime.
        """
        return cls.read(_open_same(path, head))

    @property
    def is_large(self) -> bool:
        """True if another process should read the file again."""
        return self._content is None or len(self._content) >= _SMALLEST_PAGED

    @functools.cached_property
    def seek_points(self) -> SeekPoints:
        """Places in the data file where decompression can start.

        Raises:
            IndexFormatError: If they are invalid.
            StaleIndexError: If the index file was removed or replaced.
        """
        from .._storage.seek_points import SeekPoints  # noqa: PLC0415  # loads isal

        start, size = self.core.seek_points
        try:
            if size == 0:
                raise ValueError("an earlier release wrote it, without seek points")
            points = SeekPoints.decode(
                lambda at, length: self._read_part(start + at, length),
                size,
                self.core.stream_bytes,
                self.header.data_bytes,
            )
            if self.facts.compression == "zstd" and points.has_windows:
                raise ValueError("frames of Zstandard have no windows")
        except ValueError as error:
            raise _damaged(error, self.name) from None
        return points

    def _read_part(self, offset: int, size: int) -> bytes:
        """Return a part of the index file."""
        if self._content is not None:
            return self._content[offset : offset + size].tobytes()
        return self._read_ranges(np.array([(offset, size, 0)]), size).tobytes()

    def _read_ranges(self, ranges: Ints, size: int) -> ByteBuffer:
        file, buffer = _open_same(self.path, self.head), _core.allocate(size)
        if file.read_ranges(ranges, buffer) is not None:
            raise _replaced(file.path)
        return buffer

    def save(self, path: StrPath, *, durable: bool) -> None:
        """Write the content to a file, all of it or nothing, and use that file from now on."""
        (write_atomically if durable else write_cached)(path, self.read_all().tobytes())
        self.path = os.fspath(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return IndexFile.decode, (self.read_all().tobytes(), self.name, self.path)

    def read_all(self) -> ByteBuffer:
        """Return the bytes of the index file.

        Raises:
            StaleIndexError: If the file was removed or replaced.
        """
        if self._content is not None:
            return self._content
        file = _open_same(self.path, self.head)
        content = _read_whole(file)
        try:
            if IndexFile.decode(content, file.path).head == self.head:
                return content
        except IndexFormatError:
            pass
        raise _replaced(file.path)

    def locate(self, records: Ints) -> tuple[Ints, Ints]:
        """Return the stream offsets where records' frames start and end.

        Raises:
            IndexError: If a record number is out of range.
            StaleIndexError: If the index file was removed or replaced.
        """
        index_set = _core.IndexSet(np.array([self.header.records]), _PAGES_OF_ONE_FILE)
        index_set.mark_checked(0, self.core, 1)
        lookup = _core.FrameLookup(np.ascontiguousarray(records, np.int64))
        while not index_set.find(lookup, 1):
            supply_pages(index_set, lookup, lambda _: self)
        _, starts, ends = lookup.locations()
        return starts, ends

    def add_pages(self, index_set: _core.IndexSet, missing: _core.MissingPages) -> None:
        """Read pages of the file into an index set.

        Raises:
            StaleIndexError: If the file was removed or replaced.
        """
        pages = self._read_ranges(missing.ranges, missing.bytes)
        if not index_set.add_pages(missing, pages):
            raise _replaced(self.name)


def supply_pages(
    index_set: _core.IndexSet, lookup: _core.FrameLookup, file_of: Callable[[int], IndexFile]
) -> None:
    """Read the pages of index files that a lookup needs.

    Args:
        index_set: Index set that has the lookup.
        lookup: Lookup that was not completed.
        file_of: Function that returns the index file of a file number.

    Raises:
        StaleIndexError: If an index file was removed or replaced.
    """
    if lookup.damaged_file is not None:
        file = file_of(lookup.damaged_file)
        raise _replaced(file.path or "")
    for missing in lookup.missing:
        file_of(missing.file).add_pages(index_set, missing)


def encode_index(
    file: ByteSource,
    starts: Offsets,
    end: int,
    compression: Compression | None = None,
    seek_points: SeekPoints | None = None,
    *,
    record_format: RecordFormat = TFRECORD,
    footer_bytes: int = 0,
    gaps: Sequence[_core.Gap] = (),
) -> bytes:
    """Return the bytes of an index file.

    Args:
        file: Data file.
        starts: Stream offset of each record's frame; uint64 ``[n]``.
        end: Stream offset of the end of the last record.
        compression: Compression of the file.
        seek_points: Places in a compressed file where decompression can start.
        record_format: Record format of the file.
        footer_bytes: Number of bytes of the stream after the last record and gap.
        gaps: Parts of the stream without records, ascending.
    """
    first = int(starts[0]) if len(starts) else end
    if gaps and gaps[0].end == first and len(starts):
        first = gaps[0].begin
    header = _core.IndexHeader(
        format=record_format.code,
        compression=_COMPRESSION_CODES[compression],
        data_bytes=file.stamp.size,
        data_mtime_ns=file.stamp.mtime_ns,
        data_fingerprint=record_format.fingerprint(file, file.stamp.size),
        stream_end=end,
        header_bytes=first,
        footer_bytes=footer_bytes,
    )
    section = b"" if seek_points is None else seek_points.encode()
    return _core.encode_index(header, starts, list(gaps), np.frombuffer(section, np.uint8))


def _open_same(path: str | None, head: bytes) -> ByteSource:
    """Open an index file that was opened before and had a header.

    Raises:
        StaleIndexError: If the file was removed or replaced.
    """
    assert path is not None  # otherwise the content is in memory
    try:
        file = Location.of(path).open()
    except FileNotFoundError:
        raise StaleIndexError("the index file was removed while it was in use", path=path) from None
    if read_bytes(file, 0, len(head)) != head:
        raise _replaced(path)
    return file


def _read_whole(file: ByteSource) -> ByteBuffer:
    content = _core.allocate(file.stamp.size)
    return content[: file.read_into(0, content.data)]


def _damaged(error: ValueError, path: str) -> IndexFormatError:
    return IndexFormatError(f"the index is damaged: {error}", path=path)


def _replaced(path: str) -> StaleIndexError:
    return StaleIndexError("the index file was replaced while it was in use", path=path)
