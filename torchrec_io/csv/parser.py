"""Batches of lines of CSV."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..parsing.columns.base import view_of
from ..parsing.layout import ArenaLayout, BytesColumn, Column, Numbers
from ..parsing.parser import RecordFailure
from ..parsing.record_random import RecordRandom
from ..records.record_block import RecordBlock
from ..tensors.arena import allocate_for
from ..tensors.batch import Batch
from ..tensors.block_parser import BlockParser
from .schema import Columns, CsvSchema


class CsvParser(BlockParser):
    """Parses lines of CSV.

    Args:
        schema: Schema of the columns.
    """

    def __init__(self, schema: CsvSchema) -> None:
        self.schema: CsvSchema = schema

    def parse(self, block: RecordBlock, random: RecordRandom) -> tuple[Batch, list[RecordFailure]]:
        del random
        columns, failures = self.schema.parse([block[i] for i in range(len(block))])
        return batch_of(columns, len(block) - len(failures)), failures


def batch_of(columns: Columns, records: int) -> Batch:
    """A batch of columns that are copied into it.

    Args:
        columns: By name; an array ``[records, ...]`` of numbers, or a list of bytes.
        records: How many each column has.
    """
    room = ArenaLayout()
    layout: list[Column] = []
    writes: list[tuple[Numbers, Any]] = []
    for name, values in columns.items():
        if isinstance(values, np.ndarray):
            dense = room.reserve_dense((name,), values.dtype.name, values.shape)
            layout.append(dense)
            writes.append((Numbers(dense.dtype, dense.shape, dense.at), values))
            continue
        data = b"".join(values)
        texts = room.reserve_texts((records,), len(data))
        layout.append(BytesColumn(name, texts))
        offsets = np.cumsum([0, *map(len, values)])
        writes.append((Numbers("int64", offsets.shape, texts.offsets_at), offsets))
        writes.append((Numbers("uint8", (len(data),), texts.data_at), np.frombuffer(data, "u1")))
    tensor = allocate_for(room.size, layout, records)
    arena = tensor.numpy()
    for place, numbers in writes:
        view_of(arena, place)[...] = numbers
    return Batch(tensor, layout, tuple(columns))
