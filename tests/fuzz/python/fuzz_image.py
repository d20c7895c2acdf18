"""Images: pixels of the promised shape, or an error of that image alone.

Input: options (1 byte), an image. With an option, checksums of PNG chunks are corrected first.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from PIL import Image

import torchrec_io as tio
from tests.fuzz.python.inputs import cut_options
from tests.support.examples import example_of
from tests.support.images import encoded, noise, oriented
from tests.support.pngs import png_of, wide_noise
from torchrec_io.errors import DecodeError

_REPAIRED = 128
_MOST_PIXELS = 1 << 16
_SPECS: tuple[Any, ...] = tuple(
    tio.ImageFeature(max_pixels=_MOST_PIXELS, **options)
    for options in (
        {},
        {"decoder": "pillow"},
        {"channels": 0},
        {"channels": 1, "dtype": "uint16", "layout": "HWC"},
        {"channels": 4, "dtype": "uint16"},
        {"animated": True},
        {"size": (5, 7), "apply_exif_orientation": True},
        {"size": (5, 7), "crop": (0, 0, 4, 4)},
        {"bitcast": True, "channels": 1, "dtype": "float32"},
        {"channels": 2},
        {"mixed": "pad", "dtype": "float32"},
        {"fast": True, "size": (2, 3), "resize": "cover", "short_side": 4},
        {"tf_compatible": True, "channels": 1, "layout": "HWC"},
        {"size": (4, 4), "dtype": "float16", "mean": (0.5,) * 3, "std": (0.2,) * 3},
        {"size": (6, 5), "resize": "contain", "augment": tio.RandomFlip(), "channels": 4},
        {"channels": 1, "palette": "index", "size": (5, 7), "filter": "nearest"},
        {"dtype": "uint16", "size": (5, 7), "filter": "nearest"},
    )
)
_GOOD = [encoded(noise(6, 9, 4, 1)), encoded(noise(6, 9), "JPEG")]


def check(data: bytes) -> None:
    (bits,), image = cut_options(data, 1)
    if bits & _REPAIRED:
        image = _with_right_checksums(image)
    feature = _SPECS[(bits & ~_REPAIRED) % len(_SPECS)]
    alone = _decode([image], feature)
    again = _decode([image], feature)
    assert (alone is None) == (again is None), "decoded only sometimes"
    if alone is None:
        return
    np.testing.assert_array_equal(alone[0], again[0] if again else None)
    pixels = alone[0]
    assert pixels.dtype == np.dtype(feature.dtype)
    assert pixels.size <= 4 * _MOST_PIXELS
    if feature.size is not None:
        wide = feature.size if feature.layout == "HWC" else (feature.channels, *feature.size)
        assert pixels.shape == wide
    _check_neighbours(image, feature, pixels)
    if feature.dtype == "uint16" and feature.channels == 1:
        _check_16_bits(image, pixels)


def _decode(images: list[bytes], feature: Any) -> list[Any] | None:
    """Return the pixels of images, or None if one of them is refused."""
    records = [example_of(image=[image]) for image in images]
    try:
        column = tio.parse_examples(records, {"image": feature})["image"]
    except DecodeError as error:
        assert error.feature == "image"
        assert error.record == len(images) // 2, "the error names another record"
        assert len(error.reason) < 1000, "the message repeats the input"
        return None
    return [value.numpy() for value in column]


def _check_neighbours(image: bytes, feature: Any, pixels: Any) -> None:
    """Check that images beside it do not change an image."""
    if feature.bitcast or feature.mixed == "pad" or feature.palette == "index":
        return  # these need images of one kind, or share a size
    if feature.crop or feature.animated or feature.augment:
        return
    together = _decode([_GOOD[0], image, _GOOD[1]], feature)
    assert together is not None
    np.testing.assert_array_equal(together[1], pixels)


def _check_16_bits(image: bytes, pixels: Any) -> None:
    """Compare gray pixels of 16 bits with Pillow's, which decodes these as they are."""
    is_gray = image[:8] == b"\x89PNG\r\n\x1a\n" and image[24:26] == b"\x10\0"
    if not is_gray:
        return
    try:
        with Image.open(io.BytesIO(image)) as opened:
            wanted = np.asarray(opened)
    except Exception:  # noqa: BLE001  # Pillow raises nearly anything
        return  # it refuses chunks that do not matter here
    np.testing.assert_array_equal(pixels[:, :, 0], wanted)


def _with_right_checksums(image: bytes) -> bytes:
    """Correct the checksum of each chunk of a PNG."""
    out = bytearray(image)
    at = 8
    while at + 12 <= len(out):
        end = at + 8 + int.from_bytes(out[at : at + 4], "big")
        if end + 4 > len(out):
            break
        out[end : end + 4] = zlib.crc32(out[at + 4 : end]).to_bytes(4, "big")
        at = end + 4
    return bytes(out)


def seeds() -> Iterator[bytes]:
    small = noise(9, 11)
    files = [encoded(small, kind) for kind in ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")]
    files += [
        encoded(small, "JPEG", progressive=True, quality=30),
        encoded(small, "JPEG", exif=oriented(6)),
        encoded(noise(8, 8, 1), "JPEG"),
        encoded(noise(8, 8, 4), "PNG"),
        encoded(Image.fromarray(small).convert("P"), "PNG"),
        encoded(Image.fromarray(small).convert("1"), "PNG"),
        encoded(Image.fromarray(small).convert("CMYK"), "JPEG"),
        png_of(wide_noise(4, 5, 1)),
        png_of(wide_noise(4, 5, 3)),
        png_of(wide_noise(3, 3, 4)),
    ]
    frames = [Image.fromarray(noise(5, 6, seed=seed)) for seed in range(3)]
    files.append(encoded(frames[0], "GIF", save_all=True, append_images=frames[1:]))
    for number, file in enumerate(files):
        for bits in {number % len(_SPECS), 0, 1}:
            yield bytes([bits]) + file
    for number in range(len(_SPECS)):
        yield bytes([number]) + files[0]
        yield bytes([number | _REPAIRED]) + files[14]
