"""Masks: images whose pixels are class numbers, which no filter may mix."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

import torchrec_io as tio
from tests.support.cover import pairs
from tests.support.images import (
    Pixels,
    decoded,
    encoded,
    noise,
    opened,
    oriented,
    write_images,
)
from tests.support.pngs import png_of, wide_noise
from torchrec_io.errors import DecodeError

SIZES = [(5, 7), (12, 9), (1, 1), (31, 40), (64, 3)]


def nearest(image: Image.Image, size: tuple[int, int], box: Any = None) -> list[Any]:
    """Resize an image as torchvision resizes images of Pillow with ``NEAREST``."""
    resized = image.resize(size[::-1], Image.Resampling.NEAREST, box=box)
    return np.asarray(resized).tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(("size", "decoder", "channels"), pairs(SIZES, ["auto", "pillow"], [1, 3]))
def test_the_nearest_pixels_are_pillow_s(
    size: tuple[int, int], decoder: Any, channels: int
) -> None:
    pixels = noise(23, 37, channels)
    image = Image.fromarray(pixels)
    for data in (encoded(image), encoded(image, "JPEG", quality=100, subsampling=0)):
        whole = Image.fromarray(np.squeeze(decoded(data, channels=channels, decoder=decoder)))
        options: dict[str, Any] = {"channels": channels, "decoder": decoder, "size": size}
        found = decoded(data, filter="nearest", **options)
        assert np.squeeze(found, 2 if channels == 1 else ()).tolist() == nearest(whole, size)


@pytest.mark.parametrize(("resize", "place"), [("cover", ImageOps.fit), ("contain", ImageOps.pad)])
def test_fitted_masks_are_pillow_s(resize: Any, place: Any) -> None:
    image = Image.fromarray(noise(23, 37, 1))
    for size in SIZES:
        found = decoded(encoded(image), channels=1, size=size, resize=resize, filter="nearest")
        expected = place(image, size[::-1], Image.Resampling.NEAREST)
        assert found[:, :, 0].tolist() == np.asarray(expected).tolist()


def test_the_nearest_pixels_are_those_of_torch() -> None:
    """``nearest-exact`` is what torchvision calls for Tensors; halfway pixels may differ."""
    pixels = noise(40, 60, 1)
    values = torch.from_numpy(pixels.copy())[None, None]
    for size in [(10, 20), (80, 120), (9, 16), (40, 17)]:
        found = decoded(encoded(pixels), channels=1, size=size, filter="nearest")
        expected = torch.nn.functional.interpolate(values, size, mode="nearest-exact")
        assert found[:, :, 0].tolist() == expected[0, 0].tolist()


def test_a_cropped_turned_and_mirrored_mask() -> None:
    pixels = noise(20, 30, 3)
    data = encoded(Image.fromarray(pixels), "JPEG", exif=oriented(6), quality=100)
    turned = np.rot90(decoded(data), 3)
    crop, flip = (3, 2, 20, 15), tio.RandomFlip(1)
    found = decoded(
        data, size=(7, 9), crop=crop, augment=flip, filter="nearest", apply_exif_orientation=True
    )
    part = Image.fromarray(np.ascontiguousarray(turned[3:23, 2:17]))
    expected = np.array(nearest(part, (7, 9)))
    assert found.tolist() == expected[:, ::-1].tolist()


@pytest.mark.parametrize("channels", [1, 3])
def test_masks_of_16_bits_are_resized(channels: int) -> None:
    pixels = wide_noise(40, 30, channels)
    options: dict[str, Any] = {"dtype": "uint16", "size": (10, 15), "filter": "nearest"}
    found = decoded(png_of(pixels), channels=channels, **options)
    # Four source rows become one, of which the middle is between the second and the third.
    assert found.tolist() == pixels[2::4, 1::2].tolist()


def test_resized_masks_of_every_dtype_and_kind() -> None:
    pixels = noise(40, 60, 4)
    options: dict[str, Any] = {"size": (20, 30), "filter": "nearest"}
    assert decoded(encoded(pixels), channels=4, **options).tolist() == pixels[1::2, 1::2].tolist()
    jpeg = encoded(noise(40, 60), "JPEG")
    expected = decoded(jpeg)[1::2, 1::2]
    wide = decoded(jpeg, dtype="uint16", **options)
    assert wide.tolist() == (expected.astype(np.uint16) * 256).tolist()
    floats = decoded(jpeg, dtype="float32", **options)
    assert floats.tolist() == (expected.astype(np.float32) * np.float32(1 / 255)).tolist()
    gif = encoded(noise(40, 60), "GIF")
    moving = decoded(gif, animated=True, **options)
    assert moving.tolist() == decoded(gif, animated=True)[:, 1::2, 1::2].tolist()


# ---- palettes ----


def with_palette(bits: int) -> tuple[Pixels, Image.Image]:
    """Return indices, and an image with them and a palette of colors."""
    indices = np.random.default_rng(bits).integers(0, 1 << bits, (9, 11), np.uint8)
    image = Image.fromarray(indices, "P")
    image.putpalette(np.random.default_rng(1).permutation(3 << bits).astype(np.uint8).tobytes())
    return indices, image


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_palettes_keep_their_indices(bits: int) -> None:
    indices, image = with_palette(bits)
    data = encoded(image, bits=bits)
    found = decoded(data, channels=1, palette="index")
    assert found[:, :, 0].tolist() == indices.tolist()
    assert found.tolist() != decoded(data, channels=1).tolist()


@pytest.mark.parametrize("kind", ["GIF", "BMP", "TIFF"])
def test_palettes_of_other_formats(kind: str) -> None:
    indices, image = with_palette(8)
    found = decoded(encoded(image, kind), channels=1, palette="index")
    if kind == "GIF":  # Pillow's writer renumbers the colors
        indices = np.asarray(opened(encoded(image, kind)))
    assert found[:, :, 0].tolist() == indices.tolist()


def test_a_transparent_index_is_an_index() -> None:
    indices, image = with_palette(8)
    found = decoded(encoded(image, transparency=0), channels=1, palette="index")
    assert found[:, :, 0].tolist() == indices.tolist()


def test_indices_are_cropped_resized_and_mirrored() -> None:
    indices, image = with_palette(8)
    options: dict[str, Any] = {"filter": "nearest", "augment": tio.RandomFlip(1)}
    found = decoded(
        encoded(image), channels=1, palette="index", size=(4, 5), crop=(1, 2, 8, 5), **options
    )
    assert found[:, :, 0].tolist() == indices[1:9, 2:7][1::2, ::-1].tolist()


@pytest.mark.parametrize("decoder", ["auto", "pillow"])
def test_gray_levels_are_class_numbers(decoder: Any) -> None:
    gray = noise(5, 6, 1)
    found = decoded(encoded(gray), channels=1, palette="index", decoder=decoder)
    assert found[:, :, 0].tolist() == gray.tolist()


def tiff_of_4_bits() -> bytes:
    """Return a TIFF of 2 x 1 gray pixels, which Pillow scales to 8 bits."""
    tags = [
        (256, 2),
        (257, 1),
        (258, 4),
        (259, 1),
        (262, 1),
        (273, 8),
        (277, 1),
        (278, 1),
        (279, 1),
    ]
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
    return b"II*\0" + struct.pack("<I", 10) + b"\x1f\0" + struct.pack("<H", 9) + entries + bytes(4)


@pytest.mark.parametrize(
    ("data", "got"),
    [
        (encoded(noise(5, 6)), "pixels of the mode 'RGB'"),
        (encoded(noise(5, 6, 4)), "pixels of the mode 'RGBA'"),
        (encoded(noise(5, 6), "JPEG"), "a JPEG, whose levels are not exact"),
        (encoded(noise(5, 6, 1), "JPEG"), "a JPEG, whose levels are not exact"),
        (encoded(Image.fromarray(noise(5, 6)).convert("1")), "gray levels of fewer bits"),
        (png_of(wide_noise(5, 6, 1)), "pixels of the mode 'I"),
        (tiff_of_4_bits(), "gray levels of fewer bits"),
    ],
)
def test_images_without_indices_are_refused(data: bytes, got: str) -> None:
    for decoder in ("auto", "pillow"):
        with pytest.raises(DecodeError, match=f"must have a palette, or gray .* got {got}"):
            decoded(data, channels=1, palette="index", decoder=decoder)


def test_class_numbers_of_the_right_size_need_no_filter() -> None:
    indices, image = with_palette(4)
    options: dict[str, Any] = {"size": (9, 11), "resize": None, "names": ["a"]}
    found = decoded(encoded(image, bits=4), channels=1, palette="index", **options)
    assert found[:, :, 0].tolist() == indices.tolist()


def test_the_decoders_of_indices_are_described(tmp_path: Path) -> None:
    path = write_images(tmp_path / "a", [encoded(noise(5, 6, 1))])
    for decoder, expected in (("auto", "most PNGs are decoded natively"), ("pillow", "by Pillow")):
        image = tio.ImageFeature(1, palette="index", decoder=decoder)  # type: ignore[arg-type]
        dataset = tio.TFRecordDataset(path, {"image": image}, batch_size=1)
        [line] = [
            each for each in tio.make_loader(dataset).describe().split("\n") if "images" in each
        ]
        assert expected in line
        assert "cannot detect" not in line
