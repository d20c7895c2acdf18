"""Samples in the collate functions and loaders of other libraries."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import webdataset
from accelerate import Accelerator
from accelerate.state import AcceleratorState, GradientState
from accelerate.utils import DataLoaderConfiguration
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from torch import Tensor, nn
from torch.utils.data import DataLoader
from torchdata import nodes
from transformers import (
    DataCollatorWithPadding,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
    default_data_collator,
)

import torchrec_io as tio
from tests.support.tfrecord import write_tfrecord

COUNT = 40
SCHEMA: dict[str, Any] = {
    "input_ids": tio.VarLenFeature("int64"),
    "scores": tio.FixedLenFeature([3], "float32"),
    "label": tio.FixedLenFeature([], "int64"),
}
FIXED = {name: SCHEMA[name] for name in ("scores", "label")}


@pytest.fixture(autouse=True)
def _no_accelerator_is_left() -> Iterator[None]:
    """As long as there is one, samples are collated into dicts."""
    yield
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


@pytest.fixture
def path(tmp_path: Path) -> str:
    stored = [
        tio.encode_example(
            {"input_ids": [1] * (i % 3 + 1), "scores": [float(i), 0.5, 1.0], "label": i}
        )
        for i in range(COUNT)
    ]
    write_tfrecord(tmp_path / "data", stored)
    return str(tmp_path / "data")


def test_default_data_collator(path: str) -> None:
    loader = DataLoader(
        tio.TFRecordDataset(path, FIXED), batch_size=10, collate_fn=default_data_collator
    )
    batches = list(loader)
    assert torch.cat([batch["labels"] for batch in batches]).tolist() == [*range(COUNT)]
    assert [tuple(batch["scores"].shape) for batch in batches] == [(10, 3)] * 4


def test_data_collator_with_padding(path: str) -> None:
    model = WordLevel({"[UNK]": 0, "a": 1, "[PAD]": 2})
    new: Any = PreTrainedTokenizerFast  # untyped
    tokenizer = new(tokenizer_object=Tokenizer(model))
    tokenizer.pad_token = "[PAD]"  # noqa: S105  # no password
    loader = DataLoader(
        tio.TFRecordDataset(path, SCHEMA),
        batch_size=4,
        collate_fn=DataCollatorWithPadding(tokenizer),
    )
    batch = next(iter(loader))
    assert batch["input_ids"].tolist() == [[1, 2, 2], [1, 1, 2], [1, 1, 1], [1, 2, 2]]
    assert batch["labels"].tolist() == [0, 1, 2, 3]


def test_webdataset(path: str) -> None:
    pipeline = webdataset.DataPipeline(
        tio.TFRecordDataset(path, FIXED), webdataset.batched(16, partial=True)
    )
    batches = list(pipeline)
    assert [len(batch["label"]) for batch in batches] == [16, 16, 8]
    assert torch.as_tensor(batches[1]["label"]).tolist() == [*range(16, 32)]
    renamed = webdataset.DataPipeline(
        tio.TFRecordDataset(path, FIXED, transform=dict),  # it changes its samples
        webdataset.map_dict(label=lambda label: label + 1),
    )
    assert [int(sample["label"]) for sample in renamed] == [*range(1, COUNT + 1)]


@pytest.mark.parametrize("method", ["thread", "process"])
def test_torchdata_nodes(path: str, method: str) -> None:
    node: Any = nodes.IterableWrapper(tio.TFRecordDataset(path, SCHEMA))
    node = nodes.Batcher(node, 16, drop_last=False)
    node = nodes.ParallelMapper(node, tio.collate, num_workers=1, method=method)
    batches = list(nodes.Loader(node))
    assert all(isinstance(batch, tio.Batch) for batch in batches)
    assert torch.cat([batch["label"] for batch in batches]).tolist() == [*range(COUNT)]


# ---- Trainer and Accelerate ----


def train(model: nn.Module, dataset: Any, folder: Path, **options: Any) -> None:
    """Train with the Trainer of transformers, which by default drops columns of no use."""
    arguments = TrainingArguments(
        str(folder / "out"),
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        **options,
    )
    assert arguments.remove_unused_columns
    Trainer(model, arguments, train_dataset=dataset).train()


class Model(nn.Module):
    """Knows the columns "scores" and "labels" alone."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 1)
        self.seen: list[int] = []

    def forward(self, scores: Tensor, labels: Tensor) -> dict[str, Tensor]:
        self.seen += labels.tolist()
        return {"loss": self.layer(scores).sub(labels.unsqueeze(1)).square().mean()}


