"""Raw arrays and images."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import torchrec_io as tio
from tests.support.wire import bytes_feature, entry, example, int_feature
from torchrec_io.errors import DecodeError

INTEGERS = ["int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"]
NUMBERS = [*INTEGERS, "float32", "float64", "float16", "bfloat16"]


def raw_example(data: bytes, *shape: int, key: str = "x") -> bytes:
    return example(entry(key, bytes_feature(data)), entry("shape", int_feature(*shape)))


# ---- RawFeature ----


@pytest.mark.parametrize(
    ("dtype", "size"), [("int32", 7), ("int32", 9), ("int32", 0), ("uint8", 3)]
)
def test_a_raw_array_of_another_size_is_refused(dtype: Any, size: int) -> None:
    good, bad = raw_example(bytes(8)), raw_example(bytes(size))
    shape = [2] if dtype == "int32" else [8]
    with pytest.raises(DecodeError, match=f"has {size} bytes, the schema wants 8") as caught:
        tio.parse_examples([good, bad], {"x": tio.RawFeature(dtype, shape)})
    assert (caught.value.record, caught.value.feature) == (1, "x")


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ((3,), "has 8 bytes, its shape .3. of int32 needs 12"),
        ((), "has 8 bytes, its shape .. of int32 needs 4"),
        ((-2,), "negative size"),
        ((0, -1), "negative size"),
        ((2**62,) * 50_000, "its shape"),  # in no time
        ((-1, -2), "negative size"),
        ((2, -1), "negative size"),
        ((0,), "needs 0"),
        ((2**62, 2), "its shape"),
        ((2**32, 2**32), "its shape"),  # 0 if it wrapped around at 64 bits
        ((2**31, 2**31, 2), "its shape"),
        ((2**63 - 1, 2), "its shape"),
    ],
)
def test_a_raw_array_that_does_not_fill_its_shape_is_refused(
    shape: tuple[int, ...], reason: str
) -> None:
    records = [raw_example(bytes(8), 2), raw_example(bytes(8), *shape)]
    with pytest.raises(DecodeError, match=reason) as caught:
        tio.parse_examples(records, {"x": tio.RawFeature("int32", shape_key="shape")})
    assert (caught.value.record, caught.value.feature) == (1, "x")


@pytest.mark.parametrize(
    "shape",
    [(0, 2**62), (2**62, 0, 4), (0, 2**32, 2**32), (2**63 - 1, 2**63 - 1, 0), (0, 2**63 - 1)],
)
def test_an_empty_array_of_an_impossible_shape_is_refused(shape: tuple[int, ...]) -> None:
    # Its 0 bytes fill the shape, but no tensor can have it.
    with pytest.raises(DecodeError, match="its shape") as caught:
        tio.parse_examples(
            [raw_example(b"", *shape)], {"x": tio.RawFeature("int32", shape_key="shape")}
        )
    assert caught.value.feature == "x"


def test_shapes_of_very_many_dimensions() -> None:
    for rank in (8, 64, 65, 1000):
        record = raw_example(b"ab", *[1] * (rank - 1), 2)
        batch = tio.parse_examples([record], {"x": tio.RawFeature("uint8", None, "shape")})
        assert batch["x"][0].shape == (*[1] * (rank - 1), 2)


def test_a_raw_array_without_its_shape_or_data_is_refused() -> None:
    feature = {"x": tio.RawFeature("uint8", shape_key="shape")}
    no_shape = example(entry("x", bytes_feature(b"ab")))
    with pytest.raises(DecodeError, match=r"its shape .. of uint8 needs 1"):
        tio.parse_examples([no_shape], feature)
    no_data = example(entry("shape", int_feature(2)))
    with pytest.raises(DecodeError, match="required"):
        tio.parse_examples([no_data], feature)
    float_shape = example(entry("x", bytes_feature(b"ab")), entry("shape", bytes_feature(b"2")))
    with pytest.raises(DecodeError, match="wants int64, in the stored feature 'shape'") as caught:
        tio.parse_examples([float_shape], feature)
    assert caught.value.feature == "x"


@pytest.mark.parametrize("byte", [2, 3, 128, 255])
@pytest.mark.parametrize("shape", [{"shape": [3]}, {"shape_key": "shape"}])
def test_a_bool_is_zero_or_one(byte: int, shape: dict[str, Any]) -> None:
    feature = tio.RawFeature("bool", **shape)
    good = raw_example(b"\x00\x01\x01", 3)
    assert tio.parse_examples([good], {"x": feature})["x"][0].tolist() == [False, True, True]
    bad = raw_example(bytes([1, 0, byte]), 3)
    with pytest.raises(DecodeError, match="neither 0 nor 1") as caught:
        tio.parse_examples([good, good, bad], {"x": feature})
    assert (caught.value.record, caught.value.feature) == (2, "x")


# ---- ImageFeature ----

Pixels = npt.NDArray[np.uint8]
RANDOM = np.random.default_rng(0)


def pixels(height: int = 5, width: int = 7, channels: int = 3) -> Pixels:
    shape = (height, width) if channels == 1 else (height, width, channels)
    return RANDOM.integers(0, 256, shape, np.uint8)


def encoded(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def image_example(data: bytes) -> bytes:
    return example(entry("image", bytes_feature(data)))


def decode(data: bytes, feature: tio.ImageFeature) -> torch.Tensor:
    [image] = tio.parse_examples([image_example(data)], {"image": feature})["image"]
    assert isinstance(image, torch.Tensor)
    return image


def test_of_an_animation_the_first_frame_counts() -> None:
    frames = [Image.new("P", (4, 3), color) for color in (0, 1, 2)]
    for frame in frames:
        frame.putpalette([10, 20, 30, 40, 50, 60, 70, 80, 90])
    data = encoded(frames[0], "GIF", save_all=True, append_images=frames[1:])
    image = decode(data, tio.ImageFeature(layout="HWC"))
    assert image.tolist() == [[[10, 20, 30]] * 4] * 3


MODES: dict[str, Image.Image] = {
    "L": Image.fromarray(pixels(channels=1)),
    "RGB": Image.fromarray(pixels()),
    "RGBA": Image.fromarray(pixels(channels=4)),
    "LA": Image.fromarray(pixels(channels=4)).convert("LA"),
    "1": Image.fromarray(pixels(channels=1)).convert("1"),
    "P": Image.fromarray(pixels()).quantize(8),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_every_mode_becomes_the_requested_channels(mode: str, channels: Literal[1, 3, 4]) -> None:
    image = MODES[mode]
    assert image.mode == mode
    expected = np.asarray(image.convert({1: "L", 3: "RGB", 4: "RGBA"}[channels]))
    found = decode(encoded(image), tio.ImageFeature(channels, layout="HWC"))
    assert found.shape == (5, 7, channels)
    assert found.tolist() == expected.reshape(5, 7, channels).tolist()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("size", [None, (5, 7)])
def test_floats_go_from_zero_to_one(dtype: Any, size: tuple[int, int] | None) -> None:
    array = pixels()
    array[0, 0], array[0, 1] = 0, 255
    feature = tio.ImageFeature(dtype=dtype, layout="HWC", size=size)
    found = decode(encoded(Image.fromarray(array)), feature)
    assert found.dtype == getattr(torch, dtype)
    assert found[0, 0].tolist() == [0, 0, 0]
    assert found[0, 1].tolist() == [1, 1, 1]
    expected = torch.from_numpy(array).to(torch.float64) / 255
    close = {"float16": 1e-3, "float32": 1e-6, "float64": 1e-6}[dtype]
    assert torch.allclose(found.to(torch.float64), expected, rtol=0, atol=close)


@pytest.mark.parametrize("layout", ["CHW", "HWC"])
@pytest.mark.parametrize("channels", [1, 3])
def test_a_size_makes_one_tensor(layout: Any, channels: Any) -> None:
    images = [Image.fromarray(pixels(*shape)) for shape in [(5, 7), (20, 3), (6, 4)]]
    feature = tio.ImageFeature(channels, layout=layout, size=(6, 4))
    records = [image_example(encoded(image)) for image in images]
    column = tio.parse_examples(records, {"image": feature})["image"]
    for row, image in zip(column, images, strict=True):
        resized = image.convert("L" if channels == 1 else "RGB").resize(
            (4, 6), Image.Resampling.BILINEAR
        )
        expected = np.asarray(resized).reshape(6, 4, channels)
        if layout == "CHW":
            expected = expected.transpose(2, 0, 1)
        # Images that are decoded natively may differ by a level once they are resized.
        np.testing.assert_allclose(row.numpy(), expected, rtol=0, atol=1)


def test_without_a_size_there_is_a_list() -> None:
    arrays = [pixels(5, 7), pixels(20, 3), pixels(1, 1)]
    records = [image_example(encoded(Image.fromarray(array))) for array in arrays]
    column = tio.parse_examples(records, {"image": tio.ImageFeature(layout="HWC")})["image"]
    assert [image.tolist() for image in column] == [array.tolist() for array in arrays]
    assert tio.parse_examples([], {"image": tio.ImageFeature()})["image"] == []
    sized = tio.parse_examples([], {"image": tio.ImageFeature(size=(2, 3))})["image"]
    assert sized.shape == (0, 3, 2, 3)


# ---- images that are none ----


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(size: tuple[int, int], rows: bytes, depth: int = 8, color: int = 0) -> bytes:
    header = struct.pack(">IIBBBBB", *size, depth, color, 0, 0, 0)
    return b"".join(
        [
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", header),
            chunk(b"IDAT", zlib.compress(rows)),
            chunk(b"IEND", b""),
        ]
    )


def bmp(width: int, height: int) -> bytes:
    """The header of a BMP file that claims to be large."""
    info = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, 0, 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54, 0, 0, 54) + info + bytes(100)


def gif(width: int, height: int) -> bytes:
    """A GIF file whose screen claims to be large."""
    small = bytearray(encoded(Image.new("L", (1, 1)), "GIF"))
    small[6:10] = struct.pack("<HH", width, height)
    return bytes(small)


BOMBS = {
    "png": png((30_000, 30_000), b"\0" * 100),
    "huge png": png((2**31 - 1, 2**31 - 1), b"\0" * 100),
    "bmp": bmp(30_000, 30_000),
    "gif": gif(60_000, 60_000),
}


@pytest.mark.parametrize("data", BOMBS.values(), ids=BOMBS)
@pytest.mark.parametrize("size", [None, (4, 4)])
def test_bombs_are_refused_before_they_are_decoded(
    data: bytes, size: tuple[int, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_decoding(*_: Any, **__: Any) -> None:
        raise AssertionError("the image was decoded")

    monkeypatch.setattr("torchrec_io._images.decode._render", no_decoding)
    with pytest.raises(DecodeError, match=r"pixels|exceeds limit") as caught:
        decode(data, tio.ImageFeature(size=size))
    assert (caught.value.record, caught.value.feature) == (0, "image")
    assert "was decoded" not in str(caught.value)


def test_the_most_pixels_can_be_set() -> None:
    data = encoded(Image.fromarray(pixels(10, 10)))
    assert decode(data, tio.ImageFeature(max_pixels=100)).shape == (3, 10, 10)
    with pytest.raises(DecodeError, match="claims 10 x 10 pixels, more than max_pixels=99"):
        decode(data, tio.ImageFeature(max_pixels=99))


def test_pillow_s_own_limit_holds_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encoded(Image.fromarray(pixels(10, 10)))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 60)
    feature = tio.ImageFeature(decoder="pillow")
    with pytest.warns(Image.DecompressionBombWarning):
        assert decode(data, feature).shape == (3, 10, 10)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 40)
    with pytest.raises(DecodeError, match="exceeds limit"):
        decode(data, feature)


WHOLE = {
    kind: encoded(Image.fromarray(pixels(40, 40)), kind) for kind in ("PNG", "JPEG", "BMP", "WEBP")
}


@pytest.mark.parametrize("kind", WHOLE)
@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("size", [None, (4, 4)])
def test_images_cut_short_are_refused(kind: str, part: float, size: tuple[int, int] | None) -> None:
    whole = WHOLE[kind]
    cut = whole[: int(len(whole) * part)]
    with pytest.raises(DecodeError, match="the image cannot be decoded") as caught:
        decode(cut, tio.ImageFeature(size=size))
    assert caught.value.feature == "image"


@given(st.binary(max_size=80), st.sampled_from([b"", *[data[:40] for data in WHOLE.values()]]))
def test_garbage_is_refused(tail: bytes, head: bytes) -> None:
    with pytest.raises(DecodeError, match="image"):
        decode(head + tail, tio.ImageFeature())


@pytest.mark.parametrize("size", [None, (4, 4)])
def test_a_bad_image_names_its_record(size: tuple[int, int] | None) -> None:
    records = [image_example(WHOLE["PNG"]), image_example(b"no image"), image_example(b"none")]
    with pytest.raises(DecodeError, match="cannot be decoded") as caught:
        tio.parse_examples(records, {"image": tio.ImageFeature(size=size)})
    assert (caught.value.record, caught.value.feature) == (1, "image")
    with pytest.raises(DecodeError, match="required"):
        tio.parse_examples([b""], {"image": tio.ImageFeature(size=size)})
