"""Reading and parsing of several batches in a few native calls.

Threads that enter and leave Python for each small step wait for each other most of the time. So
several batches are loaded together. At the first batch with an error
this stops, and that batch is loaded again on its own to find the error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from .. import _core
from ..errors import TorchRecIOError
from ..parsing.columns.base import LocatedBlock
from ..parsing.failures import NO_FAILURES, Failures
from ..parsing.parser import ExampleParser
from ..parsing.record_random import RecordRandom
from ..records.record_block import RecordBlock
from ..records.record_reader import NativeReads, ReadPlan, RecordReader
from ..storage.byte_source import ByteSource, find_changed
from .arena import allocate_for
from .batch import Batch
from .parse import image_threads


class LoadedBatch(NamedTuple):
    """A batch that was loaded with others.

    Attributes:
        batch: The batch. It has a row for each record, also for those with values out of range.
        block: The records; None if their buffer is used again.
        refused: The records with values out of range.
    """

    batch: Batch
    block: RecordBlock | None = None
    refused: Failures = NO_FAILURES


def load_run(
    parser: ExampleParser,
    reader: RecordReader,
    plans: Sequence[ReadPlan],
    randoms: Sequence[RecordRandom],
) -> list[LoadedBatch]:
    """Return the batches of the first plans, up to the first one with an error.

    Records with values out of range are no such error; see :class:`LoadedBatch`.

    Args:
        parser: Parser of the schema.
        reader: Reader that made the plans.
        plans: Plan of each batch.
        randoms: Random number generators of each batch.
    """
    files = _open_files(reader, plans)
    plans = plans[: len(files)]
    if not plans:
        return []
    try:
        if parser.is_fixed:
            loaded = _load_fixed(parser, reader, plans, files)
        else:
            loaded = _load_any(parser, reader, plans, files, randoms[: len(plans)])
    except MemoryError:
        # Loading the batches one by one shows whether one of them or their sum is too large.
        return []
    # If a file was changed, loading the first batch on its own raises the error.
    return loaded if find_changed({file for each in files for file in each}) is None else []


def _load_any(
    parser: ExampleParser,
    reader: RecordReader,
    plans: Sequence[ReadPlan],
    files: Sequence[list[ByteSource]],
    randoms: Sequence[RecordRandom],
) -> list[LoadedBatch]:
    buffers = [_core.allocate(plan.buffer_bytes) for plan in plans]
    reads = [NativeReads.into(*each) for each in zip(files, plans, buffers, strict=True)]
    located, waits = parser.load(reads, randoms, image_threads(), verify_crc=reader.verify_crc)
    reader.note_waits(waits)
    arenas = [_arena_of(block) for block in located]
    done = parser.fill(located, [arena.numpy() for arena in arenas])
    return [
        LoadedBatch(_batch_of(parser, block, arena), read.block, _refused_by(block))
        for arena, block, read in zip(arenas[:done], located, reads, strict=False)
    ]


def _load_fixed(
    parser: ExampleParser,
    reader: RecordReader,
    plans: Sequence[ReadPlan],
    files: Sequence[list[ByteSource]],
) -> list[LoadedBatch]:
    # All batches share a buffer, so that data is parsed while it is in the fastest cache.
    buffer = _core.allocate(max(plan.buffer_bytes for plan in plans))
    reads = [NativeReads.into(each, plan, buffer) for each, plan in zip(files, plans, strict=True)]
    blocks = [LocatedBlock(parser, read.block) for read in reads]
    if not all(block.is_fixed for block in blocks):
        return []
    arenas = [_arena_of(block) for block in blocks]
    done, waits = parser.load_fixed(
        reads, blocks, [arena.numpy() for arena in arenas], verify_crc=reader.verify_crc
    )
    reader.note_waits(waits)
    return [
        LoadedBatch(_batch_of(parser, block, arena), None, _refused_by(block))
        for arena, block in zip(arenas[:done], blocks, strict=False)
    ]


def _refused_by(block: LocatedBlock) -> Failures:
    return Failures.refused(block.refusals) if block.refusals else NO_FAILURES


def _batch_of(parser: ExampleParser, block: LocatedBlock, arena: Tensor) -> Batch:
    return Batch.without_views(arena, block.columns, parser.names, parser.padded, parser.paths)


def _arena_of(block: LocatedBlock) -> Tensor:
    return allocate_for(block.arena_bytes, block.columns, len(block))


def _open_files(reader: RecordReader, plans: Sequence[ReadPlan]) -> list[list[ByteSource]]:
    """Return the files of each plan, up to the first plan that the core cannot read."""
    opened: list[list[ByteSource]] = []
    for plan in plans:
        try:
            files = reader.open_files(plan)
        except (TorchRecIOError, OSError):
            return opened
        if files is None:
            return opened
        opened.append(files)
    return opened
