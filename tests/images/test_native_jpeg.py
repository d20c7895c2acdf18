"""Native decoding of JPEGs, compared with Pillow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import simplejpeg
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import torchrec_io as tio
from tests.support.images import (
    column_of,
    decoded,
    encoded,
    noise,
    opened,
    oriented,
    smooth,
)
from torchrec_io.errors import DecodeError

Pixels = Any


@st.composite
def jpegs(draw: st.DrawFn) -> bytes:
    """Draw a JPEG of any kind that encoders write."""
    height, width = draw(st.integers(1, 90)), draw(st.integers(1, 90))
    seed = draw(st.integers(0, 9))
    image = (smooth if draw(st.booleans()) else noise)(height, width, seed=seed)
    quality = draw(st.sampled_from([10, 50, 90, 100]))
    if draw(st.booleans()):  # Pillow does not write 4:4:0 and 4:1:1
        sampling = draw(st.sampled_from(["444", "422", "420", "440", "411", "Gray"]))
        pixels = np.ascontiguousarray(image)
        return bytes(simplejpeg.encode_jpeg(pixels, quality=quality, colorsubsampling=sampling))
    mode = draw(st.sampled_from(["RGB", "RGB", "L", "CMYK"]))
    options: dict[str, Any] = {"progressive": draw(st.booleans())}
    if draw(st.booleans()):
        options["restart_marker_blocks"] = draw(st.integers(1, 20))
    if mode == "RGB":
        # Pillow refuses to subsample RGB.
        options["subsampling"] = draw(st.sampled_from(["4:4:4", "4:2:2", "4:2:0"]))
        options["keep_rgb"] = options["subsampling"] == "4:4:4" and draw(st.booleans())
    return encoded(Image.fromarray(image).convert(mode), "JPEG", quality=quality, **options)


@st.composite
def geometries(draw: st.DrawFn, height: int, width: int) -> dict[str, Any]:
    """Draw the part of an image that is used, and its size."""
    options: dict[str, Any] = {}
    if draw(st.booleans()):
        top, left = draw(st.integers(0, height - 1)), draw(st.integers(0, width - 1))
        rows, columns = draw(st.integers(1, height - top)), draw(st.integers(1, width - left))
        options["crop"] = (top, left, rows, columns)
    if draw(st.booleans()):
        options["size"] = draw(st.tuples(st.integers(1, 120), st.integers(1, 120)))
        options["resize"] = draw(st.sampled_from(["stretch", "cover", "contain"]))
        if options["resize"] == "cover" and draw(st.booleans()):
            options["short_side"] = max(options["size"]) + draw(st.integers(0, 50))
    return options


@given(st.data())
def test_pixels_are_those_of_pillow(data: st.DataObject) -> None:
    """Equal at full size, and within one level where images are resized."""
    jpeg = data.draw(jpegs())
    image = opened(jpeg)
    options = data.draw(geometries(image.height, image.width))
    options["channels"] = data.draw(st.sampled_from([1, 2, 3, 4, 0]))
    options["layout"] = data.draw(st.sampled_from(["CHW", "HWC"]))
    found = decoded(jpeg, decoder="native", **options).astype(int)
    by_pillow = decoded(jpeg, decoder="pillow", **options).astype(int)
    assert found.shape == by_pillow.shape
    assert np.abs(found - by_pillow).max() <= ("size" in options)


def worst_stripes(width: int) -> Pixels:
    """Return a row whose average shows the rounding of weights of 14 bits."""
    exact = 1 - np.abs(np.arange(width) + 0.5 - width / 2) / width
    exact *= (1 << 14) / exact.sum()
    rounded = np.diff(np.floor(exact.cumsum() + 0.5), prepend=0)
    return np.where(rounded > exact, 255, 0).astype(np.uint8)


@pytest.mark.parametrize(
    ("file_format", "orientation", "channels"), [("JPEG", 1, 1), ("JPEG", 6, 3), ("PNG", 1, 3)]
)
def test_images_that_shrink_much(file_format: str, orientation: int, channels: int) -> None:
    stripes = np.tile(worst_stripes(2400), (8, 1))
    image = Image.fromarray(stripes).convert("RGB")
    data = encoded(image, "PNG")
    if file_format == "JPEG":
        exif = oriented(orientation)
        data = encoded(image, "JPEG", quality=100, subsampling="4:4:4", exif=exif)
    size = (8, 1) if orientation == 1 else (1, 8)
    options: dict[str, Any] = {"size": size, "channels": channels, "dtype": "float32"}
    options |= {"apply_exif_orientation": orientation != 1, "augment": tio.RandomFlip(flip=1)}
    found = decoded(data, decoder="native", **options)
    by_pillow = decoded(data, decoder="pillow", **options)
    np.testing.assert_allclose(found, by_pillow, rtol=0, atol=1.01 / 255)


@given(st.data(), st.integers(1, 8), st.booleans())
def test_rotated_and_mirrored_images(
    data: st.DataObject,
    orientation: int,
    mirrored: bool,
) -> None:
    array = smooth(data.draw(st.integers(1, 60)), data.draw(st.integers(1, 60)))
    jpeg = encoded(array, "JPEG", exif=oriented(orientation))
    rotated = Image.fromarray(array).size[:: -1 if orientation < 5 else 1]
    options = data.draw(geometries(*rotated))
    options["apply_exif_orientation"] = True
    if mirrored:
        options["augment"] = mirror
    found = decoded(jpeg, decoder="native", **options).astype(int)
    by_pillow = decoded(jpeg, decoder="pillow", **options).astype(int)
    assert np.abs(found - by_pillow).max() <= ("size" in options)


def mirror(height: int, width: int, rng: np.random.Generator) -> tio.Crop:
    del rng
    return tio.Crop(0, 0, height, width, flip=True)


def test_augments_choose_the_same_parts_with_both_decoders() -> None:
    jpeg = encoded(smooth(90, 120), "JPEG")
    for augment in (tio.RandomResizedCrop(), tio.RandomCrop((40, 50)), tio.RandomFlip()):
        options: dict[str, Any] = {"size": (32, 32), "augment": augment}
        found = column_of([jpeg] * 20, decoder="native", **options)
        by_pillow = column_of([jpeg] * 20, decoder="pillow", **options)
        assert len({image.numpy().tobytes() for image in found}) > 1
        assert (found.int() - by_pillow.int()).abs().max() <= 1


# ---- values ----


@pytest.mark.parametrize(
    ("dtype", "layout", "kind"),
    [
        ("float32", "CHW", "JPEG"),
        ("float64", "HWC", "PNG"),
        ("float16", "HWC", "JPEG"),
        ("bfloat16", "CHW", "PNG"),
    ],
)
def test_normalized_values(dtype: str, layout: Any, kind: str) -> None:
    """They are those of torchvision's ToDtype and Normalize: each step in float32."""
    data = encoded(noise(20, 30), kind)
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
    options: dict[str, Any] = {"size": (20, 30), "layout": layout}
    levels = column_of([data], **options).float()
    found = column_of([data], **options, dtype=dtype, mean=mean, std=std)
    axes = (1, -1, 1, 1) if layout == "CHW" else (1, 1, 1, -1)
    expected = levels * torch.tensor(1 / 255)
    expected = (expected - torch.tensor(mean).reshape(axes)) / torch.tensor(std).reshape(axes)
    assert found.dtype == getattr(torch, dtype)
    assert torch.equal(found, expected.to(found.dtype))


