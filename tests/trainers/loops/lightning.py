"""Lightning's trainer."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Sequence
from typing import Any

import lightning.pytorch as pl
import torch
from torch import Tensor, nn

from tests.trainers.cells import ACCUMULATED, EPOCHS, LIMIT, Cell
from tests.trainers.data import Numbers, make_loader, make_sampler, open_dataset
from torchrec_io.integrations.lightning import SetEpoch


class Model(pl.LightningModule):
    """A tiny model that notes the records of its steps."""

    def __init__(self, numbers: Numbers, mode: str = "fit") -> None:
        super().__init__()
        self.numbers = numbers
        self.note = numbers.accumulate if mode == "accumulate" else numbers.add
        self.layer = nn.Linear(4, 1)

    def training_step(self, batch: Any, number: int) -> Tensor:
        self.note(batch["id"])
        loss: Tensor = self.layer(batch["x"]).square().mean()
        return loss

    def validation_step(self, batch: Any, number: int) -> None:
        self.numbers.add(batch["id"])

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        self.numbers.apply()

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
    options: dict[str, Any] = {}
    if cell.mode == "limit":
        options["limit_train_batches"] = LIMIT
        options["callbacks"] = [SetEpoch()]
    if cell.mode == "accumulate":
        options["accumulate_grad_batches"] = ACCUMULATED
    with tempfile.TemporaryDirectory() as folder:
        trainer = make_trainer(cell, folder, **options)
        if cell.mode == "validate":
            for _ in range(EPOCHS):
                trainer.validate(Model(numbers), loader, verbose=False)
        else:
            trainer.fit(Model(numbers, cell.mode), loader)


def run_resumably(
    cell: Cell,
    paths: list[str],
    numbers: Numbers,
    *,
    folder: str,
    save_at: Sequence[int] = (),
    resume_at: int | None = None,
    epochs: int = EPOCHS,
) -> None:
    """Fit and save checkpoints after some steps, or continue after one of them.

    With ``epochs=1``, a checkpoint is saved after ``fit``.
    """
    warnings.filterwarnings("ignore", module="lightning")
    dataset = open_dataset(cell, paths)
    loader = make_loader(cell, dataset, sampler=make_sampler(cell, dataset))
    saving = SaveAt(folder, save_at)
    trainer = make_trainer(cell, folder, max_epochs=epochs, callbacks=[saving, SetEpoch()])
    checkpoint = None if resume_at is None else f"{folder}/{resume_at}.ckpt"
    trainer.fit(Model(numbers), loader, ckpt_path=checkpoint, weights_only=False)
    if epochs == 1:
        trainer.save_checkpoint(f"{folder}/{trainer.global_step}.ckpt")


class SaveAt(pl.Callback):
    """Callback that saves checkpoints after some steps."""

    def __init__(self, folder: str, steps: Sequence[int]) -> None:
        self.folder = folder
        self.steps = steps

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        if trainer.global_step in self.steps:
            trainer.save_checkpoint(f"{self.folder}/{trainer.global_step}.ckpt")


def make_trainer(cell: Cell, folder: str, **options: Any) -> pl.Trainer:
    """Return a quiet trainer."""
    return pl.Trainer(
        accelerator="cpu",
        devices=cell.world_size,
        strategy="ddp" if cell.world_size > 1 else "auto",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        **{"max_epochs": EPOCHS, **options},
    )
