"""Progress of an iteration: saved states, and how other processes continue from them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ..errors import StateMismatchError
from .plan import EpochPlan
from .ramp import Ramp, described

VERSION = 1


@dataclass(frozen=True)
class ProcessLayout:
    """One of the processes that share an epoch, and how they share it.

    Attributes:
        rank: Rank of the training process, of ``world_size``.
        world_size: Number of training processes.
        worker: Number of the DataLoader worker of that rank; 0 without workers.
        num_workers: Number of DataLoader workers of the rank; 1 without workers.
        batch_size: Number of records assigned to a process at a time. 1 if whole batches are
            assigned, as with batches by length. The first size of a ramp.
    """

    rank: int = 0
    world_size: int = 1
    worker: int = 0
    num_workers: int = 1
    batch_size: int = 1


@dataclass(frozen=True)
class Progress:
    """The progress of one process.

    A unit is a record, or a whole batch if batches are made by length.

    Attributes:
        epoch: Current epoch.
        first_epoch: First epoch of the iteration, which may cover several.
        begin: Number of units of the epoch's order before the part that was assigned to the
            current process layout. It is 0 unless the iteration was resumed by another layout.
        consumed: Number of this process's units that were yielded or lost since ``begin``.
        ahead: Number of those that were read out of turn to replace lost records. Only this rank
            knows of them.
        assigned: Number of batches assigned to the rank in earlier epochs of the iteration. It
            continues the rotation of DataLoader's workers from epoch to epoch.
    """

    epoch: int = 0
    first_epoch: int = 0
    begin: int = 0
    consumed: int = 0
    ahead: int = 0
    assigned: int = 0

    def is_in(self, epoch: int) -> bool:
        """Return whether this may belong to an iteration that begins with an epoch."""
        return epoch in (self.epoch, self.first_epoch)

    def moved(
        self,
        before: ProcessLayout,
        now: ProcessLayout,
        plan: EpochPlan,
        *,
        in_batches: bool,
    ) -> Progress:
        """Return the progress from which a process of another layout continues.

        Args:
            before: Process that made this progress.
            now: Process that continues.
            plan: Plan of ``before`` from ``begin`` on.
            in_batches: Whether ranks yield whole batches, so that all of them have yielded the same
                number.

        Raises:
            StateMismatchError: If the progress of the other processes does not follow from this
                one.
        """
        if now == before or self.consumed == self.assigned == 0:
            return self
        is_alike = dataclasses.replace(now, rank=before.rank) == before
        if before.num_workers != 1 and not is_alike:
            raise StateMismatchError(
                f"the state belongs to DataLoader worker {before.worker} of {before.num_workers}: "
                f"only worker {before.worker} of {before.num_workers} with the same world_size and "
                "batch_size can resume from it. With another number of workers, use "
                "resume(epoch=..., batches=...)"
            )
        if self.ahead and before.world_size > 1:
            raise StateMismatchError(
                f"rank {before.rank} of {before.world_size} lost records in this epoch, so its "
                "position differs from that of the other ranks: each rank must resume from its own "
                "state"
            )
        consumed = self.consumed
        whole = plan.num_before(plan.num_begun(consumed))
        if in_batches and consumed >= plan.num_worker_records:
            consumed = whole  # the last batch of some ranks may be longer
        if is_alike:
            return dataclasses.replace(self, consumed=consumed)
        begin = min(self.begin + consumed * before.world_size, plan.num_records)
        is_inside = consumed != whole and before.world_size > 1
        if plan.lanes is not None and now.world_size > 1:
            is_inside = is_inside or (begin % plan.lanes != 0 and begin < plan.num_records)
        if is_inside:
            raise StateMismatchError(
                f"the state was taken inside a global step of {before.world_size} x "
                f"{plan.size_at(consumed)} records: resuming from it takes the same world_size and "
                "number of workers"
            )
        return Progress(self.epoch, self.first_epoch, begin)


# A position: how far a process is, and which one it is.
Place: TypeAlias = tuple[Progress, ProcessLayout]

_PROGRESS_NUMBERS = len(dataclasses.fields(Progress))
# Number of integers that are a position.
PLACE_NUMBERS = _PROGRESS_NUMBERS + len(dataclasses.fields(ProcessLayout))


def place_numbers(place: Place) -> list[int]:
    """Return a position as :data:`PLACE_NUMBERS` integers."""
    return [number for part in place for number in dataclasses.astuple(part)]


def place_of(numbers: Sequence[int]) -> Place:
    """Return the position of integers; the inverse of :func:`place_numbers`."""
    return (
        Progress(*numbers[:_PROGRESS_NUMBERS]),
        ProcessLayout(*numbers[_PROGRESS_NUMBERS:]),
    )


def to_state(
    progress: Progress,
    layout: ProcessLayout,
    order: Mapping[str, Any],
    batch_size: int | Ramp | None,
) -> dict[str, Any]:
    """Return a progress as plain numbers and strings, with what defines its order."""
    return {
        "version": VERSION,
        **dataclasses.asdict(progress),
        **{f"by_{name}": value for name, value in dataclasses.asdict(layout).items()},
        "order": {"batch_size": described(batch_size), **order},
    }


def from_state(
    state: Mapping[str, Any],
    order: Mapping[str, Any],
    batch_size: int | Ramp | None,
    world_size: int,
    advice: str = "",
) -> Place:
    """Return the progress and the process layout of a state; the inverse of :func:`to_state`.

    Another ``batch_size`` is accepted if its product with the number of ranks is the same, at each
    step.

    Raises:
        StateMismatchError: If the state belongs to another order, with some advice, or is not a
            state.
    """
    progress, layout, saved = read_state(state)
    size = batch_size.first if isinstance(batch_size, Ramp) else batch_size or 0
    if size * world_size == layout.batch_size * layout.world_size:
        saved["batch_size"] = _rescaled(saved.get("batch_size"), layout.batch_size, size)
    now = {"batch_size": described(batch_size), **order}
    differences = "; ".join(_differences(saved, now, ""))
    if differences:
        raise StateMismatchError(f"the state does not match this dataset: {differences}{advice}")
    return progress, layout


def read_state(state: Mapping[str, Any]) -> tuple[Progress, ProcessLayout, dict[str, Any]]:
    """Return the progress, the process layout and what defines the order of a state.

    Raises:
        StateMismatchError: If it is not a state.
    """
    try:
        if state["version"] != VERSION:
            raise StateMismatchError(
                f"the state has version {state['version']!r}, this release reads {VERSION}"
            )
        progress = Progress(**_numbers(state, Progress, ""))
        if progress.first_epoch > progress.epoch:
            raise ValueError(f"epoch {progress.epoch} is before {progress.first_epoch}, the first")
        layout = ProcessLayout(**_numbers(state, ProcessLayout, "by_"))
        EpochPlan(0, **dataclasses.asdict(layout))  # checks the ranges
        return progress, layout, dict(state["order"])
    except (KeyError, TypeError, ValueError) as error:
        raise StateMismatchError(f"this is not a state of a dataset: {error!r}") from None


def _rescaled(batch_size: Any, before: int, now: int) -> Any:
    """Return a batch size of a state for other ranks, of which one has another first size."""
    if isinstance(batch_size, Mapping):
        return {step: _rescaled(size, before, now) for step, size in batch_size.items()}
    is_whole = isinstance(batch_size, int) and batch_size * now % before == 0
    return batch_size * now // before if is_whole else batch_size


def _numbers(state: Mapping[str, Any], cls: type[Any], prefix: str) -> dict[str, int]:
    values = {field.name: state[prefix + field.name] for field in dataclasses.fields(cls)}
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**62:
            raise ValueError(f"{prefix}{name} is {value!r}")
    return values


def _differences(saved: Any, now: Any, name: str) -> Iterator[str]:
    """Yield a description of each value that differs."""
    if isinstance(saved, Mapping) and isinstance(now, Mapping):
        for key in [*now, *(key for key in saved if key not in now)]:
            inner = f"{name}.{key}" if name else str(key)
            yield from _differences(saved.get(key), now.get(key), inner)
    elif saved != now:
        yield f"{name} is {now!r} here and {saved!r} in the state"
