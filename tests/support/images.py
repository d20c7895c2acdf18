"""Image files, and their expected pixels."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

import torchrec_io as tio
from tests.support.tfrecord import write_tfrecord
from tests.support.wire import bytes_feature, entry, example, int_feature
from torchrec_io.errors import DecodeError

Pixels = npt.NDArray[np.uint8]
MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def noise(height: int, width: int, channels: int = 3, seed: int = 0) -> Pixels:
    """Return random pixels, without a last axis for one channel."""
    shape = (height, width) if channels == 1 else (height, width, channels)
    return np.random.default_rng([seed, *shape]).integers(0, 256, shape, np.uint8)


def smooth(height: int, width: int, seed: int = 0) -> Pixels:
    """Return pixels that change slowly, like photographs."""
    few = Image.fromarray(noise(height // 16 + 2, width // 16 + 2, seed=seed))
    return np.asarray(few.resize((width, height), Image.Resampling.BICUBIC))


def encoded(image: Image.Image | Pixels, kind: str = "PNG", **options: Any) -> bytes:
    """Encode an image file."""
    if not isinstance(image, Image.Image):
        image = Image.fromarray(image)
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def opened(data: bytes) -> Image.Image:
    """Open an image with Pillow."""
    with Image.open(io.BytesIO(data)) as image:
        image.load()
        return image


def oriented(orientation: int) -> Image.Exif:
    """Return EXIF data with an orientation."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


def record_of(data: bytes, number: int = 0) -> bytes:
    """Return an Example with an image and a number."""
    return example(entry("image", bytes_feature(data)), entry("id", int_feature(number)))


def column_of(images: list[bytes], **options: Any) -> Any:
    """Decode images in one batch."""
    schema = {"image": tio.ImageFeature(**options)}
    return tio.parse_examples([record_of(data) for data in images], schema)["image"]


def decoded(data: bytes, **options: Any) -> Pixels:
    """Decode an image, by default to ``[H, W, C]``."""
    [image] = column_of([data], **{"layout": "HWC", **options})
    pixels: Pixels = image.numpy()
    return pixels


def reason_of(data: bytes, **options: Any) -> str:
    """Return the reason why an image is refused."""
    with pytest.raises(DecodeError) as caught:
        column_of([data], **options)
    assert caught.value.feature == "image"
    return caught.value.reason


def write_images(path: Any, images: list[bytes]) -> str:
    """Write a file with a record for each image, numbered from 0."""
    write_tfrecord(path, [record_of(data, number) for number, data in enumerate(images)])
    return str(path)
