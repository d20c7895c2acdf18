"""This library, with its own decoder or Pillow. Images are decoded by as many threads as CPUs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import torchrec_io as tio
from benchmarks.image_data import MEAN, SEED, SHORT_SIDE, SIZE, STD, Recipe

_BATCH = 64
_NORMALIZED = {"dtype": "float32", "mean": MEAN, "std": STD, "layout": "CHW"}
_ARGUMENTS: dict[str, dict[str, Any]] = {
    "crop": {"augment": tio.RandomResizedCrop()},
    "train": {"augment": tio.RandomResizedCrop(), **_NORMALIZED},
    "evaluate": {"short_side": SHORT_SIDE, "resize": "cover"},
}


def _open(recipe: Recipe, threads: int, **options: Any) -> Callable[[], Iterable[Any]]:
    arguments = {"layout": "HWC", **_ARGUMENTS.get(recipe.name, {}), **options}
    image = tio.ImageFeature(size=(SIZE, SIZE), **arguments)
    dataset = tio.TFRecordDataset(
        recipe.records, {"image": image}, batch_size=_BATCH, seed=SEED, num_threads=threads
    )
    return partial(_epoch, dataset)


def _epoch(dataset: tio.TFRecordDataset) -> Iterator[Any]:
    dataset.set_epoch(0)  # the boxes of the other peers are those of this epoch
    for batch in dataset:
        yield batch["image"]


PEERS = {
    "torchrec_io": _open,
    "torchrec_io, fast=True": partial(_open, fast=True),
    'torchrec_io, decoder="pillow"': partial(_open, decoder="pillow"),
}
