"""Reading of records by whole blocks, for storage where each read is expensive."""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .. import _core
from .._storage.byte_source import ByteBuffer, Ints
from ..checks import check_integer
from ..errors import CorruptRecordError, TorchRecIOError
from ..timing.steps import reading
from .native_frames import Frames
from .reader import Reader, RecordLocation, open_first
from .record_block import RecordBlock
from .record_reader import ReadPlan, RecordReader

# Blocks of objects that are at least so large are prefetched one by one: requests for smaller ones
# that are neighbors are joined.
_ALONE_BYTES = 1 << 20


@dataclass(slots=True)
class BlockPlan:
    """The blocks that hold some records.

    Attributes:
        frames: Plan of the records alone; only its layout of the buffer is used. Frames are in file
            order, which is fast to parse.
        blocks: Number of each record's block; int64 ``[n]``.
        needed: Numbers of all these blocks, ascending; int64.
        prefetched: Plans of blocks that are prefetched for this one.
    """

    frames: ReadPlan
    blocks: Ints
    needed: Ints
    prefetched: list[ReadPlan] = field(default_factory=list)

    @property
    def numbers(self) -> Ints:
        """Numbers of the records; int64 ``[n]``."""
        return self.frames.numbers

    @property
    def buffer_bytes(self) -> int:
        """Size of the buffer for the records' frames."""
        return self.frames.buffer_bytes

    def stored_bytes(self, begin: int, end: int) -> int:
        """Return the number of bytes of the records from ``begin`` to ``end``, as stored."""
        return self.frames.stored_bytes(begin, end)


