"""Fetches records by number from indexed files, in as few reads as that takes."""

from __future__ import annotations

import bisect
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import TorchRecIOError, TruncatedFileError
from .compressed import CompressedFile, open_source
from .index import RecordIndex
from .storage import LocalFile

# Two records at most this far apart are read at once: reading on is cheaper than a second call.
_COALESCE_GAP_BYTES = 1 << 14
_MOST_OPEN_FILES = 128


@dataclass(slots=True)
class RecordBlock:
    """Some records, in the order asked for, in one buffer.

    Attributes:
        buffer: uint8; records and what framed them, and padding.
        starts: int64 ``[n]``; where each record's data starts in ``buffer``.
        lengths: int64 ``[n]``; bytes of each record's data.
        numbers: ``[n]``; what names each record to its reader: int64, its number over all files;
            or :data:`torchrec_io.records.streamed.PLACE`.
    """

    buffer: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    numbers: npt.NDArray[Any]

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, position: int) -> bytes:
        start = int(self.starts[position])
        return self.buffer[start : start + int(self.lengths[position])].tobytes()

    def without(self, positions: Sequence[int]) -> RecordBlock:
        """The block less some of its records."""
        if not positions:
            return self
        keep = np.ones(len(self), bool)
        keep[list(positions)] = False
        return RecordBlock(self.buffer, self.starts[keep], self.lengths[keep], self.numbers[keep])

    def view(self, position: int) -> memoryview:
        """A record's data, without a copy."""
        start = int(self.starts[position])
        return self.buffer.data[start : start + int(self.lengths[position])]

    def native(self) -> _core.Records:
        """The records as the native parser takes them."""
        return _core.Records(self.buffer, self.starts, self.lengths)

    @classmethod
    def joined(cls, blocks: Sequence[RecordBlock]) -> RecordBlock:
        """The records of several blocks, in one."""
        bases = np.cumsum([0, *(len(block.buffer) for block in blocks[:-1])])
        starts = [block.starts + base for block, base in zip(blocks, bases, strict=True)]
        return cls(
            np.concatenate([block.buffer for block in blocks]),
            np.concatenate(starts),
            np.concatenate([block.lengths for block in blocks]),
            np.concatenate([block.numbers for block in blocks]),
        )


@dataclass(slots=True)
class RecordList:
    """Records that are in memory already, each a bytes object; otherwise as a RecordBlock."""

    records: tuple[bytes, ...]
    _native: _core.Records

    @classmethod
    def of(cls, records: Iterable[Any]) -> RecordList:
        """Records that are bytes, or anything that bytes can be made of without a look at it."""
        items = tuple(records)
        try:
            return cls(items, _core.Records(items))
        except TypeError:
            copies = tuple(bytes(memoryview(item)) for item in items)
            return cls(copies, _core.Records(copies))

    def __len__(self) -> int:
        return len(self.records)

    def view(self, position: int) -> memoryview:
        """A record's data, without a copy."""
        return memoryview(self.records[position])

    def native(self) -> _core.Records:
        """The records as the native parser takes them."""
        return self._native

    def without(self, positions: Sequence[int]) -> RecordList:
        """The list less some of its records."""
        dropped = set(positions)
        return RecordList.of(r for i, r in enumerate(self.records) if i not in dropped)


