"""Decoded images, compared with TensorFlow's decode_image."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import simplejpeg
from PIL import Image

from tests.conftest import TfOracle
from tests.images.test_kinds import gif_of
from tests.images.test_rules import as_ycck, frames
from tests.support.images import decoded, encoded, noise, oriented, smooth
from tests.support.pngs import chunk, png_of, wide_noise
from torchrec_io.errors import DecodeError


def theirs(
    oracle: TfOracle, data: bytes, channels: int, dtype: str = "uint8", **options: Any
) -> npt.NDArray[Any] | None:
    """Decode an image with TensorFlow. Return None if it fails."""
    answer = oracle.ask(
        op="decode_image", data=data.hex(), channels=channels, dtype=dtype, **options
    )
    if "error" in answer:
        return None
    return np.frombuffer(bytes.fromhex(answer["content"]), dtype).reshape(answer["shape"])


def files() -> Iterator[tuple[str, bytes, str]]:
    """Yield names, files, and in which dtypes gray is rounded otherwise: the weights are equal."""
    both = "uint8 uint16"
    for n in (1, 3, 4):
        yield f"png8-{n}", encoded(noise(5, 6, n)), both if n > 2 else ""
    for n in (1, 2, 3, 4):
        wide = png_of(wide_noise(5, 7, n), filters=range(5))
        yield f"png16-{n}", wide, "uint8" if n > 2 else ""
    yield "interlaced", png_of(wide_noise(9, 11, 3), filters=range(5), interlaced=True), "uint8"
    yield "transparent", png_of(wide_noise(2, 3, 3), extra=chunk(b"tRNS", bytes(6))), "uint8"
    yield "one color", png_of(np.full((1, 2, 1), 7, np.uint16)), ""
    image = Image.fromarray(noise(5, 6, 4))
    for mode in ("LA", "1"):
        yield mode, encoded(image.convert(mode)), ""
    palette = image.convert("RGB").quantize(8)
    yield "palette", encoded(palette), both
    yield "transparent palette", encoded(palette, transparency=0), both
    for kind in ("BMP", "GIF"):
        yield kind, encoded(image.convert("RGB"), kind), ""
    yield "JPEG", encoded(np.full((8, 8, 3), 77, np.uint8), "JPEG"), ""


# Pixels of fewer than 8 bits, which TensorFlow takes for the scale of alpha.
FEW_BITS = {"1", "palette"}
FILES = {name: (data, rounded) for name, data, rounded in files()}


@pytest.mark.parametrize("name", FILES)
def test_stored_and_other_channels(tf_oracle: TfOracle, name: str) -> None:
    data, rounded = FILES[name]
    for dtype, step in (("uint8", 1), ("uint16", 257)):
        for channels in (0, 1, 3, 4):
            expected = theirs(tf_oracle, data, channels, dtype)
            if expected is None:  # TensorFlow does not convert these channels
                assert channels in (1, 4)
                continue
            found = decoded(data, channels=channels, dtype=dtype)
            if name in FEW_BITS and channels == 4:
                assert (found[..., 3] == np.iinfo(dtype).max).all()
                found, expected = found[..., :3], expected[..., :3]
            if channels == 1 and dtype in rounded:
                assert np.abs(found.astype(int) - expected).max() <= step
            else:
                assert found.tolist() == expected.tolist(), (dtype, channels)


def test_floats_in_four_channels(tf_oracle: TfOracle) -> None:
    """TensorFlow Datasets stores floats as the bytes of RGBA pixels."""
    data = encoded(noise(5, 6, 4))
    bits = theirs(tf_oracle, data, 4)
    assert bits is not None
    found = decoded(data, channels=1, dtype="float32", bitcast=True)
    assert found.tobytes() == bits.tobytes()


GRAPHIC_CONTROL = b"\x21\xf9\x04"


def test_all_frames(tf_oracle: TfOracle) -> None:
    still, moving = frames("GIF"), frames("GIF", disposal=2)
    for data in (still, moving):
        expected = theirs(tf_oracle, data, 3, frames=True)
        assert expected is not None
        assert decoded(data, animated=True).tolist() == expected.tolist()


def test_disposed_frames_and_a_small_first_frame(tf_oracle: TfOracle) -> None:
    """Unlike TensorFlow, this library follows the GIF's disposal methods and size."""
    blank, dot = np.zeros((2, 4, 6, 3), np.uint8)
    dot[1, 2] = 255
    other = dot.copy()
    other[3, 5] = 255
    parts = gif_of([blank, dot, other]).split(GRAPHIC_CONTROL)
    parts[2] = bytes([3 << 2]) + parts[2][1:]  # disposal method: restore
    undone = GRAPHIC_CONTROL.join(parts)
    larger = undone[:6] + bytes([8, 0]) + undone[8:]  # larger than its first frame of 6 columns
    for data, width in ((undone, 6), (larger, 8)):
        found, expected = decoded(data, animated=True), theirs(tf_oracle, data, 3, frames=True)
        assert expected is not None
        assert (found.shape, expected.shape) == ((3, 4, width, 3), (3, 4, 6, 3))
        assert expected.tolist() == [blank.tolist(), dot.tolist(), other.tolist()]
        assert found[:, :, :6].tolist() == [blank.tolist(), dot.tolist(), (other - dot).tolist()]
        assert not found[:, :, 6:].any()


