"""Statistics of one feature, computed in one pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._parsing.numpy_columns import RaggedRows, TextArray
from .._schema.python_form import to_python
from ..inspection.byte_formats import IMAGES, TEXT
from ..inspection.inference import Finding
from .class_names import Names
from .content import FeatureReport, NumberSummary, ValueSummary
from .images import OBJECT, ImageStatistics, LabelText, Locate, Owner, find_images
from .number_statistics import NumberStatistics
from .random_sample import RandomSample
from .text import sample_text
from .value_counter import ValueCounter, count_integers

_LISTED_VALUES = 10
_LISTED_TEXTS = 5
# The most frequent texts say little if so many are others.
_RARE = 0.9
# Longer texts are shown as samples, and not counted by value.
_MOST_TEXT_BYTES = 128
_SAMPLE_BYTES = 4096


class FeatureStatistics:
    """Statistics of the values of a feature that were added so far.

    Args:
        name: Name of the feature.
        part: Part of the record that it belongs to.
        finding: Facts from inspecting some records.
        most_values: Largest number of different values that are counted exactly.

    Attributes:
        name: Name of the feature.
        part: Part of the record that it belongs to.
        counts: Statistics of the numbers of values.
    """

    def __init__(self, name: str, part: str, finding: Finding, most_values: int) -> None:
        self.name = name
        self.part = part
        self._finding = finding
        self._owners = self._present = 0
        self.counts: NumberStatistics = NumberStatistics()
        self._steps = NumberStatistics() if finding.where == "list" else None
        self._role = _role(finding)
        has_bytes = finding.kind == "bytes"
        self._numbers = NumberStatistics()  # of the values, or of the sizes of bytes
        self._images = ImageStatistics() if self._role == "image" else None
        self._texts: RandomSample[bytes] = RandomSample(_LISTED_TEXTS)
        self._values: ValueCounter[Any] | None = None
        if finding.kind == "int64" or (has_bytes and self._role != "image"):
            self._values = ValueCounter(most_values)

    @property
    def varies(self) -> bool:
        """True if the numbers of values of records differ."""
        counts = self.counts.summary()
        return counts.minimum != counts.maximum

    def add(self, column: RaggedRows, owners: Sequence[Owner]) -> None:
        """Add the values of some records.

        Args:
            column: Values of the records.
            owners: Each record, or the record of each example in lists.
        """
        is_list = isinstance(column.values, RaggedRows)
        inner = column.values if is_list else column
        counts = np.diff(inner.offsets)
        rows = np.arange(len(owners))
        if is_list:
            steps = np.diff(column.offsets)
            assert self._steps is not None
            self._steps.add(steps)
            rows = np.repeat(rows, steps)
            self._present += int((steps > 0).sum())
        else:
            self._present += int((counts > 0).sum())
        self._owners += len(owners)
        self.counts.add(counts)
        values = inner.values
        if self._images is not None:
            owned = [owners[row] for row in np.repeat(rows, counts).tolist()]
            if self.name.startswith(OBJECT):
                owned = [owner._replace(boxes=()) for owner in owned]
            self._images.add(find_images(values.data, values.offsets, owned))
            self._numbers.add(np.diff(values.offsets))
        elif isinstance(values, TextArray):
            self._add_texts(values)
        else:
            self._numbers.add(values)
            if self._values is not None:
                self._values.add(count_integers(values))

    def _add_texts(self, texts: TextArray) -> None:
        values, offsets, _ = texts
        lengths = np.diff(offsets)
        self._numbers.add(lengths)
        bounds = offsets.tolist()

        def value_at(position: int) -> bytes:
            begin, end = bounds[position], bounds[position + 1]
            return values[begin : min(end, begin + _SAMPLE_BYTES)].tobytes()

        self._texts.offer(len(lengths), value_at)
        if self._values is not None and len(lengths):
            if lengths.max() > _MOST_TEXT_BYTES:
                self._values = None
                return
            self._values.add(Counter(map(value_at, range(len(lengths)))).items())

    def report(
        self, names: Names | None, locate: Locate, label_text: LabelText, *, is_label: bool
    ) -> FeatureReport:
        """Return the statistics.

        Args:
            names: Names of the classes that the values are numbers of, if known.
            locate: Returns the path and the number in the file of a record.
            label_text: Returns the text of a label of a record.
            is_label: Whether the feature is the label.
        """
        if not self._owners:
            return self._unread()
        values = None
        if self._values is not None:
            values = self._values.summary(_LISTED_VALUES, names or {})
        role = "class" if is_label or names else self._role
        samples: tuple[str, ...] = ()
        total = self._numbers.count
        least = min(total - 1, max(_LISTED_VALUES, total / 2))
        is_varied = values is None or values.distinct > least or values.others > _RARE * total
        if is_varied and (role == "text" or (role == "bytes" and values is not None)):
            samples = tuple(dict.fromkeys(map(sample_text, self._texts.items)))
        finding, found = self._finding, self._numbers.summary()
        numbers, lengths = (None, found) if finding.kind == "bytes" else (found, None)
        return FeatureReport(
            self.name,
            self.part,
            finding.kind,
            role,
            to_python(finding.spec) if finding.spec is not None else "",
            finding.why,
            self._owners,
            self._present,
            self.counts.summary(),
            self._steps.summary() if self._steps is not None else None,
            finding.formats,
            self._remarks(numbers, values),
            numbers,
            lengths,
            values,
            samples,
            self._images.summary(locate, label_text) if self._images is not None else None,
        )

    def _unread(self) -> FeatureReport:
        found = self._finding
        return FeatureReport(
            self.name, self.part, found.kind, "unread", "", found.why, found.records, found.present,
            formats=found.formats,
        )  # fmt: skip

    def _remarks(
        self, numbers: NumberSummary | None, values: ValueSummary | None
    ) -> tuple[str, ...]:
        remarks = []
        total = self._numbers.count
        is_constant = values is not None and values.distinct == 1
        if numbers is not None:
            if numbers.nan:
                remarks.append("has NaN")
            if numbers.positive_infinity or numbers.negative_infinity:
                remarks.append("has infinities")
            is_constant = numbers.minimum is not None and numbers.minimum == numbers.maximum
        if is_constant and total > 1:
            remarks.append("constant")
        if values is not None and values.is_exact and values.distinct == total > 1:
            remarks.append("all different")
        return tuple(remarks)


def _role(finding: Finding) -> str:
    if finding.kind != "bytes":
        return "number"
    formats = finding.formats[:1]
    if formats and formats[0] in IMAGES:
        return "image"
    return "text" if formats == (TEXT,) else "bytes"
