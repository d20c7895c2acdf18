"""Counts of the steps of episodes: records whose features of a group have a value for each step.

The parser's first pass, which decodes no value, counts the steps of all features of the group. So
it is known which records have features that disagree before any step is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .._parsing.arrays import Ints
from .._parsing.columns.base import LocatedBlock
from .._parsing.failures import RecordFailure
from .._parsing.lengths import locate_valid
from .._parsing.parser import ExampleParser
from .._records.record_block import RecordBlock
from .._schema.dtypes import StoredDTypeName, stored_dtype
from .._schema.feature import Feature
from .._schema.schema import Schema
from .._schema.specs import VarLenFeature
from ..checks import counted
from ..errors import SchemaError

# Number of steps of a record whose features disagree.
UNKNOWN = -1


class CountedFeature(NamedTuple):
    """A feature whose stored values are counted to find the number of steps.

    Attributes:
        name: Name of the feature in the schema.
        key: Name of the stored feature that is counted.
        dtype: Stored dtype of its values.
        part: Number of values in one step.
    """

    name: str
    key: str
    dtype: StoredDTypeName
    part: int


@dataclass(frozen=True)
class StepCounter:
    """Counts the steps of records.

    Attributes:
        group: Name of the features that have steps, up to a slash.
        features: Features that are counted. In a valid record their numbers of steps are equal.
    """

    group: str
    features: tuple[CountedFeature, ...]

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
        counts = [(name, spec.step_count(name)) for name, spec in specs.items()]
        features = tuple(
            CountedFeature(name, count.key, stored_dtype(count.dtype), count.values_per_item)
            for name, count in counts
            if count is not None
        )
        if not features:
            raise SchemaError(f"the steps of {group!r} cannot be counted without decoding")
        return cls(group, features)

    @property
    def key(self) -> str:
        """Name of the counted values, for messages."""
        return f"steps of {self.group}"

    def parser(self) -> ExampleParser:
        """Return a parser that locates only the counted values."""
        return ExampleParser(Schema({key: VarLenFeature(dtype) for key, dtype in self._keys()}))

    def lengths_of(self, parser: ExampleParser, block: RecordBlock) -> tuple[Ints, RecordBlock]:
        """Return the numbers of steps of the records that can be parsed, and these records.

        The number is :data:`UNKNOWN` if the features of a record disagree.
        """
        located, block = locate_valid(parser, block)
        steps = self._steps(located)
        agree = (steps == steps[0]).all(axis=0)
        return np.where(agree, steps[0], UNKNOWN), block

    def fault(self, block: RecordBlock, position: int) -> RecordFailure:
        """Return the failure of a record whose steps could not be counted."""
        others = [other for other in range(len(block)) if other != position]
        record = block.without(others)
        parser = self.parser()
        located = parser.locate(record)
        if located.failures:
            return located.failures[0]._replace(position=position)
        steps = self._steps(located)[:, 0].tolist()
        for feature, found in zip(self.features, steps, strict=True):
            if found != steps[0]:
                reason = (
                    f"it has {counted(found, 'step')}, but {self.features[0].name!r} has {steps[0]}"
                )
                return RecordFailure(position, feature.name, None, reason)
        reason = f"the record could not be read when the steps of {self.group!r} were counted"
        return RecordFailure(position, None, None, reason)

    def _steps(self, located: LocatedBlock) -> Ints:
        """Return the number of steps of each feature in each record, int64 ``[features, B]``."""
        keys = [key for key, _ in self._keys()]
        counts = {key: np.diff(located.counts(place)[0]) for place, key in enumerate(keys)}
        # Incomplete steps are rounded up: parsing the record reports them.
        return np.stack([-(counts[feature.key] // -feature.part) for feature in self.features])

    def _keys(self) -> list[tuple[str, StoredDTypeName]]:
        """Return the name and dtype of each stored feature that is counted."""
        return list({feature.key: feature.dtype for feature in self.features}.items())


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
                f"a {type(spec).__name__} has no steps. A feature with steps must be a "
                "VarLenFeature, RaggedFeature, SequenceFeature, FixedLenSequenceFeature, or "
                "FixedLenFeature with a shape",
                feature=name,
            )
    return specs
