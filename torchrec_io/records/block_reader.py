"""Fetches records by whole blocks, for storage where each read is dear."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import TorchRecIOError
from .reader import ReadPlan, RecordBlock, RecordReader


@dataclass(slots=True)
class BlockPlan:
    """Which blocks hold some records.

    Attributes:
        frames: The records, their frames, and where those go: in the order of the files, as a
            parser likes it.
        blocks: Which block each record is in; int64 ``[n]``.
        needed: All of those; int64, ascending.
    """

    frames: ReadPlan
    blocks: npt.NDArray[np.int64]
    needed: npt.NDArray[np.int64]

    @property
    def numbers(self) -> npt.NDArray[np.int64]:
        """Of the records; int64 ``[n]``."""
        return self.frames.numbers

    @property
    def buffer_bytes(self) -> int:
        """Of the records' frames, and what lies between them."""
        return self.frames.buffer_bytes

    def continues(self, other: BlockPlan) -> bool:
        """Whether this needs no block that another plan does not need."""
        return set(self.needed.tolist()) <= set(other.needed.tolist())


class BlockReader:
    """Reads whole blocks of records, each at once, and keeps those used last in memory.

    Stands where a :class:`RecordReader` does. A block takes one read of each file that it is in, if
    its records follow each other there. Records are checked when they are fetched, so damage to one
    of a block does not touch the others.

    Nothing that is held crosses a fork or is pickled. Safe to use from several threads: those that
    want the same block read it once.

    Attributes:
        reader: Reads the blocks.

    Args:
        reader: As above.
        block_of: Gives the block of each of some record numbers; int64 ``[n]`` to int64 ``[n]``.
        numbers_of: Gives the numbers of all records of a block, ascending; int64 ``[n]``.
        keep: How many blocks are held in memory at most; threads that fetch at the same time may
            each have another one in hand.

    Raises:
        ValueError: ``keep`` is less than 1.
    """

    def __init__(
        self,
        reader: RecordReader,
        block_of: Callable[[npt.NDArray[np.int64]], npt.NDArray[np.int64]],
        numbers_of: Callable[[int], npt.NDArray[np.int64]],
        keep: int,
    ) -> None:
        if keep < 1:
            raise ValueError(f"keep must be at least 1, not {keep}")
        self.reader = reader
        self._block_of = block_of
        self._numbers_of = numbers_of
        self._keep = keep
        self._forget_blocks()

    def __len__(self) -> int:
        return len(self.reader)

    def __getstate__(self) -> dict[str, object]:
        return {
            "reader": self.reader,
            "block_of": self._block_of,
            "numbers_of": self._numbers_of,
            "keep": self._keep,
        }

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__init__(**state)  # type: ignore[misc]  # the state is what __init__ takes

    def begin_epoch(self) -> None:
        """Has every file looked at anew when records of it are planned next, held or not."""
        self.reader.begin_epoch()

    def plan(self, numbers: npt.NDArray[np.int64]) -> BlockPlan:
        """Looks up which blocks hold records; reads none of them.

        Args:
            numbers: Of the records, in any order, repeats allowed; int64 ``[n]``.

        Raises:
            IndexError: there is no such record.
            StaleIndexError: a data file, or the file of its index, was replaced or changed.
            TruncatedFileError: a data file became shorter since it was indexed.
            FileNotFoundError: a data file is gone.
        """
        frames = self.reader.plan(numbers, gap=0)
        blocks = self._block_of(numbers)
        return BlockPlan(frames, blocks, np.unique(blocks))

    def will_need(self, plan: BlockPlan) -> None:
        """Tells the system which blocks are read next, so that it reads them meanwhile."""
        self._enter_process()
        for block in plan.needed.tolist():
            with self._lock:
                known = block in self._held or block in self._foreseen
            if not known:
                ahead = self.reader.plan(self._numbers_of(block))
                with self._lock:
                    self._foreseen[block] = ahead
                    while len(self._foreseen) > self._keep:
                        self._foreseen.popitem(last=False)
                self.reader.will_need(ahead)

    def fetch(self, plan: BlockPlan) -> tuple[RecordBlock, list[TorchRecIOError]]:
        """Gathers the records of a plan from their blocks, and reads those that are not held.

        Returns:
            The sound records, in the order asked for, and an error for each damaged one.

        Raises:
            TruncatedFileError: a file became shorter since it was indexed.
            OSError: reading failed.
            ValueError: ``numbers_of`` and ``block_of`` contradict each other.
        """
        self._enter_process()
        frames = plan.frames
        buffer = _core.allocate(frames.buffer_bytes)
        # First what is in memory, before reading the others drives it out.
        for block in self._gather_held(plan, buffer):
            self._gather(plan, {block: self._hold(block)}, buffer)
        return self.reader.check(buffer, frames.numbers, frames.frame_starts, frames.frame_sizes)

    def place(self, number: int) -> tuple[str, int, int]:
        """File, number in that file, and byte offset of a record's frame."""
        return self.reader.place(number)

    def keys(self, numbers: npt.NDArray[np.int64]) -> list[str]:
        """``path:offset`` of records, which names each one for good."""
        return self.reader.keys(numbers)

    def _gather_held(self, plan: BlockPlan, buffer: npt.NDArray[np.uint8]) -> list[int]:
        """Copies the frames that are in memory to their places; gives the blocks that are not."""
        with self._lock:  # so that what is copied from is not driven out, but stays in memory
            held = {
                block: future.result()
                for block in plan.needed.tolist()
                if (future := self._held.get(block)) is not None and future.done()
            }
            for block in held:
                self._held.move_to_end(block)
            self._gather(plan, held, buffer)
        return [block for block in plan.needed.tolist() if block not in held]

    def _gather(
        self, plan: BlockPlan, held: dict[int, _core.FrameBlock], buffer: npt.NDArray[np.uint8]
    ) -> None:
        """Copies the frames of blocks to their places. The blocks ascend."""
        missing = _core.gather_frames(
            list(held.values()), np.array(list(held), np.int64), plan.frames, plan.blocks, buffer
        )
        if missing is not None:
            block = plan.blocks[missing]
            raise ValueError(f"numbers_of({block}) lacks records that block_of puts there")

    def _hold(self, block: int) -> _core.FrameBlock:
        """A block from memory, or read by this thread, or by another that is at it."""
        with self._lock:
            future = self._held.get(block)
            if future is not None:
                self._held.move_to_end(block)
            else:
                self._drop(self._keep - 1)
                reading = self._held[block] = Future()
                ahead = self._foreseen.pop(block, None)
        return future.result() if future is not None else self._read(block, ahead, reading)

    def _read(
        self, block: int, ahead: ReadPlan | None, reading: Future[_core.FrameBlock]
    ) -> _core.FrameBlock:
        try:
            plan = ahead or self.reader.plan(self._numbers_of(block))
            held = _core.FrameBlock(plan, self.reader.read(plan))
        except BaseException as error:
            with self._lock:
                if self._held.get(block) is reading:
                    del self._held[block]  # who asks later tries again
            reading.set_exception(error)  # who waits now does not wait for ever
            raise
        reading.set_result(held)
        with self._lock:
            self._drop(self._keep)
        return held

    def _drop(self, most: int) -> None:
        """Lets go of blocks that were not used for longest; of those being read, of none."""
        done = [block for block, future in self._held.items() if future.done()]
        for block in done[: max(0, len(self._held) - most)]:
            del self._held[block]

    def _enter_process(self) -> None:
        if self._pid != os.getpid():
            self._forget_blocks()  # another thread of the parent may have been at them

    def _forget_blocks(self) -> None:
        self._lock = threading.Lock()
        self._held: OrderedDict[int, Future[_core.FrameBlock]] = OrderedDict()
        # How to read blocks that will be needed: as many as may be held, of which none is.
        self._foreseen: OrderedDict[int, ReadPlan] = OrderedDict()
        # Last: a thread that sees it may use the lock, and the parent's may be held for good.
        self._pid = os.getpid()
