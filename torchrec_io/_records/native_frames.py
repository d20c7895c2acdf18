"""Frames of records for the native core: in files or in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .. import _core
from .._storage.byte_source import ByteBuffer, ByteSource, Ints
from .formats import TFRECORD
from .record_block import RecordBlock

ReadPlan = _core.ReadPlan


@dataclass(frozen=True, slots=True)
class Frames:
    """The frames of a plan's records, in open files or in memory.

    Attributes:
        plan: Plan of the records, with the layout of the buffer that has or receives the frames.
        files: Files of the plan, which stay open; none if the frames are in memory.
        descriptors: Their descriptors.
        block: The records, in a buffer that has their frames, or receives them from the files; None
            if they are in files and :meth:`into` was not called.
    """

    plan: ReadPlan
    files: Sequence[ByteSource] = ()
    descriptors: Sequence[int] = ()
    block: RecordBlock | None = None

    @classmethod
    def of_block(cls, block: RecordBlock) -> Frames:
        """Return the frames of records, which are in the buffer around their data."""
        starts = block.starts - TFRECORD.header_bytes
        sizes = block.lengths + TFRECORD.overhead_bytes
        return cls(_core.ReadPlan.of_frames(starts, sizes), block=block)

    def into(self, buffer: ByteBuffer | None = None) -> Frames:
        """Return the frames with a buffer, unless they are in memory already.

        Args:
            buffer: uint8 of at least ``plan.buffer_bytes``, which has the frames, or receives them
                from the files; by default it is allocated.
        """
        if self.block is not None:
            return self
        if buffer is None:
            buffer = _core.allocate(self.plan.buffer_bytes)
        starts = self.plan.frame_starts + TFRECORD.header_bytes
        lengths = self.plan.frame_sizes - TFRECORD.overhead_bytes
        block = RecordBlock(buffer, starts, lengths, self.plan.numbers)
        return Frames(self.plan, self.files, self.descriptors, block)

    def rows(self, positions: Ints) -> Frames:
        """Return the same frames for the records at some positions; repeats are allowed."""
        return replace(self, block=self.records.rows(positions))

    @property
    def records(self) -> RecordBlock:
        """The records, in a buffer."""
        assert self.block is not None
        return self.block

    def for_core(self, records: _core.Records) -> _core.BatchReads:
        """Return the frames for the native core.

        Args:
            records: The records of the block, as the core has them.
        """
        assert self.block is not None
        buffer = self.block.buffer
        if not self.files:
            return _core.BatchReads.of_buffer(self.plan, buffer, records)
        return _core.BatchReads(self.descriptors, self.plan, buffer, records)
