"""Conversion of a folder of images to TFRecord, with the features of TensorFlow's ImageNet."""

from __future__ import annotations

import functools
import io
import os
import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, Unpack

import numpy as np
from PIL import Image, ImageFile, ImageOps

from .._images.decode import decode_image, open_image
from .._images.geometry import CropKey
from .._order.shuffle import check_seed, records_at
from .._schema.image_spec import ImageFeature
from .._schema.schema import Schema
from .._schema.specs import FixedLenFeature
from .._storage.binary_file import open_binary
from .._storage.folders import folder_of
from .._storage.local import StrPath
from .._writing.encode import encode_example
from ..checks import check_choice, check_integer, is_integer
from ..errors import ConversionError
from ..inspection.inference import infer_surveyed
from ..inspection.surveyor import Survey
from ..tools.report import Result
from .conversion import Conversion, ConvertedPiece
from .labels import LabelledImage, label_images
from .options import Options

Encoding = Literal["jpeg", "png"]

_FEATURE = ImageFeature()
# Modes that each format stores without a conversion.
_MODES = {
    "JPEG": ("L", "RGB", "CMYK"),
    "PNG": ("1", "L", "LA", "P", "RGB", "RGBA"),
}

_TEXT = FixedLenFeature([], "string")
_NUMBER = FixedLenFeature([], "int64")
SCHEMA = Schema(
    {
        "image/encoded": ImageFeature(),
        "image/format": _TEXT,
        "image/height": _NUMBER,
        "image/width": _NUMBER,
        "image/channels": _NUMBER,
        "image/colorspace": _TEXT,
        "image/filename": _TEXT,
        "image/class/label": _NUMBER,
        "image/class/text": _TEXT,
    }
)


class Coding(NamedTuple):
    """Options that control how images are encoded.

    Attributes:
        resize: Width and height, length of the shorter side, or None.
        encode: Output format, or None to keep the format.
        quality: Quality of JPEG.
    """

    resize: tuple[int, int] | int | None
    encode: Encoding | None
    quality: int


