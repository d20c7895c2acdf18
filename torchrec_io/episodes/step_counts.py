"""Counts of the steps of episodes: records whose features of a group have a value for each step.

The parser's first pass, which decodes no value, counts the steps of all features of the group. So
it is known which records have features that disagree before any step is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .._parsing.failures import RecordFailure
from .._parsing.lengths import LengthMeasure
from .._records.record_block import RecordBlock
from .._schema.feature import Feature
from .._schema.schema import Schema
from ..checks import counted, with_article
from ..errors import SchemaError


@dataclass(frozen=True)
class StepCounter:
    """Counts the steps of records.

    Attributes:
        group: Name of the features that have steps, up to a slash.
        names: Features that are counted. In a valid record their numbers of steps are equal.
        measure: Measure of their numbers of steps.
    """

    group: str
    names: tuple[str, ...]
    measure: LengthMeasure

    @classmethod
    def of(cls, schema: Schema, group: str) -> StepCounter:
        """Return the counter of a group of features.

        Raises:
            SchemaError: If the group does not exist, one of its features has no steps, or the steps
                of none of them can be counted.
        """
        if schema.is_sequence:
            raise SchemaError("steps need a schema of Examples, got one of SequenceExamples")
        specs = step_features(schema, group)
        found = {name: spec.step_count(name) for name, spec in specs.items()}
        counts = {name: count for name, count in found.items() if count is not None}
        if not counts:
            raise SchemaError(f"the steps of {group!r} cannot be counted without decoding")
        return cls(group, tuple(counts), LengthMeasure(tuple(counts.values())))

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


def step_features(schema: Mapping[str, Feature], group: str) -> dict[str, Feature]:
    """Return the features of a group by name.

    These are all features whose names start with the group and a slash, or the feature of that
    name.

    Raises:
        SchemaError: If there are none, or one of them has no steps.
    """
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
