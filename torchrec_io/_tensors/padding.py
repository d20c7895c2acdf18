"""Lengths of padded rows, and copying of rows into a padded Tensor."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..checks import check_integer

# dtypes that PyTorch hardly supports, with a supported dtype of the same size.
_COMPUTABLE = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}


class PaddedLength(NamedTuple):
    """The length that rows are padded to.

    Attributes:
        max_len: Maximum length; longer rows are cut. None for no limit.
        buckets: Lengths in ascending order that the longest length is rounded up to, if any.
    """

    max_len: int | None = None
    buckets: tuple[int, ...] = ()

    @classmethod
    def of(cls, max_len: int | None, buckets: Sequence[int] | None) -> PaddedLength:
        """Return the padded length for the arguments of ``pad_collate``.

        Raises:
            ValueError: If ``max_len`` is negative or exceeds the last bucket, or if the buckets are
                not ascending positive lengths.
        """
        sizes = tuple(buckets or ())
        are_ascending = all(low < high for low, high in itertools.pairwise((0, *sizes)))
        if (buckets is not None and not sizes) or not are_ascending:
            raise ValueError(f"buckets must be ascending positive lengths, got {buckets!r}")
        if max_len is not None:
            max_len = check_integer("max_len", max_len)
            if sizes and max_len > sizes[-1]:
                raise ValueError(
                    f"max_len must not exceed the last bucket, {sizes[-1]}, got {max_len}"
                )
        return cls(max_len, sizes)

    def cut(self, length: int) -> int:
        """Return the length of a row after cutting."""
        return length if self.max_len is None else min(length, self.max_len)

    def length(self, longest: int, name: str | None = None) -> int:
        """Return the padded length of rows.

        Args:
            longest: Length of the longest row.
            name: Name of the column, for the error message.

        Raises:
            ValueError: If the longest row exceeds the last bucket.
        """
        longest = self.cut(longest)
        if not self.buckets:
            return longest
        place = bisect.bisect_left(self.buckets, longest)
        if place == len(self.buckets):
            last = self.buckets[-1]
            where = "" if name is None else f" of {name!r}"
            raise ValueError(
                f"a row{where} has {longest} values, more than the last bucket, {last}: add a "
                f"larger bucket, or cut rows with max_len={last}"
            )
        return self.buckets[place]


def fill_rows(padded: Tensor, values: Tensor, offsets: Tensor, most: int | None = None) -> None:
    """Write rows of values into a Tensor that is filled with the padding.

    Args:
        padded: Tensor ``[rows, length, ...]``. Values beyond ``length`` are left out.
        values: Values of all rows, ``[total, ...]``.
        offsets: Offsets of the rows in ``values``, ``[rows + 1]``.
        most: Maximum number of values of each row, if it is less than ``length``.
    """
    if not len(padded):
        return
    lengths = offsets.diff()
    most = padded.shape[1] if most is None else min(most, padded.shape[1])
    padded = padded[:, :most]
    positions = torch.arange(most, device=offsets.device)
    is_filled = positions < lengths.unsqueeze(1)
    ends = torch.stack((offsets[0], offsets[-1], lengths.min(), lengths.max()))
    first, last, shortest, longest = ends.tolist()  # one synchronization with a GPU, not four
    computable = _COMPUTABLE.get(values.dtype)
    if computable is not None:
        padded, values = padded.view(computable), values.view(computable)
    if (first, last) != (0, len(values)) or shortest < 0 or longest > most:
        rows = (offsets[:-1].unsqueeze(1) + positions)[is_filled]
        padded[is_filled] = values[rows]
        return
    # All values are copied, in their order. This is several times as fast.
    is_filled = is_filled.view(*is_filled.shape, *(1 for _ in padded.shape[2:]))
    padded.masked_scatter_(is_filled, values)
