"""webdataset: the same images in a tar file, decoded by Pillow, in a DataLoader."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
import webdataset as wds
from PIL import Image
from torch.utils.data import DataLoader

from benchmarks.image_data import Recipe, images_of
from benchmarks.image_peers.pillow import resized

_BATCH = 64


def _open(recipe: Recipe, threads: int) -> Callable[[], Iterable[Any]]:
    del threads  # a DataLoader without workers has one
    path = recipe.records.replace(".tfrecord", ".tar")
    if not os.path.exists(path):
        _copy(recipe, path)
    decode = partial(_decode, recipe.name, recipe.boxes.tolist())
    samples = wds.WebDataset(path, shardshuffle=False).map(decode)
    loader = DataLoader(samples, _BATCH, collate_fn=np.stack)
    return lambda: loader


def _decode(recipe: str, boxes: list[list[int]], members: dict[str, Any]) -> Any:
    image = Image.open(io.BytesIO(members["image"])).convert("RGB")
    return resized(image, recipe, boxes[int(members["__key__"])])


def _copy(recipe: Recipe, path: str) -> None:
    with wds.TarWriter(path + ".part") as writer:
        for number, image in enumerate(images_of(recipe)):
            writer.write({"__key__": f"{number:08}", "image": image})
    os.replace(path + ".part", path)


PEERS = {"webdataset and Pillow in a DataLoader": _open}
