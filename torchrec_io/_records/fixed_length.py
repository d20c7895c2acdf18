"""Records of a fixed length."""

from __future__ import annotations

import numpy as np

from .._storage.byte_source import ByteSource, file_bytes_read, find_size
from ..checks import check_integer, counted
from ..errors import TruncatedFileError
from .formats import Progress, RecordFormat, ScanResult


class FixedLength(RecordFormat):
    """Records of the same length, between a header and a footer of the file.

    As for TensorFlow's ``FixedLengthRecordReader`` (2.21), keys are ``"path:record"``, counted from
    0. Unlike that reader, which ignores bytes left over at the end, this format reports them as
    damage, as ``tf.data.FixedLengthRecordDataset`` does.

    Args:
        record_bytes: Size of each record in bytes.
        header_bytes: Number of bytes to skip at the start of each file.
        footer_bytes: Number of bytes to skip at the end of each file.

    Raises:
        ValueError: If an argument is not an integer in range: at least 1 for ``record_bytes``, at
            least 0 for the others.
    """

    is_cached = False  # the index follows from the file's size

    def __init__(self, record_bytes: int, header_bytes: int = 0, footer_bytes: int = 0) -> None:
        self.record_bytes = check_integer("record_bytes", record_bytes, 1)
        self.header_bytes = check_integer("header_bytes", header_bytes)
        self.footer_bytes = check_integer("footer_bytes", footer_bytes)
        self.name = (
            f"fixed length, record_bytes={self.record_bytes}, header_bytes={self.header_bytes}, "
            f"footer_bytes={self.footer_bytes}"
        )

    def scan(self, source: ByteSource, progress: Progress) -> ScanResult:
        size, error = find_size(source, lambda done: progress(done, 0))
        if error is not None:  # the footer may start before the damaged member
            size = source.valid_end
        room = size - self.header_bytes - self.footer_bytes
        count, left = divmod(max(0, room), self.record_bytes)
        progress(file_bytes_read(source, size), count)
        bounds = np.arange(count + 1, dtype=np.uint64)
        bounds *= np.uint64(self.record_bytes)
        bounds += np.uint64(self.header_bytes)
        if error is None and (room < 0 or left):
            ends = f"a header of {self.header_bytes} and a footer of {self.footer_bytes}"
            reason = f", too few for {ends}"
            if room >= 0:
                reason = (
                    f": {counted(left, 'byte')} left over after {counted(count, 'record')} of "
                    f"{counted(self.record_bytes, 'byte')} between {ends}"
                )
            options = "record_bytes, header_bytes and footer_bytes"
            reason = f"the file has {counted(size, 'byte')}{reason}; {options} must fit the file"
            error = TruncatedFileError(reason, path=source.path, offset=int(bounds[-1]))
        if error is not None:
            error.record = count
        return ScanResult(bounds[:-1], int(bounds[-1]), error)

    def key(self, path: str, record: int, offset: int) -> str:
        del offset
        return f"{path}:{record}"
