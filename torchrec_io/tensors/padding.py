"""How long rows are padded, and putting them into what pads them."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

# Dtypes that PyTorch can store and hardly compute with, by one that it can, of the same size.
_COMPUTABLE = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}


class PaddedLength(NamedTuple):
    """How long rows become.

    Attributes:
        max_len: Longer rows are cut to it.
        buckets: Ascending; the length is rounded up to one of them, if there are any.
    """

    max_len: int | None = None
    buckets: tuple[int, ...] = ()

    @classmethod
    def of(cls, max_len: int | None, buckets: Sequence[int] | None) -> PaddedLength:
        """The same, checked.

        Raises:
            ValueError: ``max_len`` is negative or beyond the last bucket, or the buckets do not
                ascend from at least 1.
        """
        sizes = tuple(buckets or ())
        ascend = all(low < high for low, high in itertools.pairwise((0, *sizes)))
        if (buckets is not None and not sizes) or not ascend:
            raise ValueError(f"buckets must be ascending lengths of at least 1, not {buckets!r}")
        if max_len is not None and max_len < 0:
            raise ValueError(f"max_len must be at least 0, not {max_len!r}")
        if max_len is not None and sizes and max_len > sizes[-1]:
            raise ValueError(f"max_len is {max_len}, beyond the last bucket, {sizes[-1]}")
        return cls(max_len, sizes)

    def cut(self, length: int) -> int:
        """What is left of a row of that length."""
        return length if self.max_len is None else min(length, self.max_len)

    def length(self, longest: int, name: str | None = None) -> int:
        """The padded length of rows of which the longest has so many values.

        Raises:
            ValueError: it is beyond the last bucket.
        """
        longest = self.cut(longest)
        if not self.buckets:
            return longest
        place = bisect.bisect_left(self.buckets, longest)
        if place == len(self.buckets):
            last = self.buckets[-1]
            where = "" if name is None else f" of {name!r}"
            raise ValueError(
                f"a row{where} has {longest} values and the last bucket is {last}: "
                f"max_len={last} would cut it"
            )
        return self.buckets[place]


def fill_rows(padded: Tensor, values: Tensor, offsets: Tensor, most: int | None = None) -> None:
    """Writes rows of values into ``padded``, which is filled with what goes behind them.

    Args:
        padded: ``[rows, length, ...]``; what is beyond ``length`` is left out.
        values: ``[total, ...]``.
        offsets: ``[rows + 1]``: where rows begin and end.
        most: Of each row's values, if that is less than ``length``.
    """
    if not len(padded):
        return
    lengths = offsets.diff()
    most = padded.shape[1] if most is None else min(most, padded.shape[1])
    padded = padded[:, :most]
    places = torch.arange(most, device=offsets.device)
    filled = places < lengths.unsqueeze(1)
    ends = torch.stack((offsets[0], offsets[-1], lengths.min(), lengths.max()))
    first, last, shortest, longest = ends.tolist()  # one wait, if that is on a GPU
    computable = _COMPUTABLE.get(values.dtype)
    if computable is not None:
        padded, values = padded.view(computable), values.view(computable)
    if (first, last) != (0, len(values)) or shortest < 0 or longest > most:
        rows = (offsets[:-1].unsqueeze(1) + places)[filled]
        padded[filled] = values[rows]
        return
    # Every value has its place and they come in order: several times as fast.
    filled = filled.view(*filled.shape, *(1 for _ in padded.shape[2:]))
    padded.masked_scatter_(filled, values)
