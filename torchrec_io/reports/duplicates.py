"""Records with the same content, found with bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from .._records.record_block import RecordBlock
from .content import Duplicates
from .extra import import_extra

# Hashes of this number of records are kept: 64 MB with their numbers.
MOST_EXACT = 1 << 22
# The error of an estimate is about 0.4 %.
_LOG_REGISTERS = 16
_HASH_BYTES = 8
_LISTED_GROUPS = 10
_LISTED_RECORDS = 4


def hash_records(block: RecordBlock) -> npt.NDArray[np.uint64]:
    """Return a hash of the content of each record."""
    digests = b"".join(
        blake2b(block.view(position), digest_size=_HASH_BYTES).digest()
        for position in range(len(block))
    )
    return np.frombuffer(digests, np.uint64)


class DuplicateStatistics:
    """Hashes of the records that were added so far.

    Up to 4 million records are compared exactly. Of more, the number of different ones is
    estimated.
    """

    def __init__(self) -> None:
        self._records = 0
        self._hashes: list[npt.NDArray[np.uint64]] = []
        self._numbers: list[npt.NDArray[np.int64]] = []
        self._sketch: Any = None

    def add(self, numbers: npt.NDArray[np.int64], hashes: npt.NDArray[np.uint64]) -> None:
        """Add records by their numbers and the hashes of their content."""
        self._records += len(numbers)
        self._hashes.append(hashes)
        self._numbers.append(numbers)
        if self._sketch is None and self._records > MOST_EXACT:
            self._sketch = import_extra("datasketches").hll_sketch(_LOG_REGISTERS)
        if self._sketch is not None:
            for kept in self._hashes:
                for value in kept.view(np.int64).tolist():
                    self._sketch.update(value)
            self._hashes, self._numbers = [], []

    def result(self, locate: Callable[[int], tuple[str, int]]) -> Duplicates:
        """Return the number of different records, and some that are equal."""
        if self._sketch is not None:
            distinct = min(self._records, round(self._sketch.get_estimate()))
            return Duplicates(self._records, distinct, is_exact=False)
        if not self._hashes:
            return Duplicates(0, 0, is_exact=True)
        numbers = np.concatenate(self._numbers)
        _, inverse, counts = np.unique(
            np.concatenate(self._hashes), return_inverse=True, return_counts=True
        )
        largest = np.argsort(-counts, kind="stable")[:_LISTED_GROUPS]
        groups = tuple(
            tuple(locate(number) for number in numbers[inverse == each][:_LISTED_RECORDS].tolist())
            for each in largest.tolist()
            if counts[each] > 1
        )
        return Duplicates(self._records, len(counts), is_exact=True, examples=groups)