@pytest.mark.parametrize(("transform", "workers"), [(None, 1), (dict, 0)])
def test_the_trainer_drops_columns_that_the_model_does_not_take(
    path: str, tmp_path: Path, transform: Any, workers: int
) -> None:
    schema = {**SCHEMA, "extra": tio.FixedLenFeature([], "string", b"x")}
    dataset = tio.TFRecordDataset(path, schema, transform=transform)
    model = Model()
    options = {"per_device_train_batch_size": 8, "max_steps": 5}
    train(model, dataset, tmp_path, dataloader_num_workers=workers, **options)
    assert model.seen == [*range(COUNT)]


# Tokens of all documents differ, so that each can be told from the others.
DOCUMENTS = [[*range(10 * n + 1, 10 * n + 2 + n % 9)] for n in range(24)]
TOKENS = sorted(token for document in DOCUMENTS for token in document)


@pytest.fixture
def documents(tmp_path: Path) -> tio.TFRecordDataset:
    """Return a dataset of packed rows."""
    records = [tio.encode_example({"input_ids": document}) for document in DOCUMENTS]
    path = write_tfrecord(tmp_path / "documents", records)
    schema = {"input_ids": SCHEMA["input_ids"]}
    pack = tio.Pack(12, "input_ids", labels="same")
    return tio.TFRecordDataset(path, schema, pack=pack, shuffle=True, seed=3)


class LanguageModel(nn.Module):
    """Takes the columns of packed rows that a causal language model of transformers takes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Embedding(300, 1)
        self.seen: list[int] = []

    def forward(self, input_ids: Tensor, position_ids: Tensor, labels: Tensor) -> dict[str, Tensor]:
        is_label = labels != -100
        assert (is_label == (position_ids > 0)).all()
        assert (labels[is_label] == input_ids[is_label]).all()
        self.seen += input_ids[input_ids > 0].tolist()
        return {"loss": self.layer(input_ids).square().mean()}


@pytest.mark.parametrize("workers", [0, 1])
def test_packed_rows_in_the_trainer(
    documents: tio.TFRecordDataset, tmp_path: Path, workers: int
) -> None:
    model = LanguageModel()
    options = {"per_device_train_batch_size": 3, "num_train_epochs": 1}
    train(model, documents, tmp_path, dataloader_num_workers=workers, **options)
    assert sorted(model.seen) == TOKENS


@pytest.mark.parametrize("loader", ["DataLoader", "make_loader"])
def test_packed_rows_with_accelerate(documents: tio.TFRecordDataset, loader: str) -> None:
    config = DataLoaderConfiguration(dispatch_batches=False)
    accelerator = Accelerator(cpu=True, dataloader_config=config)
    batches: Any = tio.make_loader(documents.replace(batch_size=3))
    if loader == "DataLoader":
        batches = accelerator.prepare(DataLoader(documents, batch_size=3))
    for _ in range(2):
        steps = [step["input_ids"] for step in batches]
        seen = torch.cat(steps)
        assert sorted(seen[seen > 0].tolist()) == TOKENS
        assert {*map(len, steps[:-1])} == {3}


def test_accelerate_cannot_send_the_columns_of_documents(documents: tio.TFRecordDataset) -> None:
    """By default one process would read for all of them."""
    loader = Accelerator(cpu=True).prepare(DataLoader(documents, batch_size=3))
    with pytest.raises(ValueError, match="segment_lengths"):
        next(iter(loader))
