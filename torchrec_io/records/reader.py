"""Fetches records by number from indexed files, in as few reads as that takes."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import TorchRecIOError, TruncatedFileError
from .index import RecordIndex
from .storage import CompressedFile, LocalFile, open_source

# Two records at most this far apart are read at once: reading on is cheaper than a second call.
_COALESCE_GAP_BYTES = 1 << 14
# The native parser compares 64 bytes at a time; behind the last record they are still ours to read.
_PADDING_BYTES = 64
_MOST_OPEN_FILES = 128


@dataclass(frozen=True)
class RecordBlock:
    """Some records, in the order asked for, in one buffer.

    Attributes:
        buffer: uint8; records and what framed them, and padding.
        starts: int64 ``[n]``; where each record's data starts in ``buffer``.
        lengths: int64 ``[n]``; bytes of each record's data.
        numbers: int64 ``[n]``; the records' numbers over all files.
    """

    buffer: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, position: int) -> bytes:
        start = int(self.starts[position])
        return self.buffer[start : start + int(self.lengths[position])].tobytes()

    def without(self, positions: Sequence[int]) -> RecordBlock:
        """The block less some of its records."""
        keep = np.ones(len(self), bool)
        keep[list(positions)] = False
        return RecordBlock(self.buffer, self.starts[keep], self.lengths[keep], self.numbers[keep])

    @classmethod
    def of(cls, records: Sequence[bytes]) -> RecordBlock:
        """A block of records that are in memory already."""
        lengths = np.array([len(record) for record in records], np.int64)
        starts = np.zeros(len(records), np.int64)
        np.cumsum(lengths[:-1], out=starts[1:])
        buffer = np.frombuffer(b"".join([*records, bytes(_PADDING_BYTES)]), np.uint8)
        return cls(buffer, starts, lengths, np.arange(len(records), dtype=np.int64))


class RecordReader:
    """Reads records of several indexed files, numbered on from file to file.

    Files are opened on first use, in each process anew, so a reader can be pickled and forked.
    Safe to use from several threads.

    Args:
        indexes: One for each file; they must be of one record format.
        verify_crc: Whether each record's data is checked against its checksum. Lengths always are.
    """

    def __init__(self, indexes: Sequence[RecordIndex], *, verify_crc: bool = True) -> None:
        self.indexes = tuple(indexes)
        self.verify_crc = verify_crc
        self._format = self.indexes[0].format
        counts = np.array([len(index) for index in self.indexes], np.int64)
        self._ends = np.cumsum(counts)  # number behind each file's last record
        self._begins = self._ends - counts
        self._forget_files()

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getstate__(self) -> dict[str, object]:
        return {"indexes": self.indexes, "verify_crc": self.verify_crc}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__init__(**state)  # type: ignore[misc]  # the state is what __init__ takes

    def fetch(self, numbers: npt.NDArray[np.int64]) -> tuple[RecordBlock, list[TorchRecIOError]]:
        """Reads records by number, in any order, repeats allowed.

        Returns:
            The sound records, in the order asked for, and an error for each damaged one.

        Raises:
            IndexError: there is no such record.
            TruncatedFileError: a file became shorter since it was indexed.
            OSError: reading failed.
        """
        files, starts, ends = self._locate(numbers)
        buffer, placed = self._read(files, starts, ends)
        head, foot = self._format.header_bytes, self._format.footer_bytes
        lengths = ends - starts - head - foot
        block = RecordBlock(buffer, placed + head, lengths, numbers)
        faults = self._format.check(buffer, placed, lengths, self.verify_crc)
        if not faults:
            return block, []
        errors = []
        for position, error_class, reason in faults:
            path, record, offset = self.place(int(numbers[position]))
            errors.append(error_class(reason, path=path, record=record, offset=offset))
        return block.without([position for position, _, _ in faults]), errors

    def will_need(self, numbers: npt.NDArray[np.int64]) -> None:
        """Tells the system which records are fetched next, so that it reads them meanwhile."""
        files, starts, ends = self._locate(numbers)
        for file, start, end, _ in _coalesce(files, starts, ends).ranges:
            self._source(file).will_need(start, end - start)

    def place(self, number: int) -> tuple[str, int, int]:
        """File, number in that file, and byte offset of a record's frame."""
        file = int(np.searchsorted(self._ends, number, side="right"))
        record = number - int(self._begins[file])
        index = self.indexes[file]
        return index.data_path, record, int(index.locate(np.array([record]))[0][0])

    def keys(self, numbers: npt.NDArray[np.int64]) -> list[str]:
        """``path:offset`` of records, which names each one for good."""
        files, starts, _ = self._locate(numbers)
        return [
            f"{self.indexes[file].data_path}:{start}"
            for file, start in zip(files.tolist(), starts.tolist())
        ]

    # ---- where records are ----

    def _locate(
        self, numbers: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """File, start and end of each record's frame."""
        files = np.searchsorted(self._ends, numbers, side="right")
        if len(numbers) and (numbers.min() < 0 or files.max() == len(self.indexes)):
            raise IndexError(f"there are {len(self)} records")
        if len(numbers) and files[0] == files[-1] and np.all(files == files[0]):
            file = int(files[0])
            return (files, *self.indexes[file].locate(numbers - self._begins[file]))
        starts = np.empty(len(numbers), np.int64)
        ends = np.empty(len(numbers), np.int64)
        for file in np.unique(files).tolist():
            here = files == file
            starts[here], ends[here] = self.indexes[file].locate(numbers[here] - self._begins[file])
        return files, starts, ends

    # ---- reading ----

    def _read(
        self,
        files: npt.NDArray[np.int64],
        starts: npt.NDArray[np.int64],
        ends: npt.NDArray[np.int64],
    ) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """A buffer that holds all the frames, and where each one starts in it."""
        plan = _coalesce(files, starts, ends)
        buffer = np.empty(plan.size + _PADDING_BYTES, np.uint8)
        buffer[plan.size :] = 0
        view = memoryview(buffer)
        for file, start, end, at in plan.ranges:
            source = self._source(file)
            size = end - start
            if source.read_into(start, view[at : at + size]) != size:
                raise TruncatedFileError(
                    "the file became shorter since it was indexed", path=source.path, offset=start
                )
        return buffer, plan.placed

    def _source(self, file: int) -> LocalFile | CompressedFile:
        if self._pid != os.getpid():
            self._forget_files()  # a forked child must not share what its parent opened
        source = self._open.get(file)
        if source is None:
            index = self.indexes[file]
            restarts = index.restarts if index.compression else ()
            source = open_source(index.data_path, index.compression, restarts or ((0, 0),))
            while len(self._open) >= _MOST_OPEN_FILES:
                self._open.popitem(last=False)
            self._open[file] = source
        return source

    def _forget_files(self) -> None:
        self._pid = os.getpid()
        self._open: OrderedDict[int, LocalFile | CompressedFile] = OrderedDict()


@dataclass(frozen=True)
class _ReadPlan:
    ranges: list[tuple[int, int, int, int]]  # file, start, end, where it goes in the buffer
    placed: npt.NDArray[np.int64]  # where each frame starts in the buffer
    size: int


def _coalesce(
    files: npt.NDArray[np.int64], starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> _ReadPlan:
    """Joins frames that lie near each other into ranges to be read at once."""
    if len(starts) == 0:
        return _ReadPlan([], starts, 0)
    in_order = bool(np.all(files[1:] == files[:-1]) and np.all(starts[1:] >= starts[:-1]))
    order = np.arange(len(starts)) if in_order else np.lexsort((starts, files))
    files, starts, ends = files[order], starts[order], ends[order]
    breaks = (files[1:] != files[:-1]) | (starts[1:] - ends[:-1] > _COALESCE_GAP_BYTES)
    first = np.concatenate(([0], np.flatnonzero(breaks) + 1))
    last = np.concatenate((first[1:], [len(starts)])) - 1
    sizes = ends[last] - starts[first]
    begins = np.cumsum(sizes) - sizes
    which = np.concatenate(([0], np.cumsum(breaks)))
    placed = np.empty(len(starts), np.int64)
    placed[order] = begins[which] + starts - starts[first][which]
    ranges = list(
        zip(files[first].tolist(), starts[first].tolist(), ends[last].tolist(), begins.tolist())
    )
    return _ReadPlan(ranges, placed, int(sizes.sum()))
