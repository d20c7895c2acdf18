"""Batches of records that are no Examples as they are stored."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..csv.schema import Columns, CsvSchema
from ..parsing.columns.base import view_of
from ..parsing.layout import ArenaLayout, BytesColumn, Column, Numbers
from ..parsing.parser import ExampleParser, RecordFailure
from ..parsing.record_random import RecordRandom
from ..parsing.wrapping import FixedLengthWrapper, WholeFileWrapper
from ..records.reader import RecordBlock
from ..schema.schema import Schema
from .arena import allocate_for
from .batch import Batch
from .parse import parse_block


class WrappedParser:
    """Parses records as Examples that they are put into.

    Attributes:
        schema: Of those Examples.

    Args:
        wrapping: Puts them there.
    """

    def __init__(self, wrapping: FixedLengthWrapper | WholeFileWrapper) -> None:
        self.schema: Schema = wrapping.schema
        self._wrapping = wrapping

    def parse(self, block: RecordBlock, random: RecordRandom) -> tuple[Batch, list[RecordFailure]]:
        """As :func:`parse_block`."""
        parser = ExampleParser.of(self.schema)
        batch, failures = parse_block(parser, self._wrapping.wrap(block), random)
        # Where in the Example it is would tell nobody anything.
        return batch, [failure._replace(offset=None) for failure in failures]


class CsvParser:
    """Parses lines of CSV.

    Attributes:
        schema: Says what is in them.

    Args:
        schema: See there.
    """

    def __init__(self, schema: CsvSchema) -> None:
        self.schema = schema

    def parse(self, block: RecordBlock, random: RecordRandom) -> tuple[Batch, list[RecordFailure]]:
        """As :func:`parse_block`."""
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
