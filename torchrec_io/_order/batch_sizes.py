"""The numbers of records in successive batches, and the first record of each."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from ..checks import check_integer
from .ramp import Ramp


@dataclass(frozen=True)
class BatchSizes:
    """The numbers of records in successive batches, which change at some of them.

    Batches are numbered from 0, and records from that batch on. Earlier ones have negative numbers.

    Attributes:
        firsts: Number of the first batch of each size, ascending. Batches before the first of these
            have its size, too.
        sizes: The sizes.
    """

    firsts: tuple[int, ...]
    sizes: tuple[int, ...]
    # First record of each size's first batch, if record 0 is the first one of batch 0.
    _begins: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for size in self.sizes:
            check_integer("batch_size", size, 1)
        begins = [0]  # records from the first batch on
        for number in range(len(self.firsts) - 1):
            count = self.firsts[number + 1] - self.firsts[number]
            begins.append(begins[-1] + count * self.sizes[number])
        now = self._piece_of(0)
        origin = begins[now] - self.firsts[now] * self.sizes[now]
        object.__setattr__(self, "_begins", tuple(begin - origin for begin in begins))

    @classmethod
    def of(cls, batch_size: int | Ramp, first: int | None = None) -> BatchSizes:
        """Return the sizes of a batch size or a ramp.

        Args:
            batch_size: Batch size of all batches, or from the start of training on.
            first: Size of the first batch, if ranks are more or fewer than those of a ramp: all
                sizes change by the same factor.
        """
        if not isinstance(batch_size, Ramp):
            return cls((0,), (batch_size,))
        by = batch_size.first if first is None else first
        sizes = [size * by // batch_size.first for size in batch_size.sizes.values()]
        return cls(tuple(batch_size.sizes), tuple(sizes))

    def _piece_of(self, batch: int) -> int:
        return max(0, bisect_right(self.firsts, batch) - 1)

    def size(self, batch: int) -> int:
        """Return the number of records in a batch."""
        return self.sizes[self._piece_of(batch)]

    def begin(self, batch: int) -> int:
        """Return the first record of a batch."""
        piece = self._piece_of(batch)
        return self._begins[piece] + (batch - self.firsts[piece]) * self.sizes[piece]

    def find(self, record: int) -> int:
        """Return the batch that has a record."""
        piece = max(0, bisect_right(self._begins, record) - 1)
        return self.firsts[piece] + (record - self._begins[piece]) // self.sizes[piece]

    def num_batches(self, records: int) -> int:
        """Return the number of batches of the given number of records; the last may be shorter."""
        return self.find(records - 1) + 1

    def from_batch(self, batch: int, every: int = 1) -> BatchSizes:
        """Return the sizes of every n-th batch, of which the first is number 0."""
        # The latest of several that have the same first batch.
        pieces = dict(
            zip((-(-(first - batch) // every) for first in self.firsts), self.sizes, strict=True)
        )
        return BatchSizes(tuple(pieces), tuple(pieces.values()))

    def describe_before(self, batch: int) -> dict[str, int]:
        """Return the sizes of batches before one, by the first batch of each, as JSON values."""
        firsts = [max(0, first) for first in self.firsts]  # the last one at 0 counts
        known = zip(firsts, self.sizes, strict=True)
        return {str(first): size for first, size in known if first < batch}

    def next_change(self, batch: int) -> int | None:
        """Return the first batch after another one that has a new size; None if there is none."""
        later = self.firsts[self._piece_of(batch) + 1 :]
        return later[0] if later else None
