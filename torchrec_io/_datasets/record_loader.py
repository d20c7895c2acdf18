"""Loading of records: reading and parsing, with the errors of bad records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from torch import Tensor

from .._parsing.failures import NO_FAILURES, Failures, Ints, complement
from .._parsing.record_random import DEFAULT_RANDOM, RecordRandom
from .._records.reader import Reader
from .._records.record_block import RecordBlock
from .._tensors.batch import Batch
from .._tensors.block_parser import BlockParser, ItemRows
from .._tensors.parse import ParsedRows
from .._tensors.rows import Rows
from .._tensors.sample import Sample
from ..errors import DecodeError, TorchRecIOError, TransformError
from ..timing.steps import around_native, parsing, reading


@dataclass(slots=True)
class LoadJob:
    """A batch that is to be loaded.

    Attributes:
        epoch: Epoch of the batch. No batch has records of two epochs.
        units: The units of the batch, as the order yields them; none if planning failed after the
            batches before.
        plan: The reader's plan of its records; None if there is an error.
        random: Random number generators of its records.
        buffer_bytes: Approximate number of bytes to read.
        error: Reason why the batch cannot be loaded. It is raised when the batch is requested.
    """

    epoch: int
    units: Any
    plan: Any
    random: RecordRandom
    buffer_bytes: int = 0
    error: Exception | None = None


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
        positions: Position of each loaded record among those that could be read; None if all were
            loaded.
        failures: The records that could not be parsed, by their positions among those that could
            be read.
        failed: Numbers of these records.
        made: The samples of the loaded records, if they were made already.
        transformed: Results of the user's transform, if it was called already.
        valid_items: Number of items before the first one that lacks a lost record; None if each
            item is one record.
    """

    items: Any
    numbers: npt.NDArray[Any]
    errors: list[TorchRecIOError]
    block: RecordBlock | None = None
    rows: Ints | None = None
    positions: Ints | None = None
    failures: Failures = NO_FAILURES
    failed: npt.NDArray[Any] = np.empty(0, np.int64)
    made: list[Any] | None = None
    transformed: Transformed | None = None
    valid_items: int | None = None

    @property
    def has_lost(self) -> bool:
        """True if a record could not be loaded."""
        return len(self.errors) > 0 or len(self.failed) > 0

    @property
    def item_rows(self) -> ItemRows:
        """The loaded records as rows of the items."""
        rows = np.arange(len(self.numbers)) if self.rows is None else self.rows
        return ItemRows(self.items, rows)

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
            return np.arange(len(planned)) if self.positions is None else self.positions
        remaining = iter(enumerate(planned.tolist()))
        positions = [
            next(position for position, each in remaining if each == number)
            for number in self.numbers.tolist()
        ]
        return np.array(positions, np.int64)


