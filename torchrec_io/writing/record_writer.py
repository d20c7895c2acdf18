"""TFRecordWriter, and what it shares with the writer of sharded files."""

from __future__ import annotations

import errno
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from ..storage.compression import Compression
from ..storage.local import StrPath
from .encode import ExampleEncoder, Kinds
from .frame_writer import FrameWriter, check_output_compression, publish

if TYPE_CHECKING:
    from typing_extensions import Self

# Bytes, a str (written as UTF-8), features by name, or a message.
Record: TypeAlias = "bytes | bytearray | memoryview | str | Mapping[str, Any] | Any"


class Writer(ABC):
    """What writers have in common: which records they take, and how they end."""

    _open = False  # nothing is left to do for one whose making failed

    def __init__(self, path: StrPath, kinds: Kinds | None) -> None:
        self._path = os.fspath(path)
        # The process may go to another folder before the writer is closed.
        self._target = os.path.join("" if os.path.isabs(path) else os.getcwd(), self._path)
        self._encode = ExampleEncoder(kinds)
        self._owner = os.getpid()
        self._records = 0
        self._failure: tuple[int, str] | None = None

    @abstractmethod
    def write(self, record: Record) -> None:
        """Writes one record."""

    @abstractmethod
    def _files(self) -> list[FrameWriter]:
        """All that is to be removed if something fails."""

    @abstractmethod
    def _finish(self) -> None:
        """Writes the rest and gives files their names."""

    def __len__(self) -> int:
        return self._records

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._path!r}, {self._records:,} records)"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error: type[BaseException] | None, *_: object) -> None:
        if error is None:
            self.close()
        else:
            self.discard()

    def __del__(self) -> None:
        if self._open and os.getpid() == self._owner:
            message = f"{self!r} was never closed: nothing of it is kept"
            warnings.warn(message, RuntimeWarning, stacklevel=2)
            self.discard()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} cannot be pickled or copied: open one in each process"
        )

    def close(self) -> None:
        """Writes what is left and gives files their names. Closing again does nothing.

        Raises:
            OSError: the system refused something, now or at a write before; nothing is kept.
            RuntimeError: this process is a fork of the one that opened the writer.
        """
        if not self._open and self._failure is None:
            return
        self._check_usable()
        try:
            self._finish()
        except BaseException as error:
            self._give_up(error)
            raise
        self._open = False

    def discard(self) -> None:
        """Removes what was written, unless the writer was closed."""
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
                "a record is bytes, a str, a dict of features or a protobuf message, not "
                f"a {type(record).__name__}"
            )
        return view.tobytes()  # of its own: the caller may change it

    def _check_usable(self) -> None:
        if self._failure is not None:
            number, reason = self._failure
            raise OSError(number, f"the writer gave up before: {reason}", self._path)
        if not self._open:
            raise ValueError(f"{self!r} is closed")
        if os.getpid() != self._owner:
            raise RuntimeError(f"{self!r} was opened in another process: open one in each")

    def _give_up(self, error: BaseException) -> None:
        """Removes all, since nobody knows what of it was written."""
        if isinstance(error, OSError):
            self._failure = (error.errno or errno.EIO, error.strerror or str(error))
        else:
            self._failure = (errno.EIO, f"{type(error).__name__} {error}")
        self._remove()

    def _remove(self) -> None:
        self._open = False
        for file in self._files():
            file.discard()


class TFRecordWriter(Writer):
    """Writes a TFRecord file, whole or not at all: a context manager.

    Records go to a temporary file in the same folder, which gets its name when the writer is closed
    or the ``with`` block ends. When the block ends by an exception nothing is left; nor when the
    writer is dropped without closing it, which is a RuntimeWarning. Another file of that name is
    replaced at once, together with its index.

    Several processes may write, each a file of its own; threads must take turns.

    Args:
        path: The file.
        compression: ``None``, ``"gzip"`` or ``"zlib"``.
        index: Whether to write the index ``PATH.tfidx`` too, from what was written, so that nobody
            has to read the file for it. Takes 8 bytes of memory a record.
        kinds: As in :func:`encode_example`, for records that are dicts.

    Raises:
        ValueError: ``compression`` is something else.
        TypeError, SchemaError: ``kinds`` is not what it should be.
        FileNotFoundError: there is no such folder.
        IsADirectoryError: there is a directory of that name.
        OSError: the system refuses to make a file there, or a device or pipe has that name.
    """

    def __init__(
        self,
        path: StrPath,
        compression: Compression | None = None,
        index: bool = False,
        *,
        kinds: Kinds | None = None,
    ) -> None:
        super().__init__(path, kinds)
        check_output_compression(compression)
        self._file = FrameWriter(self._target, compression, index=index)
        self._open = True

    def write(self, record: Record) -> None:
        """Writes one record.

        Args:
            record: Bytes, or what has a buffer of them; a str, written as UTF-8, as TensorFlow
                does; a dict of features, which :func:`encode_example` serializes; or a message,
                that is anything with ``SerializeToString``.

        Raises:
            TypeError, ValueError: of :func:`encode_example`, or the record is something else;
                nothing of it is written, and the writer can be used on.
            OSError: the system refused to write, as on a full disk. The file is removed, and the
                writer good for nothing more.
            ValueError: the writer is closed.
            RuntimeError: this process is a fork of the one that opened the writer.
        """
        self._check_usable()
        data = self._to_bytes(record)
        try:
            self._file.write(data)
        except BaseException as error:
            self._give_up(error)
            raise
        self._records += 1

    def _files(self) -> list[FrameWriter]:
        return [self._file]

    def _finish(self) -> None:
        publish([self._file], [self._target])