def from_images(
    source: StrPath,
    destination: StrPath,
    *,
    label_pattern: str | re.Pattern[str] | None = None,
    labels: StrPath | None = None,
    resize: tuple[int, int] | int | None = None,
    encode: Encoding | None = None,
    quality: int = 90,
    shuffle: int | None = None,
    **options: Unpack[Options],
) -> Result:
    """Convert a folder of images to TFRecord files of ``tf.train.Example`` records.

    Each image becomes a record with the features that TensorFlow's ImageNet scripts
    (``build_imagenet_data.py``) write:

    | feature | dtype | value |
    | --- | --- | --- |
    | ``image/encoded`` | string | bytes of the file, or of the image encoded again |
    | ``image/format`` | string | format of these bytes: "JPEG", "PNG", "GIF", ... |
    | ``image/height`` | int64 | height in pixels, before a rotation by EXIF data |
    | ``image/width`` | int64 | width in pixels, before a rotation by EXIF data |
    | ``image/channels`` | int64 | 1 for gray and palette images, 3 for RGB |
    | ``image/colorspace`` | string | Pillow's mode: "RGB", "L", "CMYK", ... |
    | ``image/filename`` | string | path relative to the folder of the class, or to ``source`` |
    | ``image/class/label`` | int64 | number of the class, from 0 (TensorFlow's ImageNet: from 1) |
    | ``image/class/text`` | string | name of the class |

    Every image is decoded to verify it. Its bytes are stored unchanged, unless the image is to be
    changed. The names of the classes are written to ``DESTINATION.labels.txt``, one per line, in
    the order of their numbers.

    Args:
        source: Folder of the images. Each folder in it is a class. Classes are numbered in the
            order of their names, as in torchvision's ``ImageFolder``. Images may be in subfolders
            of the class.
        destination: Path of the output file, or common start of the paths of the shards.
        label_pattern: Regular expression that is searched in each file name to find the class,
            instead of the folders. The class is its group ``label``, or else its first group.
        labels: CSV file with the columns ``name`` (path relative to ``source``) and ``label``,
            instead of the folders. If all labels of this file or of the pattern are integers, they
            are kept; otherwise they are numbered in the order of their names.
        resize: Size of the images, ``(width, height)``, or length of the shorter side. Images are
            rotated as their EXIF data says, then resized by an antialiased bilinear filter.
        encode: Format that images are encoded to: "jpeg" or "png". With ``resize`` alone, JPEG
            images stay JPEG and all others become PNG.
        quality: Quality of JPEG, 1 to 100.
        shuffle: Seed of a uniform permutation of the images. By default images are sorted by class
            and name.
        options: Keyword options of all conversions, see :class:`Options`: ``num_shards``,
            ``max_bytes``, ``compression``, ``index``, ``force``, ``jobs``, ``on_error``,
            ``allow_missing``, ``watcher`` and ``storage_options``.

    Returns:
        Paths, schema, counts and errors of the conversion. The schema resizes images as that of
        :meth:`Schema.infer`. Files without the suffix of an image are counted in ``ignored``.

    Raises:
        ConversionError: If an image cannot be opened, has 32-bit pixels, which ImageFeature does
            not read, or cannot be encoded as requested; or if an image has no label, or a label or
            class has no image; unless ``on_error="skip"``. Also if there are no images.
        FileExistsError: If an output exists, unless ``force``.
        ValueError: If an argument is invalid.
        OSError: If the folder cannot be read or a file cannot be written.
    """
    coding = Coding(resize, encode, quality)
    conversion = Conversion(destination, options)
    _check_coding(coding)
    seed = None if shuffle is None else check_seed(shuffle)
    images, classes = label_images(
        folder_of(source, options.get("storage_options")),
        conversion.report,
        label_pattern,
        None if labels is None else conversion.locate(labels),
    )
    if seed is not None:
        positions = np.arange(len(images), dtype=np.int64)
        order = records_at(positions, len(images), shuffle=True, seed=seed, epoch=0)
        images = [images[i] for i in order]
    conversion.report.watcher.started(sum(image.size for image in images))
    companion = conversion.locate(destination).beside(".labels.txt")
    Image.init()  # not thread-safe, and opening an image would call it
    return conversion.write(
        functools.partial(_convert, coding=coding),
        images,
        _schema_of,
        processes=False,  # Pillow releases the GIL
        companions={companion: _lines(classes)},
    )


def _schema_of(survey: Survey) -> Schema:
    """Return the schema of the records, with the size that :meth:`Schema.infer` chooses."""
    found = infer_surveyed(survey._replace(total=survey.records))
    image = found.findings["image/encoded"].spec
    specs = {**SCHEMA, "image/encoded": image} if isinstance(image, ImageFeature) else SCHEMA
    return Schema(specs).with_findings(found.findings, found.inspected)


def _check_coding(coding: Coding) -> None:
    resize = 1 if coding.resize is None else coding.resize
    sides = resize if isinstance(resize, Sequence) else (resize, resize)
    if len(sides) != 2 or not all(is_integer(side) and 1 <= side <= 1 << 16 for side in sides):
        raise ValueError(
            "resize must be (width, height) or the length of the shorter side, each from 1 to "
            f"65,536, got {coding.resize!r}"
        )
    check_choice("encode", coding.encode, (None, "jpeg", "png"))
    check_integer("quality", coding.quality, 1, 100)


def _lines(classes: Iterable[str]) -> bytes:
    for name in classes:
        if "\n" in name or "\r" in name:
            raise ConversionError(f"the name of the class {name!r} contains a line break")
    return b"".join(os.fsencode(name) + b"\n" for name in classes)


# ---- in the threads ----


