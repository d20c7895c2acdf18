"""The data files of a reader: opened when they are needed, and checked for changes."""

from __future__ import annotations

import bisect
import contextlib
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence

import numpy as np

from .. import _core
from .._storage.byte_source import ByteBuffer, ByteSource, Ints
from .._storage.compressed_file import CompressedFile
from .._storage.file_limit import is_out_of_files, most_open_files, out_of_files
from .._storage.several_sources import read_ranges
from .._storage.stamp import Stamp
from ..errors import CorruptRecordError, StaleIndexError, TruncatedFileError
from .changes import changed_error, check_unchanged
from .index import RecordIndex
from .index_file import supply_pages
from .opening import load_deferred

_MAX_OPEN_FILES = 128
# A plan may have more files than are kept open.
_FILES_AT_ONCE = 64
# Those of this process that have opened files, which share its limit: a mixture has many.
_sharing: weakref.WeakSet[OpenFiles] = weakref.WeakSet()


class OpenFiles:
    """Indexed files, of which some are open. Safe to use from several threads, not after a fork.

    A file and its index are checked for changes when they are first needed in an epoch.

    Args:
        indexes: Index of each file.
        counts: Number of records of each file; int64 ``[n]``.
        open_content: Function that opens the decompressed content of a compressed file; None if
            there is none.

    Attributes:
        at_once: Largest number of files to open together.
    """

    def __init__(
        self,
        indexes: Sequence[RecordIndex],
        counts: Ints,
        open_content: Callable[[RecordIndex, ByteSource], CompressedFile] | None,
    ) -> None:
        self._indexes = indexes
        self._open_content = open_content
        self._lock = threading.Lock()
        self._epoch = 1  # until the first one begins
        self._index_set = _core.IndexSet(counts)
        self._sources: OrderedDict[int, ByteSource] = OrderedDict()  # opened last at the end
        # Several threads use files at the same time, and so do other parts of the process.
        limit = most_open_files()
        self.at_once: int = max(1, min(_FILES_AT_ONCE, limit // 8))
        self._most_open = limit // 4

    def begin_epoch(self) -> None:
        """Check each file again before it is used next."""
        with self._lock:
            self._epoch += 1

    def check_used(self) -> None:
        """Check that the files used in this epoch were not changed since they were used.

        Raises:
            StaleIndexError: If a file was changed in place.
            TruncatedFileError: If a file was truncated.
        """
        with self._lock:
            files = range(len(self._indexes))
            used = {*files} - {*self._index_set.unchecked(files, self._epoch)}
            sources = [self._sources[file] for file in used & {*self._sources}]
            closed = [self._indexes[file] for file in used - {*self._sources}]
        check_unchanged(sources)
        for index in closed:
            if not index.is_pinned:
                with contextlib.suppress(FileNotFoundError):
                    _check_same(index, index.location.stamp_now())

    def find(self, numbers: Ints) -> _core.FrameLookup:
        """Find the frames of records.

        Args:
            numbers: Numbers of the records, which continue from file to file; int64 ``[n]``.

        Raises:
            IndexError: If a number is out of range.
            StaleIndexError, TruncatedFileError, FileNotFoundError: If a file, or its index, is not
                what it was.
        """
        lookup = _core.FrameLookup(np.ascontiguousarray(numbers, np.int64))
        epoch = self._epoch
        while not self._index_set.find(lookup, epoch):
            if lookup.unchecked_files:
                self._check(lookup.unchecked_files, epoch)
            else:
                supply_pages(self._index_set, lookup, lambda file: self._indexes[file].file)
        return lookup

    def open(self, files: list[int]) -> list[ByteSource]:
        """Return files as open sources of their decompressed content.

        Not all of them stay open: those opened first are closed once nothing refers to them.

        Args:
            files: Numbers of the files.

        Raises:
            OSError: If a file cannot be opened.
            StaleIndexError, TruncatedFileError: As for :meth:`find`.
        """
        epoch = self._epoch
        if unchecked := self._index_set.unchecked(files, epoch):
            self._check(unchecked, epoch)
        with self._lock:
            return [self._sources.get(file) or self._open(file) for file in files]

    def read(
        self, files: Sequence[int], bounds: Sequence[int], ranges: Ints, out: ByteBuffer
    ) -> None:
        """Read ranges of files into a buffer.

        Args:
            files: Numbers of the files.
            bounds: Numbers of the first range of each file, and the number of ranges;
                ``[files + 1]``.
            ranges: int64 ``[n, 3]``: stream offset, size, and offset in ``out``.
            out: Buffer; uint8.

        Raises:
            TruncatedFileError: If a file has become shorter since it was indexed.
            TorchRecIOError: If a file is damaged, or was changed.
            OSError: If a file cannot be read.
        """
        for first in range(0, len(files), self.at_once):
            some = files[first : first + self.at_once]
            self._read(some, bounds[first : first + len(some) + 1], ranges, out)

    def _read(
        self, files: Sequence[int], bounds: Sequence[int], ranges: Ints, out: ByteBuffer
    ) -> None:
        sources = self.open([*files])
        try:
            truncated = read_ranges(sources, bounds, ranges, out)
        except (CorruptRecordError, StaleIndexError):
            check_unchanged(sources)  # what looks like damage may be a change
            raise
        if truncated is not None:
            raise TruncatedFileError(
                "the file has become shorter since it was indexed",
                path=sources[bisect.bisect_right(bounds, truncated) - 1].path,
                offset=int(ranges[truncated, 0]),
            )
        check_unchanged(sources)

    def _check(self, files: list[int], epoch: int) -> None:
        """Check files and their indexes, unless that was done in an epoch."""
        with self._lock:
            # Another thread may have been faster.
            unchecked = self._index_set.unchecked(files, epoch)
            load_deferred([self._indexes[file] for file in unchecked])
            for file in unchecked:
                index = self._indexes[file]
                index.check_unchanged()
                source = self._sources.get(file)
                if source is not None and (
                    source.stamp != index.data_stamp  # replaced by a file with the same content
                    or source.descriptor is None  # requests that have failed are made again
                ):
                    del self._sources[file]
                self._index_set.mark_checked(file, index.file.core, epoch)

    def _open(self, number: int) -> ByteSource:
        index = self._indexes[number]
        try:
            file = index.location.open(index.data_stamp)
        except OSError as error:
            raise (out_of_files(error) if is_out_of_files(error) else error) from None
        _check_same(index, file.stamp)
        index.check_fresh(file)
        if self._epoch > 1:
            file.failures = []
        source = file
        if self._open_content is not None and index.compression is not None:
            source = self._open_content(index, file)
        _sharing.add(self)
        most = max(1, self._most_open // len(_sharing))
        while len(self._sources) >= min(_MAX_OPEN_FILES, most):
            self._sources.popitem(last=False)
        self._sources[number] = source
        return source


def _check_same(index: RecordIndex, now: Stamp) -> None:
    """Check that a file was not changed in place since it was checked in this epoch."""
    before = index.data_stamp
    if before is not None and now.file == before.file and now != before:
        raise changed_error(index.data_path, before.size, now.size)