def jpegs() -> Iterator[tuple[str, bytes]]:
    array = smooth(40, 50)
    for subsampling in ("4:4:4", "4:2:2", "4:2:0"):
        yield subsampling, encoded(array, "JPEG", quality=90, subsampling=subsampling)
    yield "progressive", encoded(array, "JPEG", quality=90, progressive=True)
    yield "gray", encoded(array[:, :, 0].copy(), "JPEG", quality=90)
    cmyk = encoded(Image.fromarray(array).convert("CMYK"), "JPEG", quality=95)
    yield "cmyk", cmyk
    yield "ycck", as_ycck(cmyk)
    yield "turned", encoded(array, "JPEG", exif=oriented(6))


JPEGS = dict(jpegs())


@pytest.mark.parametrize("name", JPEGS)
def test_jpegs_with_the_exact_transform(tf_oracle: TfOracle, name: str) -> None:
    expected = theirs(tf_oracle, JPEGS[name], 3)
    assert expected is not None
    for decoder in ("pillow", "native"):
        assert decoded(JPEGS[name], decoder=decoder).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("size", "quality"),
    [((40, 50), 50), ((1, 1), 95), ((17, 33), 95), ((1, 60), 50), ((100, 31), 50)],
)
def test_jpegs_with_the_default_transform(
    tf_oracle: TfOracle, size: tuple[int, int], quality: int
) -> None:
    """tf_compatible=True gives the same pixels, all of them."""
    for name, data in jpegs_of_all_kinds(*size, quality):
        for channels in (0, 1, 3):
            expected = theirs(tf_oracle, data, channels, exact=False)
            if expected is None:
                assert (name, channels) == ("cmyk", 1)  # this library converts
                continue
            found = decoded(data, channels=channels, tf_compatible=True)
            assert found.tolist() == expected.tolist(), (name, channels)


def jpegs_of_all_kinds(height: int, width: int, quality: int) -> Iterator[tuple[str, bytes]]:
    for array in (smooth(height, width), noise(height, width)):
        pixels = np.ascontiguousarray(array)
        for sampling in ("444", "422", "420", "440", "411", "Gray"):
            jpeg = simplejpeg.encode_jpeg(pixels, quality=quality, colorsubsampling=sampling)
            yield sampling, bytes(jpeg)
        for sampling in ("4:4:4", "4:2:2", "4:2:0"):
            options: dict[str, Any] = {"quality": quality, "subsampling": sampling}
            yield f"progressive {sampling}", encoded(array, "JPEG", progressive=True, **options)
        yield "rgb", encoded(array, "JPEG", quality=quality, keep_rgb=True)
        cmyk = Image.fromarray(array).convert("CMYK")
        yield "cmyk", encoded(cmyk, "JPEG", quality=quality)


def test_jpegs_as_gray(tf_oracle: TfOracle) -> None:
    """TensorFlow reads the stored luma. This library converts colors, which rounds once more."""
    for name in ("4:4:4", "4:2:0", "gray"):
        expected = theirs(tf_oracle, JPEGS[name], 1)
        assert expected is not None
        apart = np.abs(decoded(JPEGS[name], channels=1).astype(int) - expected)
        assert apart.max() <= (0 if name == "gray" else 2)


