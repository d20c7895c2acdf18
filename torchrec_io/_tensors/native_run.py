"""Reading and parsing of several batches in a few native calls.

Threads that enter and leave Python for each small step wait for each other most of the time. So
several batches are loaded together. At the first batch with an error
this stops, and that batch is loaded again on its own to find the error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from .. import _core
from .._parsing.columns.base import LocatedBlock
from .._parsing.failures import Ints
from .._parsing.parser import ExampleParser
from .._parsing.record_random import RecordRandom
from .._records.native_frames import Frames
from .._records.reader import Plan, Reader
from .._storage.byte_source import ByteBuffer
from .._storage.several_sources import find_changed
from .arena import Allocate, allocate_arena, allocate_for
from .loaded import Loaded
from .parse import batch_of, image_threads

_Result = TypeVar("_Result")


def load_run(
    parser: ExampleParser,
    reader: Reader,
    plans: Sequence[Plan],
    randoms: Sequence[RecordRandom],
    allocate: Allocate = allocate_arena,
) -> list[Loaded]:
    """Return the batches of the first plans, up to the first one with an error.

    Records with values out of range are no such error. They have rows, too.

    Args:
        parser: Parser of the schema.
        reader: Reader that made the plans.
        plans: Plan of each batch.
        randoms: Random number generators of each batch.
        allocate: Function that allocates the arenas.

    Raises:
        OSError: If the first plan cannot be read.
    """

    def load(frames: Sequence[Frames]) -> list[Loaded]:
        buffer = _shared_buffer(frames) if parser.is_fixed else None
        reads = [each.into(buffer) for each in frames]
        located = parser.load(
            reads, randoms[: len(frames)], image_threads(), verify_crc=reader.verify_crc
        )
        arenas = [
            allocate_for(block.layout.size, block.columns, len(block.block), allocate)
            for block in located
        ]
        done = parser.fill(located, [arena.numpy() for arena in arenas])
        return [
            Loaded.of(batch_of(parser, block.columns, arena), plan.numbers, block.refused)
            for arena, block, plan in zip(arenas[:done], located, plans, strict=False)
        ]

    return _run(reader, plans, load)


def locate_run(
    parser: ExampleParser,
    reader: Reader,
    plans: Sequence[Plan],
    randoms: Sequence[RecordRandom],
    positions: Sequence[Ints | None],
) -> list[LocatedBlock]:
    """Return the located records of the first plans, up to the first one with an error.

    Args:
        parser: Parser of the schema.
        reader: Reader that made the plans.
        plans: The plans.
        randoms: Random number generators of each plan's records.
        positions: Positions of the records of each plan that are located, repeats allowed; None
            for all, in order.

    Raises:
        OSError: If the first plan cannot be read.
    """

    def locate(frames: Sequence[Frames]) -> list[LocatedBlock]:
        reads = [each.into() for each in frames]
        reads = [
            read if rows is None else read.rows(rows)
            for read, rows in zip(reads, positions, strict=False)
        ]
        return parser.load(
            reads, randoms[: len(frames)], image_threads(), verify_crc=reader.verify_crc
        )

    return _run(reader, plans, locate)


def _run(
    reader: Reader, plans: Sequence[Plan], load: Callable[[Sequence[Frames]], list[_Result]]
) -> list[_Result]:
    """Call a function with the frames of the first plans; return nothing if a file was changed."""
    frames = reader.open_run(plans)
    if not frames:
        return []
    try:
        loaded = load(frames)
    except MemoryError:
        # Loading the batches one by one shows whether one of them or their sum is too large.
        return []
    # If a file was changed, loading the first batch on its own raises the error.
    return loaded if find_changed({file for each in frames for file in each.files}) is None else []


def _shared_buffer(frames: Sequence[Frames]) -> ByteBuffer:
    """Return a buffer that batches share, so that data is parsed while it is in the fastest cache.

    It is large enough for the largest batch whose frames are not in memory.
    """
    sizes = [each.plan.buffer_bytes for each in frames if each.block is None]
    return _core.allocate(max(sizes, default=0))
