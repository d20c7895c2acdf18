"""Parsing lists of Examples that share a context."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from ..errors import SchemaError
from ..parsing.columns.base import LocatedBlock, view_of
from ..parsing.layout import (
    ArenaLayout,
    BytesColumn,
    Column,
    DenseColumns,
    ListColumn,
    Numbers,
    RaggedColumn,
    SparseColumn,
    Texts,
    Values,
)
from ..parsing.parser import ExampleParser, RecordFailure
from ..parsing.record_random import DEFAULT_RANDOM, RecordRandom
from ..records.record_block import RecordBlock
from ..tensors.arena import allocate_for
from ..tensors.batch import Batch
from ..tensors.block_parser import BlockParser
from ..tensors.parse import Record, all_or_error, image_threads, parse_sound
from .schema import ExampleListSchema, ListBlock, split_lists


class ExampleListParser(BlockParser):
    """Parses records that are ``ExampleListWithContext``.

    Contexts and examples are parsed as two batches of Examples, into one arena.

    Args:
        schema: Says what is in them.
    """

    def __init__(self, schema: ExampleListSchema) -> None:
        self.schema: ExampleListSchema = schema

    def parse(self, block: RecordBlock, random: RecordRandom) -> tuple[Batch, list[RecordFailure]]:
        """As :func:`torchrec_io.tensors.parse.parse_block`.

        Raises:
            MemoryError: there is not enough for the batch.
        """
        return parse_sound(block, lambda part: self._parse(part, random))

    def _parse(self, block: RecordBlock, random: RecordRandom) -> Batch | list[RecordFailure]:
        """A batch of all records, or what is wrong with some of them."""
        lists, bad = split_lists(block)
        if bad:
            return bad
        examples = _locate(ExampleParser.of(self.schema.example_schema), lists.examples, random)
        located, padded = [examples], {}
        if self.schema.context_schema is not None:
            parser = ExampleParser.of(self.schema.context_schema)
            located.insert(0, _locate(parser, lists.contexts, random))
            padded = parser.padded
        failures = _failures(lists, located)
        if failures:
            return failures

        room, starts = ArenaLayout(), []
        for part in located:
            starts.append(room.reserve(part.arena_bytes))
        splits = room.reserve_numbers("int64", lists.offsets.shape)
        columns = [
            moved
            for part, start in zip(located, starts, strict=True)
            for column in part.columns
            for moved in _moved(column, start, splits if part is examples else None)
        ]
        tensor = allocate_for(room.size, columns, len(lists.contexts), padded)
        arena = tensor.numpy()
        for part, start in zip(located, starts, strict=True):
            part.fill(arena[start : start + part.arena_bytes])
        failures = _failures(lists, located)
        if failures:
            return failures
        view_of(arena, splits)[...] = lists.offsets
        return Batch(tensor, columns, tuple(self.schema), padded, dict(self.schema.paths))


def _locate(parser: ExampleParser, block: RecordBlock, random: RecordRandom) -> LocatedBlock:
    try:
        return parser.locate(block, random, image_threads())
    except MemoryError as error:
        raise MemoryError(
            f"there is no memory to parse {len(block)} Examples ({error}): a smaller batch_size "
            "needs less"
        ) from error


def _failures(lists: ListBlock, located: list[LocatedBlock]) -> list[RecordFailure]:
    """What is wrong with the parts, as failures of the records."""
    *contexts, examples = located
    found = [lists.of_context(failure) for part in contexts for failure in part.failures]
    # One of a record is enough: a damaged one may pretend to have millions of examples.
    positions = [failure.position for failure in examples.failures]
    owners = np.searchsorted(lists.offsets, positions, "right")
    firsts = np.unique(owners, return_index=True)[1].tolist()
    return found + [lists.of_example(examples.failures[first]) for first in firsts]


# ---- where columns lie ----


def _moved(column: Column, by: int, splits: Numbers | None) -> Iterator[Column]:
    """A column that starts so many bytes later, with rows of examples cut into lists by splits."""
    if splits is None:
        yield _shifted(column, by)
        return
    if isinstance(column, DenseColumns):
        for number, name in enumerate(column.names):
            at = column.at + number * column.stride + by
            yield RaggedColumn(name, (splits,), Numbers(column.dtype, column.shape, at))
        return
    if isinstance(column, BytesColumn):
        yield RaggedColumn(column.name, (splits,), _shifted_texts(column.values, by))
        return
    assert isinstance(column, RaggedColumn)  # ExampleListSchema has nothing else in lists
    moved = _shifted_rows(column, by)
    yield moved._replace(splits=(splits, *moved.splits))


def _shifted(column: Column, by: int) -> Column:
    if isinstance(column, DenseColumns):
        return column._replace(at=column.at + by)
    if isinstance(column, BytesColumn):
        return column._replace(values=_shifted_texts(column.values, by))
    if isinstance(column, ListColumn):
        return column._replace(arrays=tuple(_shifted_array(array, by) for array in column.arrays))
    if isinstance(column, RaggedColumn):
        return _shifted_rows(column, by)
    assert isinstance(column, SparseColumn)
    return column._replace(
        indices=_shifted_numbers(column.indices, by), values=_shifted_values(column.values, by)
    )


def _shifted_rows(column: RaggedColumn, by: int) -> RaggedColumn:
    splits = tuple(_shifted_numbers(numbers, by) for numbers in column.splits)
    return column._replace(splits=splits, values=_shifted_values(column.values, by))


def _shifted_array(array: Values | RaggedColumn, by: int) -> Values | RaggedColumn:
    if isinstance(array, RaggedColumn):
        return _shifted_rows(array, by)
    return _shifted_values(array, by)


def _shifted_values(values: Values, by: int) -> Values:
    if isinstance(values, Texts):
        return _shifted_texts(values, by)
    return _shifted_numbers(values, by)


def _shifted_texts(texts: Texts, by: int) -> Texts:
    return texts._replace(offsets_at=texts.offsets_at + by, data_at=texts.data_at + by)


def _shifted_numbers(numbers: Numbers, by: int) -> Numbers:
    return numbers._replace(at=numbers.at + by)


# ---- records in memory ----


def parse_example_lists(records: Iterable[Record], schema: ExampleListSchema) -> Batch:
    """Parses serialized ``ExampleListWithContext`` messages, as TF-Ranking writes them.

    Args:
        records: Any number of them, none included.
        schema: What to read from each.

    Returns:
        One column for each feature; see :class:`ExampleListSchema`.

    Raises:
        DecodeError: a record does not hold what the schema asks for; ``record`` is its position,
            ``offset`` the byte in it, and the reason says which example it is.
        SchemaError: the schema is another one.
    """
    if not isinstance(schema, ExampleListSchema):
        raise SchemaError("lists of examples need an ExampleListSchema(context=..., examples=...)")
    views = [memoryview(record) for record in records]
    lengths = np.array([view.nbytes for view in views], np.int64)
    block = RecordBlock(
        np.frombuffer(b"".join(views), np.uint8),
        np.cumsum(lengths) - lengths,
        lengths,
        np.arange(len(views)),
    )
    return all_or_error(*ExampleListParser(schema).parse(block, DEFAULT_RANDOM))
