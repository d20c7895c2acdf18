"""Selections of records: a span of consecutive records, or any subset with one bit each."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from .. import _core
from .._storage.digest import digest_text
from ..checks import counted

Numbers: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

# Records processed at a time when something is computed for all of them. A multiple of 64, so that
# each chunk starts with a word of its own.
CHUNK = 2**20


class Selection(Protocol):
    """Some of a dataset's records, in ascending order."""

    @property
    def total(self) -> int:
        """Number of records of the dataset, selected or not."""

    def __len__(self) -> int:
        """Return the number of selected records."""

    def numbers_at(self, positions: Numbers) -> Numbers:
        """Return the record numbers at positions among the selected records.

        Args:
            positions: int64 ``[n]``, each in ``0..len-1``.

        Returns:
            int64 ``[n]``.

        Raises:
            IndexError: If a position is out of its range.
        """

    def positions_of(self, numbers: Numbers) -> Numbers:
        """Return the number of selected records before each record number.

        Args:
            numbers: int64 ``[n]``, each in ``0..total``, selected or not.

        Returns:
            int64 ``[n]``. For a selected record it is its position.

        Raises:
            IndexError: If a number is out of its range.
        """

    def mask(self, begin: int, end: int) -> Mask:
        """Return a mask of the selected records among ``begin..end-1``: bool ``[end - begin]``."""

    def fingerprint(self) -> str:
        """Return a short text that is equal for equal selections of equal totals."""


@dataclass(frozen=True)
class Span:
    """Consecutive records: ``begin..begin+size-1`` of ``total``. A :class:`Selection`.

    Attributes:
        begin: Number of the first record.
        size: Number of selected records.
        total: Number of records of the dataset.

    Raises:
        ValueError: If the span does not lie within ``0..total``.
    """

    begin: int
    size: int
    total: int

    def __post_init__(self) -> None:
        if self.begin < 0 or self.size < 0 or self.begin + self.size > self.total:
            raise ValueError(
                f"a span of {counted(self.size, 'record')} from record {self.begin} extends past "
                f"{counted(self.total, 'record')}"
            )

    def __len__(self) -> int:
        return self.size

    def numbers_at(self, positions: Numbers) -> Numbers:
        _check_range(positions, self.size, "position")
        return positions + self.begin

    def positions_of(self, numbers: Numbers) -> Numbers:
        _check_range(numbers, self.total + 1, "number")
        # Faster for few numbers than clip().
        return np.minimum(np.maximum(numbers - self.begin, 0), self.size)

    def mask(self, begin: int, end: int) -> Mask:
        mask = np.zeros(end - begin, np.bool_)
        mask[max(self.begin - begin, 0) : max(self.begin + self.size - begin, 0)] = True
        return mask

    def fingerprint(self) -> str:
        begin = self.begin if self.size else 0
        return digest_text(f"span:{self.total}:{begin}:{self.size}")


