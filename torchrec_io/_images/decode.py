"""Decoding of one image to pixels, natively or by Pillow."""

from __future__ import annotations

import io
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageFile, TiffImagePlugin, UnidentifiedImageError

from .._schema.image_spec import ImageFeature
from .bad_value import BadValueError
from .exif import Rotation, exif_rotation
from .geometry import KeyFactory, View, find_view
from .gif import count_frames
from .jpeg_markers import SIGNATURE as JPEG_SIGNATURE
from .jpeg_markers import check_jpeg
from .limits import check_pixels, check_size
from .native import decode_one, is_native
from .png import CHANNELS, SIGNATURE, Header, convert_channels, read_header, read_pixels

Pixels: TypeAlias = npt.NDArray[Any]

_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
# Target modes for channels=0, by the image's mode; RGB for all others.
_STORED_MODES = {"1": "L", "L": "L", "LA": "LA", "La": "LA", "RGBA": "RGBA", "RGBa": "RGBA"}
# Formats that are tried first, in this order.
_COMMON_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
# EPS runs another program, Ghostscript, on the data. IPTC holds an image of any format, even EPS,
# and the image may be larger than it claims. So may the JPEG in a BLP, whose scans are not checked.
# Compressed FITS is decoded in Python, pixel by pixel.
_REFUSED_FORMATS = ("EPS", "IPTC", "BLP", "FITS")
# Formats whose size is known before decoding. Pillow itself rotates TIFF; others, such as ICNS,
# may hold images of another size than their headers have.
_SIZED_FORMATS = ("JPEG", "MPO", "PNG", "WEBP", "GIF", "BMP")


class DecodedImage(NamedTuple):
    """A decoded image.

    Attributes:
        pixels: ``[H, W, C]``, or ``[T, H, W, C]`` for frames; uint8, or uint16 or float32 for
            features with the dtype "uint16" or with ``bitcast``.
        position: Top and left of the pixels in the value, which may be larger.
    """

    pixels: Pixels
    position: tuple[int, int]


def decode_image(data: memoryview, feature: ImageFeature, make_key: KeyFactory) -> DecodedImage:
    """Decode one image, and crop and resize it as a feature specifies.

    Args:
        data: Bytes of the image file.
        feature: Feature spec.
        make_key: Function that makes the key of the random numbers for ``augment``.

    Raises:
        BadValueError: If the data is not an image, is damaged or truncated, claims too many pixels,
            or cannot be converted as the feature needs.
        RuntimeError: If Pillow is set to decode truncated images.
    """
    try:
        if is_native(data, feature):
            decoded = DecodedImage(*decode_one(data, feature, make_key))
        else:
            if data[:3] == JPEG_SIGNATURE:
                check_jpeg(data)
            decoded = _decode_by_pillow(data, feature, make_key)
        pixels = _convert_dtype(decoded.pixels, data, feature)
        if pixels is not decoded.pixels:
            decoded = DecodedImage(pixels, decoded.position)
    except (BadValueError, MemoryError):  # a lack of memory is not an error of the image
        raise
    except Exception as error:  # Pillow's plugins raise nearly anything on hostile bytes
        raise _bad_value(error) from error
    if ImageFile.LOAD_TRUNCATED_IMAGES:
        raise RuntimeError(
            "PIL.ImageFile.LOAD_TRUNCATED_IMAGES is set: damaged images would not be detected; set "
            "it to False"
        )
    return decoded


def read_stored_size(data: memoryview, feature: ImageFeature) -> tuple[int, int]:
    """Return the height and width of an image after its rotation.

    Raises:
        BadValueError: If the header is not that of an image, or claims too many pixels.
    """
    try:
        if data[:3] == JPEG_SIGNATURE:
            check_jpeg(data)
        with open_image(data) as image:
            check_size(image, feature.max_pixels)
            rotation = _rotation_of(image, feature)
            if rotation is not None and rotation.swaps:
                return image.width, image.height
            return image.height, image.width
    except (BadValueError, MemoryError):
        raise
    except Exception as error:
        raise _bad_value(error) from error


def _bad_value(error: Exception) -> BadValueError:
    is_unknown = isinstance(error, UnidentifiedImageError)
    reason = "its format is not known" if is_unknown else error
    return BadValueError(f"the image cannot be decoded: {reason}")


def _convert_dtype(pixels: Pixels, data: memoryview, feature: ImageFeature) -> Pixels:
    """Convert pixels to the feature's dtype, except for floats from 0 to 1."""
    if feature.bitcast:
        return np.ascontiguousarray(pixels).view("<f4")
    if feature.dtype == "uint16" and pixels.dtype == np.uint8:
        # libpng repeats the byte; TensorFlow scales images of other formats by 256.
        scale = 257 if data[:8] == SIGNATURE else 256
        return pixels * np.uint16(scale)
    return pixels[np.newaxis] if feature.animated and pixels.ndim == 3 else pixels


