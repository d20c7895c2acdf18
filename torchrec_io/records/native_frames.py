"""Frames of records for the native core: in files, in memory, or in a buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from .. import _core
from ..storage.byte_source import ByteBuffer, ByteSource
from ..storage.several_sources import descriptors_of
from .formats import TFRECORD
from .record_block import RecordBlock

ReadPlan = _core.ReadPlan


class Frames(Protocol):
    """The frames of a plan's records, opened by :meth:`~.reader.Reader.open_frames`.

    Attributes:
        plan: Plan of the records, with the layout of the buffer that receives the frames.
        files: Files that are read, to be checked for changes afterwards.
        block: The records, if their frames were read; else None.
    """

    @property
    def plan(self) -> ReadPlan: ...

    @property
    def files(self) -> Sequence[ByteSource]: ...

    @property
    def block(self) -> RecordBlock | None: ...

    def reads_into(self, buffer: ByteBuffer, records: _core.Records) -> _core.BatchReads:
        """Return what the core does to fetch the frames into a buffer.

        Args:
            buffer: uint8 of at least ``plan.buffer_bytes``.
            records: Records that the buffer will hold.
        """


@dataclass(frozen=True, slots=True)
class FileFrames:
    """Frames in files, which stay open. A :class:`Frames`.

    Attributes:
        plan: Plan of the reads.
        files: Files of the plan, all with descriptors.
    """

    plan: ReadPlan
    files: list[ByteSource]

    @property
    def block(self) -> None:
        return None

    def reads_into(self, buffer: ByteBuffer, records: _core.Records) -> _core.BatchReads:
        descriptors = descriptors_of(self.files)
        assert descriptors is not None
        return _core.BatchReads(descriptors, self.plan, buffer, records)


@dataclass(frozen=True, slots=True)
class BufferFrames:
    """Frames in a buffer. A :class:`Frames`.

    Attributes:
        plan: Plan of the records.
        block: The records, whose buffer has their whole frames.
    """

    plan: ReadPlan
    block: RecordBlock

    @classmethod
    def of_plan(cls, plan: ReadPlan, buffer: ByteBuffer) -> BufferFrames:
        """Return the frames that a plan has read into a buffer."""
        return cls(plan, _block_of(plan, buffer))

    @classmethod
    def of_block(cls, block: RecordBlock) -> BufferFrames:
        """Return the frames of records, which are in the buffer around their data."""
        starts = block.starts - TFRECORD.header_bytes
        sizes = block.lengths + TFRECORD.overhead_bytes
        return cls(_core.ReadPlan.of_frames(starts, sizes), block)

    @property
    def files(self) -> Sequence[ByteSource]:
        return ()  # they were checked when the frames were read

    def reads_into(self, buffer: ByteBuffer, records: _core.Records) -> _core.BatchReads:
        return _core.BatchReads.of_buffer(self.plan, buffer, records)


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
        """Return the reads for the native core; ``records`` are those of the block."""
        return self.frames.reads_into(self.block.buffer, records)


def _block_of(plan: ReadPlan, buffer: ByteBuffer) -> RecordBlock:
    """Return the records of a plan, whose frames are in a buffer, or will be."""
    starts = plan.frame_starts + TFRECORD.header_bytes
    lengths = plan.frame_sizes - TFRECORD.overhead_bytes
    return RecordBlock(buffer, starts, lengths, plan.numbers)
