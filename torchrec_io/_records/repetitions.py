"""Repetitions of records in an epoch, which are a part of their numbers.

An order in which records come several times in an epoch yields numbers that differ: their lowest
bits are the record's own number, and the bits above are its repetition. It is 0 in other orders.
Readers pass these numbers on, so each time that a record comes has its own random numbers.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .. import _core

# The most records that a dataset can number.
MOST_RECORDS = 1 << _core.RECORD_BITS
# The bits of a repetition, up to the sign of an int64.
_BITS = 63 - _core.RECORD_BITS
_REPETITION = ((1 << _BITS) - 1) << _core.RECORD_BITS
# Odd, about 2**_BITS divided by the golden ratio: small multiples of it are far from each other.
_SPREAD = 5_184_443


def own_numbers(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the own numbers of records, without their repetitions; int64 ``[n]``."""
    return numbers & ~_REPETITION


def repeated(
    numbers: npt.NDArray[np.int64], repetition: int | npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return the numbers of records that are repeated.

    Repetitions of orders in one another are combined: the result depends on both. Different
    combinations have the same result with a probability of about 2**-23.

    Args:
        numbers: Numbers of records, which may have a repetition; int64 ``[n]``.
        repetition: Number of earlier passes over the records in the epoch, or the position of each
            record; int64 ``[n]``. With 0, numbers without a repetition stay as they are.
    """
    combined = (numbers >> _core.RECORD_BITS) * _SPREAD + repetition
    return (combined << _core.RECORD_BITS) & _REPETITION | own_numbers(numbers)