# ---- Pillow ----


def _decode_by_pillow(
    data: memoryview, feature: ImageFeature, make_key: KeyFactory
) -> DecodedImage:
    header = read_header(data)
    if feature.bitcast and (header is None or (header.depth, header.color_type) != (8, 6)):
        raise BadValueError("the image must be a PNG with four channels of 8 bits for bitcast")
    is_wide = header is not None and header.depth == 16
    if header is not None:
        check_pixels(header.height, header.width, feature.max_pixels, is_wide=is_wide)
        if is_wide and feature.dtype == "uint16":
            return _decode_16_bit_png(data, header, feature, make_key)
    with open_image(data) as image:
        check_size(image, feature.max_pixels, is_wide=is_wide)
        rotation = _rotation_of(image, feature)
        if feature.palette == "index":
            _check_indices(image, header)
        stored = image if header is None else _restore_png(image, data, header, feature)
        rotated = stored if rotation is None else stored.transpose(rotation.method)
        view = find_view(feature, rotated.height, rotated.width, make_key)
        if feature.animated and image.format == "GIF":
            frames = _render_frames(image, count_frames(data), view, feature)
            return DecodedImage(frames, view.position)
        is_16_bit = image.mode == "I" and image.format in ("PNG", "PPM")  # in some versions
        is_gif = image.format == "GIF"
        pixels = _render(rotated, view, feature, is_16_bit=is_16_bit, is_gif=is_gif)
        return DecodedImage(pixels, view.position)


def open_image(data: memoryview) -> ImageFile.ImageFile:
    """Open an image with Pillow, without the formats that run other programs."""
    # All plugins are loaded first: a thread that opens an image while another loads them might not
    # know its format.
    Image.init()
    names = [*(name for name in _COMMON_FORMATS if name in Image.OPEN), *Image.ID]
    formats = [name for name in dict.fromkeys(names) if name not in _REFUSED_FORMATS]
    # Pillow warns of images over its own, larger limit. That is not suppressed: warning filters
    # belong to the process, and images are decoded in threads.
    return Image.open(io.BytesIO(data), formats=formats)


def _rotation_of(image: ImageFile.ImageFile, feature: ImageFeature) -> Rotation | None:
    """Return the rotation of an opened image; None if it is not rotated.

    The image is decoded if its size is not known before.
    """
    if image.format not in _SIZED_FORMATS:
        image.load()
    if feature.apply_exif_orientation and image.format != "TIFF":
        return exif_rotation(image)
    return None


def _check_indices(image: Image.Image, header: Header | None) -> None:
    """Refuse an image whose pixels are not indices or levels as they are stored."""
    kind = None if image.mode in ("P", "L") else f"pixels of the mode {image.mode!r}"
    bits = 8 if header is None or header.color_type else header.depth
    if isinstance(image, TiffImagePlugin.TiffImageFile) and image.mode == "L":
        bits = image.tag_v2.get(TiffImagePlugin.BITSPERSAMPLE, (1,))[0]
    if bits < 8:
        kind = "gray levels of fewer bits"  # they would be scaled
    if image.format in ("JPEG", "MPO"):
        kind = "a JPEG, whose levels are not exact"
    if kind is not None:
        raise BadValueError(
            "the image must have a palette, or gray levels of 8 bits, for palette='index', got "
            f"{kind}"
        )


def _restore_png(
    image: Image.Image, data: memoryview, header: Header, feature: ImageFeature
) -> Image.Image:
    """Return a PNG with its stored channels and transparent color where Pillow changes them."""
    has_alpha = "transparency" in image.info and feature.channels in (2, 4)
    if not has_alpha and image.mode != "RGBA":
        return image
    if header.depth == 16 and header.color_type == 4:
        return image.convert("LA")  # stored as gray
    if header.depth == 16 and has_alpha:  # Pillow compares only 8 bits with the transparent color
        return Image.fromarray((read_pixels(data, header) >> 8).astype(np.uint8))
    if header.color_type == 0 and header.depth in (2, 4):  # Pillow scales pixels, but not the color
        image.info["transparency"] *= 255 // ((1 << header.depth) - 1)
    return image


