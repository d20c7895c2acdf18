"""Where the parts of a mixture continue after a run that mixed them in another way."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from ..checks import check_integer
from ..errors import StateMismatchError


@dataclass(frozen=True)
class Continuation:
    """Where the parts of a mixture continue, in one epoch, after a run that mixed them otherwise.

    Attributes:
        epoch: The epoch.
        position: Number of records of that epoch that came before.
        epochs: Epoch of each part's own order in which its first cycle of this epoch is.
        taken: Number of records of each part, over all cycles, that came before.
        origin: Number of records of all virtual epochs that came before; 0 if there are none.

    Raises:
        ValueError: If a value is not a non-negative integer, or parts are missing.
    """

    epoch: int
    position: int
    epochs: tuple[int, ...]
    taken: tuple[int, ...]
    origin: int = 0

    def __post_init__(self) -> None:
        for number in self.numbers():
            check_integer("a number of a continuation", number)
        if len(self.epochs) != len(self.taken):
            raise ValueError(f"got {len(self.epochs)} epochs and {len(self.taken)} numbers")

    def numbers(self) -> list[int]:
        """Return the continuation as integers, 3 and 2 more for each part."""
        return [self.epoch, self.position, self.origin, *self.epochs, *self.taken]

    @classmethod
    def of_numbers(cls, numbers: Sequence[int]) -> Self:
        """Return the continuation of integers; the inverse of :meth:`numbers`."""
        epoch, position, origin, *parts = numbers
        count = len(parts) // 2
        return cls(epoch, position, tuple(parts[:count]), tuple(parts[count:]), origin)

    def describe(self) -> dict[str, Any]:
        """Return the continuation as JSON values."""
        lists = {"epochs": list(self.epochs), "taken": list(self.taken)}
        return {**dataclasses.asdict(self), **lists}


def saved_continuation(state: Mapping[str, Any], num_parts: int) -> Continuation | None:
    """Return the continuation in a state; None if there is none for that many parts.

    Raises:
        StateMismatchError: If it is not valid.
    """
    try:
        saved = state["order"].get("continued")
        found = None if saved is None else _continuation(saved)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise StateMismatchError(f"this is not a state of a dataset: {error!r}") from None
    return found if found is not None and len(found.taken) == num_parts else None


def continue_parts(
    state: Mapping[str, Any],
    parts: Sequence[Mapping[str, Any]],
    epochs_at: Callable[[int], Sequence[int]],
) -> Continuation | None:
    """Return where parts continue after a state of another mixture.

    A part that the state describes continues where it was. Others start at their start.

    Args:
        state: A state.
        parts: Description of each part of the new mixture.
        epochs_at: Returns the epoch of each part's own order in which its first cycle of an epoch
            is, if it starts at its start.

    Returns:
        None if the state is at the end of its epoch.

    Raises:
        StateMismatchError: If it is not a state of a mixture, does not tell where its parts are, or
            a mixture among the parts has changed.
    """
    if "parts" not in state:
        raise StateMismatchError(
            "weights='new' needs a state of a mixture that tells where each dataset is. This one "
            "is of another dataset, of rows that were packed after mixing, of DataLoader workers "
            "that read samples, or was taken inside a global step"
        )
    try:
        described = state["order"]["parts"]
        before = [described[str(number)] for number in range(len(described))]
        saved = _continuation(state["parts"])
        has_ended = bool(state["parts"]["has_ended"])
        taken, first = [0] * len(parts), [*epochs_at(saved.epoch)]
        left = dict(enumerate(before))
        new = []
        for number, part in enumerate(parts):
            at = next((at for at, other in left.items() if other == part), None)
            if at is None:
                new.append(part)
            else:
                del left[at]
                taken[number], first[number] = saved.taken[at], saved.epochs[at]
        lost = [leaf for part in left.values() for leaf in _leaves(part)]
        is_moved = any(leaf in lost for part in new for leaf in _leaves(part))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise StateMismatchError(f"this is not a state of a mixture: {error!r}") from None
    if is_moved:
        raise StateMismatchError(
            "weights='new' continues the datasets of the outer mix(): a mixture in it must be as "
            "it was, but datasets of one have been moved or mixed otherwise"
        )
    if has_ended:
        return None
    return dataclasses.replace(saved, epochs=tuple(first), taken=tuple(taken))


def _continuation(saved: Mapping[str, Any]) -> Continuation:
    lists = {name: tuple(saved[name]) for name in ("epochs", "taken")}
    return Continuation(saved["epoch"], saved["position"], **lists, origin=saved["origin"])


def _leaves(part: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the descriptions of the datasets of a part."""
    if "parts" not in part:
        yield part
        return
    for inner in part["parts"].values():
        yield from _leaves(inner)
