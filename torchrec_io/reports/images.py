"""Images of a feature: their sizes, and thumbnails of some of them."""

from __future__ import annotations

import base64
import io
import itertools
import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image

from .._parsing.numpy_columns import RaggedRows
from .._schema.image_spec import ImageFeature
from ..inspection.byte_formats import IMAGES, image_size, sniff
from .content import ImageSummary, Thumbnail
from .random_sample import RandomSample

_MOST_SHOWN = 24
_MOST_BROKEN = 6
_MOST_SIZES = 10_000
_LISTED_SIZES = 8
# Larger images are not kept in memory to show them.
_MOST_BYTES = 8 << 20
_SIDE = 128
# Smaller images are stored without loss: enlarged, the artifacts of JPEG would be seen.
_SMALL = 64
_MOST_PIXELS = ImageFeature().max_pixels

_MOST_BOXES = 100
# Edges of the boxes of objects, as in TensorFlow's Object Detection API: parts of the width and the
# height of the image. Images of objects, such as masks, are not what they are parts of.
OBJECT = "image/object/"
_EDGES = tuple(f"{OBJECT}bbox/{edge}" for edge in ("xmin", "ymin", "xmax", "ymax"))
_ROUNDING = 1e-3

# Edges of a box, in the order above.
Box: TypeAlias = tuple[float, ...]
# Returns the path and the number in the file of a record.
Locate: TypeAlias = Callable[[int], tuple[str, int]]
# Returns the text of a label.
LabelText: TypeAlias = Callable[[Any], str]


class Owner(NamedTuple):
    """The record of an image.

    Attributes:
        record: Number of the record.
        label: Label of the record, if known.
        boxes: Boxes of the record, as they are stored.
    """

    record: int
    label: Any
    boxes: Sequence[Box] = ()


class RecordImage(NamedTuple):
    """An image of a record.

    Attributes:
        owner: The record.
        data: The encoded image, or its start if it is very large.
        size: Width and height; None if the header cannot be read.
    """

    owner: Owner
    data: bytes
    size: tuple[int, int] | None


class ImageStatistics:
    """Sizes and formats of the images that were added so far, and some of the images."""

    def __init__(self) -> None:
        self._formats: Counter[str] = Counter()
        self._sizes: Counter[tuple[int, int]] = Counter()
        self._unreadable = 0
        self._sample: RandomSample[RecordImage] = RandomSample(_MOST_SHOWN)
        self._broken: list[RecordImage] = []
        self._extremes: dict[str, RecordImage] = {}

    def add(self, images: Sequence[RecordImage]) -> None:
        """Add images."""
        for image in images:
            self._formats[_format_of(image)] += 1
            if image.size is None:
                self._unreadable += 1
                if len(self._broken) < _MOST_BROKEN:
                    self._broken.append(image)
                continue
            if image.size in self._sizes or len(self._sizes) < _MOST_SIZES:
                self._sizes[image.size] += 1
            for kind, choose in (("largest", max), ("smallest", min)):
                self._extremes[kind] = choose(self._extremes.get(kind, image), image, key=_area)
        self._sample.offer(len(images), images.__getitem__)

    def summary(self, locate: Locate, label_text: LabelText) -> ImageSummary:
        """Return the statistics, with thumbnails."""
        total, formats = self._formats.total(), dict(self._formats.most_common())
        sizes = tuple((*size, count) for size, count in self._sizes.most_common(_LISTED_SIZES))
        thumbnails = tuple(
            make_thumbnail(image, note, locate(image.owner.record), label_text)
            for image, note in self._shown()
        )
        return ImageSummary(total, self._unreadable, formats, sizes, len(self._sizes), thumbnails)

    def _shown(self) -> Iterator[tuple[RecordImage, str]]:
        """Yield images with their remarks, each once: a sample, odd ones, then broken ones."""
        extremes = self._extremes if len(self._sizes) > 1 else {}
        odd = {id(image): image for image in (*extremes.values(), *self._broken)}
        rest = [image for image in self._sample.items if id(image) not in odd]
        kept = np.linspace(0, len(rest) - 1, min(len(rest), _MOST_SHOWN - len(odd))).astype(
            np.int64
        )
        for image in (*(rest[at] for at in kept.tolist()), *odd.values()):
            yield image, ", ".join(kind for kind, each in extremes.items() if each is image)


