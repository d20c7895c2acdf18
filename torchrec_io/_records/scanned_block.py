"""Records of a file in memory, with the damage between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from .._storage.byte_source import Ints
from ..errors import TorchRecIOError
from .formats import TFRECORD
from .record_block import RecordBlock


class Gap(NamedTuple):
    """Bytes of a stream that belong to no valid record.

    Attributes:
        error: Error of the first record that is lost, with its stream offset.
        offset: Stream offset of the first byte.
        size: Size in bytes; 0 if it is unknown.
        is_one_record: True if exactly one record is lost: its data is damaged, its length is not.
    """

    error: TorchRecIOError
    offset: int
    size: int
    is_one_record: bool = True


@dataclass(frozen=True)
class ScannedBlock:
    """Valid records of a file, in order, and the gaps between them.

    Attributes:
        path: File.
        block: Records, by their numbers in the file. Their buffer is valid until the next block is
            requested.
        offsets: Offset of each record's frame in the file or decompressed stream; int64 ``[n]``.
        gaps: Gaps between the records, in order.
        content: Stream offsets of the bytes that were read for this block.
        file_bytes_read: Number of bytes of the file read so far.
    """

    path: str
    block: RecordBlock
    offsets: Ints
    gaps: Sequence[Gap] = ()
    content: range = range(0)
    file_bytes_read: int = 0

    @classmethod
    def of_gap(cls, path: str, gap: Gap, **attributes: Any) -> ScannedBlock:
        """Return a block without records."""
        none = np.empty(0, np.int64)
        block = RecordBlock(np.empty(0, np.uint8), none, none, none)
        return cls(path, block, none, [gap], **attributes)

    @property
    def errors(self) -> list[TorchRecIOError]:
        """Error of each gap."""
        return [gap.error for gap in self.gaps]

    @property
    def total(self) -> int:
        """Number of records and gaps."""
        return len(self.block) + len(self.gaps)

    @property
    def stored_bytes(self) -> int:
        """Size of the records with their frames."""
        return int(self.block.lengths.sum()) + len(self.block) * TFRECORD.overhead_bytes

    def records(self) -> Iterator[tuple[int, bytes]]:
        """Yield the stream offset of the frame, and the data, of each record."""
        data, block = self.block.buffer.data, self.block
        for offset, start, length in zip(
            self.offsets.tolist(), block.starts.tolist(), block.lengths.tolist(), strict=True
        ):
            yield offset, bytes(data[start : start + length])

    def place(self, position: int) -> dict[str, Any]:
        """Return the path, number and offset of a record, as arguments of an error."""
        number, offset = int(self.block.numbers[position]), int(self.offsets[position])
        return {"path": self.path, "record": number, "offset": offset}

    def before(self, offset: int) -> ScannedBlock:
        """Return the records and gaps that start before a stream offset."""
        kept = np.flatnonzero(self.offsets < offset)
        gaps = [gap for gap in self.gaps if gap.offset < offset]
        return replace(self, block=self.block.rows(kept), offsets=self.offsets[kept], gaps=gaps)


def raise_at_gaps(blocks: Iterable[ScannedBlock]) -> Iterator[ScannedBlock]:
    """Yield blocks up to the first gap.

    Raises:
        CorruptRecordError, RecordTooLargeError, TruncatedFileError: Error of the first gap, once
            the records before it were yielded.
    """
    for block in blocks:
        if not block.gaps:
            yield block
            continue
        yield block.before(block.gaps[0].offset)
        raise block.gaps[0].error


def with_loss(
    error: TorchRecIOError, lost: str = "the rest of the file is lost"
) -> TorchRecIOError:
    """Return an error about a damaged length that also states the loss after it."""
    reason = f"{error.reason}; {lost}"
    return type(error)(reason, path=error.path, record=error.record, offset=error.offset)
