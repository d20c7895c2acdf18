"""A loop of one's own over the loader, with one process group."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist

from tests.trainers.cells import EPOCHS, Cell
from tests.trainers.data import Numbers, make_loader, make_sampler, open_dataset


def run(cell: Cell, paths: list[str], numbers: Numbers) -> None:
    """Run a loop, and note the records."""
    if cell.world_size > 1:
        dist.init_process_group("gloo")
    dataset = open_dataset(cell, paths)
    sampler = make_sampler(cell, dataset)
    loader = make_loader(cell, dataset, sampler=sampler)
    for epoch in range(EPOCHS):
        if cell.mode == "set_epoch":
            _set_epoch(cell, dataset if sampler is None else sampler, loader, epoch)
        numbers.begin()
        for batch in loader:
            numbers.add(batch["id"])
    if cell.world_size > 1:
        dist.destroy_process_group()


def _set_epoch(cell: Cell, ordered: Any, loader: Any, epoch: int) -> None:
    if cell.loader == "make_loader":
        loader.set_epoch(epoch)
    elif hasattr(ordered, "set_epoch"):
        ordered.set_epoch(epoch)
