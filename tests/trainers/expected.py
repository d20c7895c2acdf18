"""What must come of each cell of the matrix."""

from __future__ import annotations

import dataclasses

from tests.trainers.cells import BATCH_SIZE, LANES, NUM_RECORDS, Cell
from tests.trainers.launch import Outcome


@dataclasses.dataclass(frozen=True)
class Expected:
    """What must come of a cell.

    Attributes:
        repeated: Number of records that come twice in an epoch, in all processes together.
        new_order: True if each epoch has another order; None if that is not defined.
        equal_steps: True if all ranks have equally many steps.
        error: Text of an error before the first step, "" for any. None if there must be none.
    """

    repeated: int = 0
    new_order: bool | None = True
    equal_steps: bool = True
    error: str | None = None

    def check(self, found: Outcome) -> str | None:
        """Return what is wrong with an outcome; None if it is as expected."""
        if found.problem:
            return found.problem
        if self.error is not None:
            if found.error is None:
                return f"no error about {self.error!r}: {found.summary()}"
            return None if self.error in found.error else f"another error: {found.error}"
        if found.error is not None:
            return f"an error: {found.error}"
        return self._check_records(found)

    def _check_records(self, found: Outcome) -> str | None:
        """Return what is wrong with the records that came; None if they are as expected."""
        if any(found.lost):
            return f"{max(found.lost)} records lost"
        if set(found.repeated) != {self.repeated}:
            return f"{max(found.repeated)} records repeated, not {self.repeated}"
        if self.new_order and not found.new_order:
            return "the second epoch has the order of the first"
        if self.equal_steps and not found.equal_steps:
            return "ranks have different numbers of steps"
        return None


def expected(cell: Cell) -> Expected:
    """Return what must come of a cell."""
    error = _error(cell)
    if error is not None:
        return Expected(error=error)
    return Expected(
        repeated=_repeated(cell),
        new_order=_new_order(cell),
        # Whole batches of a map-style dataset are left over for some ranks.
        equal_steps="uneven" not in cell.mode,
    )


def trainer_divides(cell: Cell) -> bool:
    """Return whether Accelerate divides what the loader yields among the processes."""
    if cell.loader == "make_loader":
        return False  # it has the share of its process
    if cell.trainer == "transformers":
        return True  # Accelerate does
    return cell.trainer == "accelerate" and cell.mode not in ("unprepared", "ranked")


def _error(cell: Cell) -> str | None:
    """Return the text of the error that a cell must raise, if it must."""
    if cell.kind == "map" or cell.loader == "make_loader":
        return None
    if not trainer_divides(cell):
        return "prepare" if cell.mode == "unprepared" and cell.world_size > 1 else None
    if cell.mode == "ranked prepared" and cell.world_size > 1:
        return "world_size"
    if cell.batched_by == "dataset":
        return _error_of_batches(cell)
    # Workers of such a loader start in prepare, before it is known who divides the records.
    starts_early = cell.loader == "StatefulDataLoader" and cell.num_workers > 0
    is_dispatched = cell.mode.startswith("dispatch") and cell.world_size > 1
    return "dispatch_batches=False" if starts_early and is_dispatched else None


def _error_of_batches(cell: Cell) -> str | None:
    """Return the text of the error for batches that a trainer is to divide, if there is one."""
    if cell.trainer == "transformers" and cell.loader == "DataLoader":
        # The trainer makes batches of them. In one process, its own function refuses them.
        return "make_loader" if cell.world_size > 1 or _dispatches(cell) else ""
    if "split" in cell.mode:
        return "split_batches"  # from Accelerate, because the loader has no batch size
    if cell.trainer == "transformers":
        # collate_fn makes a dict of each Batch, which can be dispatched. Otherwise the loader has
        # no length, which the Trainer refuses.
        return "max_steps" if cell.mode == "train sharded" and cell.world_size > 1 else None
    return "make_loader" if cell.world_size > 1 or _dispatches(cell) else None


def _dispatches(cell: Cell) -> bool:
    """Return whether one process reads for all."""
    if cell.trainer == "transformers":
        return cell.mode != "train sharded" and cell.kind == "iterable"
    # In other modes, Accelerate's default is used.
    return not cell.mode.startswith("shard")


def _repeated(cell: Cell) -> int:
    # Trainers remove what was repeated from what they gather.
    is_gathered = cell.mode in ("dispatch gather", "predict") and not _has_unknown_repeats(cell)
    if cell.world_size == 1 or cell.mode == "limit" or is_gathered:
        return 0
    if cell.mode == "lanes":
        return -NUM_RECORDS % LANES  # so that each lane has equally many
    if not trainer_divides(cell):
        return -NUM_RECORDS % cell.world_size  # so that each rank has equally many
    if _dispatches(cell):
        return -(NUM_RECORDS % BATCH_SIZE) % cell.world_size
    if "uneven" in cell.mode and cell.kind == "map":
        return 0
    # The last step is filled up.
    step = BATCH_SIZE if "split" in cell.mode else BATCH_SIZE * cell.world_size
    return -NUM_RECORDS % step


def _has_unknown_repeats(cell: Cell) -> bool:
    """Return whether a trainer cannot know which records were repeated: those of a sampler."""
    return cell.kind == "map" and not trainer_divides(cell)


def _new_order(cell: Cell) -> bool | None:
    """Return whether each epoch must have another order; None if that is not defined."""
    if cell.mode in ("validate", "evaluate", "predict"):
        return None  # not shuffled
    told = cell.mode == "set_epoch" or cell.trainer == "lightning" or trainer_divides(cell)
    if cell.kind == "map":
        # PyTorch's DistributedSampler must be told the epoch.
        return True if told or cell.loader == "make_loader" or cell.world_size == 1 else None
    return True
