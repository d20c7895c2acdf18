"""Images with 16 bits per channel: exact PNGs, and conversions of other formats."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import torchrec_io as tio
from tests.support.images import column_of, decoded, encoded, noise, oriented, reason_of
from tests.support.pngs import chunk, file_of, header_of, png_of, rows_of, wide_noise
from torchrec_io.errors import DecodeError

WIDE: dict[str, Any] = {"dtype": "uint16"}


# ---- PNGs of 16 bits ----


sizes = st.integers(1, 12)


@given(
    st.tuples(sizes, sizes, st.integers(1, 4)),
    st.lists(st.integers(0, 4), min_size=1, max_size=5),
    st.booleans(),
    st.integers(1, 3),
)
def test_all_16_bits_are_read(
    shape: tuple[int, int, int], filters: list[int], interlaced: bool, pieces: int
) -> None:
    array, channels = wide_noise(*shape), shape[2]
    data = png_of(array, filters=filters, interlaced=interlaced, pieces=pieces)
    assert decoded(data, channels=channels, **WIDE).tolist() == array.tolist()
    assert decoded(data, channels=0, **WIDE).tolist() == array.tolist()


def luma(red: int, green: int, blue: int) -> int:
    return (9797 * red + 19234 * green + 3737 * blue + (1 << 14)) >> 15


@pytest.mark.parametrize("stored", [1, 2, 3, 4])
def test_channels_are_converted(stored: int) -> None:
    for channels in (1, 2, 3, 4):
        check_channels(stored, channels)


def check_channels(stored: int, channels: int) -> None:
    array = wide_noise(4, 5, stored)
    expected = []
    for pixel in array.reshape(-1, stored).tolist():
        alpha = pixel[-1] if stored in (2, 4) else 65535
        color = pixel[: 1 if stored < 3 else 3]
        if channels < 3:
            color = [luma(*color)] if len(color) == 3 else color
        elif len(color) == 1:
            color = color * 3
        expected.append(color + [alpha] * (channels in (2, 4)))
    found = decoded(png_of(array), channels=channels, **WIDE)
    assert found.dtype == np.uint16
    assert found.reshape(-1, channels).tolist() == expected


def test_column_of_16_bit_images() -> None:
    arrays = [wide_noise(3, 4, 3, seed) for seed in range(3)]
    images = [png_of(array) for array in arrays]
    column = column_of(images, size=(3, 4), resize=None, **WIDE)
    assert (column.dtype, tuple(column.shape)) == (torch.uint16, (3, 3, 3, 4))
    assert column.tolist() == [array.transpose(2, 0, 1).tolist() for array in arrays]
    cut = column_of(images, crop=(1, 0, 2, 3), layout="HWC", **WIDE)
    assert [one.tolist() for one in cut] == [array[1:3, 0:3].tolist() for array in arrays]


def test_transparent_color() -> None:
    for channels, color in ((1, [7]), (3, [7, 8, 65535])):
        array = wide_noise(2, 3, channels)
        array[1, 2] = color
        data = png_of(array, extra=chunk(b"tRNS", struct.pack(f">{channels}H", *color)))
        opaque = np.full((2, 3), 65535)
        opaque[1, 2] = 0
        assert decoded(data, channels=4, **WIDE)[..., 3].tolist() == opaque.tolist()
        assert decoded(data, channels=2, **WIDE)[..., 1].tolist() == opaque.tolist()
        # Only the transparent color of a palette adds a channel, as in TensorFlow.
        assert decoded(data, channels=0, **WIDE).tolist() == array.tolist()
        assert "transparent color is invalid" in reason_of(
            png_of(array, extra=chunk(b"tRNS", b"1")), **WIDE
        )


@pytest.mark.parametrize("channels", [2, 4])
def test_alpha_overrides_a_transparent_color(channels: int) -> None:
    array = wide_noise(2, 3, channels)
    data = png_of(array, extra=chunk(b"tRNS", bytes(2 * (channels - 1))))
    assert decoded(data, channels=0, **WIDE).tolist() == array.tolist()


def test_padding_has_the_same_scale() -> None:
    images = [png_of(wide_noise(2, 3, 3)), png_of(wide_noise(3, 2, 3))]
    column = column_of(images, mixed="pad", fill=255, layout="HWC", **WIDE)
    assert column[0, 2].tolist() == [[65535] * 3] * 3
    assert column[1, :, :2].tolist() == wide_noise(3, 2, 3).tolist()
    fill = column_of(images, mixed="pad", fill=2, **WIDE)
    assert fill[0, 0, 2, 0] == 2 * 257


def test_exif_orientation() -> None:
    array = noise(3, 4)
    for orientation in range(1, 9):
        exif = oriented(orientation)
        expected = decoded(encoded(array, "PNG", exif=exif), apply_exif_orientation=True)
        extra = chunk(b"eXIf", exif.tobytes().removeprefix(b"Exif\0\0"))
        data = png_of(array.astype(np.uint16), extra=extra)
        assert decoded(data, apply_exif_orientation=True, **WIDE).tolist() == expected.tolist()
        assert decoded(data, **WIDE).tolist() == array.tolist()


def test_random_crop_equals_that_of_8_bits() -> None:
    array = noise(9, 9)
    options: dict[str, Any] = {"augment": tio.RandomCrop((4, 5), 0.5)}
    expected = decoded(encoded(array), **options)
    found = decoded(png_of(array.astype(np.uint16)), **options, **WIDE)
    assert found.tolist() == expected.tolist()


# ---- damage ----

ARRAY = wide_noise(4, 5, 3)
ROWS = rows_of(ARRAY)
GOOD = png_of(ARRAY)


def with_rows(rows: bytes) -> bytes:
    return file_of(header_of(ARRAY), chunk(b"IDAT", zlib.compress(rows)))


def test_every_truncation_is_refused() -> None:
    for size in range(len(GOOD)):
        assert reason_of(GOOD[:size], **WIDE).startswith("the image cannot be decoded")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (with_rows(ROWS[:-1]), "it has too few pixels"),
        (with_rows(ROWS + b"\0"), "holds more than"),
        (with_rows(b"\5" + ROWS[1:]), "a row has an unknown filter"),
        (file_of(header_of(ARRAY)), "truncated"),
        (file_of(header_of(ARRAY), chunk(b"IDAT", b"none")), "stream is damaged"),
        (
            file_of(header_of(ARRAY), chunk(b"IDAT", zlib.compress(ROWS) + b"!")),
            "followed by 1 byte",
        ),
        (file_of(header_of(ARRAY), chunk(b"ABCD", b""), GOOD[33:-12]), "unknown chunk, b'ABCD'"),
        (GOOD[:45] + bytes([GOOD[45] ^ 1]) + GOOD[46:], "checksum"),
        (GOOD[:29] + bytes([GOOD[29] ^ 1]) + GOOD[30:], "checksum"),
        (file_of(header_of(ARRAY, compression=1), GOOD[33:-12]), "header is invalid"),
        (file_of(header_of(ARRAY, filters=1), GOOD[33:-12]), "header is invalid"),
        (file_of(header_of(ARRAY, interlace=2), GOOD[33:-12]), "header is invalid"),
        (file_of(header_of(ARRAY, color=3), GOOD[33:-12]), "header is invalid"),
        (file_of(header_of(ARRAY, width=0), GOOD[33:-12]), "header is invalid"),
        (file_of(header_of(ARRAY, height=0), GOOD[33:-12]), "header is invalid"),
        (GOOD[:33] + struct.pack(">I", 1 << 31) + GOOD[37:], "truncated"),
    ],
)
def test_damaged_images_are_rejected(data: bytes, reason: str) -> None:
    assert reason in reason_of(data, **WIDE)


def test_unknown_optional_chunks_are_skipped() -> None:
    data = file_of(header_of(ARRAY), chunk(b"teXt", b"a"), GOOD[33:-12], chunk(b"zzZz", b"b"))
    assert decoded(data + b"more", **WIDE).tolist() == ARRAY.tolist()


def test_decompression_bombs_are_rejected() -> None:
    """Pixels of 16 bits count twice, whatever they are decoded to."""
    assert "5 x 4 pixels of 16 bits, which count twice, more than max_pixels=39" in reason_of(
        GOOD, max_pixels=39, **WIDE
    )
    assert decoded(GOOD, max_pixels=40, **WIDE).shape == (4, 5, 3)
    gray = encoded(Image.fromarray(ARRAY[..., 0].copy()), "TIFF")
    for data in (GOOD, gray):
        for dtype in ("uint8", "uint16"):
            with pytest.raises(DecodeError, match=r"which count twice, more than max_pixels=39"):
                decoded(data, dtype=dtype, max_pixels=39)
            assert decoded(data, dtype=dtype, max_pixels=40).shape == (4, 5, 3)
    claims = file_of(header_of(ARRAY, width=1 << 31, height=1 << 31), GOOD[33:-12])
    assert "max_pixels" in reason_of(claims, **WIDE)
    # A small file that claims a large size: only existing data is decompressed.
    small = file_of(header_of(ARRAY, width=1 << 12, height=1 << 12), GOOD[33:-12])
    assert "too few pixels" in reason_of(small, **WIDE)


# ---- other images ----


@pytest.mark.parametrize(
    ("kind", "scale"), [("PNG", 257), ("BMP", 256), ("GIF", 256), ("JPEG", 256), ("WEBP", 256)]
)
def test_8_bits_are_scaled(kind: str, scale: int) -> None:
    data = encoded(noise(5, 6), kind)
    for channels in (0, 1, 2, 3, 4):
        small = decoded(data, channels=channels)
        found = decoded(data, channels=channels, **WIDE)
        assert found.dtype == np.uint16
        assert found.tolist() == (small.astype(int) * scale).tolist()
    if kind == "JPEG":
        found = decoded(data, decoder="native", **WIDE)
        assert found.tolist() == (decoded(data).astype(int) * 256).tolist()


@pytest.mark.parametrize("kind", ["TIFF", "PPM"])
def test_gray_of_16_bits_is_exact_in_every_format(kind: str) -> None:
    array = wide_noise(4, 5, 1)
    data = encoded(Image.fromarray(array[..., 0]), kind)
    for channels in (0, 1, 2, 3, 4):
        expected = decoded(png_of(array), channels=channels, **WIDE)
        assert decoded(data, channels=channels, **WIDE).tolist() == expected.tolist()


def test_floats_are_rejected_like_with_8_bits() -> None:
    image = Image.fromarray(np.zeros((2, 3), np.float32))
    assert "pixels are floats" in reason_of(encoded(image, "TIFF"), **WIDE)
