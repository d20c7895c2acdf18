"""Facts about the features of records whose schema is not known, found by native code.

:mod:`torchrec_io.inspection.features` reads single records in the same way, to show their values.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias, TypeVar, cast

from .. import _core
from .._parsing.stored_names import name_of, no_characters
from .._records.record_block import RecordBlock, RecordList
from .._schema.image_spec import ImageFeature
from ..errors import DecodeError, SchemaError
from .byte_formats import image_size, no_controls, printable
from .features import Kind

_N = TypeVar("_N", int, float)

Ends: TypeAlias = "tuple[float, float] | None"


@dataclass(frozen=True)
class FeatureSummary:
    """Facts about a feature of some records.

    Attributes:
        records: Number of records that have the feature, also without a list of values.
        present: Number of records that have a list of values, or the feature list.
        kinds: Kinds of its values.
        counts: Smallest and largest number of values of a record, or of a step of a feature list.
        steps: Smallest and largest number of steps of a feature list.
        extent: Smallest and largest number, or size of a bytes value; None if kinds are mixed.
        format_counts: Formats that its bytes seem to have, as they were first seen, and the number
            of such values.
        are_images_valid: Whether all images can be decoded. It has no meaning if the formats are
            not all images.
        image_sizes: Height and width of its images, and the number of images of each size; not of
            feature lists.
    """

    records: int = 0
    present: int = 0
    kinds: frozenset[Kind] = frozenset()
    counts: tuple[int, int] | None = None
    steps: tuple[int, int] | None = None
    extent: Ends = None
    format_counts: Mapping[str, int] = field(default_factory=dict)
    are_images_valid: bool = True
    image_sizes: Mapping[tuple[int, int], int] = field(default_factory=dict)

    @classmethod
    def of(
        cls, facts: _core.FeatureFacts, image_sizes: Mapping[tuple[int, int], int]
    ) -> FeatureSummary:
        """Return the facts that native code has found, and the sizes of images."""
        kinds = frozenset(cast("list[Kind]", facts.kinds))
        return cls(
            facts.records,
            facts.present,
            kinds,
            facts.counts,
            facts.steps,
            facts.sizes or facts.floats or facts.ints if len(kinds) == 1 else None,
            dict(facts.formats),
            not facts.has_invalid_image,
            image_sizes,
        )

    @property
    def formats(self) -> tuple[tuple[str, int], ...]:
        """Formats of its bytes and the number of such values, the most frequent first."""
        return tuple(sorted(self.format_counts.items(), key=lambda pair: -pair[1]))

    def merged(self, later: FeatureSummary) -> FeatureSummary:
        """Return the facts about these and later records."""
        image_sizes = Counter(self.image_sizes)
        image_sizes.update(later.image_sizes)
        kinds = self.kinds | later.kinds
        return FeatureSummary(
            self.records + later.records,
            self.present + later.present,
            kinds,
            _joined(self.counts, later.counts),
            _joined(self.steps, later.steps),
            _joined(self.extent, later.extent) if len(kinds) == 1 else None,
            Counter(self.format_counts) + Counter(later.format_counts),
            self.are_images_valid and later.are_images_valid,
            image_sizes,
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
        total: Number of all records of the files; None if it is unknown.
        skipped: Number of records that were skipped, because they are damaged or are not Examples.
        stored_bytes: Size of all of these records with their frames.
        first_example: Error about the first record that is only an Example, for use if others are
            SequenceExamples; None if there is none.
    """

    records: int
    context: dict[str, FeatureSummary]
    lists: dict[str, FeatureSummary]
    total: int | None = None
    skipped: int = 0
    stored_bytes: int = 0
    first_example: DecodeError | None = None

    def merged(self, later: Survey) -> Survey:
        """Return the facts about these and later records.

        Raises:
            SchemaError: If there are too many features.
        """
        return Survey(
            self.records + later.records,
            _merged(self.context, later.context),
            _merged(self.lists, later.lists),
            skipped=self.skipped + later.skipped,
            stored_bytes=self.stored_bytes + later.stored_bytes,
            first_example=self.first_example or later.first_example,
        )


def _merged(
    some: Mapping[str, FeatureSummary], later: Mapping[str, FeatureSummary]
) -> dict[str, FeatureSummary]:
    found = {**some}
    for name, summary in later.items():
        found[name] = found[name].merged(summary) if name in found else summary
    if len(found) > len(some):
        name_bytes = sum(len(name.encode("utf-8", "surrogateescape")) for name in found)
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
        all_text: Whether bytes are text if they are UTF-8 without control characters. By default
            all characters must be printable.
    """

    def __init__(
        self,
        *,
        with_lists: bool = True,
        with_values: bool = True,
        all_text: bool = False,
    ) -> None:
        # By the position of a context feature.
        self._image_sizes: defaultdict[int, Counter[tuple[int, int]]] = defaultdict(Counter)
        characters = no_controls() if all_text else printable()
        self._core = _core.Survey(
            characters if with_values else no_characters(), with_lists, with_values
        )

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
        for image in batch.images:
            data = block.view(image.record)[image.offset : image.offset + image.size]
            size = image_size(bytes(data))
            if size is None or not 0 < math.prod(size) <= ImageFeature().max_pixels:
                self._core.mark_invalid(image)
            elif not image.is_in_list:
                self._image_sizes[image.feature][size[::-1]] += 1
        return batch

    def result(self) -> Survey:
        """Return all facts."""
        sizes = self._image_sizes
        context = {
            name_of(key): FeatureSummary.of(facts, sizes.get(position, {}))
            for position, (key, facts) in enumerate(self._core.context.items())
        }
        lists = {
            name_of(key): FeatureSummary.of(facts, {}) for key, facts in self._core.lists.items()
        }
        return Survey(self._core.records, context, lists)


def _too_many() -> SchemaError:
    return SchemaError(
        "the records have more than 100,000 different features, or names of features that take "
        "more than 16 MiB; make a schema by hand, with the features to read"
    )
