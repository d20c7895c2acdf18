"""Which records of a dataset are part of it: a stretch of them, or any, one bit each."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .. import _core

Numbers: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

# How many records are looked at in one go where something is computed for all of them: a multiple
# of 64, so that each chunk begins with a word of its own.
CHUNK = 2**20


@dataclass(frozen=True)
class Span:
    """Consecutive records: ``begin..begin+size-1`` of ``total``.

    Attributes:
        begin: The first record.
        size: How many records.
        total: How many records there are in all.

    Raises:
        ValueError: the span does not lie within ``0..total``.
    """

    begin: int
    size: int
    total: int

    def __post_init__(self) -> None:
        if self.begin < 0 or self.size < 0 or self.begin + self.size > self.total:
            raise ValueError(
                f"{self.size} records from {self.begin} on do not lie within {self.total} records"
            )

    def __len__(self) -> int:
        return self.size

    def numbers_at(self, positions: Numbers) -> Numbers:
        """Numbers of the records at positions among those selected.

        Args:
            positions: int64 ``[n]``, each in ``0..len-1``.

        Returns:
            int64 ``[n]``.

        Raises:
            IndexError: a position is out of its range.
        """
        _check_range(positions, self.size, "position")
        return positions + self.begin

    def positions_of(self, numbers: Numbers) -> Numbers:
        """How many of the records selected have a smaller number.

        Args:
            numbers: int64 ``[n]``, each in ``0..total``, selected or not.

        Returns:
            int64 ``[n]``: the position of a record that is selected.

        Raises:
            IndexError: a number is out of its range.
        """
        _check_range(numbers, self.total + 1, "number")
        return np.clip(numbers - self.begin, 0, self.size)

    def mask(self, begin: int, end: int) -> Mask:
        """Which of the records ``begin..end-1`` are selected: bool ``[end - begin]``."""
        mask = np.zeros(end - begin, np.bool_)
        mask[max(self.begin - begin, 0) : max(self.begin + self.size - begin, 0)] = True
        return mask

    def fingerprint(self) -> str:
        """A short name of what is selected: the same for the same records, wherever computed."""
        begin = self.begin if self.size else 0
        return _digest(f"span:{self.total}:{begin}:{self.size}".encode())


class Subset:
    """Any records, one bit each; about 1.13 bits a record with what makes them quick to find.

    Made by :meth:`of`, :meth:`build` or :class:`SubsetBuilder`. Methods are those of
    :class:`Span`.

    Attributes:
        total: How many records there are in all.
    """

    def __init__(self, total: int, words: npt.NDArray[np.uint64]) -> None:
        """Takes over bits: record i is selected if bit ``i % 64`` of ``words[i // 64]`` is set.

        Raises:
            ValueError: the words are not as many as ``total`` bits take, or a bit is set behind
                the last record.
        """
        if len(words) != -(-total // 64):
            raise ValueError(f"{total} records are not {len(words)} words of 64 bits")
        if total % 64 and int(words[-1]) >> total % 64:
            raise ValueError(f"a bit is set behind the last of {total} records")
        self.total = total
        self._words = words
        self._counts = _core.count_bits(words)
        self._fingerprint: str | None = None  # asked for with every saved state

    @classmethod
    def of(cls, mask: Mask) -> Subset:
        """The records whose ``mask``, bool ``[total]``, is True."""
        return cls.build(len(mask), lambda begin, end: mask[begin:end])

    @classmethod
    def build(cls, total: int, mask_of: Callable[[int, int], Mask]) -> Subset:
        """The records that ``mask_of(begin, end)`` says, asked for stretch by stretch, in order.

        Raises:
            ValueError: what it gives is not bool ``[end - begin]``.
        """
        builder = SubsetBuilder(total)
        for begin in range(0, total, CHUNK):
            builder.append(mask_of(begin, min(total, begin + CHUNK)))
        return builder.finish()

    def __len__(self) -> int:
        return int(self._counts[-1])

    def __reduce__(self) -> tuple[Any, ...]:
        return Subset, (self.total, self._words)

    def __repr__(self) -> str:
        return f"Subset({len(self)} of {self.total} records)"

    def numbers_at(self, positions: Numbers) -> Numbers:
        """Numbers of the records at positions among those selected; see :class:`Span`."""
        return _core.select_bits(self._words, self._counts, positions)

    def positions_of(self, numbers: Numbers) -> Numbers:
        """How many of the records selected have a smaller number; see :class:`Span`."""
        _check_range(numbers, self.total + 1, "number")
        return _core.count_bits_below(self._words, self._counts, numbers)

    def mask(self, begin: int, end: int) -> Mask:
        """Which of the records ``begin..end-1`` are selected: bool ``[end - begin]``."""
        skipped = begin % 8
        packed = self._words.view(np.uint8)[begin // 8 : -(-end // 8)]
        bits = np.unpackbits(packed, count=skipped + end - begin, bitorder="little")
        return bits[skipped:].view(np.bool_)

    def fingerprint(self) -> str:
        """A short name of what is selected: that of a :class:`Span` where it is one."""
        if self._fingerprint is None:
            self._fingerprint = self._find_fingerprint()
        return self._fingerprint

    def _find_fingerprint(self) -> str:
        size = len(self)
        first, last = self.numbers_at(np.array([0, size - 1])).tolist() if size else (0, -1)
        if last - first + 1 == size:
            return Span(first, size, self.total).fingerprint()
        return _digest(f"bits:{self.total}:".encode(), self._words)


Selection: TypeAlias = Span | Subset


class SubsetBuilder:
    """Makes a :class:`Subset` of masks that come one after another.

    Args:
        total: How many records there are in all.
    """

    def __init__(self, total: int) -> None:
        self._total = total
        self._words = np.zeros(-(-total // 64), np.uint64)
        self._done = 0

    def append(self, mask: Mask) -> None:
        """Says which of the next records are selected.

        Args:
            mask: bool, of a multiple of 8 records unless they are the last.

        Raises:
            ValueError: it is not.
        """
        end = self._done + len(mask)
        if mask.dtype != np.bool_ or mask.ndim != 1 or end > self._total:
            raise ValueError(
                f"a mask of at most {self._total - self._done} bools is needed, "
                f"not {mask.dtype} {list(mask.shape)}"
            )
        if self._done % 8:
            raise ValueError(f"only the last mask may be of {self._done % 8} over 8 records")
        packed = np.packbits(mask, bitorder="little")
        at = self._done // 8
        self._words.view(np.uint8)[at : at + len(packed)] = packed
        self._done = end

    def finish(self) -> Subset:
        """The records that were selected.

        Raises:
            ValueError: masks of some records are missing.
        """
        if self._done != self._total:
            raise ValueError(f"masks came for {self._done} of {self._total} records")
        return Subset(self._total, self._words)


def _check_range(numbers: Numbers, end: int, what: str) -> None:
    # In one pass: without their sign negative numbers are the greatest of all.
    if len(numbers) and numbers.view(np.uint64).max() >= end:
        raise IndexError(f"a {what} lies outside 0..{end - 1}")


def _digest(text: bytes, words: npt.NDArray[np.uint64] | None = None) -> str:
    digest = hashlib.blake2b(text, digest_size=8)
    if words is not None:
        digest.update(words.data)
    return digest.hexdigest()
