"""Search for frames with the ``boundaries`` method of a record format."""

from __future__ import annotations

import io
from array import array
from collections.abc import Callable, Iterator

import numpy as np

from .._storage.binary_file import SourceReader
from .._storage.byte_source import ByteSource, Offsets, file_bytes_read, find_size
from ..errors import CorruptRecordError, TorchRecIOError, TruncatedFileError

_BUFFER_BYTES = 1 << 15
# Number of frames that are found between two calls of a progress function.
_PROGRESS_FRAMES = 4096


def find_boundaries(
    boundaries: Callable[[io.BufferedReader], Iterator[int]],
    source: ByteSource,
    progress: Callable[[int, int], None],
) -> tuple[Offsets, TorchRecIOError | None]:
    """Find the frames of a stream with a function; see :meth:`RecordFormat.boundaries`.

    Args:
        boundaries: Function that yields the boundaries of a file's frames.
        source: Stream to read.
        progress: Function that is called now and then with the number of bytes of the file and the
            number of records read so far.

    Returns:
        The start of the first frame, then the end of each whole frame, uint64 ``[frames + 1]`` or
        ``[0]``; and the error that ended the search early, if any.

    Raises:
        OSError: If reading fails.
        NotImplementedError: If the format has no such function.
    """
    file: io.BufferedReader = io.BufferedReader(SourceReader(source), _BUFFER_BYTES)
    found = array("Q")
    errors: list[TorchRecIOError] = []
    for count in _search(boundaries, file, found, errors):
        if count % _PROGRESS_FRAMES == 0:
            progress(file_bytes_read(source, found[-1]), count)
    size, damage = find_size(source, lambda done: progress(done, len(found)))
    error = next(filter(None, (*errors, damage)), None)
    while found and found[-1] > size:
        found.pop()
        error = error or TruncatedFileError("the record reaches past the end of the file")
    if error is not None:
        error.path = error.path or source.path
        error.record = max(0, len(found) - 1)
        error.offset = found[-1] if found else 0
    return np.frombuffer(found, np.uint64) if found else np.empty(0, np.uint64), error


def reason_of(error: Exception) -> str:
    """Return the message of an exception from a user's method, with its class where useful."""
    return str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"


def _search(
    boundaries: Callable[[io.BufferedReader], Iterator[int]],
    file: io.BufferedReader,
    found: array[int],
    errors: list[TorchRecIOError],
) -> Iterator[int]:
    """Add boundaries, which must ascend, to an array, and yield their number so far.

    An exception of the function that finds them ends the search, and is added to the errors.
    """
    try:
        for bound in boundaries(file):
            if found and bound < found[-1]:
                raise ValueError(f"a frame cannot end at {bound}, before it starts")
            found.append(bound)
            yield len(found)
    except (OSError, NotImplementedError):
        raise
    except TorchRecIOError as error:
        errors.append(error)
    except Exception as cause:  # noqa: BLE001  # a user's function may raise anything
        damage = CorruptRecordError(f"the next record cannot be found: {reason_of(cause)}")
        damage.__cause__ = cause
        errors.append(damage)
