"""The writer of one TFRecord file, and the base class of all writers of records."""

from __future__ import annotations

import errno
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NoReturn, Self, TypeAlias

from .._storage.compression import Compression
from .._storage.exit import end_at_exit
from .._storage.local import StrPath
from .._storage.location import Location
from .._storage.remote.options import StorageOptions
from ..checks import counted
from .encode import Kinds, WriterEncoder
from .output_group import OutputGroup

# Bytes, a str (written as UTF-8), features by name, or a protobuf message.
Record: TypeAlias = "bytes | bytearray | memoryview | str | Mapping[str, Any] | Any"


class Writer(ABC):
    """Base class of the writers: conversion of values to records, and the end of writing."""

    _is_open = False  # so that __del__ does nothing if __init__ failed

    def __init__(self, path: StrPath, kinds: Kinds | None, storage_options: StorageOptions) -> None:
        self._target = Location.of(path, storage_options)
        self._path = self._target.name
        if self._target.local_path is not None:
            # The process may change its working directory before the writer is closed.
            self._target = self._target.at(os.path.join(os.getcwd(), self._path))
        self._encode = WriterEncoder(kinds)
        self._group = OutputGroup(create_folders=False)
        self._owner = os.getpid()
        self._records = 0
        self._failure: tuple[int, str] | None = None

    def _open(self) -> None:
        """Allow writing, once the files are open."""
        self._is_open = True
        end_at_exit(self, Writer._drop)

    @abstractmethod
    def write(self, record: Record) -> None:
        """Write one record."""

    def _finish(self) -> None:
        """Write the rest of the data and rename the files to their targets."""
        self._group.commit()

    def __len__(self) -> int:
        return self._records

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._path!r}, {counted(self._records, 'record')})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is None:
            self.close()
        else:
            self.discard()

    def __del__(self) -> None:
        if self._is_open:
            self._drop()

    def _drop(self) -> None:
        """Discard the data of a writer that was not closed."""
        is_open, self._is_open = self._is_open, False
        if is_open and os.getpid() == self._owner:
            self.discard()
            message = f"{self!r} was never closed; its data was discarded"
            warnings.warn(message, RuntimeWarning, stacklevel=3)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} cannot be pickled or copied; open one in each process"
        )

    def close(self) -> None:
        """Write the remaining data and rename the files to their targets.

        Closing again does nothing.

        Raises:
            OSError: If the system refuses a call, now or earlier. No new file is kept.
            RuntimeError: If this process is a fork of the one that opened the writer.
        """
        if not self._is_open and self._failure is None:
            return
        self._check_usable()
        try:
            self._finish()
        except BaseException as error:
            self._give_up(error)
            raise
        self._is_open = False

    def discard(self) -> None:
        """Remove everything that was written, unless the writer was closed."""
        self._failure = None
        self._remove()

    def _to_bytes(self, record: Record) -> bytes:
        if isinstance(record, bytes):
            return record
        if isinstance(record, Mapping):
            return self._encode(record)
        if isinstance(record, str):
            return record.encode()
        serialize = getattr(record, "SerializeToString", None)
        if callable(serialize):
            return bytes(serialize())
        try:
            view = memoryview(record)
        except TypeError:
            view = None
        if view is None or view.itemsize != 1:
            raise TypeError(
                "record must be bytes, a str, a dict of features or a protobuf message, got "
                f"{type(record).__name__}"
            )
        return view.tobytes()  # a copy, since the caller may change the buffer

    def _check_usable(self) -> None:
        if self._failure is not None:
            number, reason = self._failure
            reason = f"an earlier write failed: {reason}; the file was removed: write it again"
            raise OSError(number, reason, self._path)
        if not self._is_open:
            raise ValueError(f"{self!r} is closed")
        if os.getpid() != self._owner:
            raise RuntimeError(f"{self!r} was opened in another process; open one in each process")

    def _give_up(self, error: BaseException) -> None:
        """Remove all files: it is unknown how much of the data was written."""
        if isinstance(error, OSError):
            self._failure = (error.errno or errno.EIO, error.strerror or str(error))
        else:
            self._failure = (errno.EIO, f"{type(error).__name__} {error}")
        self._remove()

    def _remove(self) -> None:
        self._is_open = False
        self._group.discard()


class TFRecordWriter(Writer):
    """Write a TFRecord file completely or not at all.

    The writer is a context manager. Records go to a temporary file in the same folder, which is
    renamed when the writer is closed or the ``with`` block ends. If the block ends with an
    exception, no file is left. The same holds if the writer is dropped without being closed, which
    emits a RuntimeWarning. An existing file of that name is replaced in one step, together with its
    index.

    Several processes may write at the same time, each its own file. Threads that share a writer
    must take turns.

    Args:
        path: Path of the file, or URL of an object in a store.
        compression: Compression of the file: ``None``, ``"gzip"``, ``"zlib"`` or ``"zstd"``.
        index: Whether the index ``PATH.tfidx`` is written, too. It is built from the records as
            they are written, so that the file need not be read for it. It takes 8 bytes of memory
            per record.
        kinds: Stored dtypes of features of records that are dicts, as in :func:`encode_example`.
        storage_options: Options of a remote object, as for :class:`TFRecordDataset`.

    Raises:
        ValueError: If ``compression`` is invalid.
        TypeError: If ``kinds`` is not a mapping of names to dtypes.
        SchemaError: If ``kinds`` contains an unknown dtype.
        FileNotFoundError: If the folder does not exist.
        IsADirectoryError: If the path is a directory.
        OSError: If the file cannot be created, or the path is a device or pipe.
    """

    def __init__(
        self,
        path: StrPath,
        compression: Compression | None = None,
        index: bool = False,
        *,
        kinds: Kinds | None = None,
        storage_options: StorageOptions = None,
    ) -> None:
        super().__init__(path, kinds, storage_options)
        self._file = self._group.open_records(self._target, compression, index=index)
        self._open()

    def write(self, record: Record) -> None:
        """Write one record.

        Args:
            record: Bytes or an object with a buffer of bytes; a str, written as UTF-8 as TensorFlow
                does; a dict of features, which :func:`encode_example` serializes; a
                :class:`Sample`, which becomes an Example or a SequenceExample again; or a protobuf
                message, that is, any object with ``SerializeToString``.

        Raises:
            TypeError: If the record is none of these. Nothing of it is written, and the writer
                remains usable. :func:`encode_example` raises it in the same way, and ValueError. A
                feature whose values are of another kind than in an earlier record is refused, too.
            ValueError: If the writer is closed.
            OSError: If the system refuses the write, for example because the disk is full. The file
                is removed, and the writer cannot be used any more.
            RuntimeError: If this process is a fork of the one that opened the writer.
        """
        self._check_usable()
        data = self._to_bytes(record)
        try:
            self._file.write(data)
        except BaseException as error:
            self._give_up(error)
            raise
        self._records += 1
