"""One pass over records that collects all statistics."""

from __future__ import annotations

from contextlib import closing
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .._order.selection import Selection
from .._records.record_block import RecordBlock
from .._storage.ordered_pool import OrderedPool
from ..errors import DecodeError
from ..inspection.record_kind import natural_key
from ..presets.recognition import AnySchema
from ..ranking.schema import Schema as ListSchema
from ..tools.record_files import RecordFiles
from .class_names import Facts, Names, TwinNames, choose_label, first_values, twin_of
from .content import FeatureReport, LabelOrder, Structure
from .duplicates import DuplicateStatistics, hash_records
from .feature_statistics import FeatureStatistics
from .file_damage import Faults
from .images import Owner, find_boxes
from .label_order import LabelOrderStatistics
from .number_statistics import NumberStatistics
from .record_columns import BlockColumns, ColumnParser, part_of
from .text import shown

# Different values that are counted exactly, of all features together.
_MOST_VALUES = 1_000_000
_LEAST_VALUES = 100
_MOST_VALUES_EACH = 20_000
# Names of the features of episodes that have one value for each step, as in RLDS.
_STEP_NAMES = ("is_first", "is_last", "is_terminal", "discount", "reward")


# A block of records, its columns, and the hashes of the records if these are compared.
_Studied: TypeAlias = "tuple[RecordBlock, BlockColumns | None, npt.NDArray[np.uint64] | None]"


