"""What makes a dataset of records one of their steps."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..datasets.options import check_number
from ..datasets.record_loader import RecordSource
from ..errors import SchemaError
from ..order.orders import RecordOrder
from ..parsing.lengths import find_lengths
from ..records.block_reader import BlockReader
from ..records.record_reader import RecordReader
from ..schema.schema import Schema
from .order import StepOrder
from .parser import StepParser
from .reader import StepNumbers, StepReader
from .step_counts import UNKNOWN, StepCounter

logger = logging.getLogger("torchrec_io")


@dataclass(frozen=True)
class Stepping:
    """How the records of a dataset are taken apart into steps, or windows of them.

    Attributes:
        group: The name of the features that have steps, up to the slash.
        numbers: Of the samples.
    """

    group: str
    numbers: StepNumbers

    @classmethod
    def of(cls, reader: RecordReader, schema: Any, group: str, window: int | None) -> Stepping:
        """Counts the steps of all records; see :meth:`torchrec_io.TFRecordDataset.steps`."""
        if window is not None:
            check_number("window", window, 1)
            window = int(window)
        counter = StepCounter.of(_checked(schema), group)
        counts = find_lengths(reader, counter, UNKNOWN)
        numbers = StepNumbers(counts, window)
        short = int(np.count_nonzero(numbers.starts[1:] == numbers.starts[:-1]))
        if short:
            least = window or 1
            logger.info("%d of %d records have less than %d steps", short, len(counts), least)
        return cls(group, numbers)

    @classmethod
    def joined(cls, parts: Sequence[Stepping]) -> Stepping:
        """That of the records of several datasets, one behind the other."""
        counts = np.concatenate([part.numbers.counts for part in parts])
        first = parts[0]
        return dataclasses.replace(first, numbers=StepNumbers(counts, first.numbers.window))

    @property
    def described(self) -> tuple[str, int | None]:
        """What has to be alike in datasets that are mixed: the group and the window."""
        return self.group, self.numbers.window

    def order(self, order: RecordOrder) -> StepOrder:
        """That of the samples of the records of an order."""
        return StepOrder.of(order, self.numbers)

    def reader(self, reader: RecordReader | BlockReader) -> StepReader:
        """Reads samples."""
        return StepReader(reader, self.numbers)

    def source(self, reader: RecordReader, schema: Any) -> RecordSource:
        """Reads samples and decodes them.

        Raises:
            SchemaError: the schema has no such group of features.
        """
        parser = StepParser(_checked(schema), self.group, self.numbers)
        return RecordSource(self.reader(reader), schema, parser)


def _checked(schema: Any) -> Schema:
    if not isinstance(schema, Schema):
        try:
            return Schema.of(schema)
        except SchemaError:
            raise SchemaError(f"steps need a schema of features, not {schema!r}") from None
    return schema
