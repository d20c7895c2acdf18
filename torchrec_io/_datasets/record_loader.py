"""Loading of records: reading and parsing, with the errors of bad records."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from torch import Tensor

from .._parsing.failures import Ints
from .._parsing.record_random import DEFAULT_RANDOM, RecordRandom
from .._records.reader import Reader
from .._records.record_block import RecordBlock
from .._tensors.arena import Allocate
from .._tensors.batch import Batch
from .._tensors.block_parser import BlockParser
from .._tensors.loaded import Loaded
from ..errors import DecodeError
from ..timing.steps import around_native, parsing, reading

if TYPE_CHECKING:
    from .pipeline import IndexedPipeline


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


@dataclass
class RecordLoader:
    """Reads records and parses them.

    Attributes:
        reader: Reader of the records, or of what the parser needs of them.
        parser: Parser of the records.
        parts: Pipelines of the datasets of a mixture that load their own records.
    """

    reader: Reader
    parser: BlockParser
    parts: Sequence[IndexedPipeline] = ()

    def __post_init__(self) -> None:
        self.reader = self.parser.fit_reader(self.reader)

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

    def for_options(self, options: Mapping[str, Any]) -> RecordLoader:
        """Return the loader of the same records for a dataset with other options."""
        del options
        return self

    def allocating(self, allocate: Allocate) -> Self:
        """Return this loader with a function that allocates the arenas of batches."""
        if allocate is self.parser.allocate:
            return self
        other = copy.copy(self)
        other.parser = self.parser.allocating(allocate)
        return other

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

    def plan(self, units: Any, random: RecordRandom = DEFAULT_RANDOM) -> Any:
        """Return the reader's plan of the records of a batch, given as units of the order."""
        return self.reader.plan_with(units, random)

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
            loaded = self.parser.parse_rows(block, random)
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
            return self.parser.parse_run(self.reader, plans, randoms)

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
            items = self.parser.join(parts, order)
        return Loaded(items, numbers if order is None else numbers[order], [])

    def error_of(self, loaded: Loaded, index: int) -> DecodeError:
        """Return the error of a record that could not be parsed, by its index among these."""
        failure = loaded.failures[index]
        [place] = self.reader.locate(loaded.failed[index : index + 1])
        reason = failure.message(with_offset=True)
        error = DecodeError(reason, **place.where, feature=failure.feature)
        error.__cause__ = failure.cause
        return error
