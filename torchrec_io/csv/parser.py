"""Parser of CSV lines to batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from .._parsing.failures import RecordFailure
from .._parsing.record_random import RecordRandom
from .._records.record_block import RecordBlock
from .._tensors.batch import Batch
from .._tensors.block_parser import BlockParser
from .._tensors.building import in_arena
from .._tensors.columns import Columns, Form
from .._tensors.ragged import BytesArray

if TYPE_CHECKING:
    from .schema import Schema


class CsvParser(BlockParser):
    """Parser of records that are CSV lines.

    Args:
        schema: Schema of the lines.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema: Schema = schema
        self.stored_by: Any = {}

    def of_features(self, names: Sequence[str]) -> CsvParser:
        return CsvParser(self.schema.narrow(names))

    def parse(self, block: RecordBlock, random: RecordRandom) -> tuple[Batch, list[RecordFailure]]:
        """Parse a block of lines, without the lines that are invalid.

        Returns:
            The batch of the valid lines, and one failure for each invalid line.

        Raises:
            MemoryError: If there is not enough memory for the batch.
        """
        del random  # no column is random
        columns, failures = self.schema.parse([block[i] for i in range(len(block))])
        values = {
            name: BytesArray.from_list(each) if isinstance(each, list) else torch.from_numpy(each)
            for name, each in columns.items()
        }
        made = Columns.of_values(values, Form(tuple(columns)))
        return Batch(in_arena(made, self.allocate)), failures
