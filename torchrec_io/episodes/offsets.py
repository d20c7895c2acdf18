"""Offsets: which steps of an episode a sample takes of each feature, counted from its own step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from .._parsing.arrays import Ints
from .._parsing.record_random import RecordRandom
from ..checks import UnknownNameError, check_choice, check_integer, is_integer

Outside: TypeAlias = Literal["drop", "repeat", "zeros"]
OUTSIDE_CHOICES: tuple[Outside, ...] = ("drop", "repeat", "zeros")

# No episode has as many steps: each takes at least a byte of a record of less than 2 GiB.
MOST_OFFSET = 1 << 31


@dataclass(frozen=True)
class LaterStep:
    """An offset that is drawn for each sample: a later step of the same episode, such as a goal.

    Each step from the next one to ``max_distance`` steps later, or to the end of the episode, is
    equally likely; after the last step, it is the last step itself. The rule is that of Octo
    (``uniform`` in ``octo/data/utils/goal_relabeling.py``). The draw depends on the seed of the
    dataset, the epoch and the sample alone, as :func:`torchrec_io.record_random` does.

    Args:
        max_distance: Largest number of steps; None for no limit.

    Raises:
        ValueError, TypeError: If it is not a positive integer or None.
    """

    max_distance: int | None = None

    def __post_init__(self) -> None:
        if self.max_distance is not None:
            check_integer("max_distance", self.max_distance, 1)


Offset: TypeAlias = "int | Sequence[int] | LaterStep"
_Checked: TypeAlias = "int | tuple[int, ...] | LaterStep"
# Offsets of all features, or of those that a name stands for.
Offsets: TypeAlias = "Sequence[int] | Mapping[str, Offset] | None"


class Samples(NamedTuple):
    """Some samples of episodes.

    Attributes:
        numbers: Number of each sample; int64 ``[n]``.
        records: Its record; int64 ``[n]``.
        steps: Its own step of that record; int64 ``[n]``.
        counts: Number of steps of the record; int64 ``[n]``.
    """

    numbers: Ints
    records: Ints
    steps: Ints
    counts: Ints


class Taken(NamedTuple):
    """The steps that samples take of a feature.

    Attributes:
        steps: Steps, clamped to the episode; int64 ``[n]``, or ``[n, offsets]``.
        inside: Whether the steps exist, bool of that shape; None if they always do.
    """

    steps: Ints
    inside: npt.NDArray[np.bool_] | None


@dataclass(frozen=True)
class StepOffsets:
    """The offsets of all features of a group.

    Attributes:
        by_name: Offset by the flat name of a feature or of a dict of features; "" for all.
        outside: Handling of steps before the first and after the last one: samples that need
            them are dropped, or they repeat the first or last step, or are zeros.
    """

    by_name: Mapping[str, _Checked] = field(default_factory=dict)
    outside: Outside = "drop"

    @classmethod
    def of(
        cls, offsets: Offsets, names: Iterable[str], group: str | None, outside: Outside
    ) -> StepOffsets:
        """Return the offsets that a user gave.

        Args:
            offsets: Offsets of all features, or of those that names within the group stand for.
            names: Flat names of the features with steps.
            group: Name of the group; None if it is not part of the names.
            outside: One of :data:`OUTSIDE_CHOICES`.

        Raises:
            ValueError, TypeError: If an argument is invalid.
            UnknownNameError: If a name stands for no feature.
        """
        check_choice("outside", outside, OUTSIDE_CHOICES)
        if offsets is None:
            return cls({}, outside)
        if not isinstance(offsets, Mapping):
            if is_integer(offsets) or isinstance(offsets, LaterStep):
                raise TypeError(
                    "offsets must be a sequence such as range(4), or a dict such as "
                    f"{{'action': range(16)}}, got {offsets!r}"
                )
            return cls({"": _checked("offsets", offsets)}, outside)
        start = "" if group is None else f"{group}/"
        within = [name.removeprefix(start) for name in names]
        for key in offsets:
            if not any(f"{name}/".startswith(f"{key}/") for name in within):
                tops = {name.split("/")[0] for name in within}
                raise UnknownNameError(key, sorted({*within, *tops}), "the steps have")
        found = {f"{start}{key}": _checked(f"offsets of {key!r}", offsets[key]) for key in offsets}
        return cls(found, outside)

    @property
    def margins(self) -> tuple[int, int]:
        """Number of steps that must precede a sample's own step, and follow it."""
        if self.outside != "drop":
            return 0, 0
        numbers = [0]
        for offset in self.by_name.values():
            if not isinstance(offset, LaterStep):
                numbers += [offset] if isinstance(offset, int) else offset
        return -min(numbers), max(numbers)

    def describe(self) -> str:
        """Return a text that differs for other offsets; empty for single steps."""
        return f"{dict(self.by_name)} {self.outside}" if self.by_name else ""

    def take(
        self, names: Iterable[str], samples: Samples, random: RecordRandom
    ) -> dict[str, Taken]:
        """Return the steps that samples take of features, by flat name.

        Args:
            names: The features.
            samples: The samples, of episodes that have steps.
            random: Random number generators of records.
        """
        made: dict[str | None, Taken] = {None: Taken(samples.steps, None)}
        found = {}
        for name in names:
            key = self._key_of(name)
            if key not in made:  # features in one dict share the result
                made[key] = self._taken(key or "", self.by_name[key or ""], samples, random)
            found[name] = made[key]
        return found

    def _key_of(self, name: str) -> str | None:
        """Return the longest name of offsets that stands for a feature; None if there is none."""
        keys = [key for key in self.by_name if not key or f"{name}/".startswith(f"{key}/")]
        return max(keys, key=len, default=None)

    def _taken(
        self,
        key: str,
        offset: _Checked,
        samples: Samples,
        random: RecordRandom,
    ) -> Taken:
        own, counts = samples.steps, samples.counts
        if isinstance(offset, LaterStep):
            return Taken(_later(offset, key, samples, random), None)
        if isinstance(offset, int):
            steps, last = own + offset, counts - 1
        else:
            steps, last = own[:, np.newaxis] + np.array(offset, np.int64), counts[:, np.newaxis] - 1
        if self.outside == "drop":
            return Taken(steps, None)
        return Taken(np.clip(steps, 0, last), (steps >= 0) & (steps <= last))


def _later(offset: LaterStep, key: str, samples: Samples, random: RecordRandom) -> Ints:
    left = samples.counts - 1 - samples.steps
    if offset.max_distance is not None:
        left = np.minimum(left, offset.max_distance)
    digests = b"".join(random.key(number, key)[:8] for number in samples.numbers.tolist())
    drawn = (np.frombuffer(digests, "<u8") >> np.uint64(1)).astype(np.int64)
    later: Ints = samples.steps + np.where(left > 0, 1 + drawn % np.maximum(left, 1), 0)
    return later


def _checked(what: str, offset: Any) -> _Checked:
    if isinstance(offset, LaterStep):
        return offset
    if is_integer(offset):
        return check_integer(what, offset, -MOST_OFFSET, MOST_OFFSET)
    if isinstance(offset, (str, bytes)) or not isinstance(offset, Iterable):
        raise TypeError(
            f"{what} must be an integer, a sequence of integers or a LaterStep, got {offset!r}"
        )
    numbers = tuple(check_integer(what, each, -MOST_OFFSET, MOST_OFFSET) for each in offset)
    if not numbers:
        raise ValueError(f"{what} must have at least one integer, got none")
    return numbers
