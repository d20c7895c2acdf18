"""The data of the matrix, and its loaders."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler
from torchdata.stateful_dataloader import StatefulDataLoader

import torchrec_io as tio
from tests.support.examples import example_of
from tests.support.tfrecord import write_tfrecord
from tests.trainers.cells import BATCH_SIZE, FILE_SIZES, LANES, Cell

SCHEMA = {
    "id": tio.FixedLenFeature([], "int64"),
    "x": tio.FixedLenFeature([4], "float32"),
}


def write_data(folder: Path, sizes: tuple[int, ...] = FILE_SIZES) -> list[str]:
    """Write files of numbered records, with their indexes."""
    paths = []
    first = 0
    for number, size in enumerate(sizes):
        path = folder / f"numbers-{number}.tfrecord"
        numbers = range(first, first + size)
        write_tfrecord(path, [example_of(id=[n], x=[n / 1000.0] * 4) for n in numbers])
        paths.append(str(path))
        first += size
    len(tio.TFRecordDataset(paths, SCHEMA))
    return paths


def open_dataset(cell: Cell, paths: list[str], **options: Any) -> Any:
    """Return the dataset of a cell."""
    if cell.kind == "map":
        return tio.TFRecordMapDataset(paths, SCHEMA)
    lanes = tio.Shuffle(block=40, window=300, lanes=LANES)
    options = {"shuffle": lanes if cell.mode == "lanes" else True, "seed": 1, **options}
    if cell.world_size > 1:
        options["uneven"] = "pad"
    if cell.batched_by == "dataset":
        options["batch_size"] = BATCH_SIZE
    return tio.TFRecordDataset(paths, SCHEMA, **options)


def make_loader(cell: Cell, dataset: Any, *, sampler: Any = None, collate_fn: Any = None) -> Any:
    """Return the loader of a cell.

    Args:
        cell: The cell.
        dataset: Its dataset.
        sampler: Sampler of a map-style dataset.
        collate_fn: Called with what the loader would yield, as each loader does it.
    """
    multiprocessing.set_start_method(cell.start_method, force=True)
    sizes: dict[str, Any] = {"batch_size": BATCH_SIZE if cell.batched_by == "loader" else None}
    workers: dict[str, Any] = {"num_workers": cell.num_workers}
    if cell.loader == "make_loader":
        return tio.make_loader(dataset, **sizes, **workers, sampler=sampler, collate_fn=collate_fn)
    # Forked workers are started for each epoch; others, which start slowly, are kept.
    workers["persistent_workers"] = cell.start_method == "spawn"
    load: Any = StatefulDataLoader if cell.loader == "StatefulDataLoader" else DataLoader
    return load(dataset, **sizes, **workers, sampler=sampler, collate_fn=collate_fn)


def make_sampler(cell: Cell, dataset: Any) -> Any:
    """Return the sampler of a map-style dataset.

    The trainers divide what a RandomSampler yields, if they know the loader.
    """
    if cell.kind == "iterable":
        return None
    divides = cell.trainer != "ddp" and cell.mode != "unprepared"
    if cell.world_size == 1 or (divides and cell.loader != "make_loader"):
        return RandomSampler(dataset)
    # Lightning makes the process group later.
    rank = int(os.environ["RANK"])
    return DistributedSampler(dataset, num_replicas=cell.world_size, rank=rank, seed=1)


class Numbers:
    """The numbers of the records that came, by epoch and step."""

    def __init__(self) -> None:
        self.epochs: list[list[list[int]]] = []
        self._accumulated: list[torch.Tensor] = []

    def begin(self) -> None:
        """Note that an epoch starts."""
        self.epochs.append([])
        self._accumulated.clear()

    def accumulate(self, numbers: torch.Tensor) -> None:
        """Note the records of gradients that are not applied yet."""
        self._accumulated.append(numbers)

    def apply(self) -> None:
        """Note that the accumulated gradients are applied."""
        for numbers in self._accumulated:
            self.add(numbers)
        self._accumulated.clear()

    def add(self, numbers: torch.Tensor) -> None:
        """Note the records of a step."""
        if not self.epochs:  # a trainer continues an epoch
            self.begin()
        self.epochs[-1].append(numbers.reshape(-1).tolist())

    @property
    def num_steps(self) -> int:
        """Number of steps so far."""
        return sum(map(len, self.epochs))
