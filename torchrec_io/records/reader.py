"""Fetches records by number from indexed files, in as few reads as that takes."""

from __future__ import annotations

import bisect
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import TorchRecIOError, TruncatedFileError
from ..storage.compressed import CompressedFile, open_source
from ..storage.local import LocalFile, read_ranges
from .formats import TFRECORD
from .index import RecordIndex
from .index_cache import find_promised

ReadPlan: TypeAlias = _core.ReadPlan

# Two records at most this far apart are read at once: in memory, reading on over a page costs about
# as much as a second call.
_COALESCE_GAP_BYTES = 1 << 12
_MOST_OPEN_FILES = 128
# Those of a batch may be more than are kept open.
_FILES_AT_ONCE = 16
# So many reads are announced for each time that the system had to wait, which costs about as much.
_HINTED_READS = 2
# One that was announced may not wait. After so many on a slow disk one is not announced, to see
# whether it would.
_MOST_HINTED_READS = 256


@dataclass(slots=True)
class RecordBlock:
    """Some records, in the order asked for, in one buffer.

    Attributes:
        buffer: uint8; records and what framed them, and padding.
        starts: int64 ``[n]``; where each record's data starts in ``buffer``.
        lengths: int64 ``[n]``; bytes of each record's data.
        numbers: ``[n]``; what names each record to its reader: int64, its number over all files;
            or :data:`torchrec_io.records.stream_reader.PLACE`.
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

    @property
    def numbers(self) -> npt.NDArray[np.int64]:
        """What names each record: its position."""
        return np.arange(len(self.records))

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
        self.format = self.indexes[0].format
        self._hints = 0  # how many reads more are announced to the system
        self._counts = np.array([len(index) for index in self.indexes], np.int64)
        self._ends = np.cumsum(self._counts)
        self._forget_files()

    def __len__(self) -> int:
        return int(self._counts.sum())

    def __getstate__(self) -> dict[str, object]:
        return {"indexes": self.indexes, "verify_crc": self.verify_crc}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__init__(**state)  # type: ignore[misc]  # the state is what __init__ takes

    def begin_epoch(self) -> None:
        """Has every file looked at anew when it is used next: was it replaced or changed?"""
        self._epoch += 1

    def plan(self, numbers: npt.NDArray[np.int64], gap: int = _COALESCE_GAP_BYTES) -> ReadPlan:
        """Looks up where records are, and joins those that lie near each other into one read.

        Args:
            numbers: Of the records, in any order, repeats allowed; int64 ``[n]``.
            gap: Two records with at most so many bytes between them are read at once.

        Raises:
            IndexError: there is no such record.
            StaleIndexError: a data file, or the file of its index, was replaced or changed.
            TruncatedFileError: a data file became shorter since it was indexed.
            FileNotFoundError: a data file is gone.
        """
        self._enter_process()
        numbers = np.ascontiguousarray(numbers, np.int64)
        epoch = self._epoch
        found = self._set.plan(numbers, epoch, gap)
        while unchecked := found.unchecked_files:
            self._look_at(unchecked, epoch)
            found = self._set.plan(numbers, epoch, gap)
        return found

    def will_need(self, plan: ReadPlan) -> None:
        """Tells the system which records are fetched next, so that it reads them meanwhile.

        Only where it lately had to read some: what is in memory anyway is not worth the calls.
        """
        if self._hints > 0:
            for source, (_, ranges) in zip(self._sources(plan.files), plan.by_file(), strict=True):
                source.will_need(ranges)

    def fetch(self, plan: ReadPlan) -> tuple[RecordBlock, list[TorchRecIOError]]:
        """Reads the records of a plan.

        Returns:
            The sound records, in the order asked for, and an error for each damaged one.

        Raises:
            TruncatedFileError: a file became shorter since it was indexed.
            OSError: reading failed.
        """
        return self.check(self.read(plan), plan.numbers, plan.frame_starts, plan.frame_sizes)

    def read(self, plan: ReadPlan) -> npt.NDArray[np.uint8]:
        """A buffer that holds all the frames of a plan, unchecked.

        Raises:
            TruncatedFileError: a file became shorter since it was indexed.
            OSError: reading failed.
            MemoryError: there is not enough for the records.
        """
        try:
            buffer = _core.allocate(plan.buffer_bytes)
        except MemoryError:
            raise MemoryError(
                f"there is no memory for {len(plan.numbers)} records, {plan.buffer_bytes} bytes as "
                "stored: a smaller batch_size needs less"
            ) from None
        waits = 0
        all_files, all_bounds, ranges = plan.files, plan.range_bounds, plan.ranges
        for first in range(0, len(all_files), _FILES_AT_ONCE):
            files = all_files[first : first + _FILES_AT_ONCE]
            sources = self._sources(files)
            bounds = all_bounds[first : first + len(files) + 1]
            reading = read_ranges(sources, bounds, ranges, buffer)
            if reading.truncated_range is not None:
                raise TruncatedFileError(
                    "the file became shorter since it was indexed",
                    path=sources[bisect.bisect_right(bounds, reading.truncated_range) - 1].path,
                    offset=int(ranges[reading.truncated_range, 0]),
                )
            waits += reading.waits
        self.note_waits(waits)
        return buffer

    def open_files(self, plan: ReadPlan) -> list[LocalFile] | None:
        """The files of a plan, if the core can read and check it without help.

        Returns:
            None if some are compressed, or they are too many to be open at once.

        Raises:
            TorchRecIOError, OSError: a file is not what was indexed, or cannot be opened.
        """
        if self.format.code != TFRECORD.code or len(plan.files) > _FILES_AT_ONCE:
            return None
        files = [file for file in self._sources(plan.files) if isinstance(file, LocalFile)]
        return files if len(files) == len(plan.files) else None

    def note_waits(self, waits: int) -> None:
        """Notes how often the system lately had to wait for what was read."""
        self._hints = min(max(0, self._hints - 1) + _HINTED_READS * waits, _MOST_HINTED_READS)

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
        cut = self.format.cut(buffer, placed, sizes, self.verify_crc)
        block = RecordBlock(cut.buffer, cut.starts, cut.lengths, numbers)
        errors = []
        for position, error_class, reason in cut.faults:
            path, record, offset = self.place(int(numbers[position]))
            errors.append(error_class(reason, path=path, record=record, offset=offset))
        return block.without([position for position, _, _ in cut.faults]), errors

    def place(self, number: int) -> tuple[str, int, int]:
        """File, number in that file, and byte offset of a record's frame."""
        ((file,), (start,)) = self._locate(np.array([number], np.int64))
        return (
            self.indexes[file].data_path,
            number - int(self._ends[file] - self._counts[file]),
            start,
        )

    def keys(self, numbers: npt.NDArray[np.int64]) -> list[str]:
        """The key of each record, which names it for good: ``path:offset`` in TFRecord files."""
        files, starts = self._locate(numbers)
        records = numbers - (self._ends - self._counts)[files]
        paths = [self.indexes[file].data_path for file in files]
        return self.format.keys(paths, records.tolist(), starts)

    def _locate(self, numbers: npt.NDArray[np.int64]) -> tuple[list[int], list[int]]:
        """File and start of each record's frame."""
        self._enter_process()
        epoch = self._epoch
        found = self._set.locate(numbers, epoch)
        while unchecked := found.unchecked_files:
            self._look_at(unchecked, epoch)
            found = self._set.locate(numbers, epoch)
        return found.files, found.starts

    def _look_at(self, files: list[int], epoch: int) -> None:
        """Checks files and their indexes where that was not done in an epoch."""
        with self._opening:
            unchecked = self._set.unchecked(files, epoch)  # if no other thread was faster
            find_promised([self.indexes[file] for file in unchecked])
            for file in unchecked:
                index = self.indexes[file]
                index.check_unchanged()
                source = self._open.get(file)
                if source is not None and source.stamp != index.data_stamp:
                    del self._open[file]  # another file of the same content has its name now
                self._set.mark_checked(file, index.file_bytes, epoch)

    def _sources(self, files: list[int]) -> list[LocalFile | CompressedFile]:
        """The open files."""
        self._enter_process()
        epoch = self._epoch
        if unchecked := self._set.unchecked(files, epoch):
            self._look_at(unchecked, epoch)
        with self._opening:
            return [self._open.get(file) or self._opened(file) for file in files]

    def _opened(self, file: int) -> LocalFile | CompressedFile:
        index = self.indexes[file]
        restarts = index.restarts if index.compression else []
        opened = LocalFile(index.data_path)
        index.check_opened(opened)
        source = open_source(opened, index.compression, restarts or [(0, 0)])
        while len(self._open) >= _MOST_OPEN_FILES:
            self._open.popitem(last=False)
        self._open[file] = source
        return source

    def _enter_process(self) -> None:
        if self._pid != os.getpid():
            self._forget_files()  # a forked child must not share what its parent opened

    def _forget_files(self) -> None:
        self._opening = threading.Lock()
        self._open: OrderedDict[int, LocalFile | CompressedFile] = OrderedDict()
        self._epoch = 1
        self._set = _core.IndexSet(self._counts)
        self._hints = 2  # until it shows whether that is worth it
        # Last: a thread that sees it may use the lock, and the parent's may be held for good.
        self._pid = os.getpid()


class NativeReads(NamedTuple):
    """A plan that the core is to carry out by itself; holds the files open."""

    files: list[LocalFile]
    plan: ReadPlan
    block: RecordBlock  # of what will be in its buffer

    @classmethod
    def into(
        cls, files: list[LocalFile], plan: ReadPlan, buffer: npt.NDArray[np.uint8]
    ) -> NativeReads:
        """Reads into a buffer: uint8, of ``plan.buffer_bytes`` at least."""
        head = TFRECORD.header_bytes
        lengths = plan.frame_sizes - (head + TFRECORD.footer_bytes)
        block = RecordBlock(buffer, plan.frame_starts + head, lengths, plan.numbers)
        return cls(files, plan, block)

    def for_core(self, records: _core.Records) -> _core.BatchReads:
        """Return the reads for the native core; ``records`` are those of the block."""
        descriptors = [file.descriptor for file in self.files]
        return _core.BatchReads(descriptors, self.plan, self.block.buffer, records)