def _area(image: RecordImage) -> int:
    return math.prod(image.size or ())


def _format_of(image: RecordImage) -> str:
    found = sniff(image.data[:16])
    return found if found in IMAGES else "unknown format"


def find_images(
    values: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], owners: Sequence[Owner]
) -> list[RecordImage]:
    """Return the images among values, without empty ones, after reading their headers.

    Args:
        values: Bytes of all values.
        offsets: Offsets of the values, one more than there are values.
        owners: Record of each value.
    """
    found = []
    for owner, (begin, end) in zip(owners, itertools.pairwise(offsets.tolist()), strict=True):
        if begin < end:
            data = values[begin:end].tobytes()
            found.append(RecordImage(owner, data[: _MOST_BYTES + 1], image_size(data)))
    return found


def find_boxes(columns: Mapping[str, RaggedRows]) -> Iterable[Sequence[Box]]:
    """Return the boxes of each record, valid or not. An edge that a record lacks is NaN."""
    edges = [columns[name] for name in _EDGES if name in columns]
    if len(edges) < len(_EDGES) or not all(isinstance(each.values, np.ndarray) for each in edges):
        return itertools.repeat(())
    lists = ((each.values.tolist(), itertools.pairwise(each.offsets.tolist())) for each in edges)
    rows = ([values[begin:end] for begin, end in bounds] for values, bounds in lists)
    return [[*itertools.zip_longest(*row, fillvalue=math.nan)] for row in zip(*rows, strict=True)]


def _is_valid(box: Box) -> bool:
    left, top, right, bottom = box
    least, most = -_ROUNDING, 1 + _ROUNDING
    return least <= left < right <= most and least <= top < bottom <= most


# ---- thumbnails ----


def make_thumbnail(
    image: RecordImage, note: str, place: tuple[str, int], label_text: LabelText
) -> Thumbnail:
    """Decode an image and encode a small copy of it."""
    format_ = _format_of(image)
    uri, shape, reason = None, None, ""
    if image.size is None:
        reason = "invalid or huge header"
    elif image.size[0] * image.size[1] > _MOST_PIXELS or len(image.data) > _MOST_BYTES:
        note = ", ".join(filter(None, [note, "too large to show"]))
    else:
        try:
            uri, shape = _shrink(image.data)
        except Exception as error:  # noqa: BLE001  # decoders raise almost anything on damaged data
            reason = f"cannot be decoded: {error}"[:200]
    _, label, stored = image.owner
    text = None if label is None else label_text(label)
    boxes = tuple(filter(_is_valid, stored))[:_MOST_BOXES]
    is_broken, note = bool(reason), reason or note
    return Thumbnail(
        *place, text, image.size, format_, note, is_broken, uri, shape, boxes, len(stored)
    )


def _shrink(data: bytes) -> tuple[str, tuple[int, int]]:
    """Return the data URI of a small copy, and its width and height."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with Image.open(io.BytesIO(data), formats=IMAGES) as source:
            source.draft("RGB", (2 * _SIDE, 2 * _SIDE))
            source.load()
            image = _in_8_bits(source)
    is_small = max(image.size) <= _SMALL
    image.thumbnail((_SIDE, _SIDE))
    has_alpha = image.mode in ("RGBA", "LA")
    kind = "PNG" if is_small or has_alpha else "JPEG"
    file = io.BytesIO()
    image.save(file, kind, **({} if kind == "PNG" else {"quality": 80}))
    text = base64.b64encode(file.getvalue()).decode()
    return f"data:image/{kind.lower()};base64,{text}", image.size


def _in_8_bits(image: Image.Image) -> Image.Image:
    """Return an image in gray or colors of 8 bits, with alpha if it is transparent."""
    if image.mode in ("F", "I") or image.mode.startswith("I;16"):
        values = np.nan_to_num(np.asarray(image, np.float64))
        least, most = values.min(), values.max()
        scaled = (values - least) * (255 / (most - least) if most > least else 0)
        return Image.fromarray(np.rint(scaled).astype(np.uint8))
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        return image.convert("RGBA")
    return image.convert("L" if image.mode in ("1", "L") else "RGB")
