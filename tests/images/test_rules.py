"""Unusual images: the rules of docs/images.md that the comparisons with Pillow do not draw."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageFile, ImageOps, features

from tests.support.cover import pairs
from tests.support.images import (
    column_of,
    decoded,
    encoded,
    noise,
    opened,
    oriented,
    smooth,
)
from tests.support.pngs import chunk, file_of, png_of
from torchrec_io.errors import DecodeError

DECODERS = ["pillow", "native"]
both = pytest.mark.parametrize("decoder", DECODERS)


def frames(kind: str, **options: Any) -> bytes:
    """Return an animation of a red, a green and a blue frame."""
    first, *others = (Image.new("RGB", (6, 4), color) for color in ("red", "lime", "blue"))
    return encoded(first, kind, save_all=True, append_images=others, duration=100, **options)


@pytest.mark.parametrize(
    ("kind", "options"), [("GIF", {}), ("WEBP", {"lossless": True}), ("PNG", {})]
)
def test_first_frame_of_animations_counts(kind: str, options: dict[str, Any]) -> None:
    data = frames(kind, **options)
    with Image.open(io.BytesIO(data)) as image:
        assert image.n_frames == 3  # type: ignore[attr-defined]  # only animations have it
    assert decoded(data).tolist() == [[[255, 0, 0]] * 6] * 4


def test_transparent_pixels_do_not_bleed_when_resized() -> None:
    array = np.zeros((4, 4, 4), np.uint8)
    array[:, :2] = 255, 0, 0, 255
    array[:, 2:] = 0, 255, 0, 0  # green, but transparent
    [[red]] = decoded(encoded(array), channels=4, size=(1, 1)).tolist()
    assert red[:2] == [255, 0]
    assert 100 < red[3] < 150


@pytest.mark.parametrize("mode", ["P", "1"])
def test_palettes_and_bits_become_colors(mode: str) -> None:
    image = Image.fromarray(noise(5, 6))
    image = image.quantize(8) if mode == "P" else image.convert("1")
    assert image.mode == mode
    assert decoded(encoded(image)).tolist() == np.asarray(image.convert("RGB")).tolist()


def test_transparent_color_of_a_palette_is_transparent() -> None:
    image = Image.new("P", (3, 2), 1)
    image.putpalette([10, 20, 30, 40, 50, 60])
    image.putpixel((0, 0), 0)
    data = encoded(image, transparency=0)
    found = decoded(data, channels=4)
    assert found[0, 0].tolist() == [10, 20, 30, 0]
    assert found[0, 1].tolist() == [40, 50, 60, 255]
    assert decoded(data)[0, 0].tolist() == [10, 20, 30]


@pytest.mark.parametrize(
    ("depth", "dtype", "top"),
    [(1, "uint8", 255), (2, "uint16", 65535), (4, "uint8", 255), (8, "uint16", 65535)],
)
def test_transparent_gray_is_transparent(depth: int, dtype: str, top: int) -> None:
    """The image is one row of two pixels, the greatest gray and black."""
    row = bytes([0, ((1 << depth) - 1) << 8 - depth, 0])[: 3 if depth == 8 else 2]
    header = struct.pack(">IIBBBBB", 2, 1, depth, 0, 0, 0, 0)
    for gray, alphas in (((1 << depth) - 1, [0, top]), (0, [top, 0])):
        data = file_of(
            chunk(b"IHDR", header),
            chunk(b"tRNS", struct.pack(">H", gray)),
            chunk(b"IDAT", zlib.compress(row)),
        )
        expected = [[[top, alphas[0]], [0, alphas[1]]]]
        assert decoded(data, channels=2, dtype=dtype).tolist() == expected
        assert decoded(data, channels=4, dtype=dtype)[0, :, 3].tolist() == alphas


@pytest.mark.parametrize("channels", [1, 3])
def test_transparent_color_of_16_bits_is_transparent(channels: int) -> None:
    array = np.full((2, 3, channels), 0x0100, np.uint16)
    array[0, 0] = 0x0001  # the same upper eight bits as the next pixel
    array[0, 1] = 0x0002
    data = png_of(array, extra=chunk(b"tRNS", struct.pack(f">{channels}H", *array[0, 0])))
    alpha = np.full((2, 3), 255)
    alpha[0, 0] = 0
    for wanted in (2, 4):
        found = decoded(data, channels=wanted)
        assert found[..., -1].tolist() == alpha.tolist()
        assert found[..., 0].tolist() == (array[..., 0] >> 8).tolist()
    turn = chunk(b"eXIf", oriented(6).tobytes().removeprefix(b"Exif\0\0"))
    turned = decoded(data[:33] + turn + data[33:], channels=4, apply_exif_orientation=True)
    assert turned[..., 3].tolist() == np.rot90(alpha, -1).tolist()
    assert decoded(data, channels=0).shape == (2, 3, channels)


@pytest.mark.parametrize("channels", [1, 3])
def test_translucent_colors_of_a_palette_are_dropped_without_warning(channels: int) -> None:
    """Pillow would warn, and tests turn warnings into errors."""
    image = Image.fromarray(noise(5, 6)).quantize(8)
    plain, translucent = encoded(image), encoded(image, transparency=bytes(range(8)))
    found = decoded(translucent, channels=channels)
    assert found.tolist() == decoded(plain, channels=channels).tolist()
    assert set(decoded(translucent, channels=4)[..., 3].flat) <= set(range(8))


@pytest.mark.parametrize(
    ("channels", "crop"), [(1, None), (2, (1, 1, 3, 4)), (3, None), (4, (1, 1, 3, 4))]
)
def test_upper_eight_of_16_bits_count(channels: int, crop: Any) -> None:
    array = np.random.default_rng(channels).integers(0, 2**16, (5, 7, channels), np.uint16)
    array[1, 1:4] = 0
    upper = array >> 8 if crop is None else array[1:4, 1:5] >> 8
    for wanted in (0, channels):
        assert decoded(png_of(array), channels=wanted, crop=crop).tolist() == upper.tolist()
    wide = Image.fromarray(array[..., 0])
    for kind in ("TIFF", "PPM"):
        first = decoded(encoded(wide, kind), channels=1, crop=crop)
        assert first[..., 0].tolist() == upper[..., 0].tolist()


@pytest.mark.parametrize("mode", ["I", "F"])
def test_wider_numbers_are_rejected(mode: str) -> None:
    data = encoded(Image.new(mode, (3, 2), 5), "TIFF")
    with pytest.raises(DecodeError, match="cannot be converted to 8 bits") as caught:
        decoded(data)
    assert caught.value.feature == "image"


def as_ycck(data: bytes) -> bytes:
    """Mark a CMYK JPEG as YCCK in its Adobe marker."""
    at = data.index(b"Adobe")
    return data[: at + 11] + b"\x02" + data[at + 12 :]


@both
def test_ycck_becomes_rgb_like_in_pillow(decoder: Any) -> None:
    cmyk = encoded(Image.fromarray(smooth(32, 40)).convert("CMYK"), "JPEG", quality=95)
    data = as_ycck(cmyk)
    expected = np.asarray(opened(data).convert("RGB"))
    assert decoded(data, decoder=decoder).tolist() == expected.tolist()
    assert expected.tolist() != np.asarray(opened(cmyk).convert("RGB")).tolist()


# ---- EXIF ----

KINDS = [("JPEG", {"quality": 95}), ("PNG", {}), ("WEBP", {"lossless": True})]


@pytest.mark.parametrize(
    ("stored_as", "orientation", "decoder"), pairs(KINDS, [1, 2, 3, 4, 5, 6, 7, 8, 0, 9], DECODERS)
)
def test_exif_rotation(stored_as: Any, orientation: int, decoder: Any) -> None:
    kind, options = stored_as
    data = encoded(smooth(18, 31), kind, exif=oriented(orientation), **options)
    stored = np.asarray(opened(data))
    turned = np.asarray(ImageOps.exif_transpose(opened(data)))
    assert (turned.shape != stored.shape) == (orientation in (5, 6, 7, 8))
    assert decoded(data, decoder=decoder).tolist() == stored.tolist()
    found = decoded(data, decoder=decoder, apply_exif_orientation=True)
    assert found.tolist() == turned.tolist()
    crop: dict[str, Any] = {"crop": (2, 3, 10, 12), "apply_exif_orientation": True}
    assert decoded(data, decoder=decoder, **crop).tolist() == turned[2:12, 3:15].tolist()


@pytest.mark.parametrize(("orientation", "asked"), [(1, True), (3, False), (6, True)])
def test_tiff_orientation_is_always_applied(orientation: int, asked: bool) -> None:
    array = noise(4, 7)
    data = encoded(array, "TIFF", tiffinfo={0x0112: orientation})
    turned = {1: array, 3: array[::-1, ::-1], 6: array.swapaxes(0, 1)[:, ::-1]}[orientation]
    assert decoded(data, apply_exif_orientation=asked).tolist() == turned.tolist()
    found = decoded(data, apply_exif_orientation=asked, crop=(1, 0, 2, 3))
    assert found.tolist() == turned[1:3, :3].tolist()


# ---- damage ----


@pytest.mark.parametrize(
    ("kind", "options", "decoder"),
    pairs(
        ["JPEG", "PNG", "GIF", "WEBP", "BMP", "TIFF"],
        [{}, {"size": (9, 9)}, {"mixed": "pad"}],
        DECODERS,
    ),
)
def test_truncated_images_are_refused(kind: str, options: dict[str, Any], decoder: Any) -> None:
    whole = encoded(noise(40, 40), kind)
    valid = encoded(noise(40, 40))
    assert decoded(whole, decoder=decoder, **options).size
    for part in (0.2, 0.6, 0.95):
        images = [valid, whole[: int(len(whole) * part)], valid]
        with pytest.raises(DecodeError, match="the image cannot be decoded") as caught:
            column_of(images, decoder=decoder, **options)
        assert (caught.value.record, caught.value.feature) == (1, "image")


@both
def test_pillow_setting_for_truncated_images_is_rejected(
    monkeypatch: pytest.MonkeyPatch, decoder: Any
) -> None:
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", True)
    for kind in ("PNG", "JPEG"):
        whole = encoded(noise(40, 40), kind)
        with pytest.raises((RuntimeError, DecodeError), match=r"TRUNCATED|cannot be decoded"):
            decoded(whole[: len(whole) // 2], decoder=decoder)
    with pytest.raises(RuntimeError, match="LOAD_TRUNCATED_IMAGES is set"):
        decoded(encoded(noise(4, 4), "GIF"), decoder=decoder)


@both
def test_decompression_bombs_are_rejected(decoder: Any) -> None:
    for kind in ("JPEG", "PNG"):
        with pytest.raises(DecodeError, match="claims 41 x 40 pixels, more than max_pixels=1639"):
            decoded(encoded(noise(40, 41), kind), decoder=decoder, max_pixels=1639)
        assert decoded(encoded(noise(40, 41), kind), decoder=decoder, max_pixels=1640).size


def iptc() -> bytes:
    """It may contain EPS, or an image that is larger than declared."""
    data = encoded(Image.new("L", (50, 40)))
    sizes = b"".join(struct.pack(">BBBHH", 0x1C, 3, field, 2, 4) for field in (20, 30))
    mode = bytes([0x1C, 3, 60, 0, 2, 1, 0])
    compression = bytes([0x1C, 3, 120, 0, 1, 5])
    return mode + sizes + compression + struct.pack(">BBBH", 0x1C, 8, 10, len(data)) + data


def eps() -> bytes:
    """Pillow runs another program to decode EPS."""
    return encoded(noise(4, 4), "EPS")


def blp() -> bytes:
    """It may contain a JPEG with any number of scans."""
    return encoded(Image.new("P", (8, 8)), "BLP")


def fits() -> bytes:
    """Its compressed form is decoded in Python, pixel by pixel."""
    cards = ["SIMPLE  =                    T", "BITPIX  =                    8"]
    cards += ["NAXIS   =                    2", "NAXIS1  =                    4"]
    cards += ["NAXIS2  =                    4", "END"]
    return "".join(card.ljust(80) for card in cards).encode().ljust(2880) + bytes(16)


@pytest.mark.parametrize("make", [eps, iptc, blp, fits])
def test_formats_that_take_too_much_are_rejected(make: Any) -> None:
    data = make()
    with Image.open(io.BytesIO(data)) as image:
        assert image.format == make.__name__.upper()
    with pytest.raises(DecodeError, match="its format is not known"):
        decoded(data)


def bmp(width: int, height: int) -> bytes:
    """Return the header of a BMP file that claims to be large."""
    info = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, 0, 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54, 0, 0, 54) + info + bytes(100)


def gif(width: int, height: int) -> bytes:
    """Return a GIF file whose screen claims to be large."""
    small = encoded(Image.new("L", (1, 1)), "GIF")
    return small[:6] + struct.pack("<HH", width, height) + small[10:]


@pytest.mark.parametrize("data", [bmp(30_000, 30_000), gif(60_000, 60_000)], ids=["BMP", "GIF"])
def test_bombs_are_refused_before_they_are_decoded(
    data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torchrec_io._images.decode._render", None)
    for size in (None, (4, 4)):
        with pytest.raises(DecodeError, match=r"pixels|exceeds limit"):
            decoded(data, size=size)


def test_the_limit_of_pillow_holds_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encoded(noise(10, 10))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 60)
    with pytest.warns(Image.DecompressionBombWarning):
        assert decoded(data, decoder="pillow").shape == (10, 10, 3)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 40)
    with pytest.raises(DecodeError, match="exceeds limit"):
        decoded(data, decoder="pillow")


def tiled_tiff(size: int, tile: int) -> bytes:
    """Return a gray TIFF of one tile of zeros."""
    pixels = zlib.compress(bytes(tile * tile))
    numbers = {256: size, 257: size, 258: 8, 259: 8, 262: 1, 277: 1, 322: tile, 323: tile}
    numbers |= {324: 8 + 2 + 10 * 12 + 4, 325: len(pixels)}
    tags = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in numbers.items())
    return struct.pack("<2sHIH", b"II", 42, 8, len(numbers)) + tags + bytes(4) + pixels


def test_tiles_larger_than_their_tiff_are_rejected() -> None:
    """They are decoded as a whole."""
    data = tiled_tiff(16, 64)
    assert decoded(data, max_pixels=64 * 64).shape == (16, 16, 3)
    with pytest.raises(DecodeError, match="claims 64 x 64 pixels, more than max_pixels=4095"):
        decoded(data, max_pixels=64 * 64 - 1)


def test_frames_larger_than_their_gif_are_rejected() -> None:
    small, large = (encoded(Image.new("P", size), "GIF") for size in ((8, 8), (60, 60)))
    frame = large[large.index(b"\x2c") : -1]
    data = small[:-1] + frame + b";"
    with pytest.raises(DecodeError, match="2 frames of 60 x 60 pixels, more than max_pixels=2000"):
        decoded(data, animated=True, max_pixels=2000)


def test_image_size_may_differ_from_its_container() -> None:
    array = noise(128, 128)
    png = encoded(array)
    parts = b"".join(kind + struct.pack(">I", len(png) + 8) + png for kind in (b"ic07", b"ic08"))
    data = b"icns" + struct.pack(">I", len(parts) + 8) + parts
    with Image.open(io.BytesIO(data)) as image:
        assert image.size == (256, 256)
    assert decoded(data).tolist() == array.tolist()


@pytest.mark.skipif(not features.check("jpg_2000"), reason="this Pillow has no JPEG 2000")
def test_other_formats_of_pillow_are_read() -> None:
    array = noise(16, 17)
    for kind in ("JPEG2000", "TGA", "PPM"):
        assert decoded(encoded(array, kind)).tolist() == array.tolist()
