"""Draws of records by weight: which record comes at which position of an epoch."""

from __future__ import annotations

import functools
import math
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from .. import _core
from .._storage.digest import digest_number, digest_text
from ..checks import counted
from .selection import CHUNK, Numbers, Selection, Span

Floats: TypeAlias = npt.NDArray[np.float64]

# Random numbers have as many bits as a float64 has.
_BITS = 53
# Epochs whose draws without replacement are kept. A thread that prefetches may be in the next one.
_EPOCHS_KEPT = 2
# Sums of weights in a group. The last ones of all groups stay in the cache of the processor.
_GROUP = 1 << 10
# Terms of the series of a logarithm that change a float64 for the mantissas of frexp.
_LOG_TERMS = 17


class Weights:
    """The weight of each record of some files, by record number.

    Args:
        values: Real numbers ``[N]``: an array, a Tensor or a list.

    Attributes:
        values: float64 ``[N]``, read-only.

    Raises:
        ValueError: If the values are not numbers of shape ``[N]``, or one is negative or not
            finite.
    """

    _noun: ClassVar[str] = "weights"

    def __init__(self, values: Any) -> None:
        self.values = _checked(values)
        self.values.flags.writeable = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Weights) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(self._fingerprint)

    def __repr__(self) -> str:
        return f"<{self._noun}: {self._fingerprint}>"

    @functools.cached_property  # part of every saved state
    def _fingerprint(self) -> str:
        return digest_text(self.values.data)

    def of(self, selection: Selection) -> Floats:
        """Return the weights of the selected records; float64 ``[len(selection)]``."""
        if isinstance(selection, Span):
            return self.values[selection.begin : selection.begin + selection.size]
        parts = [self.values[:0]]
        for begin in range(0, len(self.values), CHUNK):
            values = self.values[begin : begin + CHUNK]
            parts.append(values[selection.mask(begin, begin + len(values))])
        return np.concatenate(parts)


class Classes(Weights):
    """Weights by class: the classes of a selection have equal weight, and the records of a class.

    Args:
        values: Number of each record's class ``[N]``, from 1; 0 for a record without one.
    """

    _noun = "classes"

    def of(self, selection: Selection) -> Floats:
        classes = super().of(selection).astype(np.int64)
        shares = 1 / np.maximum(np.bincount(classes, minlength=1), 1)
        shares[0] = 0
        return np.asarray(shares[classes])


class Draws:
    """Draws of the selected records by weight, a function of the position in an epoch.

    With replacement, each draw is independent of the others: record i comes with probability
    ``weight[i] / sum(weights)``, as in ``torch.utils.data.WeightedRandomSampler``. Any position is
    computed directly.

    Without replacement, records are drawn one after another from those that are left, with
    probabilities in proportion to their weights. They are put in ascending order of
    ``-log(u[i]) / weight[i]`` with independent uniform u (Efraimidis and Spirakis, "Weighted random
    sampling with a reservoir", 2006). An epoch is computed as a whole, once.

    Instances are thread-safe and can be pickled.

    Args:
        weights: Weights of all records.
        selection: The records to draw from.
        num_samples: Number of draws in an epoch. By default the number of records, without
            replacement of those with a positive weight.
        replacement: Whether a record can be drawn several times in an epoch.

    Attributes:
        weights: Weights of the selected records.
        replacement: Whether a record can be drawn several times in an epoch.

    Raises:
        ValueError: If there is not one weight for each record, no selected record has a positive
            one, or more records than have one are drawn without replacement.
    """

    def __init__(
        self, weights: Weights, selection: Selection, num_samples: int | None, replacement: bool
    ) -> None:
        if len(weights.values) != selection.total:
            raise ValueError(
                f"weights must have one value for each of {counted(selection.total, 'record')} of "
                f"the files, got {len(weights.values):,}"
            )
        self._made_of = weights, selection, num_samples, replacement
        self.weights = weights.of(selection)
        self.replacement = replacement
        positive = int(np.count_nonzero(self.weights))
        if positive == 0 and len(selection) > 0:
            raise ValueError(
                "at least one weight must be positive, but those of "
                f"{counted(len(selection), 'record')} are all 0"
            )
        if not replacement and num_samples is not None and num_samples > positive:
            raise ValueError(
                f"num_samples must be at most {positive}, the number of records with a positive "
                f"weight, without replacement, got {num_samples}"
            )
        default = len(selection) if replacement else positive
        self._size = (num_samples or default) if len(selection) else 0
        self._sums = _Sums(self.weights) if replacement else None
        self._all_of = functools.lru_cache(maxsize=_EPOCHS_KEPT)(self._draw_all)

    def __reduce__(self) -> tuple[Any, ...]:
        return Draws, self._made_of

    def __len__(self) -> int:
        """Return the number of draws in an epoch."""
        return self._size

    def at(self, positions: Numbers, seed: int, epoch: int) -> Numbers:
        """Return the records drawn at positions of an epoch.

        Args:
            positions: int64 ``[n]``, each in ``0..len-1``.
            seed: Any integer.
            epoch: Number of the epoch.

        Returns:
            Positions of the records in the selection; int64 ``[n]``.
        """
        if self._sums is None:
            return self._all_of(seed, epoch)[positions]
        return self._sums.find(_uniform(positions, seed, epoch))

    def _draw_all(self, seed: int, epoch: int) -> Numbers:
        """Return all draws of an epoch without replacement."""
        keys = np.full(len(self.weights), np.inf)
        for begin in range(0, len(keys), CHUNK):
            chosen = begin + np.flatnonzero(self.weights[begin : begin + CHUNK])
            # From (0, 1], so that its logarithm is finite.
            uniform = _uniform(chosen, seed, epoch) + 2.0**-_BITS
            with np.errstate(over="ignore"):  # a key may be infinite if its weight is very small
                keys[chosen] = -_log(uniform) / self.weights[chosen]
        order = np.argsort(keys, kind="stable")
        return order[self.weights[order] > 0][: self._size]


