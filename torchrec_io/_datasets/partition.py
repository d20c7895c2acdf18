"""Assignment of an order's records to the ranks and workers that share an epoch."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from typing import Any

from torch.utils.data import get_worker_info

from .._order.batch_sizes import BatchSizes
from .._order.lanes import check_lanes
from .._order.orders import ENDLESS, Order, PositionOrder
from .._order.plan import EpochPlan, Uneven
from .._order.progress import Place, ProcessLayout, Progress
from .._order.ramp import Ramp
from .._order.selection import Numbers
from .._order.steps import TrainingSteps
from .._order.virtual import VirtualRecords, VirtualUnits
from .._order.windows import WindowedOrder
from ..checks import check_integer
from ..errors import StateMismatchError
from .options import makes_batches

# Number of records that are assigned and loaded at a time without a batch size.
_MOST_AT_ONCE = 256
# The same of rows, which are as large as many records.
_MOST_ROWS = 16
# Number of later epochs that are searched if an epoch has no batch for a worker. Batches by length
# may be fewer in one epoch than in another.
_EPOCHS_AHEAD = 100
# Number of workers that all get records if there are few.
_WORKERS = 8


class RecordPartition:
    """Assigns epochs to processes: the files of a stream, or its every n-th record if they are few.

    The number of records of a stream is not known: ``begin`` is 1 at the end of the last epoch,
    else 0. :class:`EpochPartition` assigns units whose number is known.

    Args:
        order: Order of the records.
        options: Batch size, epochs, ranks and so on.
        rank: Rank of this process.
        world_size: Number of ranks.
        samples_at_once: Number of samples that a worker yields in a row, if a loader needs it.

    Attributes:
        order: Order of the records.
        options: Batch size, epochs, ranks and so on.
        rank: Rank of this process.
        world_size: Number of ranks.
        in_batches: Whether the dataset yields batches, not samples.
        has_batches: Whether the order makes whole batches, by length.
        has_rows: Whether the order makes rows that are packed with records.
    """

    order: Any

    def __init__(
        self,
        order: Any,
        options: Mapping[str, Any],
        rank: int,
        world_size: int,
        samples_at_once: int | None = None,
    ) -> None:
        self.options = options
        self.rank = rank
        self.world_size = world_size
        self.order = self._units_of(order)
        self.in_batches = makes_batches(options)
        self.has_batches: bool = order.has_batches
        self.has_rows: bool = order.has_rows
        self._samples_at_once = samples_at_once

    def _units_of(self, order: Any) -> Any:
        """Return the order of the units of an epoch: that of the dataset."""
        return order

    @functools.cached_property
    def replaces_lost(self) -> bool:
        """True if lost records are replaced in their places, so that the steps stay as planned."""
        return False

    @functools.cached_property
    def fills_up(self) -> bool:
        """True if batches that lost records are filled up from the next ones."""
        return not (self.has_batches or self.has_rows or self.replaces_lost)

    @property
    def unit_batch_size(self) -> int:
        """Number of units assigned to a process at a time."""
        return self.options["batch_size"] or self._samples_at_once or _MOST_AT_ONCE

    def layout(self, worker: int = 0, num_workers: int = 1) -> ProcessLayout:
        """Return the process layout of a worker of this rank; worker 0 of 1 without workers."""
        return ProcessLayout(self.rank, self.world_size, worker, num_workers, self.unit_batch_size)

    def batches(
        self, reader: Any, progress: Progress, layout: ProcessLayout
    ) -> Iterator[tuple[int, Any]]:
        """Yield the epoch and the units of each remaining batch of an iteration.

        Units are int64 ``[n]`` of record numbers, a ``_core.RowPlan``, or a chunk of a stream.

        Raises:
            ValueError: If ranks would get different numbers of batches and ``uneven`` is None.
        """
        epochs = self.options["epochs"]
        while epochs is None or progress.epoch < self.epoch_after(progress):
            self.check_uneven(progress, layout)
            reader.begin_epoch(layout.world_size)
            has_any = progress.consumed > 0
            for chunk in self._epoch_batches(reader, progress, layout):
                has_any = has_any or len(chunk) > 0
                yield progress.epoch, chunk
            reader.end_epoch()
            if not has_any and not self._has_later(progress, layout):
                return
            progress = self.next_epoch(progress, layout)

    def epoch_after(self, progress: Progress) -> int:
        """Return the epoch after the last one of an iteration that is not endless."""
        return progress.first_epoch + int(self.options["epochs"])

    def is_last_epoch(self, progress: Progress) -> bool:
        """Return whether an iteration is in its last epoch."""
        return self.options["epochs"] is not None and progress.epoch + 1 == self.epoch_after(
            progress
        )

    def is_done(self, progress: Progress, layout: ProcessLayout) -> bool:
        """Return whether a process has taken everything of its iteration.

        False at the start of an iteration without records.
        """
        has_begun = progress.begin > 0 or progress.consumed > 0
        if not has_begun or not self.is_last_epoch(progress):
            return False
        units = self.num_units(progress, layout)
        return units is not None and progress.consumed >= units

    def place_after(self, epoch: int, batches: int) -> Place:
        """Return the position of this rank after a number of batches of an epoch.

        Raises:
            TypeError: If the order is that of a stream.
            ValueError: If there are no batches, or the epoch has fewer.
        """
        del epoch, batches
        raise TypeError(
            "a stream cannot be resumed by a number of batches: save state_dict() and load it"
        )

    def num_units(self, progress: Progress, layout: ProcessLayout) -> int | None:
        """Return the number of units of a process in the epoch of a progress, from ``begin`` on.

        None if it is not known.
        """
        del layout
        return 0 if progress.begin else None

    def check_uneven(self, progress: Progress, layout: ProcessLayout) -> None:
        """Raise ValueError if ``uneven`` does not fit the ranks."""
        del progress
        if self.options["uneven"] is None and layout.world_size > 1:
            raise ValueError(
                f"uneven must be 'keep' for a TFRecordStream with {layout.world_size} ranks, got "
                "None: the number of records is not known, so ranks may get different numbers of "
                "batches. A TFRecordDataset can pad or drop records"
            )

    def _epoch_batches(
        self, reader: Any, progress: Progress, layout: ProcessLayout
    ) -> Iterator[Any]:
        """Yield the units of each remaining batch of an epoch."""
        if progress.begin:
            return iter(())
        if get_worker_info() is not None:
            reader.check_no_pipe()
        chunks: Iterator[Any] = reader.chunks(
            layout.worker * layout.world_size + layout.rank,
            layout.world_size * layout.num_workers,
            size=layout.batch_size,
            ends_at_damage=not self.in_batches and self.options["on_error"] == "raise",
            window=max(1, int(self.order.shuffle)),
            seed=self.order.seed,
            epoch=progress.epoch,
            skip=progress.consumed,
        )
        return chunks

    def _has_later(self, progress: Progress, layout: ProcessLayout) -> bool:
        """Return whether a process without records in an epoch may have some in a later one."""
        del progress, layout
        return False

    def next_epoch(self, progress: Progress, layout: ProcessLayout) -> Progress:
        """Return the start of the next epoch."""
        del layout
        return Progress(progress.epoch + 1, progress.first_epoch)

    def moved(self, progress: Progress, before: ProcessLayout, now: ProcessLayout) -> Progress:
        """Return the progress from which ``now`` continues that of ``before``.

        Raises:
            StateMismatchError: If it cannot.
        """
        if before != now and progress.consumed:
            raise StateMismatchError(
                "a TFRecordStream can be resumed only with the same rank, world_size, worker and "
                "number of workers"
            )
        return progress

    def describe_order(self, progress: Progress, layout: ProcessLayout) -> dict[str, Any]:
        """Return all that the units before a progress depend on, as JSON values."""
        del progress, layout
        described: dict[str, Any] = self.order.describe()
        return described

    def check_state(self, progress: Progress, layout: ProcessLayout) -> None:
        """Raise StateMismatchError if this order does not allow a progress."""

    def end_of(self, progress: Progress, layout: ProcessLayout) -> Progress:
        """Return a progress at the end of its epoch, as far as this process knows it."""
        del layout
        return dataclasses.replace(progress, begin=1)

    def num_unrepeated(self, progress: Progress, layout: ProcessLayout) -> int | None:
        """Return the number of records in the last step of all ranks, without repeated ones.

        0 if no record is repeated there; None if the repeated ones cannot be told from the others.
        The iteration must not be endless.
        """
        del progress, layout
        return None


class EpochPartition(RecordPartition):
    """Assigns the units of an order: records, or batches that are made by length.

    Args:
        order: Order of the records.
        options: Batch size, epochs, ranks and so on.
        rank: Rank of this process.
        world_size: Number of ranks.
        samples_at_once: Number of samples that a worker yields in a row, if a loader needs it.
    """

    order: Order

    def _units_of(self, order: Any) -> Any:
        sizes = BatchSizes.of(1 if order.has_batches else self.options["batch_size"] or 1)
        if isinstance(order, WindowedOrder) and order.is_ramped:
            order = order.in_steps(self._training_steps(sizes, self.world_size))
        if self._steps is None:
            return order
        made = VirtualRecords if isinstance(order, PositionOrder) else VirtualUnits
        return made(order, self._steps, sizes, self.world_size)

    def _training_steps(
        self, sizes: BatchSizes, world_size: int, lanes: int | None = None
    ) -> TrainingSteps:
        uneven: Uneven = self.options["uneven"] or "keep"
        return TrainingSteps(
            sizes, world_size, uneven, self.options["drop_last"], lanes, self._steps is not None
        )

    @property
    def _ramp(self) -> Ramp | None:
        batch_size = self.options["batch_size"]
        return batch_size if isinstance(batch_size, Ramp) else None

    @property
    def _steps(self) -> int | None:
        """Number of steps in a virtual epoch; None if epochs have all records."""
        steps: int | None = self.options.get("steps_per_epoch")
        return steps

    @functools.cached_property
    def _first_steps(self) -> dict[tuple[int, int, int], int]:
        """Results of :meth:`_first_step`, by epoch, number of ranks and first batch size."""
        return {}

    @property
    def has_equal_epochs(self) -> bool:
        """True if all epochs have the same number of steps."""
        is_equal = self._ramp is None and self.order.has_equal_epochs
        return self._steps is not None or is_equal

    @functools.cached_property
    def replaces_lost(self) -> bool:
        if self.has_rows:  # a row without one of its records is still a row
            return False
        if self._steps is not None:
            return True
        uneven = self.options["uneven"]
        return uneven in {"drop", "pad"} or (uneven is None and self.world_size > 1)

    @property
    def unit_batch_size(self) -> int:
        if self.has_batches:
            return 1
        batch_size = self.options["batch_size"] if self._ramp is None else self._ramp.first
        if self.order.lanes is not None:
            for size in [batch_size] if self._ramp is None else self._ramp.sizes.values():
                check_lanes(self.order.lanes, self.world_size, size)
        at_once = batch_size or self._samples_at_once
        if at_once is None and self.order.lanes is not None:
            return self.order.lanes // self.world_size
        most = _MOST_ROWS if self.has_rows else _MOST_AT_ONCE
        return at_once or _chunk_size(self.order.guess_count(), self.world_size, most)

    def plan(self, layout: ProcessLayout, progress: Progress) -> EpochPlan:
        """Return the plan of the epoch of a progress."""
        return self._plan_of(self.order.count(progress.epoch), layout, progress)

    def _plan_of(self, count: int, layout: ProcessLayout, progress: Progress) -> EpochPlan:
        return EpochPlan(
            num_records=count,
            batch_size=self._sizes(layout, progress.epoch),
            begin=progress.begin,
            rank=layout.rank,
            world_size=layout.world_size,
            # The rotation of workers continues from epoch to epoch.
            worker=(layout.worker - progress.assigned) % layout.num_workers,
            num_workers=layout.num_workers,
            drop_last=self.options["drop_last"],
            uneven=self.options["uneven"] or "keep",
            lanes=self.order.lanes,
        )

    def _sizes(self, layout: ProcessLayout, epoch: int) -> int | BatchSizes:
        """Return the number of units in each batch of an epoch of a rank."""
        if self._ramp is None:
            return layout.batch_size
        sizes = BatchSizes.of(self._ramp, layout.batch_size)
        return sizes.from_batch(self._first_step(sizes, layout, epoch))

    def _first_step(self, sizes: BatchSizes, layout: ProcessLayout, epoch: int) -> int:
        """Return the number of steps before an epoch, up to the last change of the batch size."""
        if self._steps is not None:
            return epoch * self._steps
        key = epoch, layout.world_size, layout.batch_size
        if key not in self._first_steps:
            training = self._training_steps(sizes, layout.world_size, self.order.lanes)
            done = step = 0
            while done < epoch and (change := sizes.next_change(step)) is not None:
                steps = training.num_steps(self.order.count(done), step)
                # Epochs with the same sizes, also of a step that is left out, are counted at once.
                alike = 1 if self.has_rows else max(1, (change - step - 1) // max(1, steps))
                alike = min(alike, epoch - done)
                done, step = done + alike, step + alike * steps
            self._first_steps[key] = step
        return self._first_steps[key]

    def size_at(self, progress: Progress, layout: ProcessLayout) -> int:
        """Return the size of the batch that a process reads at a progress."""
        return self._plan_of(ENDLESS, layout, progress).size_at(progress.consumed)

    def place_after(self, epoch: int, batches: int) -> Place:
        check_integer("epoch", epoch)
        check_integer("batches", batches)
        if not self.in_batches:
            raise ValueError("resume counts batches: the dataset needs a batch_size")
        layout = self.layout()
        plan = self.plan(layout, Progress(epoch))
        most = plan.num_rank_batches
        if batches > most:
            raise ValueError(
                f"batches must be at most {most}, the number of batches in the epoch, got {batches}"
            )
        assigned = plan.num_before(batches) * layout.world_size
        return Progress(epoch, epoch, min(assigned, plan.num_records)), layout

    def num_units(self, progress: Progress, layout: ProcessLayout) -> int | None:
        return self.plan(layout, progress).num_worker_records

    def check_uneven(self, progress: Progress, layout: ProcessLayout) -> None:
        is_endless = self.options["epochs"] is None or len(self.order) == ENDLESS
        if self.options["uneven"] is not None or layout.world_size == 1 or is_endless:
            return
        count = self.order.count(progress.epoch)
        steps = [
            self._steps_of(self._plan_of(count, dataclasses.replace(layout, rank=rank), progress))
            for rank in range(layout.world_size)
        ]
        if len(set(steps)) > 1:
            raise ValueError(_about_uneven(steps, in_batches=self.in_batches))
        has_other_counts = self.options.get("shuffle", True) is not False and self._steps is None
        if self.has_rows and has_other_counts:
            raise ValueError(
                "ranks may get different numbers of steps in other epochs, which have more or "
                f"fewer rows. {_UNEVEN_ADVICE}"
            )

    def _steps_of(self, plan: EpochPlan) -> int:
        return plan.num_rank_batches if self.in_batches else plan.num_rank_records

    def num_steps(self, epoch: int) -> int:
        """Return the number of batches, or of samples without a batch size, of this rank."""
        return self._steps_of(self.plan(self.layout(), Progress(epoch)))

    def _epoch_batches(
        self, reader: Any, progress: Progress, layout: ProcessLayout
    ) -> Iterator[Any]:
        del reader
        return self.order.batches(
            progress.epoch,
            lambda count: self._plan_of(count, layout, progress),
            progress.consumed,
        )

    def records_before(self, progress: Progress, layout: ProcessLayout) -> Iterator[Numbers]:
        """Yield the records of this rank before a progress in its epoch, the nearest first."""
        for units in self.plan(layout, progress).before(progress.consumed):
            if len(units):
                yield self.order.records_of(units, progress.epoch)[::-1]

    def records_after(self, progress: Progress, layout: ProcessLayout) -> Iterator[Numbers]:
        """Yield the records of this rank from a progress in its epoch on."""
        for units in self.plan(layout, progress).after(progress.consumed):
            if len(units):
                yield self.order.records_of(units, progress.epoch)

    def _has_later(self, progress: Progress, layout: ProcessLayout) -> bool:
        later = range(progress.epoch + 1, progress.epoch + 1 + _EPOCHS_AHEAD)
        if self.has_equal_epochs:
            later = later[:1]
        return any(self.plan(layout, Progress(epoch)).num_rank_batches > 0 for epoch in later)

    def next_epoch(self, progress: Progress, layout: ProcessLayout) -> Progress:
        assigned = progress.assigned + self.plan(layout, progress).num_rank_batches
        return Progress(progress.epoch + 1, progress.first_epoch, assigned=assigned)

    def moved(self, progress: Progress, before: ProcessLayout, now: ProcessLayout) -> Progress:
        plan = self.plan(before, progress)
        return progress.moved(before, now, plan, in_batches=self.in_batches)

    def position_of(self, progress: Progress, layout: ProcessLayout) -> int | None:
        """Return the number of units of all ranks before a progress; None if it is not known."""
        try:
            single = self.moved(progress, layout, ProcessLayout(batch_size=layout.batch_size))
        except StateMismatchError:
            return None
        return min(single.begin + single.consumed, self.order.count(progress.epoch))

    def describe_order(self, progress: Progress, layout: ProcessLayout) -> dict[str, Any]:
        described = super().describe_order(progress, layout)
        # At least the units that all ranks have begun. Limits change between their steps.
        begun = progress.begin + progress.consumed * layout.num_workers * layout.world_size
        limits = self.order.limits_before(begun, progress.epoch)
        if limits is not None:
            described["limit_from"] = limits
        return described

    def check_state(self, progress: Progress, layout: ProcessLayout) -> None:
        try:
            self.plan(layout, progress)
        except ValueError as error:
            raise StateMismatchError(f"this is not a state of a dataset: {error}") from None

    def end_of(self, progress: Progress, layout: ProcessLayout) -> Progress:
        if layout.num_workers != 1 or progress.ahead:  # other processes may not be there yet
            return progress
        return dataclasses.replace(progress, begin=self.order.count(progress.epoch), consumed=0)

    def num_left(self, progress: Progress, layout: ProcessLayout) -> int:
        """Return the number of steps that a rank without workers has left in its iteration.

        Records that are skipped are counted. The iteration must not be endless.
        """
        done = progress.consumed
        if self.in_batches:
            done = self.plan(layout, progress).num_begun(done)
        left = -done
        while progress.epoch < self.epoch_after(progress):
            left += self._steps_of(self.plan(layout, progress))
            progress = self.next_epoch(progress, layout)
        return left

    def num_unrepeated(self, progress: Progress, layout: ProcessLayout) -> int | None:
        while not self.is_last_epoch(progress):
            progress = self.next_epoch(progress, layout)
        found = self.plan(layout, progress).num_unrepeated
        # The last step of samples has one of each rank; batches by length have different sizes.
        is_by_records = self.in_batches and not self.has_batches
        return found if found == 0 or is_by_records else None

    def advanced(self, progress: Progress, layout: ProcessLayout, batches: int) -> Progress:
        """Return the progress of a rank without workers after a number of further batches.

        At the end of an epoch, this is its end and not the start of the next one.
        """
        while batches > 0:
            plan = self.plan(layout, progress)
            done = plan.num_begun(progress.consumed)
            left = plan.num_rank_batches - done
            if batches <= left:
                consumed = min(plan.num_before(done + batches), plan.num_rank_records)
                return dataclasses.replace(progress, consumed=consumed)
            batches -= max(0, left)
            progress = self.next_epoch(progress, layout)
        return progress


def _chunk_size(num_records: int, world_size: int, most: int) -> int:
    """Return the number of records, or rows, assigned to a process at a time without a batch size.

    A power of two, so that DataLoader's batches of the usual sizes are full except the last. Small
    enough that several workers all get records. Independent of the number of workers, so that ranks
    with different numbers of workers still share the records.
    """
    chunk = most
    while chunk > 1 and chunk * world_size * _WORKERS * 2 > num_records:
        chunk //= 2
    return chunk


_UNEVEN_ADVICE = (
    "Set uneven='pad' to repeat some records, uneven='drop' to leave some out (both give all ranks "
    "equal numbers), or uneven='keep' if the training loop can handle different numbers"
)


def _about_uneven(steps: list[int], *, in_batches: bool) -> str:
    """Return the error message for ranks with different numbers of steps."""
    noun = "batches" if in_batches else "samples"
    return (
        f"ranks would get different numbers of {noun}, from {min(steps):,} to {max(steps):,}. "
        f"{_UNEVEN_ADVICE}"
    )
