"""Train on digits with Lightning, in one process or several.

python examples/train_lightning.py
torchrun --nproc-per-node=2 examples/train_lightning.py

Interrupt it, or let it stop with ``--stop-after 30``, and continue with ``--resume``: it goes on
after the last checkpoint, and no record is missed or repeated.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import lightning.pytorch as pl
import torch
from torch import Tensor, nn
from train_digits import DATA, SCHEMA, make_model  # type: ignore[import-not-found]

import torchrec_io as tio
from torchrec_io.integrations.lightning import SetEpoch


class Digits(pl.LightningModule):
    """The CNN of train_digits.py."""

    def __init__(self) -> None:
        super().__init__()
        self.model = make_model()
        self.steps = 0

    def training_step(self, batch: tio.Batch, _: int) -> Tensor:
        """Return the loss of a batch."""
        self.steps += 1
        return nn.functional.cross_entropy(self.model(batch["image/encoded"]), batch["label"])

    def validation_step(self, batch: tio.Batch, _: int) -> None:
        """Note how many labels of a batch are predicted."""
        hits = self.model(batch["image/encoded"]).argmax(1) == batch["label"]
        self.log("accuracy", hits.float().mean(), batch_size=len(hits), sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer."""
        return torch.optim.AdamW(self.parameters(), lr=2e-3)


def main() -> None:
    """Train, and print the accuracy."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output" / "pl")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--stop-after", type=int, default=-1, metavar="STEPS")
    parser.add_argument("--resume", action="store_true", help="continue after the last checkpoint")
    args = parser.parse_args()
    pl.seed_everything(0)

    # In DDP each rank reads its own share: make_loader and DataLoader need nothing else. A step
    # waits for all ranks, so all need the same number of steps.
    train = tio.TFRecordDataset(
        DATA / "digits-train-*", SCHEMA, batch_size=32, shuffle=True, uneven="drop"
    )
    test = tio.TFRecordDataset(DATA / "digits-test-*", SCHEMA, batch_size=256, uneven="keep")
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=int(os.environ.get("WORLD_SIZE", "1")),
        max_epochs=args.epochs,
        max_steps=args.stop_after,
        # Checkpoints have the position of make_loader. SetEpoch gives each epoch its own order,
        # also after a checkpoint from the end of a run.
        callbacks=[
            SetEpoch(),
            pl.callbacks.ModelCheckpoint(args.output, save_last=True, every_n_train_steps=5),
        ],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    model = Digits()
    checkpoint = args.output / "last.ckpt" if args.resume else None
    trainer.fit(model, tio.make_loader(train), ckpt_path=checkpoint)
    [result] = trainer.validate(model, tio.make_loader(test), verbose=False)
    if trainer.is_global_zero:
        ranks = f"{trainer.world_size} processes" if trainer.world_size > 1 else "1 process"
        print(f"{ranks}, {model.steps} steps, {trainer.global_step} in all")
        print(f"test accuracy {result['accuracy']:.4f}")


if __name__ == "__main__":
    main()