class BlockReader(Reader):
    """Reads whole blocks of records, and keeps the most recently used ones in memory.

    A block takes one read from each of its files, if its records follow each other there. Records
    are checked when they are fetched: damage to one does not affect the others of its block.

    Blocks in memory are not shared with forked processes, nor pickled. Safe to use from several
    threads: if several want the same block, it is read once.

    Args:
        reader: Reader of the records.
        block_of: Function that returns the block of each record number; int64 ``[n]`` to int64
            ``[n]``.
        numbers_of: Function that returns the numbers of all records of a block, ascending; int64
            ``[n]``.
        keep: Largest number of blocks in memory, for each lane. Threads that fetch at the same
            time may each use one more.
        lanes: Number of lanes that the ranks divide.

    Attributes:
        reader: Reader of the records.

    Raises:
        ValueError: If ``keep`` is less than 1.
    """

    def __init__(
        self,
        reader: RecordReader,
        block_of: Callable[[Ints], Ints],
        numbers_of: Callable[[int], Ints],
        keep: int,
        lanes: int = 1,
    ) -> None:
        self.reader = reader
        self.verify_crc = reader.verify_crc
        self.max_record_bytes = reader.max_record_bytes
        self.compressions = reader.compressions
        self.prefetch_limits = reader.prefetch_limits
        self.is_native = reader.is_native
        self._block_of = block_of
        self._numbers_of = numbers_of
        self._keep_of_lane = check_integer("keep", keep, 1)
        self._keep = keep * lanes
        self._lanes = lanes
        self._reset()

    def __len__(self) -> int:
        return len(self.reader)

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = (self._block_of, self._numbers_of, self._keep_of_lane, self._lanes)
        return BlockReader, (self.reader, *arguments)

    def begin_epoch(self, num_ranks: int = 1) -> None:
        self._keep = self._keep_of_lane * -(-self._lanes // num_ranks)
        self.reader.begin_epoch()

    def end_epoch(self) -> None:
        self.reader.end_epoch()

    def plan(self, records: Ints) -> BlockPlan:
        return self._plan_of(self.reader.plan(records, gap=0))

    def _plan_of(self, frames: ReadPlan) -> BlockPlan:
        blocks = self._block_of(frames.numbers)
        # Faster for few numbers than unique().
        needed = np.array(sorted(set(blocks.tolist())), np.int64)
        return BlockPlan(frames, blocks, needed)

    def prefetch(self, plans: Sequence[BlockPlan]) -> None:
        blocks = [block for plan in plans for block in self._unread(plan)]
        if self.compressions or any(block.buffer_bytes < _ALONE_BYTES for block in blocks):
            self.reader.prefetch(blocks)
            return
        for block in blocks:
            self.reader.prefetch([block])

    def _unread(self, plan: BlockPlan) -> Iterator[ReadPlan]:
        """Yield the plans of blocks that are neither in memory nor prefetched."""
        self._reset_after_fork()
        for number in plan.needed.tolist():
            with self._lock:
                if number in self._blocks or number in self._prefetched:
                    continue
            self._prefetched[number] = prefetched = self.reader.plan(self._numbers_of(number))
            plan.prefetched.append(prefetched)
            yield prefetched

    def open_run(self, plans: Sequence[BlockPlan]) -> list[Frames]:
        return open_first(plans, self._open_frames)

    def _open_frames(self, plan: BlockPlan) -> Frames | None:
        if not self.is_native or self.reader.has_too_large(plan.frames):
            return None
        with reading():
            return Frames.of_plan(plan.frames, self._copy(plan))

    def fetch(self, plan: BlockPlan) -> tuple[RecordBlock, list[TorchRecIOError]]:
        """Copy the records of a plan from their blocks. Blocks that are not in memory are read.

        Returns:
            The valid records, in the order of the plan, and an error for each damaged one.

        Raises:
            TruncatedFileError: If a file has become shorter since it was indexed.
            OSError: If reading fails.
            ValueError: If ``numbers_of`` and ``block_of`` contradict each other.
        """
        frames, too_large = self.reader.without_too_large(plan.frames)
        if too_large:
            plan = self._plan_of(frames)
        try:
            records, errors = self.reader.extract(self._copy(plan), plan.frames)
        except CorruptRecordError:  # a compressed file is damaged, maybe in other records
            records, errors = self.reader.fetch(plan.frames)
        else:
            if errors:  # which another answer of a store may not have
                records, errors = self.reader.fetch(plan.frames)
        return records, [*too_large, *errors]

    def locate(self, numbers: Ints | Sequence[int]) -> list[RecordLocation]:
        return self.reader.locate(numbers)

    def _copy(self, plan: BlockPlan) -> ByteBuffer:
        """Return the frames of a plan, from its blocks."""
        self._reset_after_fork()
        buffer = _core.allocate(plan.buffer_bytes)
        needed = plan.needed.tolist()
        with self._lock:
            kept = {number: self._blocks[number] for number in needed if number in self._blocks}
            ready = {number: block.result() for number, block in kept.items() if block.done()}
            for number in ready:
                self._blocks.move_to_end(number)
        # Blocks in memory come first, before reading the others evicts them.
        self._gather(plan, ready, buffer)
        missing = [number for number in needed if number not in ready]
        del kept, ready
        for number in missing:
            self._gather(plan, {number: self._load(number)}, buffer)
        return buffer

    def _gather(
        self, plan: BlockPlan, blocks: dict[int, _core.FrameBlock], buffer: ByteBuffer
    ) -> None:
        """Copy the frames of blocks, in ascending order, to the buffer."""
        missing = _core.gather_frames(
            list(blocks.values()),
            np.array(list(blocks), np.int64),
            plan.frames,
            plan.blocks,
            buffer,
        )
        if missing is not None:
            block = plan.blocks[missing]
            raise ValueError(f"numbers_of({block}) lacks records that block_of assigns to it")

    def _load(self, number: int) -> _core.FrameBlock:
        """Return a block from memory, or read by this thread or by another that is reading it."""
        with self._lock:
            found = self._blocks.get(number)
            block = found or Future()
            self._blocks[number] = block
            self._blocks.move_to_end(number)
            while len(self._blocks) > self._keep:
                self._blocks.popitem(last=False)
        if found is None:
            try:
                block.set_result(self._read(number))
            except BaseException as error:  # noqa: BLE001  # threads that wait must not wait forever
                with self._lock:
                    if self._blocks.get(number) is block:  # later calls try again
                        del self._blocks[number]
                block.set_exception(error)
        return block.result()

    def _read(self, number: int) -> _core.FrameBlock:
        self.reader.count_memory_of(self)
        plan = self._prefetched.pop(number, None) or self.reader.plan(self._numbers_of(number))
        plan, _ = self.reader.without_too_large(plan)
        return _core.FrameBlock(plan, self.reader.read(plan))

    @property
    def held_bytes(self) -> int:
        """Size of the blocks in memory."""
        with self._lock:
            return sum(block.result().nbytes for block in self._blocks.values() if block.done())

    def _reset_after_fork(self) -> None:
        if self._pid != os.getpid():
            self._reset()  # another thread of the parent may have been changing the blocks

    def _reset(self) -> None:
        self._lock = threading.Lock()
        # Blocks in memory and those that are being read; last used last.
        self._blocks: OrderedDict[int, Future[_core.FrameBlock]] = OrderedDict()
        # Plans of blocks that are prefetched, as long as a plan of records needs them.
        self._prefetched: weakref.WeakValueDictionary[int, ReadPlan] = weakref.WeakValueDictionary()
        # Last: a thread that sees it may use the lock, and the parent's may be held forever.
        self._pid = os.getpid()