def _decode_16_bit_png(
    data: memoryview, header: Header, feature: ImageFeature, make_key: KeyFactory
) -> DecodedImage:
    rotation = None
    if feature.apply_exif_orientation:
        with open_image(data) as image:
            rotation = exif_rotation(image)
    pixels = read_pixels(data, header)
    pixels = convert_channels(pixels, feature.channels, CHANNELS[header.color_type])
    if rotation is not None:
        pixels = rotation.apply(pixels)
    view = find_view(feature, pixels.shape[0], pixels.shape[1], make_key)
    return DecodedImage(_cut_out(pixels, view, feature), view.position)


def _render_frames(
    image: ImageFile.ImageFile, count: int, view: View, feature: ImageFeature
) -> Pixels:
    """Return a view of each frame of a GIF, drawn over those before it."""
    check_pixels(image.height, image.width, feature.max_pixels, frames=count)
    frames = []
    for number in range(count):
        image.seek(number)
        # A frame that extends past the image makes it larger.
        check_pixels(image.height, image.width, feature.max_pixels, frames=count)
        frames.append(_render(image.copy(), view, feature, is_gif=True))
    return np.stack(frames)


def _render(
    image: Image.Image,
    view: View,
    feature: ImageFeature,
    *,
    is_16_bit: bool = False,
    is_gif: bool = False,
) -> Pixels:
    """Return the pixels of a view of an image.

    Args:
        image: Image.
        view: Part of the image to return.
        feature: Feature spec.
        is_16_bit: Whether values of mode "I" have 16 bits.
        is_gif: Whether the image is a frame of a GIF.
    """
    image.load()
    if view.box != (0, 0, *image.size):
        image = image.crop(view.box)
    is_16_bit = is_16_bit or image.mode.startswith("I;16")
    if is_16_bit and feature.dtype == "uint16":
        gray = np.asarray(image).astype(np.uint16)[:, :, np.newaxis]
        return _finish(convert_channels(gray, feature.channels, 1), view, feature)
    mode = _target_mode(image, feature)
    if is_gif and mode in ("L", "RGB") and feature.palette == "color":
        image = _blacken(image)
    image = _convert_mode(image, mode, is_16_bit=is_16_bit)
    if view.is_resized and feature.filter == "bilinear":
        height, width = view.size
        image = image.resize((width, height), Image.Resampling.BILINEAR, box=view.resized_box)
    return _finish(np.asarray(image), view, feature)


def _cut_out(pixels: Pixels, view: View, feature: ImageFeature) -> Pixels:
    """Return the pixels of a view."""
    left, top, right, bottom = view.box
    return _finish(pixels[top:bottom, left:right], view, feature)


def _finish(pixels: Pixels, view: View, feature: ImageFeature) -> Pixels:
    """Resize the pixels of a view's box to their nearest neighbors, if wanted, and mirror them."""
    pixels = pixels[:, :, np.newaxis] if pixels.ndim == 2 else pixels
    if view.is_resized and feature.filter == "nearest":
        pixels = view.nearest(pixels)
    return pixels[:, ::-1] if view.is_flipped else pixels


def _target_mode(image: Image.Image, feature: ImageFeature) -> str:
    """Return the mode to convert an image to."""
    if feature.bitcast:
        return "RGBA"
    if feature.channels:
        return image.mode if feature.palette == "index" else _MODES[feature.channels]
    if image.format == "GIF":
        return "RGB"  # as in TensorFlow, whatever the palette
    if image.mode in ("P", "PA"):
        return "RGBA" if image.mode == "PA" or "transparency" in image.info else "RGB"
    if image.mode.startswith("I"):
        return "L"
    return _STORED_MODES.get(image.mode, "RGB")


def _blacken(image: Image.Image) -> Image.Image:
    """Return a frame of a GIF with black in place of transparent pixels, as in TensorFlow."""
    if image.mode != "RGBA" and "transparency" not in image.info:
        return image
    black = Image.new("RGB", image.size)
    colors = image.convert("RGBA")
    black.paste(colors, mask=colors)
    return black


def _convert_mode(image: Image.Image, mode: str, *, is_16_bit: bool) -> Image.Image:
    if is_16_bit:
        # Pillow clips 16-bit gray to 255; TensorFlow's decoders keep the upper byte, as is right.
        image = Image.fromarray((np.asarray(image).astype(np.uint16) >> 8).astype(np.uint8))
    elif image.mode in ("I", "F"):
        kind = "floats" if image.mode == "F" else "32-bit integers"
        raise BadValueError(f"the image's pixels are {kind}, which cannot be converted to 8 bits")
    if mode == "LA" and image.mode not in ("L", "LA"):
        image = image.convert("RGBA")
    if mode not in ("RGBA", "LA"):
        # Alpha is dropped. Pillow would warn of some palettes.
        image.info.pop("transparency", None)
    return image if image.mode == mode else image.convert(mode)
