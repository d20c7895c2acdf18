"""A folder of images to TFRecord, in the layout of TensorFlow's ImageNet."""

from __future__ import annotations

import functools
import io
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from PIL import Image, ImageFile, ImageOps, UnidentifiedImageError

from ..errors import ConversionError, TorchRecIOError
from ..order.shuffle import check_seed, records_at
from ..schema.image_spec import ImageFeature
from ..schema.schema import Schema
from ..schema.specs import FixedLenFeature
from ..storage.local import StrPath
from ..writing.encode import encode_examples
from .labels import LabelledImage, label_images
from .shapes import Shapes
from .staging import StagedFiles
from .target import Conversion, Converter, Made, Options

if TYPE_CHECKING:
    from typing_extensions import Unpack

Encoding = Literal["jpeg", "png"]

# Others are refused, whatever a file is called: EPS, for one, is a program that Pillow would run.
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM")
_MOST_PIXELS = ImageFeature().max_pixels
_ALPHA = ("RGBA", "LA", "PA", "La", "RGBa")
# Modes that each format holds as they are.
_MODES = {
    "JPEG": ("L", "RGB", "CMYK"),
    "PNG": ("1", "L", "LA", "P", "RGB", "RGBA"),
}
# What a thread is given at a time.
_PIECE_IMAGES = 64
_PIECE_BYTES = 1 << 22

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
    """What becomes of an image's bytes.

    Attributes:
        resize: Width and height, length of the shorter side, or None.
        encode: What it is encoded as anew; None if it is not, or as what it was.
        quality: Of JPEG.
    """

    resize: tuple[int, int] | int | None
    encode: Encoding | None
    quality: int


def convert_images(
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
) -> Conversion:
    """Converts a folder of images to TFRecord files of ``tf.train.Example`` records.

    Each image becomes a record with the features that TensorFlow's ImageNet scripts
    (``build_imagenet_data.py``) write:

    | feature | dtype | value |
    | --- | --- | --- |
    | ``image/encoded`` | string | the file's bytes, or those of the image encoded anew |
    | ``image/format`` | string | "JPEG", "PNG", "GIF", ...: what they are |
    | ``image/height`` | int64 | pixels, before any turning that EXIF data asks for |
    | ``image/width`` | int64 | the same |
    | ``image/channels`` | int64 | 1 for gray and palette images, 3 for RGB |
    | ``image/colorspace`` | string | Pillow's mode: "RGB", "L", "CMYK", ... |
    | ``image/filename`` | string | path from the class's folder, or else from ``source`` |
    | ``image/class/label`` | int64 | number of the class, from 0 (TensorFlow's ImageNet: from 1) |
    | ``image/class/text`` | string | its name |

    Every image is decoded, to see that it can be; unless something is to be changed, its bytes go
    into the record as they are. The names of the classes go to ``DESTINATION.labels.txt``, one a
    line, in the order of their numbers.

    Args:
        source: The folder. Each folder in it is a class, numbered as torchvision's ``ImageFolder``
            does: in the order of their names. Images may lie deeper, too.
        destination: Name of the file, or of the shards without their numbers.
        label_pattern: Instead of folders: a regular expression that is searched in each file's
            name; the group ``label``, or else the first, is the name of the class.
        labels: Instead of folders: a CSV file with the columns ``name`` (path from ``source``) and
            ``label``. Labels of this and of patterns that are all whole numbers are kept as they
            are, other ones are numbered in the order of their names.
        resize: ``(width, height)``, or the length of the shorter side, to which images are resized
            by an antialiased bilinear filter. They are turned as their EXIF data says first.
        encode: "jpeg" or "png": what images are encoded as anew. With ``resize`` alone JPEG stays
            JPEG, and everything else becomes PNG.
        quality: Of JPEG, 1 to 100.
        shuffle: Seed of a uniform permutation of the images. Default: sorted by class and name.
        options: See :class:`~torchrec_io.convert.target.Options`.

    Returns:
        What was done. Files whose names do not end as those of images are in ``ignored``.

    Raises:
        ConversionError: an image cannot be opened, has pixels of 32 bits, which no ImageFeature
            reads, or cannot be encoded as asked for; an image has no label, or a label or class no
            image; unless ``on_error="skip"``. There is no image.
        ValueError: an argument has a value that it cannot have.
        OSError: the folder cannot be read, or the files cannot be written.
    """
    converter = Converter(destination, options)
    coding = _checked(Coding(resize, encode, quality))
    seed = None if shuffle is None else check_seed(shuffle)
    images, classes = label_images(source, converter.tally, label_pattern, labels)
    if seed is not None:
        images = _shuffled(images, seed)
    converter.tally.watcher.started(sum(image.size for image in images))
    with StagedFiles() as staged:
        names = staged.add(f"{os.fspath(destination)}.labels.txt")
        Path(names).write_bytes(_lines(classes))
        work = functools.partial(make_examples, coding=coding)
        Image.init()  # a thread that opens an image while another does this may not know it
        # Pillow lets go of the interpreter lock, so threads do as well as processes.
        return converter.write(work, _pieces(images), lambda *_: SCHEMA, processes=False)


def _checked(coding: Coding) -> Coding:
    resize = 1 if coding.resize is None else coding.resize
    sides = resize if isinstance(resize, Sequence) else (resize, resize)
    if len(sides) != 2 or not all(isinstance(side, int) and 1 <= side <= 1 << 16 for side in sides):
        raise ValueError(
            "resize must be (width, height) or the length of the shorter side, each 1 to 65,536, "
            f"not {coding.resize!r}"
        )
    if coding.encode not in (None, "jpeg", "png"):
        raise ValueError(f'encode must be "jpeg" or "png", not {coding.encode!r}')
    if not 1 <= coding.quality <= 100:
        raise ValueError(f"quality must be 1 to 100, not {coding.quality!r}")
    return coding


