"""A dataset of documents to pack, and the rows that a plain model makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import torchrec_io as tio
from tests.support.examples import example_of
from tests.support.packing import model_row, model_rows
from tests.support.tfrecord import write_tfrecord

SCHEMA = {
    "id": tio.FixedLenFeature([], "int64"),
    "tokens": tio.VarLenFeature("int64"),
    "weights": tio.RaggedFeature("float32"),
}
LENGTHS = np.random.default_rng(0).integers(1, 25, 60).tolist()
SHUFFLES = [False, True, 10, tio.Shuffle(block=4, window=9)]
LENGTH = 16
MODES = ["fit", "chunk"]


def tokens_of(number: int) -> list[int]:
    return [1000 * number + place for place in range(LENGTHS[number])]


def weights_of(number: int) -> list[float]:
    return [token / 2 for token in tokens_of(number)]


def record(number: int) -> bytes:
    return example_of(id=[number], tokens=tokens_of(number), weights=weights_of(number))


def write_documents(folder: Path) -> list[str]:
    """Write the documents to three files, of which one is empty."""
    records = [record(number) for number in range(len(LENGTHS))]
    parts = {"a": records[:25], "b": [], "c": records[25:]}
    return [str(write_tfrecord(folder / name, some)) for name, some in parts.items()]


def packed(**options: Any) -> tio.Pack:
    return tio.Pack(**{"length": LENGTH, "key": "tokens", "window": 20, **options})


def make(paths: Any, pack: tio.Pack | None = None, **options: Any) -> tio.TFRecordDataset:
    defaults = {"pack": pack or packed(), "batch_size": 3, "seed": 5, "uneven": "keep"}
    return tio.TFRecordDataset(paths, SCHEMA, **{**defaults, **options})


def rows_of(items: Any) -> list[Any]:
    """Return the tokens of all rows."""
    return [row for item in items for row in item["tokens"].tolist()]


def batches_of(items: Any) -> list[Any]:
    return [item["tokens"].tolist() for item in items]


def documents_of(dataset: Any, epoch: int = 0) -> list[int]:
    """Return the documents of an epoch in their order."""
    plain = dataset.replace(pack=None, batch_size=1)
    plain.set_epoch(epoch)
    return [int(batch["id"]) for batch in plain]


def expected_windows(documents: list[int], pack: tio.Pack) -> list[list[Any]]:
    windows = model_rows([LENGTHS[number] for number in documents], pack)
    return [
        [
            model_row(
                row, pack, lambda at: tokens_of(documents[at]), lambda at: weights_of(documents[at])
            )
            for row in window
        ]
        for window in windows
    ]
