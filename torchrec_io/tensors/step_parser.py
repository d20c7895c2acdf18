"""Batches of steps of episodes."""

from __future__ import annotations

import numpy as np

from ..features.draws import Draws
from ..features.maker import Ints
from ..features.parse import ExampleParser, RecordFailure
from ..features.schema import Schema
from ..features.step_counts import StepCounter, step_features
from ..records.reader import RecordBlock
from ..records.steps import StepNumbers
from .batch import Batch
from .examples import parse_block
from .step_columns import Gathering, StepRows, count_steps


class StepParser:
    """Parses rows of a :class:`torchrec_io.records.steps.StepReader`: one sample each.

    Each record is parsed once, whatever the number of its samples, and its steps are then picked.

    Attributes:
        schema: Of the records.

    Args:
        schema: As above.
        group: The name of the features that have steps, up to the slash.
        numbers: Which steps of which record a sample is.

    Raises:
        SchemaError: there are no such features, or one of them has no steps.
    """

    def __init__(self, schema: Schema, group: str, numbers: StepNumbers) -> None:
        self.schema = schema
        self._group = group
        self._numbers = numbers
        self._counter = StepCounter.of(schema, group)
        self._steps = tuple(step_features(schema, group))

    def parse(self, block: RecordBlock, draws: Draws) -> tuple[Batch, list[RecordFailure]]:
        """As :func:`parse_block`: the batch of the good samples, and a failure for each other."""
        failures: dict[int, RecordFailure] = {}
        while True:
            kept = [position for position in range(len(block)) if position not in failures]
            found = self._parse_sound(block.without(list(failures)), draws)
            if isinstance(found, Batch):
                return found, [failures[position] for position in sorted(failures)]
            for failure in found:
                position = kept[failure.position]
                failures.setdefault(position, failure._replace(position=position))

    def _parse_sound(self, block: RecordBlock, draws: Draws) -> Batch | list[RecordFailure]:
        """The batch of all samples, or a failure for each of some."""
        records, begins = self._numbers.places(block.numbers)
        uncounted = np.flatnonzero(self._numbers.counts[records] < 0).tolist()
        if uncounted:
            return [self._counter.fault(block, position) for position in uncounted]
        numbers, firsts, rows = np.unique(records, return_index=True, return_inverse=True)
        # Numbered as records: what is drawn at random for one is the same for all its samples.
        episodes = RecordBlock(block.buffer, block.starts[firsts], block.lengths[firsts], numbers)
        batch, failures = parse_block(ExampleParser.of(self.schema), episodes, draws)
        failures = failures or self._disagreements(batch, self._numbers.counts[numbers])
        if failures:
            return _of_samples(failures, rows)
        gathering = Gathering()
        gathering.add(batch, StepRows(rows, begins, self._numbers.window), self._steps)
        return gathering.finish(self.schema, len(block))

    def _disagreements(self, batch: Batch, counts: Ints) -> list[RecordFailure]:
        """A failure for each record with a feature of another number of steps."""
        failures = []
        for name, found in count_steps(batch, self._steps).items():
            for row in np.flatnonzero(found != counts).tolist():
                reason = f"it has {found[row]} steps, where {self._group!r} has {counts[row]}"
                failures.append(RecordFailure(row, name, None, reason))
        return failures


def _of_samples(failures: list[RecordFailure], rows: Ints) -> list[RecordFailure]:
    """Failures of records as those of their samples."""
    return [
        failure._replace(position=position)
        for failure in failures
        for position in np.flatnonzero(rows == failure.position).tolist()
    ]
