"""How far reading has come, and going on from there: here, elsewhere, or by more processes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import StateMismatchError
from .plan import EpochPlan

VERSION = 1


@dataclass(frozen=True)
class Arrangement:
    """One of the processes that share an epoch, and how they share it.

    Attributes:
        rank: Training process, of ``world_size``.
        worker: DataLoader worker of that rank, of ``num_workers``; 0 of 1 without workers.
        batch_size: Records that are dealt to a process at once; 1 where batches made by length are.
    """

    rank: int = 0
    world_size: int = 1
    worker: int = 0
    num_workers: int = 1
    batch_size: int = 1


@dataclass(frozen=True)
class Progress:
    """How far one process has come.

    Attributes:
        epoch: That it is in.
        first_epoch: That the iteration began with, which may go through several.
        begin: Records of the epoch's order that were taken before it was dealt to the processes;
            0 unless the iteration was resumed by other processes than before. Where batches are
            made by length, these are dealt, and counted, in the place of records.
        consumed: Records of this process's share that were given, or lost, since; or batches.
        ahead: How many of those were taken out of turn, or in vain: in the place of records that
            were lost. Only this rank knows of them.
        dealt: Batches that the rank was dealt in earlier epochs of the iteration: DataLoader goes
            on taking turns with its workers from epoch to epoch, so the plan does.
    """

    epoch: int = 0
    first_epoch: int = 0
    begin: int = 0
    consumed: int = 0
    ahead: int = 0
    dealt: int = 0

    def is_in(self, epoch: int) -> bool:
        """Whether an iteration that begins with an epoch may be meant."""
        return epoch in (self.epoch, self.first_epoch)

    def moved(
        self,
        before: Arrangement,
        now: Arrangement,
        *,
        num_records: int,
        share: int,
        by_batches: bool,
    ) -> Progress:
        """What a process of another arrangement goes on from.

        Args:
            before: Who came this far.
            now: Who goes on.
            num_records: Records of the epoch.
            share: Records of the whole share of ``before``, from ``begin`` on.
            by_batches: Whether ranks give whole batches, so that all have given as many.

        Raises:
            StateMismatchError: what was consumed cannot be told from this state alone.
        """
        if now == before or self.consumed == self.dealt == 0:
            return self
        alike = dataclasses.replace(now, rank=before.rank) == before
        if before.num_workers != 1 and not alike:
            raise StateMismatchError(
                f"the state is of DataLoader worker {before.worker} of {before.num_workers}: only "
                f"worker {before.worker} of {before.num_workers} with the same world_size and "
                "batch_size can go on from it. With another number, use "
                "resume(epoch=..., batches=...)"
            )
        if self.ahead and before.world_size > 1:
            raise StateMismatchError(
                f"rank {before.rank} of {before.world_size} lost records in this epoch, so that it "
                "stands elsewhere than the others: each rank can go on from its own state alone"
            )
        consumed = self.consumed
        if by_batches and consumed >= share:  # the last batch of some ranks may be longer
            consumed = -(-consumed // before.batch_size) * before.batch_size
        if alike:
            return dataclasses.replace(self, consumed=consumed)
        if consumed % before.batch_size and before.world_size > 1:
            raise StateMismatchError(
                f"the state was taken inside a global step of {before.world_size} x "
                f"{before.batch_size} records, so it takes the same world_size and number of "
                "workers to go on from it"
            )
        begin = min(self.begin + consumed * before.world_size, num_records)
        return Progress(self.epoch, self.first_epoch, begin)


def to_state(
    progress: Progress, by: Arrangement, order: Mapping[str, Any], batch_size: int | None
) -> dict[str, Any]:
    """A progress as plain numbers and strings, with what defines the order it counts in."""
    return {
        "version": VERSION,
        **dataclasses.asdict(progress),
        **{f"by_{name}": value for name, value in dataclasses.asdict(by).items()},
        "order": {"batch_size": batch_size, **order},
    }


def from_state(
    state: Mapping[str, Any], order: Mapping[str, Any], batch_size: int | None, world_size: int
) -> tuple[Progress, Arrangement]:
    """The opposite of :func:`to_state`.

    Raises:
        StateMismatchError: the state is of another order, or is no state. Another ``batch_size``
            is accepted where that times the number of ranks is the same.
    """
    try:
        if state["version"] != VERSION:
            raise StateMismatchError(
                f"the state is of version {state['version']!r}, this release knows {VERSION}"
            )
        progress = Progress(**_numbers(state, Progress, ""))
        by = Arrangement(**_numbers(state, Arrangement, "by_"))
        EpochPlan(0, by.batch_size, 0, by.rank, by.world_size, by.worker, by.num_workers)
        saved = dict(state["order"])
    except (KeyError, TypeError, ValueError) as error:
        raise StateMismatchError(f"this is no state of a dataset: {error!r}") from None
    now = {"batch_size": batch_size, **order}
    same_step = (batch_size or 0) * world_size == by.batch_size * by.world_size
    if same_step and saved.get("batch_size") is not None:
        saved["batch_size"] = batch_size
    differences = list(_differences(saved, now, ""))
    if differences:
        raise StateMismatchError("the state does not fit: " + "; ".join(differences))
    return progress, by


def _numbers(state: Mapping[str, Any], cls: type[Any], prefix: str) -> dict[str, int]:
    values = {field.name: state[prefix + field.name] for field in dataclasses.fields(cls)}
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**62:
            raise ValueError(f"{prefix}{name} is {value!r}")
    return values


def _differences(saved: Any, now: Any, name: str) -> Iterator[str]:
    """Each value that differs, by its name."""
    if isinstance(saved, Mapping) and isinstance(now, Mapping):
        for key in [*now, *(key for key in saved if key not in now)]:
            place = f"{name}.{key}" if name else str(key)
            yield from _differences(saved.get(key), now.get(key), place)
    elif saved != now:
        yield f"{name} is {now!r} here and {saved!r} in the state"
