"""Batches of steps of episodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .._parsing.arrays import Ints
from .._parsing.columns.base import ElementSelection
from .._parsing.failures import RecordFailure
from .._parsing.parser import ExampleParser
from .._parsing.record_random import RecordRandom
from .._parsing.valid_records import parse_valid
from .._records.reader import Reader
from .._records.record_block import RecordBlock
from .._records.repetitions import own_numbers
from .._schema.feature import Feature
from .._schema.schema import Schema
from .._schema.stored_specs import SequenceFeature
from .._tensors.batch import Batch
from .._tensors.block_parser import BlockParser, ExampleBlockParser
from .._tensors.parse import parse_all
from ..checks import counted
from .columns import Mask, StepRows, count_steps, gather
from .offsets import StepOffsets, Taken
from .pieces import PieceTable
from .reader import StepNeeds, StepNumbers, StepReader
from .slim_records import STEP_BITS, PieceKeys
from .step_counts import StepCounter, step_features


@dataclass(frozen=True)
class Episodes:
    """The episodes of a dataset: what all datasets of their steps share.

    Attributes:
        group: Name of the features that have steps; None for all feature lists.
        numbers: Numbers of all samples.
        counter: Counter of the steps.
        table: Places of the pieces of records; None if they are read as a whole.
    """

    group: str | None
    numbers: StepNumbers
    counter: StepCounter
    table: PieceTable | None

    @property
    def name(self) -> str:
        """Name of what has the counted number of steps, for messages."""
        return self.counter.names[0] if self.group is None else self.group


class StepParser(BlockParser):
    """Parses rows of a :class:`torchrec_io.episodes.reader.StepReader`: one sample each.

    Each record is parsed once, whatever the number of its samples, and its steps are then selected.
    Of images and arrays stored as bytes, only those steps are decoded, each once.

    Args:
        schema: Schema of the records.
        episodes: The episodes.
        offsets: Offsets of all features.

    Attributes:
        schema: Schema of the records.

    Raises:
        SchemaError: If the group does not exist, or one of its features has no steps.
    """

    has_stored_names = True

    def __init__(self, schema: Schema, episodes: Episodes, offsets: StepOffsets) -> None:
        self.schema: Schema = schema
        self.sample_kind: str = f"steps of {episodes.name!r} {offsets.describe()}".rstrip()
        self._episodes = episodes
        self._offsets = offsets
        self._specs: Mapping[str, Feature] = step_features(schema, episodes.group)
        self._piece_keys = PieceKeys.of(schema, self._specs)
        # Stored feature of each feature whose records may have lost steps.
        self._keys = {
            name: key
            for name, spec in self._specs.items()
            if (key := spec.stored_keys(name)[0].key) in self._piece_keys.steps
        }
        # Features whose steps the parser decodes one by one.
        self._picked = {
            name
            for name, spec in self._specs.items()
            if isinstance(spec, SequenceFeature) and not spec.partitions
        }

    def of_whole_records(self) -> BlockParser:
        return ExampleBlockParser(self.schema)

    def of_own_steps(self) -> StepParser:
        return StepParser(self.schema, self._episodes, StepOffsets())

    def of_features(self, names: Sequence[str]) -> StepParser:
        schema = self.schema.narrow(names)
        if self._specs.keys().isdisjoint(schema):  # the group needs a feature with steps
            least = min(self._specs, key=self._keys.__contains__)
            schema = self.schema.narrow([*names, least])
        return StepParser(schema, self._episodes, self._offsets)

    def fit_reader(self, reader: Reader) -> Reader:
        table, keys = self._episodes.table, self._piece_keys
        if table is None or not isinstance(reader, StepReader) or not keys <= table.keys:
            return reader
        whole = [*keys.context, *keys.lists]
        return reader.with_needs(StepNeeds(table, self._offsets, self._keys, whole))

    def parse(self, block: RecordBlock, random: RecordRandom) -> tuple[Batch, list[RecordFailure]]:
        """Return the batch of the valid samples, and a failure for each invalid one."""
        return parse_valid(block, lambda part: self._parse_all(part, random))

    def _parse_all(self, block: RecordBlock, random: RecordRandom) -> Batch | list[RecordFailure]:
        """Return the batch of all samples, or failures of some of them."""
        samples = self._episodes.numbers.locate(block.numbers)
        uncounted = np.flatnonzero(samples.counts < 0).tolist()
        if uncounted:
            counter = self._episodes.counter
            return [counter.fault(block, position) for position in uncounted]
        taken = self._offsets.take(self._specs, samples, random)
        # A record is parsed once for all samples that have its random numbers.
        numbers = samples.records + (samples.numbers - own_numbers(samples.numbers))
        _, firsts, rows = np.unique(numbers, return_index=True, return_inverse=True)
        found = self._parse_rows(_records(block, numbers, firsts), rows, taken, random)
        if isinstance(found, Batch):
            return found
        # Other steps of these records may be valid: parse each sample separately.
        each = np.arange(len(block))
        return self._parse_rows(_records(block, numbers, each), each, taken, random)

    def _parse_rows(
        self,
        records: RecordBlock,
        rows: Ints,
        taken: Mapping[str, Taken],
        random: RecordRandom,
    ) -> Batch | list[RecordFailure]:
        """Return the batch of samples, or failures of some records.

        Args:
            records: The records to parse.
            rows: Row of each sample's record among them.
            taken: Steps that the samples take of each feature.
            random: Random number generators of records.
        """
        offsets = self._offsets
        places: dict[str, StepRows] = {}
        selections: dict[str, ElementSelection] = {}
        for name, (steps, inside) in taken.items():
            zeros = ~inside if inside is not None and offsets.outside == "zeros" else None
            place = StepRows(rows, self._positions(records, name, rows, steps), zeros)
            if name in self._picked:
                selections[name], place = _selection_of(place, len(records))
            places[name] = place
        batch = parse_all(ExampleParser.of(self.schema), records, random, selections)
        is_slim = np.zeros(len(records), np.bool_)
        if records.kept is not None:
            is_slim = records.kept.is_slim(own_numbers(records.numbers))
        if not isinstance(batch, Batch):  # offsets in slim records are not those in the file
            return [
                failure._replace(offset=None) if is_slim[failure.position] else failure
                for failure in batch
            ]
        if failures := self._disagreements(batch, records, is_slim):
            return failures
        valid = {name: inside for name, (_, inside) in taken.items() if inside is not None}
        names = batch.columns.form.names
        return gather(batch, names, rows, places, valid, allocate=self.allocate)

    def _positions(self, records: RecordBlock, name: str, rows: Ints, steps: Ints) -> Ints:
        """Return where steps are in their records, which may have lost others."""
        if records.kept is None or name not in self._keys:
            return steps
        numbers = own_numbers(records.numbers)[rows]
        found: Ints = records.kept.positions(self._keys[name], numbers, steps)
        return found

    def _disagreements(
        self, batch: Batch, records: RecordBlock, is_slim: Mask
    ) -> list[RecordFailure]:
        """Return a failure for each record whose features have different numbers of steps."""
        failures = []
        counts = self._episodes.numbers.counts[own_numbers(records.numbers)]
        for name, found in count_steps(batch, self._specs.keys() - self._picked).items():
            is_wrong = (found != counts) & ~(is_slim & (name in self._keys))
            for row in np.flatnonzero(is_wrong).tolist():
                steps = counted(int(found[row]), "step")
                reason = f"it has {steps}, but {self._episodes.name!r} has {counts[row]}"
                failures.append(RecordFailure(row, name, None, reason))
        return failures


def _records(block: RecordBlock, numbers: Ints, positions: Ints) -> RecordBlock:
    """Return the records of some samples.

    Args:
        block: The records of all samples.
        numbers: Number of each sample's record, with the repetition of the sample.
        positions: Positions of the samples.
    """
    records = block.rows(positions)
    records.numbers = numbers[positions]
    return records


def _selection_of(taken: StepRows, count: int) -> tuple[ElementSelection, StepRows]:
    """Return the distinct steps that samples take of each row, and their positions among these.

    Args:
        taken: The steps.
        count: Number of rows.
    """
    places = taken.entries(taken.rows << STEP_BITS)
    wanted, back = np.unique(places, return_inverse=True)
    starts = np.searchsorted(wanted, np.arange(count + 1) << STEP_BITS)
    picked = back.reshape(taken.steps.shape)
    firsts = starts[taken.rows].reshape(-1, *(1,) * (taken.steps.ndim - 1))
    selection = ElementSelection(wanted & ((1 << STEP_BITS) - 1), starts)
    return selection, taken._replace(steps=picked - firsts)
