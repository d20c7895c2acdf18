"""Lightning's trainer."""

from __future__ import annotations

import tempfile
import warnings
from typing import Any

import lightning.pytorch as pl
import torch
from torch import Tensor, nn

import torchrec_io as tio

from tests.trainers.cells import EPOCHS, LIMIT, Cell
from tests.trainers.data import Numbers, make_loader, make_sampler, open_dataset


class Model(pl.LightningModule):
    """A tiny model that notes the records of its steps."""

    def __init__(self, numbers: Numbers) -> None:
        super().__init__()
        self.numbers = numbers
        self.layer = nn.Linear(4, 1)

    def training_step(self, batch: Any, number: int) -> Tensor:
        self.numbers.add(batch["id"])
        return self.layer(batch["x"]).square().mean()

    def validation_step(self, batch: Any, number: int) -> None:
        self.numbers.add(batch["id"])

    def on_train_epoch_start(self) -> None:
        self.numbers.begin()

    def on_validation_epoch_start(self) -> None:
        self.numbers.begin()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01)


def run(cell: Cell, paths: list[str], numbers: Numbers) -> None:
    """Fit or validate for two epochs, and note the records."""
    warnings.filterwarnings("ignore", module="lightning")
    dataset = open_dataset(cell, paths, **({"shuffle": False} if cell.mode == "validate" else {}))
    loader = make_loader(cell, dataset, sampler=make_sampler(cell, dataset))
    with tempfile.TemporaryDirectory() as folder:
        trainer = make_trainer(cell, folder)
        if cell.mode == "validate":
            for _ in range(EPOCHS):
                trainer.validate(Model(numbers), loader, verbose=False)
        else:
            trainer.fit(Model(numbers), loader)


def make_trainer(cell: Cell, folder: str) -> pl.Trainer:
    options: dict[str, Any] = {}
    if cell.mode == "limit":
        options["limit_train_batches"] = LIMIT
        options["callbacks"] = [tio.integrations.lightning.SetEpoch()]
    return pl.Trainer(
        accelerator="cpu",
        devices=cell.world_size,
        strategy="ddp" if cell.world_size > 1 else "auto",
        max_epochs=EPOCHS,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        **options,
    )
