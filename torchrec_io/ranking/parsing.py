"""Parsing of lists of Examples that share a context."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from .._parsing.record_random import DEFAULT_RANDOM
from .._records.record_block import RecordBlock
from .._tensors.batch import Batch
from .._tensors.parse import Record, all_or_error
from ..errors import SchemaError
from .list_parser import ExampleListParser
from .schema import Schema


def parse(records: Iterable[Record], schema: Schema) -> Batch:
    """Parse serialized ``ExampleListWithContext`` messages, as TF-Ranking writes them.

    Args:
        records: Any number of records.
        schema: Schema of the lists.

    Returns:
        A batch with one column for each feature; see :class:`ranking.Schema`.

    Raises:
        DecodeError: If a record does not match the schema. ``record`` is its position, ``offset``
            a byte offset in it, and the reason names the example.
        SchemaError: If the schema is not a :class:`ranking.Schema`.
        MemoryError: If there is not enough memory for the batch.
    """
    if not isinstance(schema, Schema):
        raise SchemaError(f"schema must be a ranking.Schema, got {schema!r}")
    views = [memoryview(record) for record in records]
    lengths = np.array([view.nbytes for view in views], np.int64)
    block = RecordBlock(
        np.frombuffer(b"".join(views), np.uint8),
        np.cumsum(lengths) - lengths,
        lengths,
        np.arange(len(views)),
    )
    return all_or_error(*ExampleListParser(schema).parse(block, DEFAULT_RANDOM))
