"""Writes TFRecord files, and their indexes in the same pass."""

from __future__ import annotations

import contextlib
import errno
import os
from array import array
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from .. import _core
from ..records.formats import TFRECORD
from ..records.index_file import SUFFIX, encode_index
from ..storage.compression import Compression
from ..storage.deflater import Deflater
from ..storage.local import LocalFile, StrPath
from ..storage.pending_file import PendingFile, check_replaceable, sync_folder

BUFFER_BYTES = 1 << 18
_FRAME_BYTES = TFRECORD.header_bytes + TFRECORD.footer_bytes
# From here on, copying a record costs more than a call of the system for it.
_LARGE_BYTES = 1 << 16

_COMPRESSIONS: tuple[Compression | None, ...] = (None, "gzip", "zlib")


class FrameWriter:
    """Writes the frames of records to a file that has its name only once it is whole.

    Small records are gathered and framed together. After an error it is good for nothing but
    :meth:`discard`.

    Attributes:
        path: The name that the file will have.
    """

    def __init__(
        self,
        path: StrPath,
        compression: Compression | None = None,
        *,
        index: bool = False,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        self.path = os.fspath(path)
        if index:
            check_replaceable(self.path + SUFFIX)  # now, not when all is written
        self._file = PendingFile(path)
        self._compression = compression
        self._deflater = None if compression is None else Deflater(self._file, compression)
        self._sink = self._deflater or self._file
        self._starts = array("Q") if index else None
        self._index: PendingFile | None = None
        self._buffer_bytes = buffer_bytes
        self._pending: list[bytes] = []
        self._pending_bytes = 0  # of their frames
        self._at = 0  # stream offset of the first of them
        self._prepared = False

    def write(self, record: bytes) -> None:
        """Takes a record; it may be written later."""
        if len(record) >= _LARGE_BYTES:
            self._write_large(record)
            return
        self._pending.append(record)
        self._pending_bytes += len(record) + _FRAME_BYTES
        if self._pending_bytes >= self._buffer_bytes:
            self._write_pending()

    def has_room(self, record: bytes, max_bytes: int) -> bool:
        """Whether the file is sure not to pass a size with one more record; or is empty."""
        size = self._pending_bytes + len(record) + _FRAME_BYTES
        if self._at + self._pending_bytes == 0:
            return True
        if self._deflater is None:
            return self._at + size <= max_bytes
        if self._deflater.max_file_bytes(size) <= max_bytes:
            return True
        # Few bytes may have become of many. But what is settled often is compressed badly.
        if self._deflater.unflushed + self._pending_bytes < max_bytes >> 4:
            return False
        self._write_pending()
        self._deflater.flush()
        return self._deflater.max_file_bytes(len(record) + _FRAME_BYTES) <= max_bytes

    def prepare(self) -> None:
        """Has the storage hold all of it, and the index; only the names are missing then."""
        if self._prepared:
            return
        self._write_pending()
        if self._deflater is not None:
            self._deflater.finish()
        self._file.sync()
        if self._starts is not None:
            self._index = PendingFile(self.path + SUFFIX)
            self._index.write(self._encode_index(self._starts))
            self._index.sync()
            self._starts = None
        self._prepared = True

    def rename(self, path: str) -> None:
        """Gives the data file its name."""
        self._file.rename(path)

    def rename_index(self, path: str) -> None:
        """Gives the index, if there is one, its name beside the data file ``path``."""
        if self._index is not None:
            self._index.rename(path + SUFFIX)

    def discard(self) -> None:
        """Removes what has no name yet."""
        self._pending = []
        self._file.discard()
        if self._index is not None:
            self._index.discard()

    def _write_pending(self) -> None:
        if self._pending:
            frames, starts = _core.frame_records(self._pending)
            self._sink.write(frames.data)
            self._note(starts)
            self._at += self._pending_bytes
            self._pending = []
            self._pending_bytes = 0

    def _write_large(self, record: bytes) -> None:
        self._write_pending()
        header, footer = _core.frame_ends(record)
        self._sink.write(header, record, footer)
        self._note(np.zeros(1, np.uint64))
        self._at += len(record) + _FRAME_BYTES

    def _note(self, starts: npt.NDArray[np.uint64]) -> None:
        if self._starts is not None:
            self._starts.frombytes((starts + np.uint64(self._at)).tobytes())

    def _encode_index(self, starts: array[int]) -> bytes:
        return encode_index(
            LocalFile(self._file.temporary),
            np.frombuffer(starts, np.uint64),
            self._at,
            self._compression,
            [] if self._deflater is None else self._deflater.restarts,
        )


def publish(files: Sequence[FrameWriter], paths: Sequence[str]) -> None:
    """Gives files of one folder their names, in place of files that have them.

    No index lies beside a file that it is not of, whenever the process is killed: old ones go
    first, new ones come last. Several files are a set, and old and new ones together could not be
    told from a good one: all old ones go before the first new one comes, and if one fails to, none
    stays.
    """
    for file in files:
        file.prepare()
    is_set = len(paths) > 1
    remove_files([*(path + SUFFIX for path in paths), *(paths if is_set else ())])
    try:
        for file, path in zip(files, paths, strict=True):
            file.rename(path)
    except BaseException:
        if is_set:
            with contextlib.suppress(OSError):
                remove_files(paths)
        raise
    for file, path in zip(files, paths, strict=True):
        file.rename_index(path)
    for folder in {os.path.dirname(path) for path in paths}:
        sync_folder(folder or os.curdir)


def remove_files(paths: Iterable[str]) -> None:
    """Removes those files that are there."""
    for path in paths:
        try:
            os.unlink(path)
        except OSError as error:
            # What is too long for a name, as that of an index may be, is none of a file.
            if error.errno not in (errno.ENOENT, errno.ENAMETOOLONG):
                raise


def check_output_compression(choice: Compression | None) -> None:
    """Raises ValueError unless files can be written so."""
    if choice not in _COMPRESSIONS:
        raise ValueError(f"compression must be one of {_COMPRESSIONS}, not {choice!r}")
