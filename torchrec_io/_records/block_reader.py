"""Reading of records by whole blocks, for storage where each read is expensive."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np

from .. import _core
from .._storage.byte_source import ByteBuffer, Ints
from ..checks import check_integer
from ..timing.steps import reading
from .native_frames import Frames
from .open_files import OpenFiles
from .record_reader import ReadPlan, RecordReader
from .repetitions import own_numbers

# Blocks of objects that are at least so large are prefetched one by one: requests for smaller ones
# that are neighbors are joined.
_ALONE_BYTES = 1 << 20


class BlockReader(RecordReader):
    """Reads whole blocks of records, and keeps the most recently used ones in memory.

    A block takes one read from each of its files, if its records follow each other there. Records
    are checked when they are fetched: damage to one does not affect the others of its block.

    Blocks in memory are not shared with forked processes, nor pickled. Safe to use from several
    threads: if several want the same block, it is read once.

    Args:
        reader: Reader of the same records, whose open files are used.
        block_of: Function that returns the block of each record number; int64 ``[n]`` to int64
            ``[n]``.
        numbers_of: Function that returns the numbers of all records of a block, ascending; int64
            ``[n]``.
        keep: Largest number of blocks that stay in memory, for each lane. The blocks of a plan
            are in memory while it is fetched.
        lanes: Number of lanes that the ranks divide.

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
        self._reader = reader
        self._block_of = block_of
        self._numbers_of = numbers_of
        self._keep_of_lane = check_integer("keep", keep, 1)
        self._keep = keep * lanes
        self._lanes = lanes
        super().__init__(reader.indexes, **reader.options)

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = (self._block_of, self._numbers_of, self._keep_of_lane, self._lanes)
        return BlockReader, (self._reader, *arguments)

    def begin_epoch(self, num_ranks: int = 1) -> None:
        self._keep = self._keep_of_lane * -(-self._lanes // num_ranks)
        super().begin_epoch()

    def plan(self, records: Ints, gap: int = 0) -> ReadPlan:
        # The records are copied from their blocks, so there is nothing between them.
        return super().plan(records, gap)

    def prefetch(self, plans: Sequence[ReadPlan]) -> None:
        blocks = [block for plan in plans for block in self._unread(plan)]
        if self.compressions or any(block.buffer_bytes < _ALONE_BYTES for block in blocks):
            super().prefetch(blocks)
            return
        for block in blocks:
            super().prefetch([block])

    def _unread(self, plan: ReadPlan) -> list[ReadPlan]:
        """Return the plans of blocks that are neither in memory nor prefetched."""
        self._reset_after_fork()
        blocks = []
        for number in self._blocks_of(plan)[1]:
            with self._lock:
                if number in self._blocks or number in self._prefetched:
                    continue
            block = super().plan(self._numbers_of(number))
            self._prefetched[number] = block
            self._prefetched_for.setdefault(plan, []).append(block)
            blocks.append(block)
        return blocks

    def _blocks_of(self, plan: ReadPlan) -> tuple[Ints, list[int]]:
        """Return the number of each record's block, int64 ``[n]``, and all of these, ascending."""
        blocks = self._block_of(own_numbers(plan.numbers))
        # Faster for few numbers than unique().
        return blocks, sorted(set(blocks.tolist()))

    def _open_frames(
        self, plan: ReadPlan, files: OpenFiles, open_together: set[int]
    ) -> Frames | None:
        del files, open_together  # the native core gets frames in memory
        with reading():
            return Frames(plan).into(self._read_frames(plan))

    def _drop_kept(self, plan: ReadPlan) -> bool:
        super()._drop_kept(plan)
        # A block in memory may be another answer of a store. Blocks that other threads read before
        # that was dropped are among these.
        with self._lock:
            for number in self._blocks_of(plan)[1]:
                self._blocks.pop(number, None)
        return True

    def _read_frames(self, plan: ReadPlan) -> ByteBuffer:
        """Copy the frames of a plan from its blocks. Blocks that are not in memory are read.

        Raises:
            ValueError: If ``numbers_of`` and ``block_of`` contradict each other.
        """
        self._reset_after_fork()
        buffer = _core.allocate(plan.buffer_bytes)
        blocks, needed = self._blocks_of(plan)
        with self._lock:  # so that reading the others evicts none of these, if there is room
            for number in needed:
                if number in self._blocks:
                    self._blocks.move_to_end(number)
        found = [self._load(number) for number in needed]
        missing = _core.gather_frames(found, np.array(needed, np.int64), plan, blocks, buffer)
        if missing is not None:
            block = blocks[missing]
            raise ValueError(f"numbers_of({block}) lacks records that block_of assigns to it")
        return buffer

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
                block.set_result(self._read_block(number))
            except BaseException as error:  # noqa: BLE001  # threads that wait must not wait forever
                with self._lock:
                    if self._blocks.get(number) is block:  # later calls try again
                        del self._blocks[number]
                block.set_exception(error)
        try:
            return block.result()
        finally:
            del block, found  # the traceback of an error refers to this frame

    def _read_block(self, number: int) -> _core.FrameBlock:
        self.count_memory_of(self)
        plan = self._prefetched.pop(number, None) or super().plan(self._numbers_of(number))
        plan, _ = self._without_too_large(plan)
        frames = self.read(plan)
        # A view would keep the frames of other blocks in memory.
        is_view = isinstance(frames.base, np.ndarray)
        return _core.FrameBlock(plan, frames.copy() if is_view else frames)

    @property
    def held_bytes(self) -> int:
        """Size of the blocks in memory."""
        with self._lock:
            return sum(block.result().nbytes for block in self._blocks.values() if block.done())

    def _reset(self) -> None:
        self._lock = threading.Lock()
        # Blocks in memory and those that are being read; last used last.
        self._blocks: OrderedDict[int, Future[_core.FrameBlock]] = OrderedDict()
        # Plans of blocks that are prefetched, as long as a plan of records needs them.
        self._prefetched: weakref.WeakValueDictionary[int, ReadPlan] = weakref.WeakValueDictionary()
        self._prefetched_for: weakref.WeakKeyDictionary[ReadPlan, list[ReadPlan]] = (
            weakref.WeakKeyDictionary()
        )
        super()._reset()

    def _open_files(self) -> OpenFiles:
        return self._reader.files
