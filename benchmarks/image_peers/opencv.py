"""OpenCV, with a resize that is not antialiased (its default) and one that is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import cv2
import numpy as np

from benchmarks.image_data import SHORT_SIDE, SIZE, Recipe
from benchmarks.image_peers.pillow import loader_of

cv2.setNumThreads(1)


def _open(recipe: Recipe, threads: int, interpolation: int) -> Callable[[], Iterable[Any]]:
    return loader_of(recipe, threads, partial(_decode, interpolation))


def _decode(interpolation: int, stored: bytes, recipe: str, box: Any) -> Any:
    flags = cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
    image = cv2.cvtColor(cv2.imdecode(np.frombuffer(stored, np.uint8), flags), cv2.COLOR_BGR2RGB)
    if recipe == "crop":
        top, left, height, width, is_mirrored = box
        part = image[top : top + height, left : left + width]
        part = cv2.resize(part, (SIZE, SIZE), interpolation=interpolation)
        return part[:, ::-1] if is_mirrored else part
    if recipe == "evaluate":
        scale = SHORT_SIDE / min(image.shape[:2])
        height, width = (int(side * scale) for side in image.shape[:2])
        left, top = round((width - SIZE) / 2), round((height - SIZE) / 2)
        image = cv2.resize(image, (width, height), interpolation=interpolation)
        return image[top : top + SIZE, left : left + SIZE]
    return image


PEERS = {
    "OpenCV in a DataLoader": partial(_open, interpolation=cv2.INTER_LINEAR),
    "OpenCV in a DataLoader, INTER_AREA": partial(_open, interpolation=cv2.INTER_AREA),
}
