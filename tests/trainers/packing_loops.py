"""Packed rows in the loops of other libraries: each token comes once, with the right labels."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

import torchrec_io as tio
from tests.support.examples import example_of
from tests.support.tfrecord import write_tfrecord

# Tokens of all documents differ, so that each can be told from the others.
DOCUMENTS = [[*range(10 * n + 1, 10 * n + 2 + n % 9)] for n in range(24)]
TOKENS = sorted(token for document in DOCUMENTS for token in document)
LENGTH = 12
PACK = tio.Pack(LENGTH, "input_ids", labels="same")


@pytest.fixture
def path(tmp_path: Path) -> str:
    records = [example_of(input_ids=document) for document in DOCUMENTS]
    return str(write_tfrecord(tmp_path / "documents", records))


def packed(path: str, **options: Any) -> tio.TFRecordDataset:
    schema = {"input_ids": tio.VarLenFeature("int64")}
    return tio.TFRecordDataset(path, schema, pack=PACK, shuffle=True, seed=3, **options)


class Model(nn.Module):
    """Takes the columns of packed rows that a causal language model of transformers takes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Embedding(300, 1)
        self.seen: list[int] = []

    def forward(self, input_ids: Tensor, position_ids: Tensor, labels: Tensor) -> dict[str, Tensor]:
        assert input_ids.shape == position_ids.shape == labels.shape
        is_label = labels != -100
        assert (is_label == (position_ids > 0)).all()
        assert (labels[is_label] == input_ids[is_label]).all()
        self.seen += input_ids[input_ids > 0].tolist()
        return {"loss": self.layer(input_ids).square().mean()}


@pytest.mark.parametrize("workers", [0, 1])
def test_transformers(path: str, tmp_path: Path, workers: int) -> None:
    model = Model()
    arguments = TrainingArguments(
        str(tmp_path / "out"),
        per_device_train_batch_size=3,
        num_train_epochs=1,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        dataloader_num_workers=workers,
    )
    Trainer(model, arguments, train_dataset=packed(path)).train()
    assert sorted(model.seen) == TOKENS


@pytest.mark.parametrize("loader", ["DataLoader", "make_loader"])
def test_accelerate(path: str, loader: str) -> None:
    accelerator = Accelerator(
        cpu=True, dataloader_config=DataLoaderConfiguration(dispatch_batches=False)
    )
    batches: Any = tio.make_loader(packed(path, batch_size=3))
    if loader == "DataLoader":
        batches = accelerator.prepare(DataLoader(packed(path), batch_size=3))
    for _ in range(2):
        steps = list(batches)
        seen = torch.cat([step["input_ids"] for step in steps])
        assert sorted(seen[seen > 0].tolist()) == TOKENS
        assert {*map(len, (step["input_ids"] for step in steps[:-1]))} == {3}


def test_accelerate_cannot_send_the_columns_of_documents(path: str) -> None:
    """By default one process would read for all of them."""
    loader = Accelerator(cpu=True).prepare(DataLoader(packed(path), batch_size=3))
    with pytest.raises(ValueError, match="segment_lengths"):
        next(iter(loader))


def test_lightning(path: str, tmp_path: Path) -> None:
    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = Model()

        def training_step(self, batch: Any, number: int) -> Tensor:
            names = ("input_ids", "position_ids", "labels")
            loss: Tensor = self.model(*(batch[name] for name in names))["loss"]
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    warnings.filterwarnings("ignore", module="lightning")
    module = Module()
    trainer = pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
    )
    trainer.fit(module, DataLoader(packed(path, batch_size=3), batch_size=None))
    assert sorted(module.model.seen) == TOKENS


def test_a_model_that_shifts_labels_has_the_loss_of_separate_documents(path: str) -> None:
    """With a mask that keeps documents apart, rows are trained as the documents alone are."""
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"n_positions": LENGTH, "n_embd": 8, "n_layer": 2, "n_head": 2}
    config: Any = GPT2Config  # takes more than its annotations
    new: Any = GPT2LMHeadModel
    model = new(config(vocab_size=300, attn_implementation="eager", **sizes)).eval()
    trained = [document for document in DOCUMENTS if len(document) > 1]
    alone = torch.stack(
        [
            model(ids := torch.tensor([document]), labels=ids).loss * (len(document) - 1)
            for document in trained
        ]
    ).sum() / sum(len(document) - 1 for document in trained)
    total, count = torch.zeros(()), 0
    for batch in packed(path, batch_size=4):
        segments = batch["segment_ids"]
        sees = (segments[:, :, None] == segments[:, None, :]).tril()
        mask = torch.zeros(sees.shape).masked_fill(~sees, float("-inf"))[:, None]
        labels = batch["labels"]
        found = model(
            batch["input_ids"],
            attention_mask=mask,
            position_ids=batch["position_ids"].long(),
            labels=labels,
        )
        labeled = int((labels[:, 1:] != -100).sum())
        total, count = total + found.loss * labeled, count + labeled
    torch.testing.assert_close(total / count, alone)
