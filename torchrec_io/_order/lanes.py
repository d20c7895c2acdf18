"""Blocks of records that a shuffle keeps together, and lanes of blocks that ranks own."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from .selection import Numbers, Selection


@dataclass(frozen=True)
class Blocks:
    """Blocks of consecutive selected records, which a shuffle by blocks keeps together.

    They are the same in every epoch. The whole blocks come first, equally many for each lane. Then
    comes a rest for each lane: equal parts of the records that are too few for another block in
    every lane. The first of these have one record more if they cannot be divided evenly. So without
    lanes, the last block may have fewer records.

    Attributes:
        selection: The selected records.
        size: Number of records in a whole block.
        lanes: Number of lanes; 1 without lanes.
    """

    selection: Selection
    size: int
    lanes: int = 1

    @property
    def _num_whole(self) -> int:
        return len(self.selection) // self.size // self.lanes * self.lanes

    def _rests(self) -> tuple[int, int, int]:
        """Return the first position of the rests, their size, and the number of longer ones."""
        begin = self._num_whole * self.size
        return begin, *divmod(len(self.selection) - begin, self.lanes)

    def block_of(self, numbers: Numbers) -> Numbers:
        """Return the number of the block or rest of each record."""
        positions = self.selection.positions_of(numbers)
        begin, size, extra = self._rests()
        if len(positions) == 0 or positions.max() < begin:  # as in most batches
            return positions // self.size
        # Position in the rests, as if the longer ones had the size of the others or these theirs.
        inside = positions - begin
        longer = inside // (size + 1)
        others = (inside - extra) // max(1, size)
        in_rests = self._num_whole + np.where(longer < extra, longer, others)
        return np.where(positions < begin, positions // self.size, in_rests)

    def numbers_of(self, block: int) -> Numbers:
        """Return the records of a block or rest, in ascending order."""
        number = block - self._num_whole
        if number < 0:
            first, last = block * self.size, (block + 1) * self.size
        else:
            begin, size, extra = self._rests()
            first, last = (begin + each * size + min(each, extra) for each in (number, number + 1))
        return self.selection.numbers_at(np.arange(first, last, dtype=np.int64))


def check_lanes(lanes: int, world_size: int, batch_size: int | None) -> None:
    """Raise ValueError if ranks cannot take equal parts of all lanes in every step.

    Args:
        lanes: Number of lanes.
        world_size: Number of ranks.
        batch_size: Number of records in a batch of one rank; None for samples.
    """
    if lanes % world_size:
        divisors = [number for number in range(1, lanes + 1) if lanes % number == 0]
        sizes = _nearest(divisors, world_size)
        most = lanes // world_size * world_size
        numbers = _nearest([number for number in (most, most + world_size) if number], lanes)
        raise ValueError(
            f"lanes must be a multiple of the number of ranks, got {lanes} lanes for {world_size} "
            f"ranks: use lanes={numbers}, or world_size={sizes}"
        )
    own = lanes // world_size
    if batch_size is not None and batch_size % own:
        most = batch_size // own * own
        sizes = _nearest([number for number in (most, most + own) if number], batch_size)
        fewer = max(number for number in range(1, own) if batch_size % number == 0)
        raise ValueError(
            f"the global batch must be a multiple of the {lanes} lanes of the shuffle, got "
            f"{world_size} x {batch_size} records: use batch_size={sizes}, or "
            f"lanes={fewer * world_size}"
        )


def _nearest(numbers: list[int], wanted: int) -> str:
    """Return the nearest of some ascending numbers below and above a value, as a text."""
    at = bisect_left(numbers, wanted)
    return " or ".join(map(str, numbers[max(0, at - 1) : at + 1]))
