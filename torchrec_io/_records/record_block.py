"""Records in memory: in one buffer, or as a list."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from .._storage.byte_source import ByteBuffer, Ints


@dataclass(slots=True)
class RecordBlock:
    """Records in one buffer, in the requested order.

    Attributes:
        buffer: Buffer with the records, their frames and padding; uint8.
        starts: Offset of each record's data in ``buffer``; int64 ``[n]``.
        lengths: Size of each record's data in bytes; int64 ``[n]``.
        numbers: Identity of each record for its reader, ``[n]``: int64 record numbers, or values of
            :data:`torchrec_io._records.stream_reader.STREAM_LOCATION`.
        kept: Parts of records that its reader kept, for their parser; None if records are complete.
    """

    buffer: ByteBuffer
    starts: Ints
    lengths: Ints
    numbers: npt.NDArray[Any]
    kept: Any = None

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, position: int) -> bytes:
        start = int(self.starts[position])
        return self.buffer[start : start + int(self.lengths[position])].tobytes()

    def without(self, positions: Sequence[int]) -> RecordBlock:
        """Return the block without the records at some positions."""
        if not positions:
            return self
        return self.rows(np.delete(np.arange(len(self)), positions))

    def rows(self, positions: Ints | slice) -> RecordBlock:
        """Return the records at some positions, in that order; repeats are allowed."""
        return dataclasses.replace(
            self,
            starts=self.starts[positions],
            lengths=self.lengths[positions],
            numbers=self.numbers[positions],
        )

    def view(self, position: int) -> memoryview:
        """Return a record's data without copying it."""
        start = int(self.starts[position])
        return self.buffer.data[start : start + int(self.lengths[position])]

    def native(self) -> _core.Records:
        """Return the records in the form that the native parser takes."""
        return _core.Records(self.buffer, self.starts, self.lengths)


@dataclass(slots=True)
class RecordList:
    """Records that are bytes objects, with the interface of :class:`RecordBlock`.

    Attributes:
        records: Data of the records.
    """

    records: tuple[bytes, ...]
    _native: _core.Records

    @classmethod
    def of(cls, records: Iterable[Any]) -> RecordList:
        """Make a list of bytes objects, or of any objects that support the buffer protocol."""
        items = tuple(records)
        try:
            return cls(items, _core.Records(items))
        except TypeError:
            copies = tuple(bytes(memoryview(item)) for item in items)
            return cls(copies, _core.Records(copies))

    def __len__(self) -> int:
        return len(self.records)

    @property
    def numbers(self) -> Ints:
        """Position of each record."""
        return np.arange(len(self.records))

    def view(self, position: int) -> memoryview:
        """Return a record's data without copying it."""
        return memoryview(self.records[position])

    def native(self) -> _core.Records:
        """Return the records in the form that the native parser takes."""
        return self._native

    def without(self, positions: Sequence[int]) -> RecordList:
        """Return the list without the records at some positions."""
        dropped = set(positions)
        return RecordList.of(r for i, r in enumerate(self.records) if i not in dropped)
