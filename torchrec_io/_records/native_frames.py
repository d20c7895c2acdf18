"""Frames of records for the native core: in files or in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .. import _core
from .._storage.byte_source import ByteBuffer, ByteSource
from .._storage.several_sources import descriptors_of
from .formats import TFRECORD
from .record_block import RecordBlock

ReadPlan = _core.ReadPlan


@dataclass(frozen=True, slots=True)
class Frames:
    """The frames of a plan's records, in open files or in memory.

    Attributes:
        plan: Plan of the records, with the layout of the buffer that has or receives the frames.
        files: Files of the plan, which have descriptors and stay open; none if the frames are in
            memory.
        block: The records, if their frames are in memory: its buffer has them whole.
    """

    plan: ReadPlan
    files: Sequence[ByteSource] = ()
    block: RecordBlock | None = None

    @classmethod
    def of_plan(cls, plan: ReadPlan, buffer: ByteBuffer) -> Frames:
        """Return the frames that a plan has read into a buffer."""
        return cls(plan, block=_block_of(plan, buffer))

    @classmethod
    def of_block(cls, block: RecordBlock) -> Frames:
        """Return the frames of records, which are in the buffer around their data."""
        starts = block.starts - TFRECORD.header_bytes
        sizes = block.lengths + TFRECORD.overhead_bytes
        return cls(_core.ReadPlan.of_frames(starts, sizes), block=block)


class NativeReads(NamedTuple):
    """Frames that the native core fetches into a buffer.

    Attributes:
        frames: The frames.
        block: Records that the buffer will hold.
    """

    frames: Frames
    block: RecordBlock

    @classmethod
    def of(cls, frames: Frames, buffer: ByteBuffer | None = None) -> NativeReads:
        """Make reads of frames.

        Args:
            frames: The frames.
            buffer: uint8 of at least ``frames.plan.buffer_bytes``, for frames that were not read;
                by default it is allocated.
        """
        if frames.block is not None:
            return cls(frames, frames.block)
        if buffer is None:
            buffer = _core.allocate(frames.plan.buffer_bytes)
        return cls(frames, _block_of(frames.plan, buffer))

    def for_core(self, records: _core.Records) -> _core.BatchReads:
        """Return the reads for the native core.

        Args:
            records: The records of the block, as the core has them.
        """
        plan, files, buffer = self.frames.plan, self.frames.files, self.block.buffer
        if self.frames.block is not None:
            return _core.BatchReads.of_buffer(plan, buffer, records)
        descriptors = descriptors_of(files)
        assert descriptors is not None
        return _core.BatchReads(descriptors, plan, buffer, records)


def _block_of(plan: ReadPlan, buffer: ByteBuffer) -> RecordBlock:
    """Return the records of a plan, whose frames are in a buffer, or will be."""
    starts = plan.frame_starts + TFRECORD.header_bytes
    lengths = plan.frame_sizes - TFRECORD.overhead_bytes
    return RecordBlock(buffer, starts, lengths, plan.numbers)