def _shuffled(images: list[LabelledImage], seed: int) -> list[LabelledImage]:
    positions = np.arange(len(images), dtype=np.int64)
    return [images[i] for i in records_at(positions, len(images), shuffle=True, seed=seed, epoch=0)]


def _lines(classes: Iterable[str]) -> bytes:
    for name in classes:
        if "\n" in name or "\r" in name:
            raise ConversionError(f"the name of the class {name!r} has a line break")
    return b"".join(os.fsencode(name) + b"\n" for name in classes)


def _pieces(images: Iterable[LabelledImage]) -> Iterator[list[LabelledImage]]:
    piece: list[LabelledImage] = []
    size = 0
    for image in images:
        if piece and (len(piece) == _PIECE_IMAGES or size + image.size > _PIECE_BYTES):
            yield piece
            piece, size = [], 0
        piece.append(image)
        size += image.size
    if piece:
        yield piece


# ---- in the threads ----


def make_examples(images: list[LabelledImage], coding: Coding) -> Made:
    """The records of some images."""
    features, errors = [], list[TorchRecIOError]()
    for image in images:
        try:
            features.append(_features_of(image, coding))
        except ConversionError as error:
            errors.append(error)
    size = sum(image.size for image in images)
    return Made(encode_examples(features), size, errors, Shapes())


def _features_of(image: LabelledImage, coding: Coding) -> dict[str, bytes | int]:
    try:
        data = Path(image.path).read_bytes()
    except OSError as error:
        reason = f"the image cannot be read: {error.strerror}"
        raise ConversionError(reason, path=image.path) from None
    data, picture = _coded(image, data, coding)
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


def _coded(image: LabelledImage, data: bytes, coding: Coding) -> tuple[bytes, Image.Image]:
    """The bytes to store, and the image that they are of."""
    try:
        picture = _decoded(data)
        if coding.resize is None and coding.encode is None:
            _check_readable(picture)
            return data, picture
        data = _encoded(picture, coding)
        return data, _decoded(data)
    except MemoryError:  # no fault of the image
        raise
    except UnidentifiedImageError:
        reason = "it is of no format that images of this kind have"
    except Exception as error:  # noqa: BLE001  # Pillow raises nearly anything on hostile bytes
        reason = str(error)
    raise ConversionError(f"the image does not open: {reason}", path=image.path)


def _decoded(data: bytes) -> ImageFile.ImageFile:
    if ImageFile.LOAD_TRUNCATED_IMAGES:
        raise ValueError("PIL.ImageFile.LOAD_TRUNCATED_IMAGES would let damaged images pass")
    picture = Image.open(io.BytesIO(data), formats=_FORMATS)
    if picture.width * picture.height > _MOST_PIXELS:
        size = f"{picture.width} x {picture.height}"
        raise ValueError(f"it claims {size} pixels, more than {_MOST_PIXELS:,}")
    picture.load()
    return picture


def _check_readable(picture: ImageFile.ImageFile) -> None:
    """Refuses what no ImageFeature reads: pixels that have no rule for 8 bits."""
    wide = picture.mode == "I" and picture.format not in ("PNG", "PPM")  # there they have 16
    if picture.mode == "F" or wide:
        raise ValueError(f"its pixels ({picture.mode}) have more bits than a schema reads")


def _encoded(picture: ImageFile.ImageFile, coding: Coding) -> bytes:
    encode = coding.encode or ("jpeg" if picture.format in ("JPEG", "MPO") else "png")
    kind = encode.upper()
    turned = ImageOps.exif_transpose(picture)
    fitting = _resized(_in_mode(turned, kind, coding), coding.resize)
    file = io.BytesIO()
    extra = {"quality": coding.quality} if kind == "JPEG" else {}
    fitting.save(file, kind, icc_profile=fitting.info.get("icc_profile"), **extra)
    return file.getvalue()


def _in_mode(picture: Image.Image, kind: str, coding: Coding) -> Image.Image:
    """The image in a mode that can be resized, if it has to be, and encoded."""
    mode = picture.mode
    if mode in ("I", "F") or mode.startswith("I;16"):
        return _deep(picture, kind)
    clear = mode in _ALPHA or "transparency" in picture.info
    if kind == "JPEG" and clear:
        raise ValueError("it is transparent in parts, which JPEG cannot hold: encode it as PNG")
    keyed = mode in ("1", "P") or (clear and mode not in _ALPHA)  # colors cannot be mixed
    if mode in _MODES[kind] and not (coding.resize is not None and keyed):
        return picture
    if mode in ("1", "L") and not clear:
        return picture.convert("L")
    return picture.convert("RGBA" if clear else "RGB")


def _deep(picture: Image.Image, kind: str) -> Image.Image:
    """An image of more than 8 bits, as one of 16."""
    extent: Any = picture.getextrema()  # a pair, as it has one band
    if kind == "JPEG" or picture.mode == "F" or extent[0] < 0 or extent[1] > 0xFFFF:
        raise ValueError(f"its pixels ({picture.mode}) have more bits than {kind} holds")
    return picture if picture.mode == "I;16" else picture.convert("I;16")


def _resized(picture: Image.Image, resize: tuple[int, int] | int | None) -> Image.Image:
    if resize is None:
        return picture
    if isinstance(resize, int):
        # As torchvision's Resize: the longer side is rounded down.
        short, long = sorted(picture.size)
        longer = max(1, resize * long // short)
        resize = (resize, longer) if picture.width <= picture.height else (longer, resize)
    return picture.resize(resize, Image.Resampling.BILINEAR)
