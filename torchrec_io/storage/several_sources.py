"""Reading of several byte sources together: into a buffer, or in memory or files that they have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from .. import _core
from .byte_source import ByteBuffer, ByteSource, CheckedBlock, Ints, Loan


def descriptors_of(sources: Sequence[ByteSource]) -> list[int] | None:
    """Return the descriptors of sources, or None if one of them has no descriptor."""
    found = [descriptor for source in sources if (descriptor := source.descriptor) is not None]
    return found if len(found) == len(sources) else None


def find_changed(sources: Iterable[ByteSource]) -> ByteSource | None:
    """Return the first source whose stored file was changed in place since it was opened."""
    watched = [(each.file_watch, each) for each in sources if each.file_watch is not None]
    number = _core.find_changed_file([watch for watch, _ in watched])
    return None if number is None else watched[number][1]


def read_ranges(
    sources: Sequence[ByteSource], bounds: Sequence[int], ranges: Ints, out: ByteBuffer
) -> _core.ReadResult:
    """Read ranges of several sources, in one native call if all are files or blocks on the disk.

    Args:
        sources: Sources to read.
        bounds: Numbers of the first range of each source, and the number of ranges;
            ``[sources + 1]``.
        ranges: int64 ``[n, 3]``: stream offset, size, and offset in ``out``.
        out: Buffer; uint8.
    """
    descriptors = descriptors_of(sources)
    if descriptors is not None:
        return _core.read_ranges(descriptors, bounds, ranges, out)
    found = find_blocks(sources, bounds, ranges) if len(sources) > 1 else None
    if found is not None and not _core.read_blocks(
        found.files, ranges[bounds[0] : bounds[-1]], found.block_bytes, out
    ):
        return _core.ReadResult()
    parts = zip(sources, bounds[:-1], bounds[1:], strict=True)
    readings = [
        (begin, source.begin_reading(ranges[begin:end], out)) for source, begin, end in parts
    ]
    for begin, finish in readings:
        number = finish()
        if number is not None:
            return _core.ReadResult(begin + number)
    return _core.ReadResult()


def lend_ranges(sources: Sequence[ByteSource], bounds: Sequence[int], ranges: Ints) -> Loan | None:
    """Return memory that has ranges of several sources.

    They are read into a buffer if a source cannot lend its own memory.

    Args:
        sources: Sources to read.
        bounds: Numbers of the ranges of each source; see :func:`read_ranges`.
        ranges: Ranges to read; see :func:`read_ranges`.

    Returns:
        None if a range extends past the end of its source.
    """
    loan = _borrow(sources, bounds, ranges) if all(each.lends for each in sources) else None
    return _read_to_lend(sources, bounds, ranges) if loan is None else loan


def _borrow(sources: Sequence[ByteSource], bounds: Sequence[int], ranges: Ints) -> Loan | None:
    """Return memory that all sources lend; None if one of them does not."""
    loans: list[Loan] = []

    def give_back() -> None:
        while loans:
            loans.pop().give_back()

    try:
        parts = zip(sources, bounds[:-1], bounds[1:], strict=True)
        begun = [source.begin_lending(ranges[begin:end]) for source, begin, end in parts]
        for finish in begun:
            loan = finish()
            if loan is None:
                give_back()
                return None
            loans.append(loan)
    except BaseException:
        give_back()
        raise
    return Loan([piece for loan in loans for piece in loan.pieces], give_back)


def _read_to_lend(
    sources: Sequence[ByteSource], bounds: Sequence[int], ranges: Ints
) -> Loan | None:
    """Read ranges into a buffer; return it, or None if one extends past the end of its source."""
    ends = np.cumsum(ranges[:, 1])
    begins = ends - ranges[:, 1]
    buffer = _core.allocate(int(ends[-1]) if len(ends) else 0)
    packed = np.column_stack([ranges[:, :2], begins])
    if read_ranges(sources, bounds, packed, buffer).truncated_range is not None:
        return None
    return Loan([(buffer, np.column_stack([begins, ranges[:, 1:]]))], lambda: None)


class RangesOfBlocks(NamedTuple):
    """Ranges of sources that are in blocks on the disk.

    Attributes:
        blocks: The blocks that the ranges touch, of each range in turn.
        block_bytes: Size of a block in bytes.
    """

    blocks: list[CheckedBlock]
    block_bytes: int

    @property
    def files(self) -> list[_core.CheckedFile]:
        """The files of the blocks."""
        return [block.file for block in self.blocks]


def find_blocks(
    sources: Sequence[ByteSource], bounds: Sequence[int], ranges: Ints
) -> RangesOfBlocks | None:
    """Return the blocks on the disk that ranges are in; None if not all are there.

    Args:
        sources: Sources to read.
        bounds: Numbers of the ranges of each source; see :func:`read_ranges`.
        ranges: Ranges to read; see :func:`read_ranges`.
    """
    found = [blocks for source in sources if (blocks := source.checked_blocks) is not None]
    if len(found) < len(sources) or len({blocks.block_bytes for blocks in found}) != 1:
        return None
    size = found[0].block_bytes
    first = bounds[0]
    ranges, bounds = ranges[first : bounds[-1]], [bound - first for bound in bounds]
    numbers = _core.block_numbers(ranges, size)
    if len(numbers) != len(ranges):  # a range has parts of several blocks
        begins, ends = ranges[:, 0], ranges[:, 0] + ranges[:, 1]
        counts = np.where(ranges[:, 1] > 0, -(-ends // size) - begins // size, 0)
        bounds = np.append(0, np.cumsum(counts))[list(bounds)].tolist()
    blocks_of_all: list[CheckedBlock] = []
    for blocks, begin, end in zip(found, bounds[:-1], bounds[1:], strict=True):
        of_source = blocks.find(numbers[begin:end])
        if of_source is None:
            return None
        blocks_of_all += of_source
    return RangesOfBlocks(blocks_of_all, size)
