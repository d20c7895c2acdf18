"""A writer of one TFRecord file and its index."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .. import _core
from .._records.formats import TFRECORD
from .._records.index_file import SUFFIX, encode_index
from .._storage.compression import Compression
from .._storage.deflater import Deflater
from .._storage.location import Location
from .._storage.outputs import check_output, open_pending

if TYPE_CHECKING:
    from .._storage.pending_file import PendingFile
    from .._storage.remote.pending_object import PendingObject

BUFFER_BYTES = 1 << 18
_FRAME_BYTES = TFRECORD.header_bytes + TFRECORD.footer_bytes
# From this size on, copying a record costs more than a system call of its own.
_LARGE_BYTES = 1 << 16


class FrameWriter:
    """A TFRecord file that is written under a temporary name.

    Small records are gathered and framed together. After an error only :meth:`discard` may be
    called. An :class:`OutputGroup` opens, prepares and renames these files.

    Attributes:
        location: Target of the file. The index gets this name with ``.tfidx`` added.
    """

    def __init__(
        self,
        location: Location,
        compression: Compression | None = None,
        *,
        index: bool = False,
        buffer_bytes: int = BUFFER_BYTES,
        has_name: bool = True,
    ) -> None:
        self.location = location
        self._count = 0
        if index:
            check_output(location.beside(SUFFIX))  # fails now, not after everything is written
        self._file = open_pending(location, has_name=has_name)
        self._compression = compression
        self._deflater = None if compression is None else Deflater(self._file, compression)
        self._sink = self._deflater or self._file
        self._starts = array("Q") if index else None
        self._index: PendingFile | PendingObject | None = None
        self._buffer_bytes = buffer_bytes
        self._pending: list[bytes] = []
        self._pending_bytes = 0  # size of their frames
        self._at = 0  # stream offset of the first pending record
        self._is_prepared = False

    def write(self, record: bytes) -> None:
        """Take a record, which may be written to the file later."""
        if len(record) >= _LARGE_BYTES:
            self._write_large(record)
            return
        self._pending.append(record)
        self._pending_bytes += len(record) + _FRAME_BYTES
        if self._pending_bytes >= self._buffer_bytes:
            self._write_pending()

    def has_room(self, record: bytes, max_bytes: int) -> bool:
        """Return whether one more record fits in a file of ``max_bytes``, or the file is empty."""
        size = self._pending_bytes + len(record) + _FRAME_BYTES
        if self._at + self._pending_bytes == 0:
            return True
        if self._deflater is None:
            return self._at + size <= max_bytes
        if self._deflater.max_file_bytes(size) <= max_bytes:
            return True
        # Flushing the compressor shows how small the data became, but frequent flushes make
        # compression worse.
        if self._deflater.unflushed + self._pending_bytes < max_bytes >> 4:
            return False
        self._write_pending()
        self._deflater.flush()
        return self._deflater.max_file_bytes(len(record) + _FRAME_BYTES) <= max_bytes

    def prepare(self) -> None:
        """Write the file and its index to storage, so that only their names are missing."""
        if self._is_prepared:
            return
        self._write_pending()
        if self._deflater is not None:
            self._deflater.finish()
        self._file.sync()
        if self._starts is not None:
            self._index = open_pending(self.location.beside(SUFFIX))
            self._index.write(self._encode_index(self._starts))
            self._index.sync()
            self._starts = None
        self._is_prepared = True

    def finish(self) -> list[Location]:
        """Prepare the file and return a list of its location, as :class:`ShardFiles` does."""
        self.prepare()
        return [self.location]

    @property
    def path(self) -> str:
        """Target of the file, as text."""
        return self.location.name

    @property
    def counts(self) -> list[int]:
        """Number of records, as a list of one. It is final once the file is finished."""
        return [self._count]

    @property
    def pending(self) -> list[tuple[PendingFile | PendingObject, str]]:
        """The prepared files and their targets: the data, then the index, if there is one."""
        index = [] if self._index is None else [(self._index, self.path + SUFFIX)]
        return [(self._file, self.path), *index]

    def discard(self) -> None:
        """Remove the temporary files. Nothing happens to those that were renamed."""
        self._pending = []
        self._file.discard()
        if self._index is not None:
            self._index.discard()

    def _write_pending(self) -> None:
        if self._pending:
            frames, starts = _core.frame_records(self._pending)
            self._sink.write(frames.data)
            self._add_starts(starts)
            self._at += self._pending_bytes
            self._pending = []
            self._pending_bytes = 0

    def _write_large(self, record: bytes) -> None:
        self._write_pending()
        header, footer = _core.frame_ends(record)
        self._sink.write(header, record, footer)
        self._add_starts(np.zeros(1, np.uint64))
        self._at += len(record) + _FRAME_BYTES

    def _add_starts(self, starts: npt.NDArray[np.uint64]) -> None:
        self._count += len(starts)
        if self._starts is not None:
            self._starts.frombytes((starts + np.uint64(self._at)).tobytes())

    def _encode_index(self, starts: array[int]) -> bytes:
        return encode_index(
            self._file.source(),
            np.frombuffer(starts, np.uint64),
            self._at,
            self._compression,
            None if self._deflater is None else self._deflater.seek_points,
        )
