"""Images with their own sizes and channels, float images, and animations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import torchrec_io as tio
from tests.support.cover import pairs
from tests.support.images import Pixels, column_of, decoded, encoded, noise, reason_of
from tests.support.pngs import png_of, wide_noise

# ---- resize=None ----

JPEG = encoded(noise(16, 24), "JPEG")


@pytest.mark.parametrize(
    ("decoder", "layout", "dtype"),
    pairs(["pillow", "native"], ["CHW", "HWC"], ["uint8", "float32"]),
)
def test_images_of_one_size_are_unchanged(decoder: Any, layout: Any, dtype: str) -> None:
    options: dict[str, Any] = {"decoder": decoder, "layout": layout, "dtype": dtype}
    for data in (JPEG, encoded(noise(16, 24))):
        column = column_of([data, data], size=(16, 24), resize=None, **options)
        expected = decoded(data, **options).tolist()
        assert column.tolist() == [expected, expected]


@pytest.mark.parametrize("decoder", ["pillow", "native"])
def test_images_of_another_size_are_rejected(decoder: Any) -> None:
    reason = reason_of(JPEG, size=(24, 16), resize=None, decoder=decoder)
    assert reason == "the image has 16 x 24 pixels, the schema wants 24 x 16"
    for size in ((8, 12), (32, 48), (16, 23)):
        assert "the schema wants" in reason_of(JPEG, size=size, resize=None, decoder=decoder)


def test_size_after_the_crop_counts() -> None:
    found = column_of([JPEG], size=(4, 5), resize=None, crop=(1, 2, 4, 5), layout="HWC")
    assert found[0].tolist() == decoded(JPEG)[1:5, 2:7].tolist()
    drawn = column_of([JPEG], size=(4, 5), resize=None, augment=tio.RandomCrop((4, 5)))
    assert tuple(drawn.shape) == (1, 3, 4, 5)


# ---- channels ----

MODES = {"L": 1, "1": 1, "LA": 2, "RGB": 3, "RGBA": 4, "P": 3}


@pytest.mark.parametrize("mode", MODES)
def test_stored_channels(mode: str) -> None:
    image = Image.fromarray(noise(5, 6, 4))
    image = image.convert("RGB").quantize(8) if mode == "P" else image.convert(mode)
    data = encoded(image)
    expected = np.asarray(image.convert({"P": "RGB", "1": "L"}.get(mode, mode)))
    expected = expected.reshape(5, 6, MODES[mode])
    assert decoded(data, channels=0).tolist() == expected.tolist()
    assert decoded(data, channels=0, layout="CHW").shape == (MODES[mode], 5, 6)


def test_each_image_has_its_own_channels() -> None:
    images = [encoded(noise(4, 4, channels)) for channels in (1, 3, 4)]
    for options in ({}, {"size": (2, 3)}, {"size": (4, 4), "resize": None}):
        column = column_of(images, channels=0, **options)
        assert [one.shape[0] for one in column] == [1, 3, 4]
    assert [one.shape[1:] for one in column_of(images, channels=0, size=(2, 3))] == [(2, 3)] * 3


def test_palette_with_a_transparent_color_has_four_channels() -> None:
    image = Image.fromarray(noise(5, 6)).quantize(8)
    assert decoded(encoded(image, transparency=0), channels=0).shape[2] == 4


@pytest.mark.parametrize(
    ("kind", "mode", "channels"),
    [("JPEG", "L", 1), ("JPEG", "RGB", 3), ("JPEG", "CMYK", 3), ("GIF", "L", 3), ("BMP", "RGB", 3)],
)
def test_channels_of_other_formats(kind: str, mode: str, channels: int) -> None:
    data = encoded(Image.fromarray(noise(16, 16)).convert(mode), kind)
    expected = decoded(data, channels=channels).tolist()
    assert decoded(data, channels=0).tolist() == expected
    if kind == "JPEG":
        assert decoded(data, channels=0, decoder="native").tolist() == expected


def test_gray_with_alpha() -> None:
    image = Image.fromarray(noise(5, 6, 4))
    for mode in ("L", "LA", "RGB", "RGBA", "P", "1", "CMYK"):
        data = encoded(image.convert(mode), "TIFF" if mode == "CMYK" else "PNG")
        found = decoded(data, channels=2)
        assert found[..., :1].tolist() == decoded(data, channels=1).tolist()
        assert found[..., 1:].tolist() == decoded(data, channels=4)[..., 3:].tolist()


# ---- floats in four channels ----

FLOATS = np.array([[1.5, -0.0, 3e38], [float("inf"), float("nan"), 1e-45]], np.float32)


def stored_floats(values: Any) -> bytes:
    pixels = np.ascontiguousarray(values).view(np.uint8).reshape(*values.shape, 4)
    return encoded(Image.fromarray(pixels, "RGBA"))


BITCAST: dict[str, Any] = {"channels": 1, "dtype": "float32", "bitcast": True}


@pytest.mark.parametrize(
    ("layout", "size"), [("CHW", {}), ("HWC", {"size": (2, 3), "resize": None})]
)
def test_floats_are_bitwise_equal(layout: Any, size: dict[str, Any]) -> None:
    column = column_of([stored_floats(FLOATS)] * 2, layout=layout, **size, **BITCAST)
    shape = (1, 2, 3) if layout == "CHW" else (2, 3, 1)
    for one in column:
        assert (tuple(one.shape), one.dtype) == (shape, torch.float32)
        assert one.numpy().tobytes() == FLOATS.tobytes()


def test_floats_need_four_channels_of_8_bits() -> None:
    rgba = Image.fromarray(noise(2, 3, 4))
    others = [
        encoded(noise(2, 3)),
        encoded(rgba.convert("LA")),
        encoded(rgba.convert("RGB").quantize(4), transparency=0),
        encoded(rgba, "WEBP", lossless=True),
        encoded(rgba, "TIFF"),
        png_of(wide_noise(2, 3, 4)),
        JPEG,
        b"",
    ]
    for data in others:
        for decoder in ("pillow", "native"):
            assert "for bitcast" in reason_of(data, decoder=decoder, **BITCAST)
    assert "max_pixels" in reason_of(stored_floats(FLOATS), max_pixels=5, **BITCAST)
    assert "wants 3 x 2" in reason_of(stored_floats(FLOATS), size=(3, 2), resize=None, **BITCAST)


# ---- frames ----


def gif_of(frames: list[Pixels], **options: Any) -> bytes:
    first, *others = (Image.fromarray(frame) for frame in frames)
    return encoded(first, "GIF", save_all=True, append_images=others, disposal=1, **options)


def flat(*colors: tuple[int, int, int], height: int = 4, width: int = 6) -> list[Pixels]:
    return [np.full((height, width, 3), color, np.uint8) for color in colors]


FRAMES = flat((255, 0, 0), (0, 255, 0), (0, 0, 255))
GIF = gif_of(FRAMES)


@pytest.mark.parametrize("layout", ["CHW", "HWC"])
def test_all_frames_are_read(layout: Any) -> None:
    [found, one, still] = column_of(
        [GIF, gif_of(FRAMES[:1]), encoded(FRAMES[0])], animated=True, layout=layout
    )
    axes = (0, 3, 1, 2) if layout == "CHW" else (0, 1, 2, 3)
    assert found.tolist() == np.stack(FRAMES).transpose(axes).tolist()
    assert one.tolist() == still.tolist() == found[:1].tolist()
    jpeg = column_of([JPEG], animated=True, decoder="native", layout=layout)[0]
    assert jpeg.tolist() == [decoded(JPEG, layout=layout).tolist()]


def test_frames_are_drawn_over_previous_frames() -> None:
    moving = [frame.copy() for frame in flat(*[(0, 0, 0)] * 3)]
    moving[1][1, 2] = 255
    moving[2][1, 2] = 255
    moving[2][3, 5] = 255
    assert column_of([gif_of(moving)], animated=True, layout="HWC")[0].tolist() == [
        frame.tolist() for frame in moving
    ]


def test_frames_are_cropped_and_resized_like_images() -> None:
    options: dict[str, Any] = {"crop": (0, 0, 2, 4), "size": (1, 3), "layout": "HWC"}
    [found] = column_of([GIF], animated=True, **options)
    assert found.tolist() == [decoded(encoded(frame), **options).tolist() for frame in FRAMES]
    [contained] = column_of([GIF], animated=True, size=(6, 6), resize="contain", fill=9)
    assert (tuple(contained.shape), contained[2, 0, 0, 0].item()) == ((3, 3, 6, 6), 9)
    [stored] = column_of([encoded(FRAMES[0])], channels=0, size=(6, 6), resize="contain", fill=9)
    assert (tuple(stored.shape), stored[2, 0, 0].item()) == ((3, 6, 6), 9)
    [floats] = column_of([GIF], animated=True, dtype="float32")
    assert floats[1, 1].tolist() == [[1.0] * 6] * 4


def test_frames_count_as_pixels() -> None:
    reason = reason_of(GIF, animated=True, max_pixels=71)
    assert reason == "the image claims 3 frames of 6 x 4 pixels, more than max_pixels=71"
    assert len(column_of([GIF], animated=True, max_pixels=72)[0]) == 3


def test_every_truncation_of_a_gif_is_rejected() -> None:
    assert GIF.endswith(b";")
    for size in range(len(GIF)):
        assert "cannot be decoded" in reason_of(GIF[:size], animated=True)
    assert len(column_of([GIF + b"\0\0"], animated=True)[0]) == 3
    assert "block of an unknown kind" in reason_of(GIF[:-1] + b"\1", animated=True)


def test_comment_is_not_a_frame() -> None:
    assert len(column_of([gif_of(FRAMES, comment=b"x" * 300)], animated=True)[0]) == 3


def test_videos_in_a_sequence() -> None:
    feature = tio.SequenceFeature(tio.ImageFeature(animated=True, layout="HWC"))
    record = tio.encode_example({"x": [GIF, GIF]})
    batch = tio.parse_examples([record, tio.encode_example({"y": 1})], {"x": feature})
    assert [tuple(one.shape) for one in batch["x"]] == [(2, 3, 4, 6, 3), (0, 0, 0, 0, 3)]
