"""Images, label images and videos."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from tests.data.tfds_cases.build import Golden, dataset, picture

# Two frames, of 4 by 3 pixels.
GIF = bytes.fromhex(
    "47494638396104000300810000fa0a1400000000000000000021f904000a0000002c00000000040003000008080001081c"
    "485060400021f904010a0002002c00000000040003008100c85a0909ff0000000000000809000108141860e0c080003b"
)
# 4 by 3 pixels, the lowest row first.
BMP = bytes.fromhex(
    "424d5a0000000000000036000000280000000400000003000000010018000000000024000000c40e0000c40e0000"
    "0000000000000000" + "5ac800" * 5 + "ff0909" + "5ac800" * 6
)


def images_cases() -> Iterator[Golden]:
    """All datasets of images."""
    yield images()
    yield encoded()
    yield labeled()
    yield video()


def images() -> Golden:
    """Image of every dtype and number of channels, of known sizes and of any."""
    image = tfds.features.Image
    png: dict[str, Any] = {"encoding_format": "png"}
    features = {
        "plain": image(),
        "digit": image(shape=(6, 6, 1)),
        "rgb": image(shape=(5, 4, 3), **png),
        "rgba": image(shape=(None, None, 4), **png),
        "deep": image(shape=(None, None, 3), dtype=np.uint16, **png),
        "deep_gray": image(shape=(3, 5, 1), dtype=np.uint16, **png),
        "depth": image(shape=(None, None, 1), dtype=np.float32, **png),
        "depth_fixed": image(shape=(3, 2, 1), dtype=np.float32),
        "colored": image(shape=(4, 4, 1), use_colormap=True, **png),
    }
    records = []
    for n in range(3):
        record = {}
        for name, feature in features.items():
            height, width, channels = feature.shape
            shape = (height or 3 + n, width or 6 - n, channels)
            record[name] = picture(n, *shape, dtype=feature.np_dtype)
        for name in ("depth", "depth_fixed"):
            record[name] = (record[name] * 0.37 - n).astype(np.float32)
        records.append(record)
    return dataset("images", features, records, supervised_keys=("plain", "digit"))


def encoded() -> Golden:
    """JPEG, and images in files of other formats, channels and depths than the feature's."""
    image = tfds.features.Image
    features = {
        "jpeg": image(shape=(8, 8, 3), encoding_format="jpeg"),
        "jpeg_any": image(encoding_format="jpeg"),
        "jpeg_gray": image(shape=(None, None, 1), encoding_format="jpeg"),
        "gray_as_rgb": image(),
        "rgb_as_gray": image(shape=(None, None, 1)),
        "as_stored": image(shape=(None, None, None)),
        "gif": image(shape=(None, None, None, 3)),
        "bmp": image(),
        "byte_as_deep": image(shape=(None, None, 1), dtype=np.uint16, encoding_format="png"),
    }
    gradient = np.linspace(0, 255, 8 * 8 * 3).reshape(8, 8, 3).astype(np.uint8)
    gray = stored(picture(5, 3, 4, 1))
    rgb = stored(picture(6, 2, 5, 3))
    records = [
        {
            "jpeg": np.roll(gradient, n, 1),
            "jpeg_any": gradient[n:, 2 * n :],
            "jpeg_gray": gradient[:, n:, :1],
            "gray_as_rgb": gray,
            "rgb_as_gray": rgb,
            "as_stored": [gray, rgb][n],
            "gif": GIF,
            "bmp": BMP,
            "byte_as_deep": gray,
        }
        for n in range(2)
    ]
    return dataset("encoded", features, records)


def stored(pixels: np.ndarray[Any, Any]) -> bytes:
    """An image as the bytes of a PNG file."""
    feature = tfds.features.Image(shape=(None, None, pixels.shape[-1]), encoding_format="png")
    encoded: bytes = feature.encode_example(pixels)
    return encoded


def labeled() -> Golden:
    """LabeledImage: pixels that number classes."""
    image = tfds.features.LabeledImage
    features = {
        "mask": image(labels=["sky", "road", "car"], shape=(4, 4, 1)),
        "any": image(labels=["a", "b"]),
        "numbered": image(labels=7, shape=(None, None, 1)),
        "deep": image(labels=300, shape=(2, 2, 1), dtype=np.uint16, encoding_format="png"),
    }
    records = [
        {
            "mask": picture(n, 4, 4, 1) % 3,
            "any": picture(n, 2 + n, 3, 1) % 2,
            "numbered": picture(n, 3, 2, 1) % 7,
            "deep": picture(n, 2, 2, 1, dtype=np.uint16) % 300,
        }
        for n in range(2)
    ]
    return dataset("labeled", features, records)


def video() -> Golden:
    """Video, frames as arrays."""
    kinds: dict[str, dict[str, Any]] = {
        "clip": {"shape": (None, 4, 4, 3)},
        "fixed": {"shape": (2, 4, 3, 1)},
        "any": {"shape": (None, None, None, 3)},
        "jpeg": {"shape": (None, 8, 8, 3), "encoding_format": "jpeg"},
        "deep": {"shape": (None, 3, 3, 1), "dtype": np.uint16},
    }
    features = {name: tfds.features.Video(**kind) for name, kind in kinds.items()}
    gradient = np.linspace(0, 255, 2 * 8 * 8 * 3).reshape(2, 8, 8, 3).astype(np.uint8)
    records = [
        {
            "clip": picture(n, n, 4, 4, 3),
            "fixed": picture(n, 2, 4, 3, 1),
            "any": picture(n, n + 1, 3 + n, 5, 3),
            "jpeg": gradient[n:],
            "deep": picture(n, n + 1, 3, 3, 1, dtype=np.uint16),
        }
        for n in range(3)
    ]
    records[2]["jpeg"] = gradient[:1]
    return dataset("video", features, records)