def _convert(image: LabelledImage, coding: Coding) -> ConvertedPiece:
    try:
        return ConvertedPiece([encode_example(_features_of(image, coding))], image.size, [])
    except ConversionError as error:
        return ConvertedPiece([], image.size, [error])


def _features_of(image: LabelledImage, coding: Coding) -> dict[str, bytes | int]:
    try:
        with open_binary(image.file) as file:
            data = file.read()
    except OSError as error:
        reason = f"the image cannot be read: {error.strerror}"
        raise ConversionError(reason, path=image.file.name) from None
    data, picture = _encode_again(image, data, coding)
    return {
        "image/encoded": data,
        "image/format": b"JPEG" if picture.format == "MPO" else str(picture.format).encode(),
        "image/height": picture.height,
        "image/width": picture.width,
        "image/channels": len(picture.getbands()),
        "image/colorspace": picture.mode.encode(),
        "image/filename": os.fsencode(image.name),
        "image/class/label": image.label,
        "image/class/text": os.fsencode(image.text),
    }


def _encode_again(image: LabelledImage, data: bytes, coding: Coding) -> tuple[bytes, Image.Image]:
    """Return the bytes to store and the image that they encode."""
    try:
        picture = _decoded(data)
        if coding.resize is None and coding.encode is None:
            return data, picture
        data = _encoded(picture, coding)
        return data, _decoded(data)
    except MemoryError:  # not an error of the image
        raise
    except Exception as error:  # noqa: BLE001  # Pillow raises many types of errors
        reason = str(error).removeprefix("the image cannot be decoded: ")
        path = image.file.name
        raise ConversionError(f"the image cannot be opened: {reason}", path=path) from None


def _decoded(data: bytes) -> ImageFile.ImageFile:
    """Decode an image as datasets do, to verify it, and return it opened by Pillow."""
    view = memoryview(data)
    decode_image(view, _FEATURE, lambda: CropKey(bytes(16)))
    return open_image(view)


def _encoded(picture: ImageFile.ImageFile, coding: Coding) -> bytes:
    encode = coding.encode or ("jpeg" if picture.format in ("JPEG", "MPO") else "png")
    kind = encode.upper()
    rotated = ImageOps.exif_transpose(picture)
    resized = _resized(_in_mode(rotated, kind, coding), coding.resize)
    file = io.BytesIO()
    extra = {"quality": coding.quality} if kind == "JPEG" else {}
    resized.save(file, kind, icc_profile=resized.info.get("icc_profile"), **extra)
    return file.getvalue()


def _in_mode(picture: Image.Image, kind: str, coding: Coding) -> Image.Image:
    """Convert an image to a mode that can be encoded, and resized if necessary."""
    mode, has_alpha = picture.mode, picture.has_transparency_data
    is_deep = mode.startswith("I")
    if kind == "JPEG" and (has_alpha or is_deep):
        reason = "it has transparent or 16-bit pixels, which JPEG cannot store; use encode='png'"
        raise ValueError(reason)
    if is_deep:
        return picture.convert("I;16")
    # A resizing filter cannot mix indexes of a palette or bits, nor keep a transparent color.
    is_mixed = mode not in ("1", "P") and "transparency" not in picture.info
    if mode in _MODES[kind] and (is_mixed or coding.resize is None):
        return picture
    if mode in ("1", "L") and not has_alpha:
        return picture.convert("L")
    return picture.convert("RGBA" if has_alpha else "RGB")


def _resized(picture: Image.Image, resize: tuple[int, int] | int | None) -> Image.Image:
    if resize is None:
        return picture
    if not isinstance(resize, Sequence):
        # The longer side is rounded down, as in torchvision's Resize.
        short, long = sorted(picture.size)
        longer = max(1, resize * long // short)
        resize = (resize, longer) if picture.width <= picture.height else (longer, resize)
    return picture.resize(resize, Image.Resampling.BILINEAR)
