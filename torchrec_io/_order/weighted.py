"""Draws of records by weight: which record comes at which position of an epoch."""

from __future__ import annotations

import functools
import math
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from .. import _core
from .._storage.digest import digest_number, digest_text
from ..checks import counted
from .selection import CHUNK, Mask, Numbers, Selection, Span

Floats = npt.NDArray[np.float64]

# Random numbers have as many bits as a float64 has.
_BITS = 53
# Epochs whose draws without replacement are kept. A thread that prefetches may be in the next one.
_EPOCHS_KEPT = 2
# Every this many cumulative weights are searched first; those stay in the cache of the processor.
_STRIDE = 1 << 9
# Terms of the series of a logarithm that change a float64 for the mantissas of frexp.
_LOG_TERMS = 17


class Weights:
    """The weight of each record of some files, by record number.

    Args:
        values: Real numbers ``[N]``: an array, a Tensor or a list.
        name: Name of the feature that has them, if it is known.

    Attributes:
        values: float64 ``[N]``, read-only.

    Raises:
        ValueError: If the values are not numbers of shape ``[N]``, one is negative or not finite,
            or all are 0.
    """

    _noun: ClassVar[str] = "weights"

    def __init__(self, values: Any, name: str | None = None) -> None:
        self.values = _checked_weights(values)
        self.values.flags.writeable = False
        self._name = name

    def __eq__(self, other: object) -> bool:
        is_same = type(self) is type(other)
        return is_same and self.fingerprint == getattr(other, "fingerprint", None)

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        of = "" if self._name is None else f" of {self._name!r}"
        return f"<{self._noun}{of}: {self.fingerprint}>"

    def __len__(self) -> int:
        return len(self.values)

    @functools.cached_property
    def fingerprint(self) -> str:
        """Short text that is equal for equal weights."""
        return digest_text(f"{self.values.dtype}:", self.values.data)

    def of(self, selection: Selection) -> Floats:
        """Return the weights of the selected records; float64 ``[len(selection)]``."""
        return _selected(self.values, selection)

    def are_positive(self, numbers: Numbers) -> Mask:
        """Return whether each record may be drawn; bool ``[n]`` for record numbers ``[n]``."""
        return np.asarray(self.values[numbers] > 0)


