"""Lines of text as records."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..errors import TorchRecIOError
from ..storage.compressed import CompressedFile, read_up_to_damage
from ..storage.local import LocalFile
from .formats import Cut, Progress, RecordFormat, Scan

_NEWLINE, _RETURN = 10, 13
_CHUNK_BYTES = 1 << 20


class TextLines(RecordFormat):
    r"""Lines: a record ends at ``"\n"``, which is not part of it, nor is a ``"\r"`` before that.

    The rules are those of TensorFlow's ``TextLineReader`` (2.21): bytes are not decoded; of
    ``"\r"``, only the one that ends a line is dropped; a last line needs no newline, but is none if
    it is empty; keys are ``"path:line"``, counted from 1, skipped lines too.

    Args:
        skip_header_lines: So many lines at the front of each file are no records.

    Raises:
        ValueError: that is no whole number of at least 0.
    """

    def __init__(self, skip_header_lines: int = 0) -> None:
        self.skip_header_lines = whole_number("skip_header_lines", skip_header_lines, 0)
        self.name = f"lines, skip_header_lines={self.skip_header_lines}"

    def scan(self, source: LocalFile | CompressedFile, progress: Progress | None = None) -> Scan:
        buffer = np.empty(_CHUNK_BYTES, np.uint8)
        found = [np.zeros(1, np.uint64)]  # where a line starts
        at = lines = 0
        tail = np.empty(0, np.uint8)  # what was read last
        error: TorchRecIOError | None = None
        while error is None:
            got, error = read_up_to_damage(source, at, buffer.data)
            if got == 0:
                break
            tail = buffer[:got]
            found.append((np.flatnonzero(tail == _NEWLINE) + (at + 1)).astype(np.uint64))
            at += got
            lines += len(found[-1])
            if progress is not None:
                progress(source.consumed if isinstance(source, CompressedFile) else at, lines)
        bounds = np.concatenate(found)
        left = at - int(bounds[-1])
        # Of a damaged stream, the last line may have had more.
        if error is None and (left > 1 or (left == 1 and tail[-1] != _RETURN)):
            bounds = np.append(bounds, np.uint64(at))
        if error is not None:
            error.record = max(0, len(bounds) - 1 - self.skip_header_lines)
        bounds = bounds[self.skip_header_lines :]
        return Scan(bounds[:-1], int(bounds[-1]) if len(bounds) else at, error)

    def cut(
        self,
        buffer: npt.NDArray[np.uint8],
        placed: npt.NDArray[np.int64],
        sizes: npt.NDArray[np.int64],
        verify_crc: bool,
    ) -> Cut:
        del verify_crc
        lengths = sizes
        for end in (_NEWLINE, _RETURN):
            lengths = lengths - _ends_with(end, buffer, placed, lengths)
        return Cut(buffer, placed, lengths, ())

    def key(self, path: str, record: int, offset: int) -> str:
        del offset
        return f"{path}:{record + self.skip_header_lines + 1}"

    def first_misplaced(
        self, file: LocalFile, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
    ) -> int | None:
        for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
            begins = start == 0 or file.read(start - 1, 1) == b"\n"
            line = file.read(start, end - start)
            newline = line.find(b"\n")
            # Only the last line of a file may have none.
            ends_well = newline == len(line) - 1 or (newline < 0 and end == file.stamp.size)
            if not begins or not ends_well or not line:
                return int(start)
        return None


def _ends_with(
    end: int,
    buffer: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
) -> npt.NDArray[np.bool_]:
    """Which parts of a buffer end with a byte."""
    if not len(buffer):
        return np.zeros(len(starts), np.bool_)
    ends: npt.NDArray[np.bool_] = buffer[np.maximum(starts + lengths - 1, 0)] == end
    return ends & (lengths > 0)


def whole_number(name: str, value: int, least: int) -> int:
    """A parameter of a format as an int; ValueError if it is none, or less than ``least``."""
    is_number = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_number or not least <= value < 2**62:
        raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return int(value)