@dataclass
class RecordLoader:
    """Reads records and parses them.

    Attributes:
        reader: Reader of the records.
        parser: Parser of the records.
    """

    reader: Reader
    parser: BlockParser

    @property
    def is_native(self) -> bool:
        """True if native code does all the work, so that small batches are loaded together."""
        return self.parser.is_native and self.reader.is_native

    @property
    def has_ranges(self) -> bool:
        """True if records may be refused because of a ``valid_range``."""
        schema = self.parser.schema
        specs = schema.values() if isinstance(schema, Mapping) else ()
        return any(getattr(spec, "valid_range", None) is not None for spec in specs)

    def empty_items(self) -> Any:
        """Return the items of no records: a :class:`Batch` or a list."""
        empty = np.empty(0, np.int64)
        block = RecordBlock(np.empty(0, np.uint8), empty, empty, empty)
        return self.parser.parse_rows(block, DEFAULT_RANDOM).items

    def other_columns(self) -> list[str]:
        """Return the names of the columns that are no Tensors."""
        items = self.empty_items()
        columns = items.columns.flat() if isinstance(items, Batch) else {}
        return [name for name, column in columns.items() if not isinstance(column, Tensor)]

    # ---- units of an order ----

    def plan(self, units: Any) -> Any:
        """Return the reader's plan of the records of a batch, given as units of the order."""
        return self.reader.plan(units)

    def load_jobs(self, jobs: Sequence[LoadJob]) -> list[Loaded]:
        """Load several batches together, up to the first one with an error; see :meth:`load_run`.

        Raises:
            OSError: If the first batch cannot be read.
        """
        return self.load_run([job.plan for job in jobs], [job.random for job in jobs])

    def load_job(self, job: LoadJob) -> Loaded:
        """Load a batch for which :meth:`load_jobs` found an error; see :meth:`load`."""
        return self.load(job.plan, job.random)

    # ---- records ----

    def load(self, plan: Any, random: RecordRandom = DEFAULT_RANDOM) -> Loaded:
        """Read and parse the records of a reader's plan.

        Args:
            plan: The plan.
            random: Random number generators of records.

        Raises:
            TruncatedFileError, StaleIndexError, OSError: If the files changed since they were
                indexed.
        """
        with reading():
            block, errors = self.reader.fetch(plan)
        with parsing():
            loaded = _loaded(self.parser.parse_rows(block, random), block.numbers, block)
        return loaded._replace(errors=errors)

    def load_one(self, plan: Any, random: RecordRandom = DEFAULT_RANDOM) -> Loaded:
        """Read and parse the records of a plan like :meth:`load`, together if that is possible.

        Args:
            plan: The plan.
            random: Random number generators of records.
        """
        together = self.load_run([plan], [random])
        return together[0] if together else self.load(plan, random)

    def load_run(self, plans: Sequence[Any], randoms: Sequence[RecordRandom]) -> list[Loaded]:
        """Load several batches together, up to the first one with an error.

        This is faster than :meth:`load`, which must load the remaining batches.

        Raises:
            OSError: If the first batch cannot be read.
        """
        with around_native(parsing):
            batches = self.parser.parse_run(self.reader, plans, randoms)
        return [_loaded(each, plan.numbers) for each, plan in zip(batches, plans, strict=False)]

    def join(self, parts: Sequence[Loaded], order: Ints | None = None) -> Loaded:
        """Join the loaded records of parts of a batch.

        Args:
            parts: The parts.
            order: Records to take of all parts together, repeats allowed; by default all.
        """
        if len(parts) == 1 and parts[0].rows is None and order is None:
            return parts[0]
        numbers = np.concatenate([part.numbers for part in parts])
        with parsing():
            items = self.parser.join([part.item_rows for part in parts], order)
        return Loaded(items, numbers if order is None else numbers[order], [])

    def error_of(self, loaded: Loaded, index: int) -> DecodeError:
        """Return the error of a record that could not be parsed, by its index among these."""
        failure = loaded.failures[index]
        [place] = self.reader.locate(loaded.failed[index : index + 1])
        reason = failure.message(with_offset=True)
        error = DecodeError(reason, **place.where, feature=failure.feature)
        error.__cause__ = failure.cause
        return error


def _loaded(
    parsed: ParsedRows, numbers: npt.NDArray[Any], block: RecordBlock | None = None
) -> Loaded:
    """Return the valid records of a parsed block, and the other records as failures.

    Args:
        parsed: The parsed records.
        numbers: Numbers of the records.
        block: The records as stored, if they were loaded alone.
    """
    items, failures, kept = parsed
    if len(failures) == 0:
        return Loaded(items, numbers, [], block)
    valid = complement(failures.positions, len(numbers))
    rows: Ints | None = valid
    if kept is not None:
        block = None if block is None else block.rows(kept)
        rows = None if len(kept) == len(valid) else np.searchsorted(kept, valid)
    failed = numbers[failures.positions]
    return Loaded(items, numbers[valid], [], block, rows, valid, failures, failed)
