"""Decoding one image: bytes to pixels, by Pillow or simplejpeg."""

from __future__ import annotations

import io
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import ExifTags, Image, ImageFile, UnidentifiedImageError

from ..schema.image_spec import ImageFeature
from .bad_value import BadValueError
from .geometry import Draw, View, view_of_image
from .gif import frames_of
from .png import CHANNELS, SIGNATURE, Header, header_of, read_wide, with_channels

Pixels = npt.NDArray[Any]

_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
# Modes that have what they show in as many channels as an image that is decoded as it is stored.
_STORED_MODES = {"1": "L", "L": "L", "LA": "LA", "La": "LA", "RGBA": "RGBA", "RGBa": "RGBA"}
_JPEG = b"\xff\xd8\xff"
# Tried in this order, then all others.
_USUAL = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
# EPS runs another program, Ghostscript, on the data. IPTC holds an image of any format, EPS and
# larger ones than it claims included.
_REFUSED = ("EPS", "IPTC")
# Their size is known before they are decoded. Pillow turns TIFF by itself; others, such as ICNS,
# may hold images of another size than their headers say.
_SIZED = ("JPEG", "MPO", "PNG", "WEBP", "GIF", "BMP")


class Decoded(NamedTuple):
    """A decoded image.

    Attributes:
        pixels: ``[H, W, C]``, or ``[T, H, W, C]`` of frames; uint8, or as ImageFeature's "uint16"
            and ``bitcast`` want them.
        at: Top and left of its place in the record's value.
    """

    pixels: Pixels
    at: tuple[int, int]


def decode_image(
    data: memoryview, feature: ImageFeature, draw: Draw, into: Pixels | None = None
) -> Decoded:
    """Decodes one image, cut and resized as the feature says.

    Args:
        data: Of the image file.
        feature: See there.
        draw: Makes the generator that ``augment`` gets.
        into: uint8 ``[H, W, C]``, contiguous: where pixels go if nothing is left to be done to
            them once they are decoded. Its content is of no use if this raises.

    Raises:
        BadValueError: it is no image, is damaged or cut short, claims too many pixels, or is none
            that the feature can show.
        RuntimeError: Pillow was told to fill up images that are cut short.
    """
    try:
        decoded = None
        if feature.decoder == "simplejpeg" and data[:3] == _JPEG and not feature.bitcast:
            decoded = _by_simplejpeg(data, feature, draw, into)
        if decoded is None:
            decoded = _by_pillow(data, feature, draw)
        pixels = _finished(decoded.pixels, data, feature)
        if pixels is not decoded.pixels:
            decoded = Decoded(pixels, decoded.at)
    except (BadValueError, MemoryError):  # want of memory is no fault of the image
        raise
    except UnidentifiedImageError:
        raise BadValueError("the image cannot be decoded: it is of no known format") from None
    except Exception as error:  # Pillow's plugins raise nearly anything on hostile bytes
        raise BadValueError(f"the image cannot be decoded: {error}") from error
    if ImageFile.LOAD_TRUNCATED_IMAGES:
        raise RuntimeError(
            "PIL.ImageFile.LOAD_TRUNCATED_IMAGES is set: damaged images would pass as sound ones"
        )
    return decoded


def _finished(pixels: Pixels, data: memoryview, feature: ImageFeature) -> Pixels:
    """Pixels as the feature's dtype has them, but for floats from 0 to 1."""
    if feature.bitcast:
        return np.ascontiguousarray(pixels).view("<f4")
    if feature.dtype == "uint16" and pixels.dtype == np.uint8:
        # libpng repeats the byte; TensorFlow's scaling of other formats' images is by 256.
        scale = 257 if data[:8] == SIGNATURE else 256
        return pixels * np.uint16(scale)
    return pixels[np.newaxis] if feature.animated and pixels.ndim == 3 else pixels


def _by_pillow(data: memoryview, feature: ImageFeature, draw: Draw) -> Decoded:
    header = header_of(data) if feature.bitcast or feature.dtype == "uint16" else None
    if feature.bitcast and (header is None or (header.depth, header.color_type) != (8, 6)):
        raise BadValueError("the image is no PNG of four channels of 8 bits, as bitcast needs it")
    if header is not None and header.depth == 16:
        return _by_own_reader(data, header, feature, draw)
    with _opened(data) as image:
        _check_pixels(image.height, image.width, feature)
        turn = None
        if image.format not in _SIZED:
            image.load()
        if feature.apply_exif_orientation and image.format != "TIFF":
            turn = _turn_of(image)
        stored = _as_stored(image, data, feature) if image.format == "PNG" else image
        turned = stored if turn is None else stored.transpose(turn.method)
        view = view_of_image(feature, turned.height, turned.width, draw)
        if feature.animated and image.format == "GIF":
            return Decoded(_frames(image, frames_of(data), view, feature), view.at)
        wide = image.mode == "I" and image.format in ("PNG", "PPM")  # some versions' 16 bits
        return Decoded(_shown(turned, view, feature, wide=wide), view.at)