class Collector:
    """Statistics of the records of files.

    Args:
        files: Files of the records.
        schema: Inferred schema; None if records have no features.
        preview: Some of the records.
        facts: Facts of files beside the data.
        label: Name of the label; None to find it by its name.
        duplicates: Whether records are compared with each other.

    Attributes:
        label: Name of the label, or None.
        read: Number of valid records that were read.
        records: Number of these that were parsed.

    Raises:
        ValueError: If there is no feature of the name of the label, or it has no single value.
    """

    def __init__(
        self,
        files: RecordFiles,
        schema: AnySchema | None,
        preview: RecordBlock | None,
        *,
        facts: Facts,
        label: str | None,
        duplicates: bool,
    ) -> None:
        self._files = files
        self._schema = schema
        self._findings = dict(schema.findings or {}) if schema is not None else {}
        self._facts = facts
        self._parser = None if schema is None else ColumnParser(schema)
        self._duplicates = DuplicateStatistics() if duplicates else None
        self._lists = NumberStatistics()
        most_values = max(
            _LEAST_VALUES, min(_MOST_VALUES_EACH, _MOST_VALUES // max(len(self._findings), 1))
        )
        self._features: dict[str, FeatureStatistics] = {}
        if schema is not None:
            for name in sorted(self._findings, key=natural_key):
                part, found = part_of(schema, name), self._findings[name]
                self._features[name] = FeatureStatistics(name, part, found, most_values)
        self.records: int = 0
        self.read: int = 0
        self.label: str | None = self._check_label(label)
        self._twin = None if self.label is None else twin_of(self.label, self._findings)
        self._twin_names = TwinNames()
        self._order: LabelOrderStatistics | None = None
        if self.label is not None and preview is not None and self._parser is not None:
            _, labels = self._labels_of(self._parser.parse(preview))
            known = [label for label in labels if label is not None]
            if known:
                ends = np.cumsum([len(index) for index in files.reader.indexes])
                self._order = LabelOrderStatistics(ends, known)

    def _check_label(self, label: str | None) -> str | None:
        if label is None:
            return choose_label(self._findings, self._facts.target)
        found = self._findings.get(label)
        if found is None:
            names = ", ".join(map(repr, sorted(self._findings, key=natural_key)[:20])) or "none"
            raise ValueError(f"label must be the name of a feature ({names}), got {label!r}")
        if found.where == "list" or found.kind in ("mixed", "none"):
            raise ValueError(f"label must be a feature with one value per record, got {label!r}")
        return label

    # ---- reading ----

    def run(self, selection: Selection, jobs: int, faults: Faults) -> None:
        """Read the records of a selection."""
        blocks = self._files.blocks(selection, jobs)
        with closing(blocks), OrderedPool(self._study, jobs) as pool:
            for studied in pool.map(blocks):
                self._add(studied, faults)

    def _study(self, block: RecordBlock) -> _Studied:
        parsed = None if self._parser is None else self._parser.parse(block)
        hashes = None if self._duplicates is None else hash_records(block)
        return block, parsed, hashes

    def _add(self, studied: _Studied, faults: Faults) -> None:
        block, parsed, hashes = studied
        if self._duplicates is not None and hashes is not None:
            self._duplicates.add(block.numbers, hashes)
        self.read += len(block)
        if parsed is None:
            return
        self.records += parsed.records
        for number, failure in parsed.failures:
            [place] = self._files.reader.locate([number])
            faults.refuse(DecodeError(failure.reason, **place.where, feature=failure.feature))
        if parsed.list_sizes is not None:
            self._lists.add(parsed.list_sizes)
        numbers, labels = self._labels_of(parsed)
        self._add_labels(parsed, numbers, labels)
        texts = dict(zip(numbers.tolist(), labels, strict=True))
        for part in parsed.parts:
            records = zip(part.numbers.tolist(), find_boxes(part.columns), strict=False)
            owners = [Owner(number, texts.get(number), boxes) for number, boxes in records]
            for name, column in part.columns.items():
                self._features[name].add(column, owners)

    def _labels_of(self, parsed: BlockColumns) -> tuple[npt.NDArray[np.int64], list[Any]]:
        """Return the numbers of records, and the label of each; None where there is none."""
        for part in parsed.parts:
            if self.label in part.columns and part.part != "examples":
                return part.numbers, first_values(part.columns[self.label])
        return np.empty(0, np.int64), []

    def _add_labels(
        self, parsed: BlockColumns, numbers: npt.NDArray[np.int64], labels: list[Any]
    ) -> None:
        if self._twin is not None:
            for part in parsed.parts:
                if self._twin in part.columns:
                    self._twin_names.add(labels, first_values(part.columns[self._twin]))
        if self._order is not None and labels:
            has_label = np.array([label is not None for label in labels])
            known = [label for label in labels if label is not None]
            self._order.add(numbers[has_label], known)

    # ---- results ----

    def features(self) -> tuple[FeatureReport, ...]:
        """Return the report of each feature, in natural order of the names."""
        locate, label_text = self._locate, self._label_text
        names: dict[str, Names | None] = {**self._facts.names}
        if self.label is not None:
            names[self.label] = self.class_names()
        return tuple(
            found.report(names.get(name), locate, label_text, is_label=name == self.label)
            for name, found in self._features.items()
        )

    def class_names(self) -> Names | None:
        """Return the names of the classes of the label: of TFDS, of a file or of the records."""
        if self.label is None:
            return None
        return self._facts.names.get(self.label) or self._twin_names.names

    def _label_text(self, label: Any) -> str:
        names = self.class_names()
        name = names.get(label) if names and isinstance(label, int) else None
        return shown(str(label) if name is None else f"{label} {name}")

    def _locate(self, number: int) -> tuple[str, int]:
        [place] = self._files.reader.locate([number])
        return place.path, place.record

    def label_order(self) -> LabelOrder | None:
        """Return the dependence of the label on the position; None without a label."""
        if self._order is None or self.label is None:
            return None
        return self._order.result(self.label)

    def duplicates(self) -> Any:
        """Return the records with the same content; None if they were not compared."""
        return None if self._duplicates is None else self._duplicates.result(self._locate)

    def structures(self) -> tuple[Structure, ...]:
        """Return the structure of records that are episodes or lists."""
        found = []
        if isinstance(self._schema, ListSchema):
            names = tuple(sorted(self._schema.examples, key=natural_key))
            found.append(Structure("lists", "", self.records, self._lists.summary(), names))
        for group, counted in self._step_groups().items():
            names = tuple(name for name in self._features if name.startswith(f"{group}/"))
            sizes = counted.counts.summary()
            found.append(Structure("episodes", group, self.records, sizes, names))
        return tuple(found)

    def _step_groups(self) -> dict[str, FeatureStatistics]:
        """Return the feature that counts the steps of each group of features of episodes."""
        groups: dict[str, FeatureStatistics] = {}
        for last in _STEP_NAMES:
            for name, feature in self._features.items():
                group, _, own = name.rpartition("/")
                if group and own == last and feature.part == "features" and feature.varies:
                    groups.setdefault(group, feature)
        return groups