class Subset:
    """Any subset of the records. A :class:`Selection` of about 1.13 bits a record.

    Made by :meth:`from_mask`, :meth:`build` or :class:`SubsetBuilder`.

    Attributes:
        total: Number of records of the dataset.
        words: The bit array: record i is selected if bit ``i % 64`` of ``words[i // 64]`` is set.
    """

    def __init__(self, total: int, words: npt.NDArray[np.uint64]) -> None:
        """Wrap a bit array: record i is selected if bit ``i % 64`` of ``words[i // 64]`` is set.

        Raises:
            ValueError: If there are not ``ceil(total / 64)`` words, or a bit after the last record
                is set.
        """
        if len(words) != -(-total // 64):
            raise ValueError(f"{total} records take {-(-total // 64)} words, got {len(words)}")
        if total % 64 and int(words[-1]) >> total % 64:
            raise ValueError(f"a bit after the last of {total} records is set")
        self.total = total
        self.words = words
        self._counts = _core.count_bits(words)

    @classmethod
    def from_mask(cls, mask: Mask) -> Subset:
        """Return the records whose ``mask``, bool ``[total]``, is True."""
        return cls.build(len(mask), lambda begin, end: mask[begin:end])

    @classmethod
    def build(cls, total: int, mask_of: Callable[[int, int], Mask]) -> Subset:
        """Return the subset of a mask that is computed chunk by chunk.

        Args:
            total: Number of records.
            mask_of: Called with ``begin`` and ``end``, in ascending order; returns the mask of
                those records, bool ``[end - begin]``.

        Raises:
            ValueError: If a mask has another dtype or shape.
        """
        builder = SubsetBuilder(total)
        for begin in range(0, total, CHUNK):
            builder.append(mask_of(begin, min(total, begin + CHUNK)))
        return builder.finish()

    def __len__(self) -> int:
        return int(self._counts[-1])

    def __reduce__(self) -> tuple[Any, ...]:
        return Subset, (self.total, self.words)

    def __repr__(self) -> str:
        return f"Subset({len(self)} of {self.total} records)"

    def numbers_at(self, positions: Numbers) -> Numbers:
        return _core.select_bits(self.words, self._counts, positions)

    def positions_of(self, numbers: Numbers) -> Numbers:
        _check_range(numbers, self.total + 1, "number")
        return _core.count_bits_below(self.words, self._counts, numbers)

    def mask(self, begin: int, end: int) -> Mask:
        skipped = begin % 8
        packed = self.words.view(np.uint8)[begin // 8 : -(-end // 8)]
        bits = np.unpackbits(packed, count=skipped + end - begin, bitorder="little")
        return bits[skipped:].view(np.bool_)

    def fingerprint(self) -> str:
        return self._fingerprint

    @functools.cached_property  # part of every saved state
    def _fingerprint(self) -> str:
        size = len(self)
        first, last = self.numbers_at(np.array([0, size - 1])).tolist() if size else (0, -1)
        if last - first + 1 == size:  # equal to a span
            return Span(first, size, self.total).fingerprint()
        return digest_text(f"bits:{self.total}:", self.words.data)


class SubsetBuilder:
    """Builds a :class:`Subset` from consecutive masks.

    Args:
        total: Number of records.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._words = np.zeros(-(-total // 64), np.uint64)
        self._done = 0

    def append(self, mask: Mask) -> None:
        """Append the mask of the next records.

        Args:
            mask: bool ``[n]``.

        Raises:
            ValueError: If the mask has another dtype, shape or size.
        """
        end = self._done + len(mask)
        if mask.dtype != np.bool_ or mask.ndim != 1 or end > self._total:
            raise ValueError(
                f"mask must be bool of at most {counted(self._total - self._done, 'record')}, "
                f"got {mask.dtype} {list(mask.shape)}"
            )
        begun = self._done % 8  # number of bits in a byte that is not complete yet
        packed = np.packbits(np.pad(mask, (begun, 0)) if begun else mask, bitorder="little")
        at = self._done // 8
        self._words.view(np.uint8)[at : at + len(packed)] |= packed
        self._done = end

    def finish(self) -> Subset:
        """Return the subset.

        Raises:
            ValueError: If masks of some records are missing.
        """
        if self._done != self._total:
            raise ValueError(f"masks must cover {counted(self._total, 'record')}, got {self._done}")
        return Subset(self._total, self._words)


def parts_of(selection: Selection, size: int) -> Iterator[Numbers]:
    """Yield the numbers of the selected records in parts, in order; int64 ``[size]`` each."""
    for begin in range(0, len(selection), size):
        yield selection.numbers_at(np.arange(begin, min(len(selection), begin + size)))


def select_positions(positions: Numbers, total: int) -> Subset:
    """Return the subset of some records.

    Args:
        positions: Numbers of the records, ascending; int64 ``[n]``, each in ``0..total-1``.
        total: Number of records.
    """

    def mask_of(begin: int, end: int) -> Mask:
        first, last = np.searchsorted(positions, [begin, end])
        mask = np.zeros(end - begin, np.bool_)
        mask[positions[first:last] - begin] = True
        return mask

    return Subset.build(total, mask_of)


def select_within(selection: Selection, picked: Selection) -> Selection:
    """Return some of the records of a selection.

    Args:
        selection: The selection.
        picked: Positions to keep, among the records of the selection.
    """
    if isinstance(selection, Span):
        if isinstance(picked, Span):  # stays one
            return Span(selection.begin + picked.begin, picked.size, selection.total)
        if selection.size == selection.total:
            return picked

    def mask_of(begin: int, end: int) -> Mask:
        mask = selection.mask(begin, end)
        first, last = selection.positions_of(np.array([begin, end])).tolist()
        mask[mask] = picked.mask(first, last)
        return mask

    return Subset.build(selection.total, mask_of)


def _check_range(numbers: Numbers, end: int, what: str) -> None:
    # One pass: as unsigned integers, negative numbers are the largest.
    if len(numbers) and numbers.view(np.uint64).max() >= end:
        raise IndexError(f"a {what} lies outside 0..{end - 1}")
