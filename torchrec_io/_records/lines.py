"""Lines of text as records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from .._storage.byte_source import ByteSource, file_bytes_read
from ..checks import check_integer
from ..errors import TorchRecIOError
from .formats import Fault, Progress, RecordFormat, ScanResult
from .record_block import RecordBlock

_NEWLINE, _RETURN = 10, 13
_CHUNK_BYTES = 1 << 20


class TextLines(RecordFormat):
    r"""Lines: a record ends at ``"\n"``, which is not part of it, nor is a ``"\r"`` before that.

    The rules are those of TensorFlow's ``TextLineReader`` (2.21). Bytes are not decoded. Only a
    ``"\r"`` at the end of a line is dropped. A last line needs no newline, but is not a record if
    it is empty. Keys are ``"path:line"``, counted from 1, including skipped lines.

    Args:
        skip_header_lines: Number of lines to skip at the start of each file.

    Raises:
        ValueError: If ``skip_header_lines`` is not a non-negative integer.
    """

    def __init__(self, skip_header_lines: int = 0) -> None:
        self.skip_header_lines = check_integer("skip_header_lines", skip_header_lines)
        self.name = f"lines, skip_header_lines={self.skip_header_lines}"

    def scan(self, source: ByteSource, progress: Progress) -> ScanResult:
        buffer = np.empty(_CHUNK_BYTES, np.uint8)
        found = [np.zeros(1, np.uint64)]  # starts of lines
        at = last = lines = 0  # last: start of the last line
        chunk = np.empty(0, np.uint8)
        error: TorchRecIOError | None = None
        while True:
            try:
                got = source.read_into(at, buffer.data)
            except TorchRecIOError as damage:
                error = damage
                break
            if got == 0:
                break
            chunk = buffer[:got]
            starts = np.flatnonzero(chunk == _NEWLINE)
            starts += at + 1
            found.append(starts.view(np.uint64))
            if len(starts):
                last = int(starts[-1])
            at += got
            lines += len(starts)
            progress(file_bytes_read(source, at), lines)
        left = at - last
        # The last line of a damaged stream is not a record: it may have been longer.
        if error is None and (left > 1 or (left == 1 and chunk[-1] != _RETURN)):
            found.append(np.array([at], np.uint64))
        bounds = np.concatenate(found)
        if error is not None:
            error.record = max(0, len(bounds) - 1 - self.skip_header_lines)
        bounds = bounds[self.skip_header_lines :]
        return ScanResult(bounds[:-1], int(bounds[-1]) if len(bounds) else at, error)

    def extract(self, frames: RecordBlock, verify_crc: bool) -> tuple[RecordBlock, Sequence[Fault]]:
        del verify_crc
        block = frames
        for end in (_NEWLINE, _RETURN):
            block = replace(block, lengths=block.lengths - _ends_with(end, block))
        return block, ()

    def key(self, path: str, record: int, offset: int) -> str:
        del offset
        return f"{path}:{record + self.skip_header_lines + 1}"

    def covers(self, before: int, after: int) -> bool:
        # A last line that is empty is no record, even if it ends with a "\r".
        return after <= 1 and (before == 0 or self.skip_header_lines > 0)


def _ends_with(end: int, block: RecordBlock) -> npt.NDArray[np.bool_]:
    """Return True for each record that ends with a given byte; bool ``[n]``."""
    if not len(block.buffer):
        return np.zeros(len(block), np.bool_)
    lasts = np.maximum(block.starts + block.lengths - 1, 0)
    ends: npt.NDArray[np.bool_] = block.buffer[lasts] == end
    return ends & (block.lengths > 0)
