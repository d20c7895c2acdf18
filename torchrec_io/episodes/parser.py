"""Batches of steps of episodes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from .._parsing.arrays import Ints
from .._parsing.columns.base import ElementSelection
from .._parsing.failures import RecordFailure
from .._parsing.parser import ExampleParser
from .._parsing.record_random import RecordRandom
from .._parsing.valid_records import parse_valid
from .._records.record_block import RecordBlock
from .._schema.schema import Schema
from .._schema.stored_specs import SequenceFeature
from .._tensors.batch import Batch
from .._tensors.block_parser import BlockParser, ExampleBlockParser
from .._tensors.parse import parse_all
from ..checks import counted
from .columns import StepRows, count_steps, gather
from .reader import StepNumbers
from .step_counts import StepCounter, step_features

# Each step takes at least a byte, so no record has this many steps.
_STEP_BITS = 40


class StepParser(BlockParser):
    """Parses rows of a :class:`torchrec_io.episodes.reader.StepReader`: one sample each.

    Each record is parsed once, whatever the number of its samples, and its steps are then selected.
    Of images and arrays stored as bytes, only those steps are decoded, each once.

    Args:
        schema: Schema of the records.
        group: Name of the features that have steps.
        numbers: Numbers of all samples.
        counter: Counter of the steps. Default: one of all features of the group.

    Attributes:
        schema: Schema of the records.
        numbers: Numbers of all samples.

    Raises:
        SchemaError: If the group does not exist, or one of its features has no steps.
    """

    has_stored_names = True

    def __init__(
        self,
        schema: Schema,
        group: str,
        numbers: StepNumbers,
        counter: StepCounter | None = None,
    ) -> None:
        self.schema: Schema = schema
        window = "" if numbers.window is None else f"windows of {numbers.window} "
        self.sample_kind: str = f"{window}steps of {group!r}"
        self._group = group
        self.numbers = numbers
        self._counter = counter or StepCounter.of(schema, group)
        specs = step_features(schema, group)
        # Features whose steps the parser decodes one by one.
        self._picked = {
            name
            for name, spec in specs.items()
            if isinstance(spec, SequenceFeature) and not spec.partitions
        }
        self._whole = specs.keys() - self._picked

    def of_whole_records(self) -> BlockParser:
        return ExampleBlockParser(self.schema)

    def of_features(self, names: Sequence[str]) -> StepParser:
        # The group needs a feature with steps.
        needed = [*names, self._counter.names[0]]
        return StepParser(self.schema.narrow(needed), self._group, self.numbers, self._counter)

    def parse(self, block: RecordBlock, random: RecordRandom) -> tuple[Batch, list[RecordFailure]]:
        """Return the batch of the valid samples, and a failure for each invalid one."""
        return parse_valid(block, lambda part: self._parse_all(part, random))

    def _parse_all(self, block: RecordBlock, random: RecordRandom) -> Batch | list[RecordFailure]:
        """Return the batch of all samples, or failures of some of them."""
        records, begins = self.numbers.locate(block.numbers)
        uncounted = np.flatnonzero(self.numbers.counts[records] < 0).tolist()
        if uncounted:
            return [self._counter.fault(block, position) for position in uncounted]
        _, firsts, rows = np.unique(records, return_index=True, return_inverse=True)
        found = self._parse_rows(_episodes(block, records, firsts), rows, begins, random)
        if isinstance(found, Batch):
            return found
        # Other steps of these records may be valid: parse each sample separately.
        each = np.arange(len(block))
        return self._parse_rows(_episodes(block, records, each), each, begins, random)

    def _parse_rows(
        self, episodes: RecordBlock, rows: Ints, begins: Ints, random: RecordRandom
    ) -> Batch | list[RecordFailure]:
        """Return the batch of samples, or failures of some episodes.

        Args:
            episodes: The episodes to parse.
            rows: Row of each sample's episode among them.
            begins: First step of each sample.
            random: Random number generators of records.
        """
        steps = begins
        if self.numbers.window is not None:
            steps = begins[:, np.newaxis] + np.arange(self.numbers.window)
        taken = StepRows(rows, steps)
        selection, picked = _selection_of(taken, self._picked, len(episodes))
        batch = parse_all(ExampleParser.of(self.schema), episodes, random, selection)
        if not isinstance(batch, Batch):
            return batch
        if failures := self._disagreements(batch, self.numbers.counts[episodes.numbers]):
            return failures
        places = {**dict.fromkeys(self._whole, taken), **dict.fromkeys(self._picked, picked)}
        return gather(batch, self.schema, rows, places)

    def _disagreements(self, batch: Batch, counts: Ints) -> list[RecordFailure]:
        """Return a failure for each record whose features have different numbers of steps."""
        failures = []
        for name, found in count_steps(batch, self._whole).items():
            for row in np.flatnonzero(found != counts).tolist():
                steps = counted(int(found[row]), "step")
                reason = f"it has {steps}, but {self._group!r} has {counts[row]}"
                failures.append(RecordFailure(row, name, None, reason))
        return failures


def _episodes(block: RecordBlock, records: Ints, positions: Ints) -> RecordBlock:
    """Return the records of some samples, numbered as records.

    So the random numbers of a record are the same for all its samples.
    """
    return RecordBlock(
        block.buffer, block.starts[positions], block.lengths[positions], records[positions]
    )


def _selection_of(
    taken: StepRows, names: Collection[str], rows: int
) -> tuple[ElementSelection, StepRows]:
    """Return the distinct steps that samples take of each row, and their positions among these."""
    places = taken.entries(taken.rows << _STEP_BITS)
    wanted, back = np.unique(places, return_inverse=True)
    starts = np.searchsorted(wanted, np.arange(rows + 1) << _STEP_BITS)
    picked = back.reshape(taken.steps.shape)
    firsts = starts[taken.rows].reshape(-1, *(1,) * (taken.steps.ndim - 1))
    selection = ElementSelection(names, wanted & ((1 << _STEP_BITS) - 1), starts)
    return selection, taken._replace(steps=picked - firsts)
