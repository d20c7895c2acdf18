"""A loop under Accelerate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration

from tests.trainers.cells import ACCUMULATED, EPOCHS, Cell
from tests.trainers.data import Numbers, make_loader, make_sampler, open_dataset


def make_accelerator(cell: Cell) -> Accelerator:
    """Return the Accelerator of a cell."""
    options: dict[str, Any] = {}
    if cell.mode.startswith(("dispatch", "shard")):
        options["dispatch_batches"] = cell.mode.startswith("dispatch")
        options["split_batches"] = "split" in cell.mode
        options["even_batches"] = "uneven" not in cell.mode
    if cell.loader == "StatefulDataLoader":
        options["use_stateful_dataloader"] = True
    return Accelerator(
        cpu=True,
        dataloader_config=DataLoaderConfiguration(**options),
        gradient_accumulation_steps=ACCUMULATED if "accumulate" in cell.mode else 1,
    )


def run(cell: Cell, paths: list[str], numbers: Numbers) -> None:
    """Run a loop, and note the records."""
    accelerator = make_accelerator(cell)
    options: dict[str, Any] = {}
    if cell.mode.startswith("ranked"):
        options = {"rank": accelerator.process_index, "world_size": accelerator.num_processes}
    dataset = open_dataset(cell, paths, **options)
    loader = make_loader(cell, dataset, sampler=make_sampler(cell, dataset))
    if cell.mode not in ("unprepared", "ranked"):
        loader = accelerator.prepare(loader)
    for _ in range(EPOCHS):
        numbers.begin()
        for batch in loader:
            _take(cell, accelerator, batch["id"], numbers)
    accelerator.end_training()


def _take(cell: Cell, accelerator: Accelerator, ids: torch.Tensor, numbers: Numbers) -> None:
    """Note the records of a step, or what Accelerate makes of them."""
    if cell.mode == "dispatch gather":
        found = accelerator.gather_for_metrics(ids)
        numbers.add(found if accelerator.is_main_process else found[:0])
    elif cell.mode == "dispatch accumulate":
        numbers.accumulate(ids)
        with accelerator.accumulate(torch.nn.Identity()):
            if accelerator.sync_gradients:
                numbers.apply()
    else:
        numbers.add(ids)


def run_resumably(
    cell: Cell,
    paths: list[str],
    numbers: Numbers,
    *,
    folder: str,
    save_at: Sequence[int] = (),
    resume_at: int | None = None,
) -> None:
    """Run a loop that saves its state after some steps, or that continues after one of them."""
    accelerator = make_accelerator(cell)
    dataset = open_dataset(cell, paths)
    loader = make_loader(cell, dataset, sampler=make_sampler(cell, dataset))
    loader = accelerator.prepare(loader)
    if cell.loader == "make_loader":
        accelerator.register_for_checkpointing(loader)
    epoch, used = divmod(resume_at or 0, len(loader))
    if resume_at is not None and cell.loader != "DataLoader":
        accelerator.load_state(f"{folder}/{resume_at}")
    for number in range(epoch, EPOCHS):
        loader.set_epoch(number)
        numbers.begin()
        batches = loader
        if cell.loader == "DataLoader" and number == epoch:
            batches = accelerator.skip_first_batches(loader, used)
        for batch in batches:
            numbers.add(batch["id"])
            if numbers.num_steps in save_at:
                accelerator.save_state(f"{folder}/{numbers.num_steps}")
    accelerator.end_training()
