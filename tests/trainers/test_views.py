"""Two views of an image, its boxes and their masks in the loops of trainers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState
from torch import Tensor, nn
from transformers import Trainer, TrainingArguments

import torchrec_io as tio
from tests.support.images import encoded, smooth
from tests.support.tfrecord import write_tfrecord

COUNT = 12
CROP = tio.RandomResizedCrop((0.2, 1.0), group="view")
SCHEMA: dict[str, Any] = {
    "id": tio.FixedLenFeature([], "int64"),
    "image": tio.ImageFeature(size=(8, 9), augment=CROP, dtype="float32"),
    "second": tio.ImageFeature(
        key="image", size=(6, 5), augment=tio.RandomResizedCrop(group="other"), dtype="float32"
    ),
    "boxes": tio.BoxFeature(group="view"),
}


@pytest.fixture(autouse=True)
def _no_accelerator_is_left() -> Iterator[None]:
    yield
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


@pytest.fixture
def dataset(tmp_path: Path) -> tio.TFRecordDataset:
    records = [
        tio.encode_example(
            {
                "id": number,
                "image": encoded(smooth(30, 40, seed=number), "JPEG"),
                "boxes": np.random.default_rng(number).random(4 * (number % 4), np.float32),
            },
            {"boxes": "float32"},
        )
        for number in range(COUNT)
    ]
    path = write_tfrecord(tmp_path / "views", records)
    return tio.TFRecordDataset(path, SCHEMA, batch_size=4, shuffle=True, seed=2)


class Model(pl.LightningModule):
    """Takes all columns, as an argument each or as a batch, and keeps them."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 1)
        self.seen: list[Any] = []

    def forward(self, **columns: Any) -> dict[str, Tensor]:
        masks = {name: mask.tolist() for name, mask in columns.pop("valid").items()}
        self.seen.append(({name: value.tolist() for name, value in columns.items()}, masks))
        colors = [columns[name].mean((2, 3)) for name in ("image", "second")]
        return {"loss": self.layer(torch.cat(colors)).square().mean()}

    def training_step(self, batch: Any, number: int) -> Tensor:
        assert batch.valid is batch["valid"]
        loss: Tensor = self(**batch)["loss"]
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.01)


def by_accelerate(loader: Any, model: Model, folder: Path) -> None:
    del folder
    accelerator = Accelerator(cpu=True)
    prepared: Any
    prepared, loader = accelerator.prepare(model, loader)
    for batch in loader:
        accelerator.backward(prepared(**batch)["loss"])


def by_transformers(loader: Any, model: Model, folder: Path) -> None:
    class OwnLoader(Trainer):
        def get_train_dataloader(self) -> Any:
            return loader

    arguments = TrainingArguments(
        str(folder), use_cpu=True, report_to=[], save_strategy="no", num_train_epochs=1
    )
    OwnLoader(model, arguments, train_dataset=loader.dataset).train()


def by_lightning(loader: Any, model: Model, folder: Path) -> None:
    warnings.filterwarnings("ignore", module="lightning")
    pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
    ).fit(model, loader)


@pytest.mark.parametrize("train", [by_accelerate, by_transformers, by_lightning])
def test_views_and_boxes_reach_the_model(
    dataset: tio.TFRecordDataset,
    tmp_path: Path,
    train: Callable[[Any, Model, Path], None],
) -> None:
    plain = Model()
    for batch in dataset:
        plain(**batch)
    assert sorted(number for columns, _ in plain.seen for number in columns["id"]) == [
        *range(COUNT)
    ]
    assert {flag for _, masks in plain.seen for row in masks["boxes"] for flag in row} == {
        True,
        False,
    }
    model = Model()
    train(tio.make_loader(dataset.replace(), num_workers=1), model, tmp_path / "out")
    assert model.seen == plain.seen
