"""Images of a feature: their sizes, and thumbnails of some of them."""

from __future__ import annotations

import base64
import io
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image

from .._schema.image_spec import ImageFeature
from ..inspection.byte_formats import IMAGES, image_size, sniff
from .content import ImageSummary, Thumbnail
from .number_statistics import NumberStatistics
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

# Returns the path and the number in the file of a record.
Locate: TypeAlias = Callable[[int], tuple[str, int]]
# Returns the text of a label.
LabelText: TypeAlias = Callable[[Any], str]


class RecordImage(NamedTuple):
    """An image of a record.

    Attributes:
        record: Number of the record.
        label: Label of the record, if known.
        data: The encoded image, or its start if it is very large.
        size: Width and height; None if the header cannot be read.
    """

    record: int
    label: Any
    data: bytes
    size: tuple[int, int] | None


class ImageStatistics:
    """Sizes and formats of the images that were added so far, and some of the images."""

    def __init__(self) -> None:
        self._formats: Counter[str] = Counter()
        self._sizes: Counter[tuple[int, int]] = Counter()
        self._widths, self._heights = NumberStatistics(), NumberStatistics()
        self._unreadable = 0
        self._sample: RandomSample[RecordImage] = RandomSample(_MOST_SHOWN)
        self._broken: list[RecordImage] = []
        # The most extreme image of each kind, with its measure.
        self._extremes: dict[str, tuple[int, RecordImage]] = {}

    def add(self, images: Sequence[RecordImage]) -> None:
        """Add images."""
        sizes = []
        for image in images:
            self._formats[_format_of(image)] += 1
            if image.size is None:
                self._unreadable += 1
                if len(self._broken) < _MOST_BROKEN:
                    self._broken.append(image)
                continue
            sizes.append(image.size)
            if image.size in self._sizes or len(self._sizes) < _MOST_SIZES:
                self._sizes[image.size] += 1
            self._note_extremes(image, image.size[0] * image.size[1])
        if sizes:
            both = np.array(sizes, np.int64)
            self._widths.add(both[:, 0])
            self._heights.add(both[:, 1])
        self._sample.offer(len(images), images.__getitem__)

    def _note_extremes(self, image: RecordImage, area: int) -> None:
        for kind, measure in (("largest", area), ("smallest", -area)):
            known = self._extremes.get(kind)
            if known is None or measure > known[0]:
                self._extremes[kind] = measure, image

    def summary(self, locate: Locate, label_text: LabelText) -> ImageSummary:
        """Return the statistics, with thumbnails."""
        sizes = [(*size, count) for size, count in self._sizes.most_common(_LISTED_SIZES)]
        return ImageSummary(
            self._formats.total(),
            self._unreadable,
            dict(self._formats.most_common()),
            tuple(sizes),
            len(self._sizes),
            self._widths.summary(),
            self._heights.summary(),
            tuple(
                make_thumbnail(image, note, locate(image.record), label_text)
                for image, note in self._shown()
            ),
        )

    def _shown(self) -> Iterator[tuple[RecordImage, str]]:
        """Yield images with their remarks, each once: a sample, odd ones, then broken ones."""
        extremes = self._extremes if len(self._sizes) > 1 else {}
        odd = [image for _, image in extremes.values()]
        for image in {
            id(each): each for each in (*self._sample.items, *odd, *self._broken)
        }.values():
            notes = [kind for kind, (_, extreme) in extremes.items() if extreme is image]
            yield image, ", ".join(notes)


def _format_of(image: RecordImage) -> str:
    found = sniff(image.data[:16])
    return found if found in IMAGES else "unknown format"


def find_images(
    values: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    records: Sequence[int],
    labels: Sequence[Any],
) -> list[RecordImage]:
    """Return the images among values, without empty ones, after reading their headers.

    Args:
        values: Bytes of all values.
        offsets: Offsets of the values, one more than there are values.
        records: Number of the record of each value.
        labels: Label of each value.
    """
    bounds = offsets.tolist()
    found = []
    for position, record in enumerate(records):
        begin, end = bounds[position], bounds[position + 1]
        if begin == end:
            continue
        data = values[begin:end].tobytes()
        size = image_size(data)
        found.append(RecordImage(record, labels[position], data[: _MOST_BYTES + 1], size))
    return found


# ---- thumbnails ----


def make_thumbnail(
    image: RecordImage, note: str, place: tuple[str, int], label_text: LabelText
) -> Thumbnail:
    """Decode an image and encode a small copy of it."""
    format_ = _format_of(image)
    uri, shape, reason = None, None, ""
    if image.size is None:
        reason = "the header cannot be read, or is that of a huge image"
    elif image.size[0] * image.size[1] > _MOST_PIXELS or len(image.data) > _MOST_BYTES:
        note = ", ".join(filter(None, [note, "too large to show"]))
    else:
        try:
            uri, shape = _shrink(image.data)
        except Exception as error:  # noqa: BLE001  # decoders raise almost anything on damaged data
            reason = f"it cannot be decoded: {error}"[:200]
    return Thumbnail(
        *place,
        None if image.label is None else label_text(image.label),
        image.size,
        format_,
        reason or note,
        bool(reason),
        uri,
        shape,
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
