"""torchcodec's decoder of JPEGs on the CPU; PyTorch resizes, as torchvision's transforms do."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch.nn.functional import interpolate
from torchcodec.decoders import decode_jpeg

from benchmarks.image_data import SHORT_SIDE, SIZE
from benchmarks.image_peers.pillow import loader_of


def _decode(stored: bytes, recipe: str, box: Any) -> Any:
    image = decode_jpeg(stored)
    if recipe == "crop":
        top, left, height, width, is_mirrored = box
        image = _resized(image[:, top : top + height, left : left + width], (SIZE, SIZE))
        image = image.flip(-1) if is_mirrored else image
    elif recipe == "evaluate":
        scale = SHORT_SIDE / min(image.shape[1:])
        height, width = (int(side * scale) for side in image.shape[1:])
        top, left = round((height - SIZE) / 2), round((width - SIZE) / 2)
        image = _resized(image, (height, width))[:, top : top + SIZE, left : left + SIZE]
    return image.permute(1, 2, 0).numpy()


def _resized(image: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    return interpolate(image[None], size, mode="bilinear", antialias=True)[0]


PEERS = {"torchcodec in a DataLoader": partial(loader_of, decode=_decode)}