class Classes(Weights):
    """Weights by class: the classes of a selection have equal weight, and the records of a class.

    Args:
        values: Number of each record's class; integers ``[N]``, -1 for a record without one.
        name: Name of the feature that has the classes.

    Attributes:
        values: int32 ``[N]``, read-only.
    """

    _noun = "classes"

    def __init__(self, values: npt.NDArray[np.integer[Any]], name: str) -> None:
        self.values: Any = values.astype(np.int32)
        self.values.flags.writeable = False
        self._name = name

    def of(self, selection: Selection) -> Floats:
        classes = _selected(self.values, selection) + 1
        sizes = np.bincount(classes).astype(np.float64)
        shares = np.divide(1.0, sizes, out=np.zeros_like(sizes), where=sizes > 0)
        shares[:1] = 0.0
        return np.asarray(shares[classes])

    def are_positive(self, numbers: Numbers) -> Mask:
        return np.asarray(self.values[numbers] >= 0)


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
        weights: Weights of all records.

    Raises:
        ValueError: If there is not one weight for each record, no selected record has a positive
            one, or more records than have one are drawn without replacement.
    """

    def __init__(
        self, weights: Weights, selection: Selection, num_samples: int | None, replacement: bool
    ) -> None:
        if len(weights) != selection.total:
            raise ValueError(
                f"weights must have one value for each of {counted(selection.total, 'record')} of "
                f"the files, got {len(weights):,}"
            )
        self.weights = weights
        self._made_of = weights, selection, num_samples, replacement
        own = weights.of(selection)
        positive = int(np.count_nonzero(own))
        if positive == 0 and len(selection) > 0:
            raise ValueError(
                f"no record can be drawn: the weights of {counted(len(selection), 'record')} are "
                "all 0"
            )
        if not replacement and num_samples is not None and num_samples > positive:
            raise ValueError(
                f"num_samples must be at most {positive}, the number of records with a positive "
                f"weight, without replacement, got {num_samples}"
            )
        default = len(selection) if replacement else positive
        self._size = (num_samples or default) if len(selection) else 0
        self._ends: Floats = np.cumsum(own) if replacement else own
        self._bounds = self._ends[_STRIDE - 1 :: _STRIDE]
        self._epoch = functools.lru_cache(maxsize=_EPOCHS_KEPT)(self._draw_all)
        self._replacement = replacement

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
        if not self._replacement:
            return self._epoch(seed, epoch)[positions]
        wanted = _uniform(positions, seed, epoch) * self._ends[-1]
        # The bounds of groups first: a search in all values waits for the memory at each step.
        begins = np.searchsorted(self._bounds, wanted, side="right") * _STRIDE
        return _search_groups(self._ends, begins, wanted)

    def _draw_all(self, seed: int, epoch: int) -> Numbers:
        """Return all draws of an epoch without replacement."""
        weights = self._ends
        keys = np.full(len(weights), np.inf)
        for begin in range(0, len(weights), CHUNK):
            chosen = begin + np.flatnonzero(weights[begin : begin + CHUNK])
            # From (0, 1], so that its logarithm is finite.
            uniform = _uniform(chosen, seed, epoch) + 2.0**-_BITS
            keys[chosen] = -_log(uniform) / weights[chosen]
        # A key may be infinite: records of weight 0 must not come before it.
        order = np.argsort(keys, kind="stable")
        return order[weights[order] > 0][: self._size]


def _checked_weights(values: Any) -> Floats:
    """Return weights as a new array, checked."""
    if hasattr(values, "detach"):  # a Tensor; NumPy has no bfloat16
        values = values.detach().cpu().double()
    try:
        given = np.asarray(values)
    except (TypeError, ValueError):  # a ragged list
        given = np.asarray(None)
    if given.ndim != 1 or given.dtype.kind not in "iufb":
        raise ValueError(
            "weights must be one number for each record of the files, the name of a feature or a "
            f"function of a Batch, got {given.dtype} {list(given.shape)}"
        )
    weights = given.astype(np.float64)
    for is_wrong, rule in ((~np.isfinite(weights), "be finite"), (weights < 0, "not be negative")):
        if is_wrong.any():
            record = int(np.argmax(is_wrong))
            raise ValueError(f"weights must {rule}, got {given[record]} for record {record}")
    if len(weights) and weights.max() == 0:
        raise ValueError(f"at least one of {counted(len(weights), 'weight')} must be positive")
    if len(weights) and weights.max() > np.finfo(np.float64).max / len(weights):
        raise ValueError(f"weights must have a finite sum, got {weights.max()} among them")
    return weights


def _selected(values: npt.NDArray[Any], selection: Selection) -> npt.NDArray[Any]:
    """Return the values of the selected records."""
    if isinstance(selection, Span):
        return values[selection.begin : selection.begin + selection.size]
    ends = range(CHUNK, len(values) + CHUNK, CHUNK)
    chunks = ((end - CHUNK, min(end, len(values))) for end in ends)
    parts = [values[begin:end][selection.mask(begin, end)] for begin, end in chunks]
    return np.concatenate([values[:0], *parts])


def _uniform(positions: Numbers, seed: int, epoch: int) -> Floats:
    """Return a random number from [0, 1) for each position, without computing the others.

    The numbers of all positions are a permutation of the multiples of 2**-53.
    """
    key = _key_of(seed, epoch)
    return np.asarray(_core.permute(positions, 1 << _BITS, key) * 2.0**-_BITS)


@functools.lru_cache(maxsize=64)
def _key_of(seed: int, epoch: int) -> int:
    return digest_number(f"draws:{seed}:{epoch}")


def _search_groups(ends: Floats, begins: Numbers, wanted: Floats) -> Numbers:
    """Return the first index with a greater value, for each wanted one and the begin of its group.

    All values are searched at once, so that the processor waits for the memory once for each step.
    """
    found = begins
    half = _STRIDE // 2
    while half:
        probes = np.minimum(found + (half - 1), len(ends) - 1)
        found = found + half * (ends[probes] <= wanted)
        half //= 2
    return found


def _log(values: Floats) -> Floats:
    """Return the natural logarithm of numbers from (0, 1], equal on every machine.

    NumPy's own may differ in the last bit, and then ranks would have different orders. So it is
    2 atanh((m - 1) / (m + 1)) of the mantissa m, as a series, by operations that IEEE 754 defines.
    """
    mantissas, exponents = np.frexp(values)
    ratio = (mantissas - 1) / (mantissas + 1)
    square = ratio * ratio
    series = np.zeros_like(values)
    for term in reversed(range(_LOG_TERMS)):
        series = series * square + 1 / (2 * term + 1)
    return np.asarray(exponents * math.log(2) + 2 * ratio * series)
