"""Pieces of the records of files, each read by one thread."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..errors import CorruptRecordError, TorchRecIOError, TruncatedFileError
from ..storage.byte_source import ByteSource, Ints
from ..storage.location import Location
from .file_piece import PieceBlock, blocks_of_file
from .formats import TFRECORD
from .index import RecordIndex
from .record_block import RecordBlock
from .record_reader import RecordReader
from .sequential import FrameBlock, iter_blocks
from .sound_frames import find_frame

_WINDOWS = 3
# Limits of the blocks that are read at a time.
_BLOCK_RECORDS = 1 << 12
_BLOCK_BYTES = 1 << 22


class SampledBlock(NamedTuple):
    """Some records.

    Attributes:
        block: Records. Their buffer is valid until the next block is requested.
        locate: Function that returns where the record at a position is stored, as arguments of an
            error.
        skipped: Number of damaged records that were skipped.
    """

    block: RecordBlock
    locate: Callable[[int], dict[str, Any]]
    skipped: int = 0

    @property
    def stored_bytes(self) -> int:
        """Size of the records with their frames."""
        return int(self.block.lengths.sum()) + len(self.block) * TFRECORD.overhead_bytes


class Piece(ABC):
    """Some records of a file that one thread reads."""

    @abstractmethod
    def blocks(self, *, skip_errors: bool) -> Iterator[SampledBlock]:
        """Yield the records in blocks, in order.

        Args:
            skip_errors: Whether to skip damaged records.

        Raises:
            CorruptRecordError, TruncatedFileError: If a record is damaged, unless it is skipped.
        """


@dataclass(frozen=True, eq=False)
class IndexedPiece(Piece):
    """Records of a file by number."""

    index: RecordIndex
    numbers: Ints | range  # a range needs no memory for each record

    def blocks(self, *, skip_errors: bool) -> Iterator[SampledBlock]:
        reader = RecordReader([self.index])
        numbers = self.numbers
        if isinstance(numbers, range):
            numbers = np.arange(numbers.start, numbers.stop)
        for plan in reader.plans(numbers, _BLOCK_RECORDS, _BLOCK_BYTES):
            block, errors = reader.fetch(plan)
            if errors and not skip_errors:
                first = min(errors, key=lambda error: error.record or 0)
                yield _before(block, first, reader)
                raise first
            yield SampledBlock(block, _locator(block, reader), len(errors))


def _locator(block: RecordBlock, reader: RecordReader) -> Callable[[int], dict[str, Any]]:
    return lambda position: reader.location(int(block.numbers[position]))._asdict()


def _before(block: RecordBlock, error: TorchRecIOError, reader: RecordReader) -> SampledBlock:
    """Return the records before a damaged one, which may have other errors."""
    assert error.record is not None
    rest = block.rows(np.flatnonzero(block.numbers < error.record))
    return SampledBlock(rest, _locator(rest, reader))


@dataclass(frozen=True)
class FrontPiece(Piece):
    """The first records of a file, or all."""

    location: Location
    max_records: int | None = None
    max_bytes: int | None = None

    def blocks(self, *, skip_errors: bool) -> Iterator[SampledBlock]:
        if self.max_records is None and self.max_bytes is None:
            found = blocks_of_file(self.location)
            yield from sampled(found, self.location.name, skip_errors=skip_errors)
            return
        with closing(self.location.open_stream()) as source:
            yield from _read(source, 0, self.max_records, self.max_bytes, skip_errors=skip_errors)


@dataclass(frozen=True)
class UnindexedPiece(Piece):
    """Records from the beginning, the middle and the end of a file without an index.

    In the middle, the next record is found by the checksums of its length and its data. A window
    does not count unless all records up to its end follow each other: what looks like records may
    also be the content of one.
    """

    location: Location
    max_records: int
    max_bytes: int | None

    def blocks(self, *, skip_errors: bool) -> Iterator[SampledBlock]:
        with closing(self.location.open()) as source:
            size = source.stamp.size
            shares = [len(part) for part in np.array_split(range(self.max_records), _WINDOWS)]
            most = size // _WINDOWS if self.max_bytes is None else self.max_bytes // _WINDOWS
            most = min(most, size // _WINDOWS)
            seen = used = largest = 0
            for block in _read(source, 0, shares[0], most, skip_errors=skip_errors):
                seen += len(block.block)
                used += block.stored_bytes
                largest = max(largest, int(block.block.lengths.max(initial=0)))
                yield block
            width = min(most, used * shares[1] // max(1, seen))  # if records are alike
            from_end = min(most, width + largest)
            for share, at in ((shares[2], (size - width) // 2), (shares[1], size - from_end)):
                start = find_frame(source, at) if share and width else None
                if start is not None and _is_chain(source, start, share, from_end):
                    yield from _read(source, start, share, from_end, skip_errors=skip_errors)


def sampled(
    blocks: Iterable[PieceBlock], path: str, *, skip_errors: bool
) -> Iterator[SampledBlock]:
    """Yield the records of a file in blocks, in order.

    Args:
        blocks: Blocks of the file.
        path: Path of the file.
        skip_errors: Whether to skip damaged records.

    Raises:
        CorruptRecordError, TruncatedFileError: If a record is damaged, unless it is skipped.
    """
    for found in blocks:
        if not found.errors or skip_errors:
            block = _sampled_rows(found, np.arange(len(found.block)), path)
            yield block._replace(skipped=len(found.errors))
            continue
        first = min(found.errors, key=lambda error: error.record or 0)
        yield _sampled_rows(found, np.flatnonzero(found.records < (first.record or 0)), path)
        raise first


def _sampled_rows(found: PieceBlock, kept: Ints, path: str) -> SampledBlock:
    records, offsets = found.records[kept], found.offsets[kept]

    def locate(position: int) -> dict[str, Any]:
        number, offset = int(records[position]), int(offsets[position])
        return {"path": path, "record": number, "offset": offset}

    return SampledBlock(found.block.rows(kept), locate)


def _is_chain(source: ByteSource, start: int, max_records: int, max_bytes: int) -> bool:
    blocks = _limited(iter_blocks(source, start=start, checks_data=False), max_records, max_bytes)
    try:
        return all(not block.faults and block.too_large is None for block, _ in blocks)
    except (CorruptRecordError, TruncatedFileError):
        return False


def _read(
    source: ByteSource,
    start: int,
    max_records: int | None,
    max_bytes: int | None,
    *,
    skip_errors: bool,
) -> Iterator[SampledBlock]:
    """Yield the intact records of a stream from an offset on, where a frame starts."""
    blocks = _limited(iter_blocks(source, start=start), max_records, max_bytes)
    try:
        for block, stop in blocks:
            damaged = [position for position, _, _ in block.faults if position < stop]
            if stop == len(block) and block.too_large is not None:
                damaged.append(stop)
            if damaged and not skip_errors:
                yield _sampled(block, np.arange(damaged[0]), source.path, start)
                raise block.errors(source.path)[0]
            kept = np.setdiff1d(np.arange(stop), damaged)
            yield _sampled(block, kept, source.path, start)._replace(skipped=len(damaged))
    except (CorruptRecordError, TruncatedFileError) as error:
        if not skip_errors:
            if start:
                error.record = None  # it was counted from there on
            raise


def _limited(
    blocks: Iterator[FrameBlock], max_records: int | None, max_bytes: int | None
) -> Iterator[tuple[FrameBlock, int]]:
    """Yield blocks and the number of their records to take, up to the limits.

    At least one record is taken.
    """
    left = math.inf if max_records is None else max_records
    left_bytes = math.inf if max_bytes is None else max_bytes
    for block in blocks:
        ends = np.cumsum(block.lengths + TFRECORD.overhead_bytes)
        fitting = max(1, int(np.searchsorted(ends, left_bytes, side="right")))
        yield block, int(min(left, fitting, len(block)))
        left -= len(block)
        left_bytes -= int(ends[-1]) if len(block) else block.too_large_bytes
        if left <= 0 or left_bytes <= 0:
            return


def _sampled(block: FrameBlock, kept: Ints, path: str, start: int) -> SampledBlock:
    rows = RecordBlock(
        block.buffer,
        block.starts[kept] + TFRECORD.header_bytes,
        block.lengths[kept],
        block.first + kept,
    )
    offsets = block.offset + block.starts[kept]

    def locate(position: int) -> dict[str, Any]:
        number = None if start else int(rows.numbers[position])
        return {"path": path, "record": number, "offset": int(offsets[position])}

    return SampledBlock(rows, locate)
