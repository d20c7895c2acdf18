"""FFCV: whole images are decoded by libjpeg-turbo and resized by OpenCV, in code made by Numba.

FFCV's own crops are random. This operation decodes as its ``ResizedCropRGBImageDecoder`` does, but
takes the boxes of the other peers. The file has the stored JPEGs, which FFCV would encode again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
from ffcv.fields import RGBImageField
from ffcv.fields.rgb_image import IMAGE_MODES, ResizedCropRGBImageDecoder
from ffcv.libffcv import imdecode, resize_crop
from ffcv.loader import Loader, OrderOption
from ffcv.pipeline.compiler import Compiler
from ffcv.writer import DatasetWriter

from benchmarks.image_data import HEIGHT, SIZE, WIDTH, Recipe, images_of

_BATCH = 64


class _StoredImage(RGBImageField):  # type: ignore[misc]  # has no types
    """Field that stores a JPEG unchanged."""

    def encode(self, destination: Any, image: bytes, malloc: Any) -> None:
        destination["mode"] = IMAGE_MODES["jpg"]
        destination["height"], destination["width"] = HEIGHT, WIDTH
        destination["data_ptr"], storage = malloc(len(image))
        storage[:] = np.frombuffer(image, np.uint8)


class _Boxes(ResizedCropRGBImageDecoder):  # type: ignore[misc]  # has no types
    """Decoder that cuts out given boxes."""

    def __init__(self, boxes: Any) -> None:
        super().__init__((SIZE, SIZE))
        self._boxes = boxes.astype(np.int64)

    @property
    def get_crop_generator(self) -> None:
        return None

    def generate_code(self) -> Callable[..., Any]:
        boxes, read, numbers = self._boxes, self.memory_read, Compiler.get_iterator()
        decode, resize = Compiler.compile(imdecode), Compiler.compile(resize_crop)

        def cut_out(batch: Any, memory: Any, fields: Any, state: Any) -> Any:
            pixels, decoded = memory
            for at in numbers(len(batch)):
                field, box = fields[batch[at]], boxes[batch[at]]
                height, width = np.uint32(field["height"]), np.uint32(field["width"])
                stored = read(field["data_ptr"], state)
                size = height, width, height, width
                decode(stored, decoded[at], *size, 0, 0, 1, 1, False, False)
                image = decoded[at][: 3 * height * width].reshape(height, width, 3)
                top, left = box[0], box[1]
                resize(image, top, top + box[2], left, left + box[3], pixels[at])
                if box[4]:
                    pixels[at] = pixels[at][:, ::-1].copy()
            return pixels[: len(batch)]

        cut_out.is_parallel = True  # type: ignore[attr-defined]
        return cut_out


def _open(recipe: Recipe, threads: int) -> Callable[[], Iterable[Any]]:
    path = recipe.records.replace(".tfrecord", ".beton")
    if not os.path.exists(path):
        writer = DatasetWriter(path + ".part", {"image": _StoredImage()}, num_workers=1)
        writer.from_indexed_dataset([(image,) for image in images_of(recipe)])
        os.replace(path + ".part", path)
    loader = Loader(
        path,
        _BATCH,
        num_workers=threads,
        order=OrderOption.SEQUENTIAL,
        os_cache=True,
        pipelines={"image": [_Boxes(recipe.boxes)]},
        custom_fields={"image": _StoredImage},
    )
    return lambda: _epoch(loader)


def _epoch(loader: Any) -> Iterator[Any]:
    for (batch,) in loader:
        yield batch


PEERS = {"FFCV": _open}
