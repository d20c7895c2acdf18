"""The Trainer of transformers."""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import Trainer, TrainerCallback, TrainingArguments

from tests.trainers.cells import ACCUMULATED, BATCH_SIZE, EPOCHS, Cell
from tests.trainers.data import Numbers, make_loader, make_sampler, open_dataset
from torchrec_io._loading.loader import Loader
from torchrec_io.integrations.transformers import ResumeLoader


class Model(nn.Module):
    """A tiny model that notes the records of its steps, or predicts their numbers."""

    def __init__(self, numbers: Numbers, mode: str = "train") -> None:
        super().__init__()
        self.numbers = numbers
        self.mode = mode
        self.layer = nn.Linear(4, 1)

    def forward(self, id: Tensor, x: Tensor) -> dict[str, Tensor]:  # noqa: A002  # its column
        if self.mode == "predict":
            return {"logits": id}
        (self.numbers.accumulate if self.mode == "accumulate" else self.numbers.add)(id)
        out = self.layer(x)
        return {"loss": out.square().mean(), "logits": out}


class NoteEpochs(TrainerCallback):
    """Callback that notes the epochs of the training."""

    def __init__(self, numbers: Numbers) -> None:
        self.numbers = numbers

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.numbers.begin()

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.numbers.apply()


def make_arguments(cell: Cell, folder: str, **more: Any) -> TrainingArguments:
    """Return the arguments of a trainer."""
    sharing: dict[str, Any] = {}
    if cell.mode == "train sharded":
        sharing = {"dispatch_batches": False}
    if cell.mode == "train split":
        sharing = {"split_batches": True}
    workers: dict[str, Any] = {}
    if cell.num_workers:
        workers = {
            "dataloader_multiprocessing_context": cell.start_method,
            "dataloader_persistent_workers": cell.start_method == "spawn",
        }
    return TrainingArguments(
        folder,
        num_train_epochs=EPOCHS,
        per_device_train_batch_size=BATCH_SIZE,
        per_device_eval_batch_size=BATCH_SIZE,
        dataloader_num_workers=cell.num_workers,
        dataloader_pin_memory=False,
        accelerator_config=sharing or None,
        gradient_accumulation_steps=ACCUMULATED if cell.mode == "accumulate" else 1,
        **{
            "use_cpu": True,
            "report_to": "none",
            "disable_tqdm": True,
            "save_strategy": "no",
            "logging_strategy": "no",
            **workers,
            **more,
        },
    )


class WithLoader(Trainer):
    """Trainer with a loader of the user. A DataLoader must be prepared."""

    given: Any

    def get_train_dataloader(self) -> Any:
        is_ours = isinstance(self.given, Loader)
        return self.given if is_ours else self.accelerator.prepare(self.given)

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        return self.get_train_dataloader()

    def get_test_dataloader(self, test_dataset: Any) -> Any:
        return self.get_train_dataloader()


def make_trainer(
    cell: Cell, paths: list[str], model: nn.Module, args: TrainingArguments
) -> Trainer:
    """Return the trainer of a cell, with its loader."""
    more = {"shuffle": False} if cell.mode in ("evaluate", "predict") else {}
    dataset = open_dataset(cell, paths, **more)
    if cell.loader == "DataLoader":
        multiprocessing.set_start_method(cell.start_method, force=True)
        return Trainer(model, args, train_dataset=dataset, eval_dataset=dataset)
    trainer = WithLoader(model, args, train_dataset=dataset, eval_dataset=dataset)
    # The trainer calls the model with the items of a mapping.
    trainer.given = make_loader(
        cell, dataset, sampler=make_sampler(cell, dataset), collate_fn=_to_dict
    )
    return trainer


def _to_dict(items: Any) -> dict[str, torch.Tensor]:
    if isinstance(items, list):
        joined: dict[str, Tensor] = torch.utils.data.default_collate(items)
        return joined
    return dict(items)


def run(cell: Cell, paths: list[str], numbers: Numbers) -> None:
    """Train or evaluate for two epochs, and note the records."""
    with tempfile.TemporaryDirectory() as folder:
        args = make_arguments(cell, folder)
        trainer = make_trainer(cell, paths, Model(numbers, cell.mode), args)
        trainer.add_callback(NoteEpochs(numbers))
        if cell.mode not in ("evaluate", "predict"):
            trainer.train()
            return
        for _ in range(EPOCHS):
            numbers.begin()
            if cell.mode == "evaluate":
                trainer.evaluate()
            else:
                files: Any = trainer.eval_dataset
                found = torch.as_tensor(trainer.predict(files).predictions)
                numbers.add(found if trainer.is_world_process_zero() else found[:0])


def run_resumably(
    cell: Cell,
    paths: list[str],
    numbers: Numbers,
    *,
    folder: str,
    save_at: Sequence[int] = (),
    resume_at: int | None = None,
) -> None:
    """Train and save checkpoints after some steps, or continue after one of them."""
    args = make_arguments(cell, folder, ignore_data_skip=cell.loader == "make_loader")
    trainer = make_trainer(cell, paths, Model(numbers), args)
    trainer.add_callback(NoteEpochs(numbers))
    trainer.add_callback(SaveAt(save_at))
    if cell.loader == "make_loader":
        trainer.add_callback(ResumeLoader())
    checkpoint = None if resume_at is None else f"{folder}/checkpoint-{resume_at}"
    trainer.train(resume_from_checkpoint=checkpoint)


class SaveAt(TrainerCallback):
    """Callback that saves checkpoints after some steps."""

    def __init__(self, steps: Sequence[int]) -> None:
        self.steps = steps

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        control.should_save = state.global_step in self.steps
        return control