def test_saturated_jpegs_as_gray(tf_oracle: TfOracle) -> None:
    """Colors are clipped before this library computes their luma, unless ``tf_compatible``."""
    hues = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 0), (255, 0, 255), (0, 255, 255)]
    rows = np.repeat(np.array(hues * 4, np.uint8)[:, np.newaxis], 9, axis=1)
    data = encoded(np.ascontiguousarray(rows), "JPEG", quality=60)
    expected = theirs(tf_oracle, data, 1)
    assert expected is not None
    assert np.abs(decoded(data, channels=1).astype(int) - expected).max() > 2
    exact = theirs(tf_oracle, data, 1, exact=False)
    assert exact is not None
    assert decoded(data, channels=1, tf_compatible=True).tolist() == exact.tolist()


def bmp_of_32_bits(pixels: npt.NDArray[Any], *, is_top_down: bool) -> bytes:
    """Return a BMP of BGRA pixels with a header of 40 bytes."""
    height, width, _ = pixels.shape
    content = pixels[:: 1 if is_top_down else -1].tobytes()
    rows = -height if is_top_down else height
    header = struct.pack("<IiiHHIIiiII", 40, width, rows, 1, 32, 0, len(content), 0, 0, 0, 0)
    return struct.pack("<2sIHHI", b"BM", 54 + len(content), 0, 0, 54) + header + content


@pytest.mark.parametrize("is_top_down", [True, False])
def test_the_fourth_byte_of_a_bmp(tf_oracle: TfOracle, is_top_down: bool) -> None:
    pixels = noise(5, 6, 4)
    data = bmp_of_32_bits(pixels, is_top_down=is_top_down)
    for channels in (0, 4):
        expected = theirs(tf_oracle, data, channels)
        assert expected is not None
        assert expected.tolist() == pixels[..., [2, 1, 0, 3]].tolist()
        found = decoded(data, channels=channels)
        assert found[..., :3].tolist() == expected[..., :3].tolist()
        assert found.shape[2] == (channels or 3)
        assert (found[..., 3:] == 255).all()
    assert decoded(data).tolist() == pixels[..., 2::-1].tolist()


def test_a_bmp_with_a_palette(tf_oracle: TfOracle) -> None:
    image = Image.fromarray(noise(4, 8)).quantize(8)
    data = encoded(image, "BMP")
    expected = theirs(tf_oracle, data, 0)
    assert expected is not None
    assert decoded(data, channels=1, palette="index").tolist() == expected.tolist()
    assert decoded(data, channels=0).tolist() == np.asarray(image.convert("RGB")).tolist()


def transparent_gifs() -> Iterator[tuple[str, bytes]]:
    """Yield GIFs in which a color of the first frame is transparent."""
    arrays = [noise(5, 6, seed=number) // 100 * 100 for number in range(3)]
    images = [Image.fromarray(array).quantize(8) for array in arrays]
    yield "still", encoded(images[0], "GIF", transparency=3)
    for disposal in (0, 1, 2):
        options = {"save_all": True, "append_images": images[1:], "disposal": disposal}
        yield f"moving {disposal}", encoded(images[0], "GIF", transparency=3, **options)


GIFS = dict(transparent_gifs())


@pytest.mark.parametrize("name", GIFS)
def test_transparent_pixels_of_the_first_frame(tf_oracle: TfOracle, name: str) -> None:
    for channels in (0, 3):
        expected = theirs(tf_oracle, GIFS[name], channels)
        assert expected is not None
        assert (expected == 0).all(axis=2).any()
        assert decoded(GIFS[name], channels=channels).tolist() == expected.tolist()
    frames_of = theirs(tf_oracle, GIFS[name], 3, frames=True)
    assert frames_of is not None
    found = decoded(GIFS[name], animated=True)
    if name == "moving 2":  # a frame is cleared before the next, which TensorFlow does not do
        found, frames_of = found[:1], frames_of[:1]
    assert found.tolist() == frames_of.tolist()


def test_both_ignore_wrong_bits_of_a_jpeg(tf_oracle: TfOracle) -> None:
    """In contrast, native decoding rejects them."""
    damaged = bytearray(encoded(noise(64, 64), "JPEG", quality=90))
    middle = len(damaged) // 2
    damaged[middle : middle + 40] = b"\xff\x00" * 20
    data = bytes(damaged)
    expected = theirs(tf_oracle, data, 3)
    assert expected is not None
    assert decoded(data, decoder="pillow").tolist() == expected.tolist()
    with pytest.raises(DecodeError):
        decoded(data)
