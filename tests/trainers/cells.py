"""The cells of the matrix: how records are loaded under each trainer, and what must come."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

from tests.support.cover import cover

# Two files, with sizes at which each way to divide the records leaves a remainder: an odd number of
# records, a last batch that is not full, and workers that end after different numbers of batches.
FILE_SIZES = (1200, 993)
NUM_RECORDS = sum(FILE_SIZES)
BATCH_SIZE = 96
EPOCHS = 2
LANES = 4
ACCUMULATED = 5  # batches in a step of modes that accumulate; epochs end within a step
LIMIT = 5  # steps in an epoch, where a trainer limits them

LOADERS = ("DataLoader", "make_loader", "StatefulDataLoader")
TRAINERS = ("ddp", "fsdp2", "accelerate", "transformers", "lightning")
MODES = {
    # A loop of one's own, which sets the epoch or does not, or whose ranks have lanes.
    "ddp": ("set_epoch", "automatic", "lanes"),
    "fsdp2": ("mesh",),  # the processes of a device mesh share the records
    "accelerate": (
        # Accelerate's options: one process reads for all, or each process reads and keeps a part;
        # batches are those of a process, or are split among the processes.
        "dispatch",
        "dispatch split",
        "shard",
        "shard split",
        "shard uneven",  # even_batches=False
        "shard split uneven",
        "unprepared",  # the loader is not given to prepare()
        "ranked",  # not prepared either, and the dataset has an explicit rank
        "ranked prepared",
        "dispatch accumulate",  # the records of gradients that are applied
        "dispatch gather",  # the records that gather_for_metrics returns
    ),
    "transformers": (
        "train",
        "evaluate",
        "train sharded",
        "train split",
        "accumulate",
        "predict",  # the records of the predictions, which evaluate() passes to compute_metrics
    ),
    "lightning": ("fit", "validate", "limit", "accumulate"),
}


@dataclasses.dataclass(frozen=True)
class Cell:
    """One way to load records.

    Attributes:
        trainer: What runs the loop.
        mode: How the trainer is used, one of ``MODES``.
        loader: What loads the records.
        kind: Kind of the dataset: "iterable" or "map".
        batched_by: What makes the batches: "loader" or "dataset".
        world_size: Number of processes.
        workers: Number of worker processes of each, with their start method: "none", "2 fork" or
            "2 spawn".
    """

    trainer: str
    mode: str
    loader: str
    kind: str
    batched_by: str
    world_size: int
    workers: str

    @property
    def num_workers(self) -> int:
        return 0 if self.workers == "none" else int(self.workers[0])

    @property
    def start_method(self) -> str:
        """Start method of workers."""
        return "spawn" if "spawn" in self.workers else "fork"

    @property
    def name(self) -> str:
        return " / ".join(map(str, dataclasses.astuple(self)))

    def is_possible(self) -> bool:
        """Return whether the trainer can be used in this way."""
        if self.kind == "map" and self.batched_by == "dataset":
            return False  # map-style datasets make no batches
        if self.mode in ("ranked", "ranked prepared") and self.kind == "map":
            return False  # map-style datasets have no rank
        if self.mode == "automatic" and self.kind == "map":
            return False  # PyTorch's samplers are told the epoch
        if self.mode in ("lanes", "mesh") and self.kind == "map":
            return False  # map-style datasets have no shuffle, and no mesh
        return self.mode not in ("unprepared", "ranked prepared") or self.loader != "make_loader"


def all_cells(trainer: str) -> list[Cell]:
    """Return the cells of a trainer, without those that are impossible."""
    values = itertools.product(
        [trainer],
        MODES[trainer],
        LOADERS,
        ("iterable", "map"),
        ("loader", "dataset"),
        (2, 1),
        ("none", "2 fork", "2 spawn"),
    )
    return [cell for cell in itertools.starmap(Cell, values) if cell.is_possible()]


def named_cells(trainer: str) -> Iterator[Cell]:
    """Yield the cells that are always tested: those in which records were lost once."""
    modes = {
        "accelerate": ("dispatch", "shard", "dispatch accumulate", "dispatch gather"),
        "transformers": ("train", "predict"),
    }
    for mode in modes.get(trainer, ()):
        yield Cell(trainer, mode, "DataLoader", "iterable", "loader", 2, "none")
        yield Cell(trainer, mode, "DataLoader", "iterable", "dataset", 2, "none")
        yield Cell(trainer, mode, "make_loader", "iterable", "dataset", 2, "none")
        yield Cell(trainer, mode, "DataLoader", "map", "loader", 2, "none")
    if trainer == "lightning":
        for loader in LOADERS:
            yield Cell(trainer, "fit", loader, "iterable", "dataset", 2, "none")


def covering_cells(trainer: str) -> list[Cell]:
    """Return a few cells that have each pair of values, and the named ones.

    Spawned workers take seconds to start. A trainer does not see how workers are started, so
    no cell has them.
    """
    cells = [cell for cell in all_cells(trainer) if cell.workers != "2 spawn"]
    return cover(cells, named_cells(trainer))
