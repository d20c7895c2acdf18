"""Finding frames with a user's own function, which reads a stream as a file."""

from __future__ import annotations

import io
from array import array
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import CorruptRecordError, TorchRecIOError, TruncatedFileError
from ..storage.compressed import CompressedFile, read_up_to_damage
from ..storage.local import LocalFile

_BUFFER_BYTES = 1 << 15
_CHUNK_BYTES = 1 << 20
# So many frames are found between two calls of a progress function.
_PROGRESS_FRAMES = 4096


class StreamFile(io.RawIOBase):
    """A byte source as a file, as far as reading goes. A compressed one seeks only forwards."""

    def __init__(self, source: LocalFile | CompressedFile) -> None:
        super().__init__()
        self._source = source
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        at = offset + (self._at if whence == io.SEEK_CUR else 0)
        if whence == io.SEEK_END:
            if isinstance(self._source, CompressedFile):
                raise io.UnsupportedOperation("where a compressed file ends shows only there")
            at += self._source.size
        if at < 0:
            raise ValueError(f"there is no offset {at}")
        if at < self._at and isinstance(self._source, CompressedFile):
            raise io.UnsupportedOperation("a compressed file is read from front to back")
        self._at = at
        return at

    def readinto(self, buffer: Any) -> int:
        got, error = read_up_to_damage(self._source, self._at, memoryview(buffer).cast("B"))
        if error is not None and got == 0:
            raise error
        self._at += got
        return got


def stream_size(
    source: LocalFile | CompressedFile,
    progress: Callable[[int, int], None] | None = None,
    records: int = 0,
) -> tuple[int, TorchRecIOError | None]:
    """Bytes of a stream, and the damage that it ends with, if it does; decompresses what is left.

    Args:
        source: The stream.
        progress: Called now and then with the bytes of the file so far, and ``records``.
        records: See there.
    """
    if isinstance(source, LocalFile):
        return source.size, None
    buffer = bytearray(_CHUNK_BYTES)
    while True:
        got, error = read_up_to_damage(source, source.decoded, memoryview(buffer))
        if error is not None or got == 0:
            return source.decoded, error
        if progress is not None:
            progress(source.consumed, records)


def find_boundaries(
    boundaries: Callable[[io.BufferedReader], Iterator[int]],
    source: LocalFile | CompressedFile,
    progress: Callable[[int, int], None] | None,
) -> tuple[npt.NDArray[np.uint64], TorchRecIOError | None]:
    """Where frames are, by a function that says so; see :meth:`RecordFormat.boundaries`.

    Returns:
        Where the first frame starts, then where each whole one ends; uint64 ``[frames + 1]``, or
        ``[0]``. And what ended the search early, if anything did.

    Raises:
        OSError: reading failed.
        NotImplementedError: the format has no such function.
    """
    file: io.BufferedReader = io.BufferedReader(StreamFile(source), _BUFFER_BYTES)
    found = array("Q")
    search = _each_of(boundaries, file)
    error: TorchRecIOError | None = None
    while error is None:
        try:
            bound = next(search)
            if bound < (found[-1] if found else 0):
                raise ValueError(f"a frame cannot end at {bound}, before it starts")
            found.append(bound)
        except StopIteration:
            break
        except (OSError, NotImplementedError):
            raise
        except Exception as cause:  # noqa: BLE001  # a user's function may raise anything
            error = _error_of(cause)
        if progress is not None and len(found) % _PROGRESS_FRAMES == 0:
            progress(
                source.consumed if isinstance(source, CompressedFile) else found[-1], len(found)
            )
    size, damage = stream_size(source, progress, len(found))
    error = error or damage
    while found and found[-1] > size:
        found.pop()
        error = error or TruncatedFileError("the record reaches past the end of the file")
    if error is not None:
        error.path = error.path or source.path
        error.record = max(0, len(found) - 1)
        error.offset = found[-1] if found else 0
    return np.frombuffer(found, np.uint64) if found else np.empty(0, np.uint64), error


def _each_of(
    boundaries: Callable[[io.BufferedReader], Iterator[int]], file: io.BufferedReader
) -> Iterator[int]:
    """What a function finds; it is called, and may raise, when the first is asked for."""
    yield from boundaries(file)


def _error_of(cause: Exception) -> TorchRecIOError:
    if isinstance(cause, TorchRecIOError):
        return cause
    reason = str(cause) if isinstance(cause, ValueError) else f"{type(cause).__name__}: {cause}"
    error = CorruptRecordError(f"the next record cannot be found: {reason}")
    error.__cause__ = cause
    return error