def _opened(data: memoryview) -> ImageFile.ImageFile:
    # All plugins are loaded first: a thread that opens an image while another loads them might not
    # know its format.
    Image.init()
    formats = dict.fromkeys([*(name for name in _USUAL if name in Image.OPEN), *Image.ID])
    for name in _REFUSED:
        formats.pop(name, None)
    # Pillow warns of images over its own, larger limit. That is not suppressed: warning filters
    # belong to the process, and images are decoded in threads.
    return Image.open(io.BytesIO(data), formats=tuple(formats))


def _as_stored(image: Image.Image, data: memoryview, feature: ImageFeature) -> Image.Image:
    """A PNG as it is stored, where Pillow has other channels, or another transparent color."""
    shows_one_color = "transparency" in image.info and feature.channels in (2, 4)
    header = header_of(data) if shows_one_color or image.mode == "RGBA" else None
    if header is None:
        return image
    if header.depth == 16 and header.color_type == 4:
        return image.convert("LA")  # gray stays what it is
    if header.depth == 16 and shows_one_color:  # of which Pillow compares 8 bits
        return Image.fromarray((read_wide(data, header) >> 8).astype(np.uint8))
    if header.color_type == 0 and header.depth in (2, 4):  # pixels are scaled, the color is not
        image.info["transparency"] *= 255 // ((1 << header.depth) - 1)
    return image


def _by_own_reader(data: memoryview, header: Header, feature: ImageFeature, draw: Draw) -> Decoded:
    """A decoded PNG of 16 bits."""
    _check_pixels(header.height, header.width, feature)
    turn = None
    if feature.apply_exif_orientation:
        with _opened(data) as image:
            turn = _turn_of(image)
    pixels = read_wide(data, header)
    pixels = with_channels(pixels, feature.channels, CHANNELS[header.color_type])
    if turn is not None:
        pixels = pixels.transpose(1, 0, 2) if turn.swaps else pixels
        columns, rows = turn.reverses
        pixels = pixels[:: -1 if rows else 1, :: -1 if columns else 1]
    view = view_of_image(feature, pixels.shape[0], pixels.shape[1], draw)
    left, top, right, bottom = view.box
    return Decoded(_flipped(pixels[top:bottom, left:right], view), view.at)


def _check_pixels(height: int, width: int, feature: ImageFeature, frames: int = 1) -> None:
    if width * height * frames > feature.max_pixels:
        claim = f"{width} x {height}" if frames == 1 else f"{frames} frames of {width} x {height}"
        raise BadValueError(
            f"the image claims {claim} pixels, more than max_pixels={feature.max_pixels}"
        )


# ---- EXIF ----


class _Turn(NamedTuple):
    """How the pixels of an image are to be arranged anew.

    Attributes:
        method: As Pillow calls it.
        swaps: Whether rows become columns; that comes first.
        reverses: Whether columns, and rows, then stand in reverse.
    """

    method: Image.Transpose
    swaps: bool
    reverses: tuple[bool, bool]


_TURNS = {
    2: _Turn(Image.Transpose.FLIP_LEFT_RIGHT, swaps=False, reverses=(True, False)),
    3: _Turn(Image.Transpose.ROTATE_180, swaps=False, reverses=(True, True)),
    4: _Turn(Image.Transpose.FLIP_TOP_BOTTOM, swaps=False, reverses=(False, True)),
    5: _Turn(Image.Transpose.TRANSPOSE, swaps=True, reverses=(False, False)),
    6: _Turn(Image.Transpose.ROTATE_270, swaps=True, reverses=(True, False)),
    7: _Turn(Image.Transpose.TRANSVERSE, swaps=True, reverses=(True, True)),
    8: _Turn(Image.Transpose.ROTATE_90, swaps=True, reverses=(False, True)),
}


def _turn_of(image: Image.Image) -> _Turn | None:
    """How an image is to be turned by its EXIF data; None if it is upright, or nothing is said."""
    return _TURNS.get(image.getexif().get(ExifTags.Base.Orientation, 1))


# ---- pixels ----


def _frames(image: ImageFile.ImageFile, count: int, view: View, feature: ImageFeature) -> Pixels:
    """What is seen of each frame of a GIF, drawn over those before it."""
    _check_pixels(image.height, image.width, feature, count)
    frames = []
    for number in range(count):
        image.seek(number)
        frames.append(_shown(image.copy(), view, feature))
    return np.stack(frames)


def _shown(image: Image.Image, view: View, feature: ImageFeature, *, wide: bool = False) -> Pixels:
    """The pixels of a view of an image; ``wide``: values of mode "I" have 16 bits."""
    image.load()
    if view.box != (0, 0, *image.size):
        image = image.crop(view.box)
    wide = wide or image.mode.startswith("I;16")
    if wide and feature.dtype == "uint16":
        gray = np.asarray(image).astype(np.uint16)[:, :, np.newaxis]
        return _flipped(with_channels(gray, feature.channels, 1), view)
    image = _to_mode(image, _mode_of(image, feature), wide=wide)
    if view.is_resized:
        height, width = view.size
        image = image.resize((width, height), Image.Resampling.BILINEAR, box=view.part)
    return _flipped(np.asarray(image), view)


