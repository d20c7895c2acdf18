"""Batches of steps of episodes."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from ..parsing.columns.base import ElementSelection, Ints
from ..parsing.parser import ExampleParser, RecordFailure
from ..parsing.record_random import RecordRandom
from ..records.reader import RecordBlock
from ..schema.schema import Schema
from ..tensors.batch import Batch
from ..tensors.parse import parse_all, parse_sound
from .columns import Gathering, StepRows, count_steps
from .reader import StepNumbers
from .step_counts import StepCounter, step_features

# No record has as many steps as this many bits count: each takes a byte at least.
_STEP_BITS = 40


class StepParser:
    """Parses rows of a :class:`torchrec_io.episodes.reader.StepReader`: one sample each.

    Each record is parsed once, whatever the number of its samples, and its steps are then picked.
    Of images and arrays stored as bytes only those steps are decoded, each once.

    Attributes:
        schema: Of the records.

    Args:
        schema: As above.
        group: The name of the features that have steps, up to a slash.
        numbers: Which steps of which record a sample is.

    Raises:
        SchemaError: there are no such features, or one of them has no steps.
    """

    def __init__(self, schema: Schema, group: str, numbers: StepNumbers) -> None:
        self.schema = schema
        self._group = group
        self._numbers = numbers
        self._counter = StepCounter.of(schema, group)
        names = step_features(schema, group).keys()
        self._picked = names & ExampleParser.of(schema).selectable
        self._whole = names - self._picked

    def parse(self, block: RecordBlock, random: RecordRandom) -> tuple[Batch, list[RecordFailure]]:
        """As :func:`parse_block`: the batch of the good samples, and a failure for each other."""
        return parse_sound(block, lambda part: self._parse_all(part, random))

    def _parse_all(self, block: RecordBlock, random: RecordRandom) -> Batch | list[RecordFailure]:
        """The batch of all samples, or a failure for each of some."""
        records, begins = self._numbers.places(block.numbers)
        uncounted = np.flatnonzero(self._numbers.counts[records] < 0).tolist()
        if uncounted:
            return [self._counter.fault(block, position) for position in uncounted]
        _, firsts, rows = np.unique(records, return_index=True, return_inverse=True)
        found = self._parse_rows(_episodes(block, records, firsts), rows, begins, random)
        if isinstance(found, Batch):
            return found
        # Some of their steps may be sound: each sample is looked at by itself.
        each = np.arange(len(block))
        return self._parse_rows(_episodes(block, records, each), each, begins, random)

    def _parse_rows(
        self, episodes: RecordBlock, rows: Ints, begins: Ints, random: RecordRandom
    ) -> Batch | list[RecordFailure]:
        """The batch of samples, or a failure for each of some episodes.

        Args:
            episodes: That are parsed.
            rows: Which of them each sample is of.
            begins: The step that each sample begins with.
            random: Source of random numbers.
        """
        steps = begins
        if self._numbers.window is not None:
            steps = begins[:, np.newaxis] + np.arange(self._numbers.window)
        taken = StepRows(rows, steps)
        selection, picked = _selection_of(taken, self._picked, len(episodes))
        batch = parse_all(ExampleParser.of(self.schema), episodes, random, selection)
        if not isinstance(batch, Batch):
            return batch
        if failures := self._disagreements(batch, self._numbers.counts[episodes.numbers]):
            return failures
        places = {**dict.fromkeys(self._whole, taken), **dict.fromkeys(self._picked, picked)}
        gathering = Gathering()
        gathering.add(batch, rows, places)
        return gathering.finish(self.schema, len(rows))

    def _disagreements(self, batch: Batch, counts: Ints) -> list[RecordFailure]:
        """A failure for each record with a feature of another number of steps."""
        failures = []
        for name, found in count_steps(batch, self._whole).items():
            for row in np.flatnonzero(found != counts).tolist():
                reason = f"it has {found[row]} steps, where {self._group!r} has {counts[row]}"
                failures.append(RecordFailure(row, name, None, reason))
        return failures


def _episodes(block: RecordBlock, records: Ints, positions: Ints) -> RecordBlock:
    """The records of some samples, numbered as records.

    So what is drawn at random for a record is the same for all its samples.
    """
    return RecordBlock(
        block.buffer, block.starts[positions], block.lengths[positions], records[positions]
    )


def _selection_of(
    taken: StepRows, names: Collection[str], rows: int
) -> tuple[ElementSelection, StepRows]:
    """Which steps of each row samples take, each of them once; and where these then are."""
    places = taken.entries(taken.rows << _STEP_BITS)
    wanted, back = np.unique(places, return_inverse=True)
    starts = np.searchsorted(wanted, np.arange(rows + 1) << _STEP_BITS)
    picked = back.reshape(taken.steps.shape)
    firsts = starts[taken.rows].reshape(-1, *(1,) * (taken.steps.ndim - 1))
    selection = ElementSelection(names, wanted & ((1 << _STEP_BITS) - 1), starts)
    return selection, taken._replace(steps=picked - firsts)
