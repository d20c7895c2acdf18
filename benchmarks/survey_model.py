"""Surveys in plain Python, one record at a time: the model of the native survey."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, cast

from benchmarks.byte_format_model import sniff_model
from torchrec_io._schema.image_spec import ImageFeature
from torchrec_io.inspection.byte_formats import IMAGES, image_size
from torchrec_io.inspection.features import Kind, ShownField
from torchrec_io.inspection.record_kind import EXAMPLE, SEQUENCE
from torchrec_io.inspection.surveyor import FeatureSummary, Survey


class _Summary:
    def __init__(self) -> None:
        self.records = self.present = 0
        self.kinds: set[Kind] = set()
        self.counts: tuple[int, int] | None = None
        self.steps: tuple[int, int] | None = None
        self.extent: tuple[float, float] | None = None
        self.formats: Counter[str] = Counter()
        self.are_images_valid = True

    def add(self, feature: ShownField) -> None:
        self.records += 1
        if feature.kind != "none":
            self.present += 1
            self.kinds.add(cast("Kind", feature.kind))
            self._add_values(feature.values)

    def add_list(self, steps: ShownField) -> None:
        self.records += 1
        self.present += 1
        self.kinds |= {cast("Kind", kind) for kind in steps.kind.split("/") if kind != "none"}
        self.steps = _widened(self.steps, len(steps.values))
        for values in steps.values:
            self._add_values(values)

    def _add_values(self, values: Sequence[Any]) -> None:
        self.counts = _widened(self.counts, len(values))
        for value in values:
            if isinstance(value, bytes):
                self.extent = _widened(self.extent, len(value))
                self._sniff(value)
            elif not math.isnan(value):
                self.extent = _widened(self.extent, value)

    def _sniff(self, value: bytes) -> None:
        found = sniff_model(value)
        self.formats[found] += 1
        if found in IMAGES:
            size = image_size(value)
            is_valid = size is not None and 0 < size[0] * size[1] <= ImageFeature().max_pixels
            self.are_images_valid = self.are_images_valid and is_valid

    def result(self) -> FeatureSummary:
        return FeatureSummary(
            self.records,
            self.present,
            frozenset(self.kinds),
            self.counts,
            self.steps,
            self.extent if len(self.kinds) == 1 else None,
            self.formats,
            self.are_images_valid or not set(self.formats) <= {*IMAGES},
        )


def _widened(ends: tuple[Any, Any] | None, value: Any) -> tuple[Any, Any]:
    return (value, value) if ends is None else (min(ends[0], value), max(ends[1], value))


def survey_model(
    records: Iterable[bytes], *, with_lists: bool = True
) -> tuple[Survey, list[int], int | None]:
    """Return the survey, the records that are rejected, and the first that is only an Example."""
    context: defaultdict[str, _Summary] = defaultdict(_Summary)
    lists: defaultdict[str, _Summary] = defaultdict(_Summary)
    rejected = []
    first_example = None
    count = 0
    for position, record in enumerate(records):
        parts = SEQUENCE.read(record) if with_lists else None
        if parts is None:
            parts = EXAMPLE.read(record)
            if parts is None:
                rejected.append(position)
                continue
            if with_lists and first_example is None:
                first_example = position
        count += 1
        for name, feature in (parts.get("context") or parts.get("features") or {}).items():
            context[name].add(feature)
        for name, steps in parts.get("feature_lists", {}).items():
            lists[name].add_list(steps)
    found = Survey(
        count,
        {name: summary.result() for name, summary in context.items()},
        {name: summary.result() for name, summary in lists.items()},
    )
    return found, rejected, first_example


def comparable(survey: Survey) -> tuple[int, list[dict[str, Any]]]:
    """Return the public facts of a survey, without the validity of other values than images."""

    def facts(summary: FeatureSummary) -> tuple[Any, ...]:
        are_images = {name for name, _ in summary.formats} <= {*IMAGES}
        is_valid = summary.are_images_valid or not are_images
        numbers = summary.records, summary.present, summary.counts, summary.steps, summary.extent
        return *numbers, summary.kinds, summary.formats, is_valid

    parts = survey.context, survey.lists
    return survey.records, [{name: facts(each) for name, each in part.items()} for part in parts]