def test_normalized_values_around_images() -> None:
    options: dict[str, Any] = {"size": (40, 20), "resize": "contain", "fill": 51}
    data = encoded(noise(20, 20), "JPEG")
    image = column_of([data], **options, dtype="float32", mean=(0.5, 0.2, 0.1))[0]
    assert image[:, 0, 0].tolist() == pytest.approx([-0.3, 0.0, 0.1], abs=1e-6)


# ---- the evaluation recipe ----


@given(st.integers(20, 90), st.integers(20, 90), st.sampled_from(["native", "pillow"]))
def test_short_side_is_resize_and_center_crop(height: int, width: int, decoder: Any) -> None:
    """As torchvision computes the sizes, by Pillow's resize and crop."""
    jpeg = encoded(smooth(height, width), "JPEG")
    image = opened(jpeg)
    short = 32
    size = (short, int(short * width / height))
    if height > width:
        size = (int(short * height / width), short)
    resized = image.resize(size[::-1], Image.Resampling.BILINEAR)
    top, left = round((size[0] - 28) / 2.0), round((size[1] - 24) / 2.0)
    expected = np.asarray(resized)[top : top + 28, left : left + 24].astype(int)
    found = decoded(jpeg, size=(28, 24), resize="cover", short_side=short, decoder=decoder)
    assert np.abs(found.astype(int) - expected).max() <= 1


# ---- damage ----


def test_only_damage_of_the_used_rows_matters() -> None:
    """Rows below those that are used are not decoded."""
    jpeg = encoded(noise(160, 160), "JPEG", quality=90)
    at = len(jpeg) * 9 // 10
    damaged = jpeg[:at] + b"\xff\x00" * 20 + jpeg[at + 40 :]
    with pytest.raises(DecodeError, match="Corrupt JPEG data"):
        decoded(damaged)
    top = decoded(damaged, crop=(0, 0, 80, 160))
    assert top.tolist() == decoded(jpeg)[:80].tolist()


def test_bytes_after_the_pixels_are_harmless() -> None:
    """Some files of well-known datasets have them, and every decoder ignores them."""
    jpeg = encoded(smooth(64, 64), "JPEG")
    assert decoded(jpeg[:-2] + b"\0" * 300 + jpeg[-2:]).tolist() == decoded(jpeg).tolist()
