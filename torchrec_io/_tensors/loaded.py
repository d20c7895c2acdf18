"""Loaded records: their items, and those that could not be loaded."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._parsing.failures import NO_FAILURES, Failures, Ints, complement
from .._parsing.record_random import DEFAULT_RANDOM, RecordRandom
from .._records.record_block import RecordBlock
from ..errors import TorchRecIOError, TransformError
from .batch import Batch
from .rows import Rows
from .sample import Sample


class Transformed(NamedTuple):
    """Results of a transform of loaded records.

    Attributes:
        results: The results up to the first error: one for each sample, or one for a batch.
        error: The error that ended it.
    """

    results: list[Any]
    error: TransformError | None = None


class Loaded(NamedTuple):
    """Loaded records, and those that could not be loaded.

    Attributes:
        items: A :class:`Batch`, or a list with one item for each record.
        numbers: Numbers of the loaded records.
        errors: Errors of the records that could not be read.
        block: The record of each row of ``items`` as stored, if the records were loaded alone.
        rows: Row in ``items`` of each loaded record; None if they have no other rows.
        failures: The records that could not be parsed, by their positions among those that could
            be read.
        failed: Numbers of these records.
        made: The samples of the loaded records, if they were made already.
        transformed: Results of the user's transform, if it was called already.
        valid_items: Number of items before the first one that lacks a lost record; None if each
            item is one record.
        num_planned: Number of planned records that a batch takes, with lost ones, once it is ready.
    """

    items: Any
    numbers: npt.NDArray[Any]
    errors: list[TorchRecIOError]
    block: RecordBlock | None = None
    rows: Ints | None = None
    failures: Failures = NO_FAILURES
    failed: npt.NDArray[Any] = np.empty(0, np.int64)
    made: list[Any] | None = None
    transformed: Transformed | None = None
    valid_items: int | None = None
    num_planned: int = 0

    @classmethod
    def of(
        cls,
        items: Any,
        numbers: npt.NDArray[Any],
        failures: Failures = NO_FAILURES,
        *,
        kept: Ints | None = None,
        block: RecordBlock | None = None,
    ) -> Loaded:
        """Return the records of a parsed block: valid ones as items, invalid ones as failures.

        Args:
            items: A :class:`Batch` or a list of items.
            numbers: Number of each record of the block.
            failures: The failed records, by their positions in the block.
            kept: Position in the block of each row of ``items``; None if all records have a row.
                Rows of failed records are not used.
            block: The records as stored, if they were loaded alone.
        """
        if len(failures) == 0:
            return cls(items, numbers, [], block)
        valid = complement(failures.positions, len(numbers))
        rows: Ints | None = valid
        if kept is not None:
            block = None if block is None else block.rows(kept)
            rows = None if len(kept) == len(valid) else np.searchsorted(kept, valid)
        failed = numbers[failures.positions]
        return cls(items, numbers[valid], [], block, rows, failures, failed)

    @property
    def has_lost(self) -> bool:
        """True if a record could not be loaded."""
        return len(self.errors) > 0 or len(self.failed) > 0

    @property
    def item_rows(self) -> Ints:
        """Row in ``items`` of each loaded record."""
        return np.arange(len(self.numbers)) if self.rows is None else self.rows

    def samples(self, random: RecordRandom = DEFAULT_RANDOM, *, schema: Any = None) -> list[Any]:
        """Return one item for each loaded record.

        Args:
            random: Random number generators of records.
            schema: Schema that the records were parsed with; None if it is not known.
        """
        rows, numbers = range(len(self.numbers)), self.numbers
        if self.rows is not None:
            rows = self.rows.tolist()
            numbers = np.empty(max(rows, default=-1) + 1, numbers.dtype)
            numbers[self.rows] = self.numbers
        if not isinstance(self.items, Batch):
            return [self.items[row] for row in rows]
        origins = random, numbers
        block = Rows(self.items.columns, origins, schema=schema)
        return Sample.of_rows(block, rows)

    def count_valid(self, planned: npt.NDArray[Any]) -> int:
        """Return the number of items before the first lost record.

        Args:
            planned: Numbers of the records that were planned.
        """
        if self.valid_items is not None:
            return self.valid_items
        found = self.positions_in(planned)
        return int((found == np.arange(len(found))).sum())

    def positions_in(self, planned: npt.NDArray[Any]) -> Ints:
        """Return the positions of the loaded records among those that were planned."""
        if len(self.numbers) + len(self.failures) == len(planned):
            return complement(self.failures.positions, len(planned))
        remaining = iter(enumerate(planned.tolist()))
        positions = [
            next(position for position, each in remaining if each == number)
            for number in self.numbers.tolist()
        ]
        return np.array(positions, np.int64)
