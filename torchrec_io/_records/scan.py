"""Passes over records by their numbers, in blocks that threads read and visit."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, TypeVar

import numpy as np

from .._storage.byte_source import Ints
from .._storage.ordered_pool import OrderedPool
from ..errors import TorchRecIOError
from .index import RecordIndex
from .reader import Reader
from .record_reader import RecordReader
from .record_size import MAX_RECORD_BYTES
from .scanned_block import Gap, ScannedBlock

Value = TypeVar("Value")

# Usual limits of a block. A larger record gets a block of its own.
BLOCK_RECORDS = 1 << 12
BLOCK_BYTES = 1 << 22
# Largest number of samples of one large record, which is read for each block.
_SHARING = 1 << 8
# Blocks of about this many bytes are prefetched together, before their visits.
_PREFETCH_BYTES = 1 << 24


def scan(
    reader: Reader,
    numbers: Iterable[Ints],
    visit: Callable[[Any], Value],
    threads: int = 1,
    *,
    max_bytes: int = BLOCK_BYTES,
) -> Generator[Value]:
    """Visit records in blocks, in a pool of threads, and yield the results of the visits, in order.

    Close the generator if it is left early: then it waits only for the visits in progress.

    Args:
        reader: Reader of the records.
        numbers: Numbers of the records in parts; int64 ``[n]`` each. A block has records of one
            part.
        visit: Function that is called with the reader's plan of each block.
        threads: Number of threads; 1 is the calling thread.
        max_bytes: Largest size of a block with more than one record, in bytes.

    Raises:
        Exception: What a visit raises, for the first such block.
        StaleIndexError, TruncatedFileError, FileNotFoundError: If a file, or its index, is not what
            it was.
    """
    plans: Iterator[Any] = itertools.chain.from_iterable(
        _blocks(reader, reader.plan(part), max_bytes) for part in numbers
    )
    if reader.prefetch_limits is not None:
        plans = _prefetch(
            reader, plans, min(_PREFETCH_BYTES, reader.prefetch_limits.most_bytes // 2)
        )
    with OrderedPool(visit, threads) as pool:
        yield from pool.map(plans)


def blocks_by_number(
    index: RecordIndex,
    numbers: Ints | range,
    *,
    verify_crc: bool = True,
    max_record_bytes: int = MAX_RECORD_BYTES,
) -> Iterator[ScannedBlock]:
    """Yield records of a file in blocks, found by its index.

    Args:
        index: Index of the file.
        numbers: Ascending numbers of the records in the file; int64 ``[n]``, or a range, which
            needs no memory for each record before they are read.
        verify_crc: Whether checksums are compared, those of lengths and of data.
        max_record_bytes: Largest size of a record in bytes.

    Raises:
        StaleIndexError: If the file is not the one that was indexed.
        OSError: If the file cannot be read.
    """
    reader = RecordReader([index], verify_crc=verify_crc, max_record_bytes=max_record_bytes)
    parts = (
        np.asarray(numbers[at : at + BLOCK_RECORDS], np.int64)
        for at in range(0, len(numbers), BLOCK_RECORDS)
    )
    for block, errors in scan(reader, parts, reader.fetch):
        offsets, _ = index.locate(block.numbers)
        gaps = [Gap(error, error.offset or 0, 0) for error in errors]
        gaps.sort(key=lambda gap: gap.offset)
        yield ScannedBlock(index.location.name, block, offsets, gaps)


def _blocks(reader: Reader, plan: Any, max_bytes: int) -> Iterator[Any]:
    """Yield the plans of the blocks of a plan's records."""
    numbers = plan.numbers
    if plan.buffer_bytes <= max_bytes or len(numbers) == 1:
        yield plan
        return
    halves = [reader.plan(half) for half in np.array_split(numbers, 2)]
    # Both halves have the bytes of all if they are samples of one record.
    if len(numbers) <= _SHARING and {half.buffer_bytes for half in halves} == {plan.buffer_bytes}:
        yield plan
        return
    for half in halves:
        yield from _blocks(reader, half, max_bytes)


def _prefetch(reader: Reader, plans: Iterator[Any], most_bytes: int) -> Iterator[Any]:
    """Yield plans, with about ``most_bytes`` of the plans after them prefetched."""
    waiting: list[Any] = []
    while True:
        following: list[Any] = []
        size = 0
        while size < most_bytes and (plan := next(plans, None)) is not None:
            following.append(plan)
            size += plan.buffer_bytes
        # Errors are raised when a block itself is read.
        with contextlib.suppress(TorchRecIOError, OSError, MemoryError, RuntimeError):
            reader.prefetch(following)
        yield from waiting
        if not following:
            return
        waiting = following
