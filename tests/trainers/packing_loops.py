"""Packed rows in the loops of other libraries: each token comes once, with the right labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import Trainer, TrainingArguments

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
