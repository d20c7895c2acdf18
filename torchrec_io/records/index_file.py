"""The content of index files; docs/index-format.md has the layout.

A file, a map of it and a new index all have the same bytes, which the native core reads without
copying.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core
from ..errors import IndexFormatError, StaleIndexError
from ..storage.byte_source import ByteBuffer, ByteSource, Ints, Offsets, Stamp
from ..storage.cache_folder import write_cached
from ..storage.compression import Compression
from ..storage.local import StrPath
from ..storage.opening import open_file, read_stamp
from ..storage.pending_file import write_atomically
from .formats import TFRECORD, RecordFormat

SUFFIX = ".tfidx"
MAGIC = _core.INDEX_SIGNATURE

_COMPRESSION_CODES: dict[Compression | None, _core.Compression] = {
    None: _core.Compression.none,
    "gzip": _core.Compression.gzip,
    "zlib": _core.Compression.zlib,
}
_COMPRESSIONS = {code: name for name, code in _COMPRESSION_CODES.items()}
_HEADER_BYTES = _core.INDEX_HEADER_BYTES
# Smaller index files are read: a map takes a page, and a process can have some 65,000 maps.
_SMALLEST_MAPPED = 1 << 14


class IndexFile:
    """An index file in memory or mapped, or a new index that is not saved yet.

    It pickles as the name of its file, so that worker processes share the file's memory.

    Args:
        content: Bytes of the index file.
        name: File that errors name.
        path: File that has this content, if there is one.
        stamp: Stamp of that file.

    Attributes:
        content: Bytes of the index file; uint8.
        path: File that has this content, if there is one.
        header: Header of the index file.
        head: Bytes of the header.
        compression: Compression of the data file.

    Raises:
        IndexFormatError: If the content is damaged, or of a newer release.
    """

    def __init__(
        self,
        content: bytes | ByteBuffer,
        name: str,
        path: str | None = None,
        stamp: Stamp | None = None,
    ) -> None:
        self.content = np.frombuffer(content, np.uint8)
        self.path = path
        self._name = name
        self._stamp = stamp
        try:
            self.header = _core.read_index_header(self.content)
        except ValueError as error:
            raise IndexFormatError(f"the index is damaged: {error}", path=name) from None
        self.compression = _COMPRESSIONS[self.header.compression]
        self.head = self.content[:_HEADER_BYTES].tobytes()

    @classmethod
    def read(cls, file: ByteSource) -> IndexFile:
        """Read an open index file, and map it if it is large.

        Raises:
            IndexFormatError: If the file is damaged.
        """
        size = file.stamp.size
        if size == 0:
            raise IndexFormatError("the index is damaged: it is empty", path=file.path)
        # Checked in a copy: pages that were accessed through a map count as memory of the process,
        # and a dataset may have thousands of indexes.
        content = _core.allocate(size)
        content = content[: file.read_into(0, content.data)]
        index = cls(content, file.path, file.path, file.stamp)
        mapped = file.map_bytes(size) if size >= _SMALLEST_MAPPED else None
        if mapped is not None:
            index.content = mapped
        return index

    @classmethod
    def reopen(cls, path: str, head: bytes) -> IndexFile:
        """Read an index file again, in another process.

        Args:
            path: Index file.
            head: Header that it had.

        Raises:
            StaleIndexError: If the file was replaced.
        """
        file = open_file(path)
        if file.read(0, len(head)) != head:
            raise _replaced(path)
        return cls.read(file)

    def save(self, path: StrPath, *, durable: bool) -> None:
        """Write the content to a file, all of it or nothing, and use that file from now on."""
        (write_atomically if durable else write_cached)(path, self.content.tobytes())
        self.path = os.fspath(path)
        self._stamp = read_stamp(path)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.path is not None and os.path.exists(self.path):
            return IndexFile.reopen, (self.path, self.head)
        return IndexFile, (self.content.tobytes(), self._name)

    @property
    def restarts(self) -> list[tuple[int, int]]:
        """Pairs ``(stream offset, file offset)`` where decompression can start."""
        return _core.read_index_restarts(self.content)

    def locate(self, records: Ints) -> tuple[Ints, Ints]:
        """Return the stream offsets where records' frames start and end.

        Raises:
            IndexError: If a record number is out of range.
        """
        return _core.locate_records(self.content, np.ascontiguousarray(records, np.int64))

    def check_unchanged(self) -> None:
        """Check that the file has not changed since it was read. It may have been removed.

        Raises:
            StaleIndexError: If the file was replaced or changed.
        """
        if self.path is None:
            return
        try:
            if read_stamp(self.path) == self._stamp:
                return
            file = open_file(self.path)
        except FileNotFoundError:
            return  # the content in memory or in the map stays as it was
        if file.stamp.size != len(self.content) or file.read(0, _HEADER_BYTES) != self.head:
            raise _replaced(self.path)
        self._stamp = file.stamp


def encode_index(
    file: ByteSource,
    starts: Offsets,
    end: int,
    compression: Compression | None = None,
    restarts: Sequence[tuple[int, int]] = (),
    *,
    record_format: RecordFormat = TFRECORD,
) -> bytes:
    """Return the bytes of an index file.

    Args:
        file: Data file.
        starts: Stream offset of each record's frame; uint64 ``[n]``.
        end: Stream offset of the end of the last record.
        compression: Compression of the file.
        restarts: Pairs ``(stream offset, file offset)`` where decompression can start.
        record_format: Record format of the file.
    """
    header = _core.IndexHeader(
        format=record_format.code,
        compression=_COMPRESSION_CODES[compression],
        data_bytes=file.stamp.size,
        data_mtime_ns=file.stamp.mtime_ns,
        data_fingerprint=record_format.fingerprint(file, file.stamp.size),
        stream_end=end,
    )
    return _core.encode_index(header, starts, np.array(restarts, np.uint64).reshape(-1, 2))


def _replaced(path: str) -> StaleIndexError:
    return StaleIndexError("the index file was replaced while it was in use", path=path)
