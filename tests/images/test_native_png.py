"""Native decoding of PNGs, compared with Pillow."""

from __future__ import annotations

import importlib.util
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import torchrec_io as tio
from tests.support.images import column_of, decoded, encoded, noise, smooth
from tests.support.pngs import chunk, file_of, header_of, png_of, rows_of
from torchrec_io import _png
from torchrec_io._images import native
from torchrec_io.errors import DecodeError

sides = st.integers(1, 40)


@pytest.fixture(autouse=True)
def natively(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of PNGs that each native call decodes."""
    calls: list[int] = []
    decode = _png.decode_columns

    def record(images: Any, columns: Any, *rest: Any, **options: Any) -> Any:
        before = len(columns[0].missing())
        helped = decode(images, columns, *rest, **options)
        calls.append(before - len(columns[0].missing()))
        return helped

    monkeypatch.setattr(_png, "decode_columns", record)
    return calls


def pixels_of(height: int, width: int, channels: int, seed: int = 0) -> Any:
    shape = (height, width, channels)
    return np.random.default_rng([seed, *shape]).integers(0, 256, shape, np.uint8)


@given(
    st.tuples(sides, sides),
    st.integers(1, 4),
    st.sampled_from([1, 3]),
    st.lists(st.integers(0, 4), min_size=1, max_size=6),
    st.integers(1, 5),
)
def test_pixels_are_those_of_pillow(
    size: tuple[int, int], stored: int, channels: int, filters: list[int], pieces: int
) -> None:
    data = png_of(pixels_of(*size, stored), filters=filters, pieces=pieces)
    found = decoded(data, channels=channels)
    expected = decoded(data, channels=channels, decoder="pillow")
    np.testing.assert_array_equal(found, expected)


def test_plain_pngs_are_decoded_natively(natively: list[int]) -> None:
    images = [encoded(smooth(20, 30, seed=number)) for number in range(3)]
    jpeg = encoded(smooth(20, 30), "JPEG")
    column_of([*images, jpeg], size=(20, 30))
    assert sum(natively) == 3
    decoded(images[0])
    assert sum(natively) == 4


def test_other_pngs_and_values_are_decoded_by_pillow(natively: list[int]) -> None:
    others: list[dict[str, Any]] = [{"channels": n} for n in (0, 2, 4)]
    for options in [*others, {"decoder": "pillow"}, {"dtype": "uint16"}]:
        decoded(png_of(pixels_of(5, 6, 4)), **options)
    palette = Image.fromarray(noise(9, 8)).convert("P")
    bits = Image.fromarray(noise(9, 8)).convert("1")
    interlaced = png_of(pixels_of(9, 8, 3), interlaced=True)
    for data in (encoded(palette), encoded(bits), interlaced):
        assert decoded(data).shape == (9, 8, 3)
    assert not natively


def test_transparent_color_is_ignored(natively: list[int]) -> None:
    pixels = pixels_of(4, 4, 3)
    color = struct.pack(">3H", *pixels[1, 1].tolist())
    data = png_of(pixels, extra=chunk(b"tRNS", color))
    np.testing.assert_array_equal(decoded(data), pixels)
    assert natively == [1]


# ---- bad images ----


def failure(data: bytes) -> str:
    good = png_of(pixels_of(6, 5, 3))
    with pytest.raises(DecodeError) as caught:
        column_of([good, data, good], size=(6, 5))
    assert (caught.value.record, caught.value.feature) == (1, "image")
    return str(caught.value)


def test_every_damaged_byte_is_an_error() -> None:
    pixels = pixels_of(6, 5, 3)
    data = png_of(pixels, filters=(0, 1, 2, 3, 4), pieces=2)
    for at in range(8, len(data)):
        broken = bytearray(data)
        broken[at] ^= 0x04
        failure(bytes(broken))


def test_every_truncation_is_an_error() -> None:
    data = png_of(pixels_of(6, 5, 3))
    for size in range(len(data)):
        failure(data[:size])


def stored_as(data: bytes, **fields: int) -> bytes:
    """Return a PNG of 6 x 5 RGB pixels with these compressed bytes."""
    return file_of(header_of(pixels_of(6, 5, 3), **fields), chunk(b"IDAT", data))


def test_reasons() -> None:
    rows = rows_of(pixels_of(6, 5, 3))
    whole = zlib.compress(rows)
    assert "it has too few pixels" in failure(stored_as(zlib.compress(rows[:-1])))
    assert "its compressed pixels are damaged" in failure(stored_as(whole[:-1] + b"\0"))
    assert "it has too few pixels" in failure(stored_as(b""))
    assert "a row has an unknown filter" in failure(stored_as(zlib.compress(b"\5" + rows[1:])))
    # Memory is not allocated for pixels that the file cannot have.
    assert "it has too few pixels" in failure(stored_as(whole, height=8000, width=8000))
    assert "more than max_pixels" in failure(stored_as(whole, height=2**31 - 1, width=2**31 - 1))
    assert "its header is invalid" in failure(stored_as(whole, height=0))
    twice = file_of(header_of(pixels_of(6, 5, 3)), header_of(pixels_of(6, 5, 3)))
    assert "its header is invalid" in failure(twice)
    pieces = [chunk(b"IDAT", whole[:20]), chunk(b"tEXt", b"a\0b"), chunk(b"IDAT", whole[20:])]
    interrupted = file_of(header_of(pixels_of(6, 5, 3)), *pieces)
    assert "its pixels are interrupted by another chunk" in failure(interrupted)


def test_damage_that_pillow_ignores_is_an_error() -> None:
    pixels = pixels_of(60, 50, 3)
    rows = rows_of(pixels)
    whole = zlib.compress(rows)
    stored = chunk(b"IDAT", whole)
    header = header_of(pixels)
    for data, reason in (
        (file_of(header, stored)[:-12], "it is truncated"),
        (file_of(header, stored[:-1] + bytes([stored[-1] ^ 1])), "does not match its checksum"),
        (file_of(header, chunk(b"IDAT", whole[:-4])), "its compressed pixels are damaged"),
        (file_of(header, chunk(b"IDAT", zlib.compress(rows + b"abc"))), "it has too many pixels"),
        (file_of(header, chunk(b"ABCD", b""), stored), "it needs an unknown chunk"),
    ):
        np.testing.assert_array_equal(decoded(data, decoder="pillow"), pixels)
        with pytest.raises(DecodeError, match=reason):
            decoded(data)


def test_fast_features_decode_the_same_pngs() -> None:
    """Only JPEGs can be decoded at a fraction of their size."""
    data = encoded(smooth(96, 160))
    cases: tuple[dict[str, Any], ...] = ({}, {"resize": "cover"}, {"crop": (8, 16, 80, 120)})
    for options in cases:
        for size in ((20, 30), (2, 2)):
            fast = decoded(data, size=size, fast=True, **options)
            np.testing.assert_array_equal(fast, decoded(data, size=size, **options))


def test_build_without_libdeflate(monkeypatch: pytest.MonkeyPatch, natively: list[int]) -> None:
    find = importlib.util.find_spec

    def find_none(name: str, package: str | None = None) -> Any:
        return None if name == "torchrec_io._png" else find(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", find_none)
    monkeypatch.setattr(native, "_png", None)
    with pytest.raises(ImportError, match="needs a build with libdeflate"):
        tio.ImageFeature(decoder="native")
    tio.ImageFeature(fast=True)  # which only concerns JPEGs
    pixels = pixels_of(6, 5, 3)
    np.testing.assert_array_equal(decoded(png_of(pixels)), pixels)
    assert not natively
