"""SPDL: decoding and resizing by FFmpeg, which is asked for the box of an image."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import spdl.io

from benchmarks.image_data import SIZE, Recipe, images_of

_BATCH = 64


def _open(recipe: Recipe, threads: int) -> Callable[[], Iterable[Any]]:
    del threads
    return partial(_epoch, images_of(recipe), recipe.boxes.tolist())


def _epoch(images: list[bytes], boxes: list[list[int]]) -> Iterator[Any]:
    for at in range(0, len(images), _BATCH):
        pairs = zip(images[at : at + _BATCH], boxes[at : at + _BATCH], strict=True)
        yield np.stack([_decode(image, box) for image, box in pairs])


def _decode(image: bytes, box: list[int]) -> Any:
    top, left, height, width, is_mirrored = box
    filters = f"crop={width}:{height}:{left}:{top}:exact=1,scale={SIZE}:{SIZE}:flags=bilinear"
    filters += ",hflip" if is_mirrored else ""
    frames = spdl.io.decode_packets(
        spdl.io.demux_image(image), filter_desc=f"{filters},format=rgb24"
    )
    return spdl.io.to_numpy(spdl.io.convert_frames(frames))


PEERS = {"SPDL (FFmpeg)": _open}