class _Sums:
    """The sums of the first weights, for each number of them.

    A search finds a group of sums first. Then it takes each step for all wanted values at once: so
    the processor waits for the memory once for each step, and not for each value.

    Args:
        weights: The weights; float64 ``[n]``.
    """

    def __init__(self, weights: Floats) -> None:
        self._sums = np.cumsum(weights)
        self._groups = self._sums[_GROUP - 1 :: _GROUP].copy()

    def find(self, shares: Floats) -> Numbers:
        """Return the index whose weight lies at each share of the whole sum, from [0, 1)."""
        wanted = shares * self._sums[-1]
        found = np.searchsorted(self._groups, wanted, side="right") * _GROUP
        step = _GROUP // 2
        while step:
            probes = np.minimum(found + (step - 1), len(self._sums) - 1)
            found += step * (self._sums[probes] <= wanted)
            step //= 2
        return np.asarray(found)


def _checked(values: Any) -> Floats:
    """Return weights as a new array, checked."""
    if hasattr(values, "detach"):  # a Tensor; NumPy has no bfloat16
        values = values.detach().cpu().double()
    try:
        given = np.asarray(values)
    except ValueError:  # a ragged list
        given = np.asarray(None)
    if given.ndim != 1 or given.dtype.kind not in "iufb":
        raise ValueError(
            "weights must be one number for each record of the files, the name of a feature or a "
            f"function of a Batch, got {given.dtype} {list(given.shape)}"
        )
    weights = given.astype(np.float64)
    is_wrong = ~((weights >= 0) & (weights < np.inf))
    if is_wrong.any():
        record = int(np.argmax(is_wrong))
        raise ValueError(
            f"weights must be finite and not negative, got {given[record]} for record {record}"
        )
    with np.errstate(over="ignore"):
        if weights.sum() == np.inf:
            raise ValueError(f"weights must have a finite sum, got {weights.max()} among them")
    return weights


def _uniform(positions: Numbers, seed: int, epoch: int) -> Floats:
    """Return a random number from [0, 1) for each position, without computing the others.

    The numbers of all positions are a permutation of the multiples of 2**-53.
    """
    key = digest_number(f"draws:{seed}:{epoch}")
    return np.asarray(_core.permute(positions, 1 << _BITS, key) * 2.0**-_BITS)


def _log(values: Floats) -> Floats:
    """Return the natural logarithm of numbers from (0, 1], equal on every machine.

    NumPy's own may differ in the last bit, and then ranks would have different orders. So it is
    2 atanh((m - 1) / (m + 1)) of the mantissa m, as a series, by operations that IEEE 754 defines.
    """
    mantissas, exponents = np.frexp(values)
    ratio = (mantissas - 1) / (mantissas + 1)
    series = np.zeros_like(values)
    for term in reversed(range(_LOG_TERMS)):
        series = series * (ratio * ratio) + 1 / (2 * term + 1)
    return np.asarray(exponents * math.log(2) + 2 * ratio * series)