class RecordReader:
    """Reads records of several indexed files, numbered on from file to file.

    Files are opened on first use, in each process anew, so a reader can be pickled and forked.
    Safe to use from several threads. A file that was replaced or changed since its index was opened
    is found on its first use in each process, and again after :meth:`begin_epoch`.

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
        self._ends_list: list[int] = self._ends.tolist()
        self._forget_files()

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getstate__(self) -> dict[str, object]:
        return {"indexes": self.indexes, "verify_crc": self.verify_crc}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__init__(**state)  # type: ignore[misc]  # the state is what __init__ takes

    def begin_epoch(self) -> None:
        """Has every file looked at anew when it is used next: was it replaced or changed?"""
        self._epoch += 1

    def plan(self, numbers: npt.NDArray[np.int64]) -> ReadPlan:
        """Looks up where records are, and joins those that lie near each other into one read.

        Args:
            numbers: Of the records, in any order, repeats allowed; int64 ``[n]``.

        Raises:
            IndexError: there is no such record.
            StaleIndexError: a data file, or the file of its index, was replaced or changed.
            TruncatedFileError: a data file became shorter since it was indexed.
            FileNotFoundError: a data file is gone.
        """
        return self._plan_run(numbers) or _coalesce(numbers, *self._locate(numbers))

    def _plan_run(self, numbers: npt.NDArray[np.int64]) -> ReadPlan | None:
        """The plan of records that follow each other in one file, as without a shuffle: one read.

        None if they do not. What :func:`_coalesce` would give, in a third of the time.
        """
        if len(numbers) == 0:
            return None
        first, last = int(numbers[0]), int(numbers[-1])
        file = bisect.bisect_right(self._ends_list, first)
        if last - first != len(numbers) - 1 or first < 0 or file == len(self.indexes):
            return None
        if last >= self._ends_list[file] or not (numbers[1:] - numbers[:-1] == 1).all():
            return None
        starts, ends = self._index(file).locate(numbers - self._begins[file])
        begin, end = int(starts[0]), int(ends[-1])
        ranges = np.array([[begin, end - begin, 0]])
        return ReadPlan(
            numbers,
            ends - starts,
            starts - begin,
            [(file, ranges)],
            end - begin,
            (file, begin, end),
        )

    def will_need(self, plan: ReadPlan) -> None:
        """Tells the system which records are fetched next, so that it reads them meanwhile."""
        for file, ranges in plan.ranges:
            self._source(file).will_need(ranges)

    def fetch(self, plan: ReadPlan) -> tuple[RecordBlock, list[TorchRecIOError]]:
        """Reads the records of a plan.

        Returns:
            The sound records, in the order asked for, and an error for each damaged one.

        Raises:
            TruncatedFileError: a file became shorter since it was indexed.
            OSError: reading failed.
        """
        return self.check(self.read(plan), plan.numbers, plan.placed, plan.sizes)

    def read(self, plan: ReadPlan) -> npt.NDArray[np.uint8]:
        """A buffer that holds all the frames of a plan, unchecked.

        Raises:
            TruncatedFileError: a file became shorter since it was indexed.
            OSError: reading failed.
        """
        buffer = _core.allocate(plan.buffer_bytes)
        buffer[plan.buffer_bytes :] = 0
        for file, ranges in plan.ranges:
            source = self._source(file)
            short = source.read_ranges(ranges, buffer)
            if short is not None:
                raise TruncatedFileError(
                    "the file became shorter since it was indexed",
                    path=source.path,
                    offset=int(ranges[short, 0]),
                )
        return buffer

    def check(
        self,
        buffer: npt.NDArray[np.uint8],
        numbers: npt.NDArray[np.int64],
        placed: npt.NDArray[np.int64],
        sizes: npt.NDArray[np.int64],
    ) -> tuple[RecordBlock, list[TorchRecIOError]]:
        """The sound records among frames in a buffer, and an error for each damaged one.

        Args:
            buffer: uint8; becomes the block's.
            numbers: Of the records; int64 ``[n]``.
            placed: Where each frame starts in the buffer; int64 ``[n]``.
            sizes: Of the frames, as the index has them; int64 ``[n]``.
        """
        head, foot = self._format.header_bytes, self._format.footer_bytes
        lengths = sizes - (head + foot)
        block = RecordBlock(buffer, placed + head, lengths, numbers)
        faults = self._format.check(buffer, placed, lengths, self.verify_crc)
        errors = []
        for position, error_class, reason in faults:
            path, record, offset = self.place(int(numbers[position]))
            errors.append(error_class(reason, path=path, record=record, offset=offset))
        return block.without([position for position, _, _ in faults]), errors

    def place(self, number: int) -> tuple[str, int, int]:
        """File, number in that file, and byte offset of a record's frame."""
        file = int(np.searchsorted(self._ends, number, side="right"))
        record = number - int(self._begins[file])
        index = self._index(file)
        return index.data_path, record, int(index.locate(np.array([record]))[0][0])

    def keys(self, numbers: npt.NDArray[np.int64]) -> list[str]:
        """``path:offset`` of records, which names each one for good."""
        files, starts, _ = self._locate(numbers)
        return [
            f"{self.indexes[file].data_path}:{start}"
            for file, start in zip(files.tolist(), starts.tolist(), strict=True)
        ]

    def _locate(
        self, numbers: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """File, start and end of each record's frame."""
        files = np.searchsorted(self._ends, numbers, side="right")
        if len(numbers) and (numbers.min() < 0 or files.max() == len(self.indexes)):
            raise IndexError(f"there are {len(self)} records")
        if len(numbers) and files[0] == files[-1] and np.all(files == files[0]):
            file = int(files[0])
            return (files, *self._index(file).locate(numbers - self._begins[file]))
        starts = np.empty(len(numbers), np.int64)
        ends = np.empty(len(numbers), np.int64)
        for file in np.unique(files).tolist():
            here = files == file
            starts[here], ends[here] = self._index(file).locate(numbers[here] - self._begins[file])
        return files, starts, ends

    def _index(self, file: int) -> RecordIndex:
        """The index of a file, after a look at both where they were not looked at in this epoch."""
        if self._pid != os.getpid():
            self._forget_files()  # a forked child must not share what its parent opened
        index, epoch = self.indexes[file], self._epoch
        if self._looked[file] != epoch:
            with self._opening:
                if self._looked[file] != epoch:  # no other thread was faster
                    self._look(file)
                    self._looked[file] = epoch
        return index

    def _look(self, file: int) -> None:
        index = self.indexes[file]
        index.check_unchanged()
        source = self._open.get(file)
        if source is not None and source.stamp != index.data_stamp:
            del self._open[file]  # another file of the same content has its name now

    def _source(self, file: int) -> LocalFile | CompressedFile:
        index = self._index(file)
        with self._opening:
            source = self._open.get(file)
            if source is None:
                restarts = index.restarts if index.compression else []
                opened = LocalFile(index.data_path)
                index.check_opened(opened)
                source = open_source(opened, index.compression, restarts or [(0, 0)])
                while len(self._open) >= _MOST_OPEN_FILES:
                    self._open.popitem(last=False)
                self._open[file] = source
        return source

    def _forget_files(self) -> None:
        self._opening = threading.Lock()
        self._open: OrderedDict[int, LocalFile | CompressedFile] = OrderedDict()
        self._epoch = 1
        self._looked = [0] * len(self.indexes)  # in which epoch each file was
        # Last: a thread that sees it may use the lock, and the parent's may be held for good.
        self._pid = os.getpid()


@dataclass(slots=True)
class ReadPlan:
    """Where some records are, and the reads that fetch them.

    Attributes:
        numbers: Of the records; int64 ``[n]``.
        sizes: Of their frames, in bytes; int64 ``[n]``.
        placed: Where each frame will start in the buffer; int64 ``[n]``.
        ranges: For each file, int64 ``[reads, 3]``: offset, size, place in the buffer.
        buffer_bytes: The size of that buffer.
        run: File, first and last offset, if this is one read of records that follow each other.
    """

    numbers: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    placed: npt.NDArray[np.int64]
    ranges: list[tuple[int, npt.NDArray[np.int64]]]
    buffer_bytes: int
    run: tuple[int, int, int] | None = None

    def continues(self, other: ReadPlan) -> bool:
        """Whether this reads on where another plan ends."""
        if self.run is None or other.run is None:
            return False
        return self.run[:2] == (other.run[0], other.run[2])


def _coalesce(
    numbers: npt.NDArray[np.int64],
    files: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
) -> ReadPlan:
    """Joins frames that lie near each other into ranges to be read at once."""
    sizes = ends - starts
    if len(numbers) == 0:
        return ReadPlan(numbers, sizes, starts, [], 0)
    order = np.lexsort((starts, files))
    files, starts, ends = files[order], starts[order], ends[order]
    breaks = (files[1:] != files[:-1]) | (starts[1:] - ends[:-1] > _COALESCE_GAP_BYTES)
    first = np.concatenate(([0], np.flatnonzero(breaks) + 1))
    last = np.concatenate((first[1:], [len(starts)])) - 1
    range_sizes = ends[last] - starts[first]
    places = np.cumsum(range_sizes) - range_sizes
    which = np.concatenate(([0], np.cumsum(breaks)))
    placed = np.empty(len(starts), np.int64)
    placed[order] = places[which] + starts - starts[first][which]
    ranges = np.stack((starts[first], range_sizes, places), axis=1)
    return ReadPlan(numbers, sizes, placed, _by_file(files[first], ranges), int(range_sizes.sum()))


def _by_file(
    files: npt.NDArray[np.int64], ranges: npt.NDArray[np.int64]
) -> list[tuple[int, npt.NDArray[np.int64]]]:
    """Ranges in the order of their files, cut where the file changes."""
    cuts = np.flatnonzero(files[1:] != files[:-1]) + 1
    firsts = [0, *cuts.tolist()]
    return [
        (int(files[first]), part)
        for first, part in zip(firsts, np.split(ranges, cuts), strict=True)
    ]
