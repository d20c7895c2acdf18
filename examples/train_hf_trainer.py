"""Train on digits with the Trainer of Hugging Face transformers, in one process or several.

python examples/train_hf_trainer.py
torchrun --nproc-per-node=2 examples/train_hf_trainer.py

Interrupt it, or let it stop with ``--stop-after 30``, and continue with ``--resume``: it goes on
after the last checkpoint, and no record is missed or repeated.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from train_digits import DATA, SCHEMA, make_model  # type: ignore[import-not-found]
from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed

import torchrec_io as tio
from torchrec_io.integrations.transformers import ResumeLoader


class Digits(nn.Module):
    """The CNN of train_digits.py, with the inputs and outputs that a Trainer expects."""

    def __init__(self) -> None:
        super().__init__()
        self.model = make_model()

    def forward(self, pixels: Tensor, labels: Tensor) -> dict[str, Tensor]:
        """Return the loss and the logits."""
        logits = self.model(pixels)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def to_inputs(batch: tio.Batch) -> dict[str, Tensor]:
    """Return the arguments of the model; a Trainer calls it with the items of a mapping."""
    return {"pixels": batch["image/encoded"], "labels": batch["label"]}


class DigitsTrainer(Trainer):
    """Trainer whose loaders give each process its own share, as native code makes the batches."""

    def get_train_dataloader(self) -> Any:
        """Return the loader for training. All processes need the same number of steps."""
        train = tio.TFRecordDataset(
            DATA / "digits-train-*", SCHEMA, batch_size=32, shuffle=True, uneven="drop"
        )
        return tio.make_loader(train, device=self.args.device, collate_fn=to_inputs)

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        """Return the loader for the evaluation."""
        del eval_dataset
        test = tio.TFRecordDataset(DATA / "digits-test-*", SCHEMA, batch_size=60, uneven="pad")
        return tio.make_loader(test, device=self.args.device, collate_fn=to_inputs)


class StopAfter(TrainerCallback):
    """Callback that saves a checkpoint and stops after some steps."""

    def __init__(self, steps: int | None) -> None:
        self.steps = steps

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        """Stop after the steps."""
        del args
        if state.global_step == self.steps:
            control.should_save = control.should_training_stop = True
        return control


def accuracy(outputs: Any) -> dict[str, float]:
    """Return the accuracy of the predictions of an evaluation."""
    return {"accuracy": float((outputs.predictions.argmax(1) == outputs.label_ids).mean())}


def main() -> None:
    """Train, and print the accuracy."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "output" / "hf")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--stop-after", type=int, metavar="STEPS")
    parser.add_argument("--resume", action="store_true", help="continue after the last checkpoint")
    args = parser.parse_args()
    set_seed(0)
    trainer = DigitsTrainer(
        Digits(),
        TrainingArguments(
            str(args.output),
            num_train_epochs=args.epochs,
            learning_rate=2e-3,
            save_strategy="epoch",
            ignore_data_skip=True,  # ResumeLoader finds the position, and reads nothing for it
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
        ),
        callbacks=[ResumeLoader(), StopAfter(args.stop_after)],
        compute_metrics=accuracy,
    )
    steps = trainer.train(resume_from_checkpoint=args.resume).global_step
    result = trainer.evaluate()
    if trainer.is_world_process_zero():
        print(f"processes: {trainer.args.world_size}, {steps} steps in all")
        print(f"test accuracy {result['eval_accuracy']:.4f}")
    if torch.distributed.is_initialized():
        # Otherwise threads of PyTorch may abort a process that ends.
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
