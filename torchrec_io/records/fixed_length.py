"""Records of one length."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..errors import TorchRecIOError, TruncatedFileError
from ..storage.compressed import CompressedFile
from ..storage.local import LocalFile
from .custom_format import stream_size
from .formats import Cut, Progress, RecordFormat, Scan
from .lines import whole_number


class FixedLength(RecordFormat):
    """Records of as many bytes each, between a header and a footer of the file.

    As TensorFlow's ``FixedLengthRecordReader`` (2.21) has it, with keys ``"path:record"`` counted
    from 0. Where that passes over bytes that are left at the end, this finds them to be damage, as
    ``tf.data.FixedLengthRecordDataset`` does.

    Args:
        record_bytes: Of each record.
        header_bytes: At the front of each file, which are no records.
        footer_bytes: At the end of each file, likewise.

    Raises:
        ValueError: one of these is no whole number of at least 0, or ``record_bytes`` is 0.
    """

    is_kept = False  # it is only arithmetic

    def __init__(self, record_bytes: int, header_bytes: int = 0, footer_bytes: int = 0) -> None:
        self.record_bytes = whole_number("record_bytes", record_bytes, 1)
        self.header_bytes = whole_number("header_bytes", header_bytes, 0)
        self.footer_bytes = whole_number("footer_bytes", footer_bytes, 0)
        self.name = (
            f"fixed length, record_bytes={self.record_bytes}, header_bytes={self.header_bytes}, "
            f"footer_bytes={self.footer_bytes}"
        )

    def scan(self, source: LocalFile | CompressedFile, progress: Progress | None = None) -> Scan:
        size, error = stream_size(source, progress)
        room = size - self.header_bytes - self.footer_bytes
        count = max(0, room) // self.record_bytes
        bounds = np.arange(count + 1, dtype=np.uint64)
        bounds *= np.uint64(self.record_bytes)
        bounds += np.uint64(self.header_bytes)
        if error is None and room != count * self.record_bytes:
            error = self._uneven(source.path, size, room)
        if error is not None:
            error.record = count
        return Scan(bounds[:-1], int(bounds[-1]), error)

    def _uneven(self, path: str, size: int, room: int) -> TorchRecIOError:
        ends = f"a header of {self.header_bytes} and a footer of {self.footer_bytes}"
        if room < 0:
            reason = f"the file has {size} bytes, which are too few for {ends}"
        else:
            left = room % self.record_bytes
            reason = (
                f"the file has {size} bytes: between {ends} there are {room // self.record_bytes} "
                f"records of {self.record_bytes} bytes, and {left} bytes are left over"
            )
        offset = self.header_bytes + max(0, room) // self.record_bytes * self.record_bytes
        return TruncatedFileError(reason, path=path, offset=offset)

    def cut(
        self,
        buffer: npt.NDArray[np.uint8],
        placed: npt.NDArray[np.int64],
        sizes: npt.NDArray[np.int64],
        verify_crc: bool,
    ) -> Cut:
        del verify_crc
        return Cut(buffer, placed, sizes, ())

    def key(self, path: str, record: int, offset: int) -> str:
        del offset
        return f"{path}:{record}"

    def first_misplaced(
        self, file: LocalFile, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
    ) -> int | None:
        del file, starts, ends
        return None  # they follow from the size of the file, which is known to fit
