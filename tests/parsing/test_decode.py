"""Raw arrays and images."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from PIL import Image

import torchrec_io as tio
from tests.support.wire import bytes_feature, entry, example, int_feature
from torchrec_io.errors import DecodeError


def raw_example(data: bytes, *shape: int, key: str = "x") -> bytes:
    return example(entry(key, bytes_feature(data)), entry("shape", int_feature(*shape)))


# ---- RawFeature ----


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


# ---- images that are none; others are in tests/images ----

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


def test_pillow_s_own_limit_holds_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encoded(Image.fromarray(pixels(10, 10)))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 60)
    feature = tio.ImageFeature(decoder="pillow")
    with pytest.warns(Image.DecompressionBombWarning):
        assert decode(data, feature).shape == (3, 10, 10)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 40)
    with pytest.raises(DecodeError, match="exceeds limit"):
        decode(data, feature)
