"""Loading of records: reading and parsing, with the errors of bad records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import DecodeError, TorchRecIOError
from ..parsing.parser import RecordFailure
from ..parsing.record_random import DEFAULT_RANDOM, RecordRandom
from ..records.reader import Reader
from ..records.record_block import RecordBlock
from ..tensors.batch import Batch
from ..tensors.block_parser import BlockParser


class Loaded(NamedTuple):
    """Loaded records, and errors of those that could not be loaded.

    Attributes:
        items: A :class:`Batch`, or a list with one item for each record.
        numbers: Numbers of the loaded records.
        block: These records as stored, if they may be needed again.
        errors: An error for each bad record.
    """

    items: Any
    numbers: npt.NDArray[Any]
    block: RecordBlock | None
    errors: list[TorchRecIOError]

    def samples(self) -> Sequence[Any]:
        """Return one item for each record."""
        items: Sequence[Any] = self.items
        return self.items.samples() if isinstance(self.items, Batch) else items


@dataclass(frozen=True)
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

    def load(self, plan: Any, random: RecordRandom = DEFAULT_RANDOM) -> Loaded:
        """Read and parse the records of a reader's plan.

        Args:
            plan: The plan.
            random: Random number generators of records.

        Raises:
            TruncatedFileError, StaleIndexError, OSError: If the files changed since they were
                indexed.
        """
        block, errors = self.reader.fetch(plan)
        items, failures = self.parser.parse(block, random)
        errors += [self._error_of(block, failure) for failure in failures]
        block = block.without([failure.position for failure in failures])
        return Loaded(items, block.numbers, block, errors)

    def load_run(self, plans: Sequence[Any], randoms: Sequence[RecordRandom]) -> list[Loaded]:
        """Load several batches together, up to the first one with an error.

        This is faster than :meth:`load`, which must load the remaining batches.
        """
        batches = self.parser.parse_run(self.reader, plans, randoms)
        return [
            Loaded(batch, plan.numbers, None, [])
            for batch, plan in zip(batches, plans, strict=False)
        ]

    def join(
        self,
        parts: Sequence[Loaded],
        random: RecordRandom = DEFAULT_RANDOM,
        rows: npt.NDArray[np.int64] | None = None,
    ) -> Loaded:
        """Join parts of a batch that were loaded with the same ``random``.

        Args:
            parts: The parts, which have their blocks.
            random: Random number generators of records.
            rows: Records to take of all parts together, repeats allowed; by default all.
        """
        block = RecordBlock.joined([part.block for part in parts if part.block is not None])
        if rows is None:
            rows = np.arange(len(block))
        items = self.parser.join([part.items for part in parts], block, random, rows)
        return Loaded(items, block.numbers[rows], None, [])

    def _error_of(self, block: RecordBlock, failure: RecordFailure) -> DecodeError:
        location = self.reader.location(block.numbers[failure.position])
        reason = failure.reason
        if failure.offset is not None:
            reason = f"{reason}, at byte {failure.offset} of the record"
        error = DecodeError(reason, **location._asdict(), feature=failure.feature)
        error.__cause__ = failure.cause
        return error
