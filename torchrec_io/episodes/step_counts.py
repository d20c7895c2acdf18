"""Counts of the steps of episodes: records whose features of a group have a value for each step.

The parser's first pass, which decodes no value, counts the steps of all features of the group. So
it is known which records have features that disagree before any step is read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from .._parsing.failures import RecordFailure
from .._parsing.lengths import LengthMeasure
from .._records.record_block import RecordBlock
from .._schema.dtypes import DTypeName
from .._schema.feature import Feature, Place
from .._schema.schema import Schema
from .._schema.stored_keys import StoredCount
from ..checks import counted, with_article
from ..errors import SchemaError


@dataclass(frozen=True)
class StepCounter:
    """Counts the steps of records.

    Attributes:
        group: Name of the features that have steps, up to a slash; None for all feature lists.
        names: Features that are counted. In a valid record their numbers of steps are equal.
        measure: Measure of their numbers of steps.
    """

    group: str | None
    names: tuple[str, ...]
    measure: LengthMeasure

    @classmethod
    def of(cls, schema: Schema, group: str | None) -> StepCounter:
        """Return the counter of a group of features.

        Raises:
            SchemaError: If the group does not exist, one of its features has no steps, or the steps
                of none of them can be counted.
        """
        specs = step_features(schema, group)
        is_list = schema.is_sequence
        found = {
            name: _list_steps(name, spec) if is_list else spec.step_count(name)
            for name, spec in specs.items()
        }
        counts = {name: count for name, count in found.items() if count is not None}
        if not counts:
            raise SchemaError(f"the steps of {group!r} cannot be counted without decoding")
        place: Place = "sequence" if is_list else "example"
        return cls(group, tuple(counts), LengthMeasure(tuple(counts.values()), place))

    def fault(self, block: RecordBlock, position: int) -> RecordFailure:
        """Return the failure of a record whose steps could not be counted."""
        others = [other for other in range(len(block)) if other != position]
        record = block.without(others)
        located = self.measure.parser().locate(record)
        if located.failures:
            return located.failures[0]._replace(position=position)
        steps = self.measure.counted_in(located)[:, 0].tolist()
        for name, found in zip(self.names, steps, strict=True):
            if found != steps[0]:
                reason = f"it has {counted(found, 'step')}, but {self.names[0]!r} has {steps[0]}"
                return RecordFailure(position, name, None, reason)
        reason = f"the record could not be read when the steps of {self.group!r} were counted"
        return RecordFailure(position, None, None, reason)


def _list_steps(name: str, spec: Feature) -> StoredCount:
    """Return what is counted of a feature list: its steps, whatever values they have."""
    values = spec.stored_keys(name)[0]
    return StoredCount(values.key, cast("DTypeName", values.dtype))


def step_features(schema: Schema, group: str | None) -> dict[str, Feature]:
    """Return the features of a group by name.

    These are all features whose names start with the group and a slash, or the feature of that
    name. Of SequenceExamples they are all feature lists.

    Raises:
        SchemaError: If there are none, or one of them has no steps.
    """
    if group is None:
        lists = schema.sequence or {}
        if not lists:
            raise SchemaError("steps need feature lists, but the schema has none")
        return dict(lists)
    specs = {name: spec for name, spec in schema.items() if f"{name}/".startswith(f"{group}/")}
    if not specs:
        groups = sorted({name.rpartition("/")[0] for name in schema if "/" in name})
        raise SchemaError(f"no feature is named '{group}/...'; groups are {groups}")
    for name, spec in specs.items():
        if not spec.has_steps:
            raise SchemaError(
                f"{with_article(type(spec).__name__)} has no steps. A feature with steps must be a "
                "VarLenFeature, RaggedFeature, SequenceFeature, FixedLenSequenceFeature, or "
                "FixedLenFeature with a shape",
                feature=name,
            )
    return specs
