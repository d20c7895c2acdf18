"""Decoders that are called from Python for each image of a map-style dataset, in a DataLoader."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from PIL import Image
from torch.utils.data import DataLoader, Dataset

from benchmarks.image_data import SHORT_SIDE, SIZE, Recipe, images_of

_BATCH = 64
_BILINEAR = Image.Resampling.BILINEAR


class _Images(Dataset[Any]):
    def __init__(self, recipe: Recipe, decode: Callable[[bytes, str, Any], Any]) -> None:
        self._recipe = recipe.name
        self._images = images_of(recipe)
        self._boxes = recipe.boxes.tolist()
        self._decode = decode

    def __len__(self) -> int:
        return len(self._images)

    def __getitem__(self, number: int) -> Any:
        return self._decode(self._images[number], self._recipe, self._boxes[number])


def loader_of(
    recipe: Recipe, threads: int, decode: Callable[[bytes, str, Any], Any]
) -> Callable[[], Iterable[Any]]:
    """Return a DataLoader without workers over images that a function decodes."""
    del threads  # a DataLoader without workers has one
    loader = DataLoader(_Images(recipe, decode), _BATCH, collate_fn=np.stack)
    return lambda: loader


def resized(image: Image.Image, recipe: str, box: Any) -> Any:
    """Resize a decoded image as torchvision's transforms of PIL images do."""
    if recipe == "crop":
        top, left, height, width, is_mirrored = box
        image = image.crop((left, top, left + width, top + height))
        pixels = np.asarray(image.resize((SIZE, SIZE), _BILINEAR))
        return pixels[:, ::-1] if is_mirrored else pixels
    if recipe == "evaluate":
        scale = SHORT_SIDE / min(image.size)
        width, height = (int(side * scale) for side in image.size)
        left, top = round((width - SIZE) / 2), round((height - SIZE) / 2)
        image = image.resize((width, height), _BILINEAR)
        image = image.crop((left, top, left + SIZE, top + SIZE))
    return np.asarray(image)


def _decode(stored: bytes, recipe: str, box: Any) -> Any:
    return resized(Image.open(io.BytesIO(stored)).convert("RGB"), recipe, box)


PEERS = {"Pillow in a DataLoader": partial(loader_of, decode=_decode)}
