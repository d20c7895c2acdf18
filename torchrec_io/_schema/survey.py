"""Facts about the features of records whose schema is not known, found by native code.

:mod:`torchrec_io._schema.inspect` reads single records in the same way, to show their values.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np

from .. import _core
from .._records.record_block import RecordBlock, RecordList
from ..errors import SchemaError
from .image_spec import ImageFeature
from .inspect import Kind, name_of
from .sniff import EMPTY, OTHER, TENSOR, TEXT, image_size

_N = TypeVar("_N", int, float)

Ends: TypeAlias = "tuple[float, float] | None"

_KINDS: dict[_core.Kind, Kind] = {
    _core.Kind.bytes: "bytes",
    _core.Kind.floats: "float",
    _core.Kind.ints: "int64",
}
# The formats as :func:`torchrec_io._schema.sniff.sniff` names them.
_FORMATS: dict[_core.ByteFormat, str] = {
    _core.ByteFormat.empty: EMPTY,
    _core.ByteFormat.text: TEXT,
    _core.ByteFormat.jpeg: "JPEG",
    _core.ByteFormat.png: "PNG",
    _core.ByteFormat.gif: "GIF",
    _core.ByteFormat.bmp: "BMP",
    _core.ByteFormat.tiff: "TIFF",
    _core.ByteFormat.webp: "WebP",
    _core.ByteFormat.flac: "FLAC",
    _core.ByteFormat.ogg: "Ogg",
    _core.ByteFormat.mp3: "MP3",
    _core.ByteFormat.numpy: "NumPy array",
    _core.ByteFormat.zip: "zip",
    _core.ByteFormat.gzip: "gzip",
    _core.ByteFormat.wav: "WAV",
    _core.ByteFormat.avi: "AVI",
    _core.ByteFormat.tensor: TENSOR,
    _core.ByteFormat.other: OTHER,
}


# Characters are divided into planes, most of which are empty.
_PLANE = 1 << 16


@dataclass(frozen=True)
class FeatureSummary:
    """Facts about a feature of some records.

    Attributes:
        records: Number of records that have the feature, also without a list of values.
        present: Number of records that have a list of values, or the feature list.
        kinds: Kinds of its values.
        counts: Smallest and largest number of values of a record, or of a step of a feature list.
        steps: Smallest and largest number of steps of a feature list.
        extents: Smallest and largest number, or size of a bytes value, of each kind.
        format_counts: Formats that its bytes seem to have, as they were first seen, and the number
            of such values.
        are_images_valid: Whether all images can be decoded. It has no meaning if the formats are
            not all images.
    """

    records: int = 0
    present: int = 0
    kinds: frozenset[Kind] = frozenset()
    counts: tuple[int, int] | None = None
    steps: tuple[int, int] | None = None
    extents: Mapping[Kind, Ends] = field(default_factory=dict)
    format_counts: Mapping[str, int] = field(default_factory=dict)
    are_images_valid: bool = True

    @classmethod
    def of(cls, facts: _core.FeatureFacts) -> FeatureSummary:
        """Return the facts that native code has found."""
        return cls(
            facts.records,
            facts.present,
            frozenset(_KINDS[kind] for kind in facts.kinds),
            facts.counts,
            facts.steps,
            {"bytes": facts.sizes, "float": facts.floats, "int64": facts.ints},
            {_FORMATS[found]: count for found, count in facts.formats},
            not facts.has_invalid_image,
        )

    @property
    def extent(self) -> Ends:
        """Smallest and largest number, or size of a bytes value; None if kinds are mixed."""
        return self.extents.get(next(iter(self.kinds))) if len(self.kinds) == 1 else None

    @property
    def formats(self) -> tuple[tuple[str, int], ...]:
        """Formats of its bytes and the number of such values, the most frequent first."""
        return tuple(sorted(self.format_counts.items(), key=lambda pair: -pair[1]))

    def merged(self, later: FeatureSummary) -> FeatureSummary:
        """Return the facts about these and later records."""
        formats = Counter(self.format_counts)
        formats.update(later.format_counts)
        kinds: tuple[Kind, ...] = ("bytes", "float", "int64")
        return FeatureSummary(
            self.records + later.records,
            self.present + later.present,
            self.kinds | later.kinds,
            _joined(self.counts, later.counts),
            _joined(self.steps, later.steps),
            {kind: _joined(self.extents.get(kind), later.extents.get(kind)) for kind in kinds},
            formats,
            self.are_images_valid and later.are_images_valid,
        )


def _joined(some: tuple[_N, _N] | None, others: tuple[_N, _N] | None) -> tuple[_N, _N] | None:
    """Return the smallest and the largest of two groups of numbers, each of which may be empty."""
    if some is None or others is None:
        return some or others
    return min(some[0], others[0]), max(some[1], others[1])


class Survey(NamedTuple):
    """Facts about the features of some records.

    Attributes:
        records: Number of records.
        context: Facts about context features, by name, or about the features of Examples.
        lists: Facts about feature lists, by name.
    """

    records: int
    context: dict[str, FeatureSummary]
    lists: dict[str, FeatureSummary]

    def merged(self, later: Survey) -> Survey:
        """Return the facts about these and later records.

        Raises:
            SchemaError: If there are too many features.
        """
        return Survey(
            self.records + later.records,
            _merged(self.context, later.context),
            _merged(self.lists, later.lists),
        )


def _merged(
    some: Mapping[str, FeatureSummary], later: Mapping[str, FeatureSummary]
) -> dict[str, FeatureSummary]:
    found = {**some}
    for name, summary in later.items():
        found[name] = found[name].merged(summary) if name in found else summary
    if len(found) > len(some):
        name_bytes = sum(len(_key(name)) for name in found)
        if len(found) > _core.MOST_SURVEY_FEATURES or name_bytes > _core.MOST_SURVEY_NAME_BYTES:
            raise _too_many()
    return found


class Surveyor:
    """Collects facts about the features of records.

    One thread at a time may use it. The results of several threads are merged.

    Args:
        with_lists: Whether records may be SequenceExamples. If not, only the features of Examples
            are read.
        with_values: Whether values are read. If not, only the presence and the kinds of features
            are found, and damage inside of their values is not.
        with_images: Whether the headers of images are read, to find damaged ones.
        all_text: Whether bytes are text if they are UTF-8 without control characters. By default
            all characters must be printable.
    """

    def __init__(
        self,
        *,
        with_lists: bool = True,
        with_values: bool = True,
        with_images: bool = True,
        all_text: bool = False,
    ) -> None:
        self._with_images = with_images
        characters = _no_controls() if all_text else _printable()
        self._core = _core.Survey(
            characters if with_values else _no_characters(), with_lists, with_values
        )

    @property
    def records(self) -> int:
        """Number of records so far, without those that were rejected."""
        return self._core.records

    def add(self, block: RecordBlock | RecordList) -> _core.SurveyedBatch:
        """Add the facts about some records.

        Returns:
            The positions of records that are not valid, and of the first that is only an Example.

        Raises:
            SchemaError: If there are too many features.
        """
        batch = self._core.add(block.native())
        if batch.is_full:
            raise _too_many()
        for image in batch.images if self._with_images else ():
            data = block.view(image.record)[image.offset : image.offset + image.size]
            if not _is_valid_image(bytes(data)):
                self._core.mark_invalid(image)
        return batch

    def result(self) -> Survey:
        """Return all facts."""
        return Survey(
            self.records,
            {name_of(key): FeatureSummary.of(facts) for key, facts in self._core.context.items()},
            {name_of(key): FeatureSummary.of(facts) for key, facts in self._core.lists.items()},
        )


def feature_names(record: bytes) -> tuple[list[str], list[str]] | None:
    """Return the names of the features of an Example or the context, and of the feature lists.

    Returns:
        The names, as they are stored first; None if the record is neither an Example nor a
        SequenceExample, or has too many features. Their values are not read.
    """
    survey = _core.Survey(_no_characters(), with_values=False)
    batch = survey.add(RecordList.of([record]).native())
    if batch.rejected or batch.is_full:
        return None
    return list(map(name_of, survey.context)), list(map(name_of, survey.lists))


def _key(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _too_many() -> SchemaError:
    return SchemaError(
        "the records have more than 100,000 different features, or names of features that take "
        "more than 16 MiB; make a schema by hand, with the features to read"
    )


def _is_valid_image(data: bytes) -> bool:
    size = image_size(data)
    return size is not None and size[0] * size[1] <= ImageFeature().max_pixels


@functools.cache
def _no_characters() -> _core.CharacterSet:
    return _core.CharacterSet(np.zeros(_core.CHARACTER_SET_BYTES, np.uint8))


@functools.cache
def _no_controls() -> _core.CharacterSet:
    is_text = np.ones(_core.CHARACTER_SET_BYTES * 8, bool)
    is_text[:0x20] = is_text[0x7F:0xA0] = False
    return _core.CharacterSet(np.packbits(is_text, bitorder="little"))


@functools.cache
def _printable() -> _core.CharacterSet:
    """Return the characters that ``str.isprintable`` accepts."""
    is_printable = np.zeros(_core.CHARACTER_SET_BYTES * 8, bool)
    is_printable[0x20:0x7F] = True
    for start in range(0, len(is_printable), _PLANE):
        characters = np.arange(start, start + _PLANE, dtype="<u4")
        characters = characters[(characters < 0xD800) | (characters > 0xDFFF)]
        # The representation of a string escapes all characters, in ASCII, that are not printable.
        shown = repr(characters.tobytes().decode("utf-32-le"))
        if not shown.isascii():
            found = np.frombuffer(shown.encode("utf-32-le"), "<u4")
            is_printable[found[found >= 0x80]] = True
    return _core.CharacterSet(np.packbits(is_printable, bitorder="little"))
