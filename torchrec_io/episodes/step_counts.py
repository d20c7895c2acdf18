"""How many steps episodes have: records whose features of one group are as many values each.

Counted by the parser's first pass, which decodes no value, of all features of the group: they have
to agree, and which records they do in is known before any of their steps is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..errors import SchemaError
from ..parsing.columns.base import Ints, LocatedBlock
from ..parsing.lengths import locate_sound
from ..parsing.parser import ExampleParser, RecordFailure
from ..records.record_block import RecordBlock
from ..schema.dtypes import stored_dtype
from ..schema.feature import Feature
from ..schema.schema import Schema
from ..schema.specs import VarLenFeature

# Of a record whose steps cannot be told: its features do not agree.
UNKNOWN = -1


class CountedFeature(NamedTuple):
    """A feature whose stored values tell how many steps there are.

    Attributes:
        name: In the schema.
        key: Of what is counted, as stored.
        dtype: Of what is counted.
        part: How many of it are one step.
    """

    name: str
    key: str
    dtype: str
    part: int


@dataclass(frozen=True)
class StepCounter:
    """Counts the steps of records.

    Attributes:
        group: The name of the features that have steps, up to a slash.
        features: What is counted; all of them have to agree.
    """

    group: str
    features: tuple[CountedFeature, ...]

    @classmethod
    def of(cls, schema: Schema, group: str) -> StepCounter:
        """The counter of a group of a schema's features.

        Raises:
            SchemaError: there is no such group, or a feature of it has no steps, or none can be
                counted.
        """
        if schema.is_sequence:
            raise SchemaError("steps are of features of Examples, not of SequenceExamples")
        specs = step_features(schema, group)
        counted = [(name, spec.step_count(name)) for name, spec in specs.items()]
        features = tuple(
            CountedFeature(name, count.key, stored_dtype(count.dtype), count.values_per_item)
            for name, count in counted
            if count is not None
        )
        if not features:
            raise SchemaError(f"no feature of {group!r} tells how many steps there are")
        return cls(group, features)

    @property
    def key(self) -> str:
        """What is counted."""
        return f"steps of {self.group}"

    def parser(self) -> ExampleParser:
        """Finds what is counted, and nothing else."""
        return ExampleParser(Schema({key: VarLenFeature(dtype) for key, dtype in self._keys()}))

    def lengths_of(self, parser: ExampleParser, block: RecordBlock) -> tuple[Ints, RecordBlock]:
        """Steps of those records of a block that can be parsed, and these records.

        Where features do not agree it is :data:`UNKNOWN`.
        """
        located, block = locate_sound(parser, block)
        steps = self._steps(located)
        agree = (steps == steps[0]).all(axis=0)
        return np.where(agree, steps[0], UNKNOWN), block

    def fault(self, block: RecordBlock, position: int) -> RecordFailure:
        """Why the steps of a record could not be counted."""
        others = [other for other in range(len(block)) if other != position]
        record = block.without(others)
        parser = self.parser()
        located = parser.locate(record)
        if located.failures:
            return located.failures[0]._replace(position=position)
        steps = self._steps(located)[:, 0].tolist()
        for feature, found in zip(self.features, steps, strict=True):
            if found != steps[0]:
                reason = f"it has {found} steps, {self.features[0].name!r} has {steps[0]}"
                return RecordFailure(position, feature.name, None, reason)
        reason = f"it could not be read when the steps of {self.group!r} were counted"
        return RecordFailure(position, None, None, reason)

    def _steps(self, located: LocatedBlock) -> Ints:
        """How many steps each feature has in each record; int64 ``[features, B]``."""
        keys = [key for key, _ in self._keys()]
        counts = {key: np.diff(located.counts(place)[0]) for place, key in enumerate(keys)}
        # Parts are rounded up: that they are no whole number is told by who parses them.
        return np.stack([-(counts[feature.key] // -feature.part) for feature in self.features])

    def _keys(self) -> list[tuple[str, str]]:
        """Each stored feature that is counted, and its dtype."""
        return list({feature.key: feature.dtype for feature in self.features}.items())


def step_features(schema: Mapping[str, Feature], group: str) -> dict[str, Feature]:
    """The features of a group by name: all that begin with it and a slash, or the one so named.

    Raises:
        SchemaError: there are none, or one of them has no steps.
    """
    specs = {name: spec for name, spec in schema.items() if f"{name}/".startswith(f"{group}/")}
    if not specs:
        groups = sorted({name.rpartition("/")[0] for name in schema if "/" in name})
        raise SchemaError(f"no feature is named '{group}/...'; groups are {groups}")
    for name, spec in specs.items():
        if not spec.has_steps:
            raise SchemaError(
                f"a {type(spec).__name__} has no steps; what has is a VarLenFeature, "
                "RaggedFeature, SequenceFeature, FixedLenSequenceFeature, or a FixedLenFeature "
                "of a shape",
                feature=name,
            )
    return specs