def _flipped(array: Pixels, view: View) -> Pixels:
    array = array[:, :, np.newaxis] if array.ndim == 2 else array
    return array[:, ::-1] if view.flip else array


def _mode_of(image: Image.Image, feature: ImageFeature) -> str:
    """The mode to convert an image to."""
    if feature.bitcast:
        return "RGBA"
    if feature.channels:
        return _MODES[feature.channels]
    if image.format == "GIF":
        return "RGB"  # as TensorFlow has it, whatever the palette
    if image.mode in ("P", "PA"):
        return "RGBA" if image.mode == "PA" or "transparency" in image.info else "RGB"
    if image.mode.startswith("I"):
        return "L"
    return _STORED_MODES.get(image.mode, "RGB")


def _to_mode(image: Image.Image, mode: str, *, wide: bool) -> Image.Image:
    if wide:
        # Pillow clips 16-bit gray to 255; TensorFlow's decoders keep the upper byte, as is right.
        image = Image.fromarray((np.asarray(image).astype(np.uint16) >> 8).astype(np.uint8))
    elif image.mode in ("I", "F"):
        kind = "floats" if image.mode == "F" else "32 bits"
        raise BadValueError(f"the image's pixels are {kind}, which have no rule for 8 bits")
    if mode == "LA" and image.mode not in ("L", "LA"):
        image = image.convert("RGBA")
    if mode not in ("RGBA", "LA"):
        # It is dropped. Pillow warns of some palettes that it has to drop it of.
        image.info.pop("transparency", None)
    return image if image.mode == mode else image.convert(mode)


# ---- simplejpeg ----


def _by_simplejpeg(
    data: memoryview, feature: ImageFeature, draw: Draw, into: Pixels | None
) -> Decoded | None:
    """A decoded JPEG; None if it is not one for simplejpeg."""
    import simplejpeg  # noqa: PLC0415  # an extra

    try:
        height, width, colors, _ = simplejpeg.decode_jpeg_header(data)
    except ValueError:  # damage, or subsampling that only Pillow knows
        return None
    if colors not in ("RGB", "YCbCr", "Gray"):
        return None
    _check_pixels(height, width, feature)
    turn = None
    if feature.apply_exif_orientation:
        with _opened(data) as opened:
            turn = _turn_of(opened)
    sizes = (width, height) if turn is not None and turn.swaps else (height, width)
    view = view_of_image(feature, *sizes, draw)
    # The smallest images may have as many pixels at several scales.
    eighths = view.eighths() if max(height, width) >= 8 else 8
    channels = 1 if colors == "Gray" else 3
    is_whole = view.box == (0, 0, width, height) and not view.is_resized and not view.flip
    fits = into is not None and into.shape == (height, width, channels)
    pixels: Pixels = simplejpeg.decode_jpeg(
        data,
        "GRAY" if channels == 1 else "RGB",
        fastdct=False,
        fastupsample=False,
        min_height=-(-height * eighths // 8) if eighths < 8 else 0,
        min_width=-(-width * eighths // 8) if eighths < 8 else 0,
        min_factor=2 if eighths < 8 else 1,
        strict=True,
        buffer=into if is_whole and fits and turn is None else None,
    )
    if turn is None and not view.is_resized and feature.channels in (0, pixels.shape[2]):
        left, top, right, bottom = view.box
        return Decoded(_flipped(pixels[top:bottom, left:right], view), view.at)
    image: Image.Image = Image.fromarray(pixels[:, :, 0] if pixels.shape[2] == 1 else pixels)
    if turn is not None:
        image = image.transpose(turn.method)
    if eighths < 8:
        view = _scaled(view, eighths / 8, image, sizes, turn)
    return Decoded(_shown(image, view, feature), view.at)


def _scaled(
    view: View, scale: float, image: Image.Image, sizes: tuple[int, int], turn: _Turn | None
) -> View:
    """A view of an image of some height and width, as one of an image decoded at a scale."""
    # The last pixel of a scaled row is of fewer stored ones; turned, that may be the first.
    x, y = 0.0, 0.0
    if turn is not None:
        x = (image.width - sizes[1] * scale) * turn.reverses[0]
        y = (image.height - sizes[0] * scale) * turn.reverses[1]
    (left, top, *_), part = view.box, view.part
    return view._replace(
        box=(0, 0, *image.size),
        part=(
            (left + part[0]) * scale + x,
            (top + part[1]) * scale + y,
            min((left + part[2]) * scale + x, image.width),
            min((top + part[3]) * scale + y, image.height),
        ),
    )
