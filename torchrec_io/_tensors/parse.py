"""Parsing of records in memory, like ``tf.io.parse_example`` and related functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias, TypeVar

from torch import Tensor
from torch.utils.data import get_worker_info

from .._parsing.columns.base import ElementSelections
from .._parsing.failures import Failures, RecordFailure, complement
from .._parsing.layout import Column
from .._parsing.parser import ExampleParser
from .._parsing.record_random import DEFAULT_RANDOM, RecordRandom
from .._parsing.valid_records import parse_valid
from .._records.record_block import RecordBlock, RecordList
from .._schema.schema import Features, Schema
from ..checks import counted
from ..errors import DecodeError, SchemaError
from .arena import Allocate, allocate_arena, allocate_for
from .batch import Batch
from .columns import Columns, Form
from .loaded import Loaded
from .sample import Sample

Record: TypeAlias = "bytes | bytearray | memoryview"
_Block = TypeVar("_Block", RecordBlock, RecordList)


def parse_block(
    parser: ExampleParser,
    block: _Block,
    random: RecordRandom = DEFAULT_RANDOM,
    allocate: Allocate = allocate_arena,
) -> tuple[Batch, list[RecordFailure]]:
    """Parse a block without the records that cannot be parsed.

    Args:
        parser: Parser of the schema.
        block: The records.
        random: Source of random numbers.
        allocate: Function that allocates the arena.

    Returns:
        The batch of the valid records, in their order, and a failure for each invalid record, by
        its position in ``block``.

    Raises:
        MemoryError: If there is not enough memory for the batch.
    """
    return parse_valid(block, lambda part: parse_all(parser, part, random, allocate=allocate))


def parse_rows(
    parser: ExampleParser,
    block: RecordBlock,
    random: RecordRandom,
    allocate: Allocate = allocate_arena,
) -> Loaded:
    """Parse a block into a batch that also has rows of the records with values out of range.

    Args:
        parser: Parser of the schema.
        block: The records.
        random: Source of random numbers.
        allocate: Function that allocates the arena.

    Raises:
        MemoryError: If there is not enough memory for the batch.
    """

    def parse(part: RecordBlock) -> tuple[Batch, Failures] | list[RecordFailure]:
        return _parse_refusing(parser, part, random, allocate=allocate)

    (batch, refused), failed = parse_valid(block, parse)
    if not failed:
        return Loaded.of(batch, block.numbers, refused, block=block)
    failures = Failures.of(failed)
    kept = complement(failures.positions, len(block))
    failures = Failures.joined([failures, refused.moved(kept)])
    return Loaded.of(batch, block.numbers, failures, kept=kept, block=block)


def parse_all(
    parser: ExampleParser,
    block: _Block,
    random: RecordRandom,
    selections: ElementSelections | None = None,
    allocate: Allocate = allocate_arena,
) -> Batch | list[RecordFailure]:
    """Return the batch of all records of a block, or failures of some of them.

    Args:
        parser: Parser of the schema.
        block: The records.
        random: Random number generators of records.
        selections: Elements of sequences to decode; see :meth:`ExampleParser.locate`.
        allocate: Function that allocates the arena.

    Raises:
        MemoryError: If there is not enough memory for the batch.
    """
    found = _parse_refusing(parser, block, random, selections, allocate)
    if isinstance(found, list):
        return found
    batch, refused = found
    return refused.listed() or batch


def _parse_refusing(
    parser: ExampleParser,
    block: _Block,
    random: RecordRandom,
    selections: ElementSelections | None = None,
    allocate: Allocate = allocate_arena,
) -> tuple[Batch, Failures] | list[RecordFailure]:
    """Return the batch of all records and those that are refused, or failures of some records."""
    try:
        located = parser.locate(block, random, image_threads(), selections)
    except MemoryError as error:
        raise _no_memory(block, error) from error
    if located.failures:
        return located.failures
    arena = allocate_for(located.layout.size, located.columns, len(block), allocate)
    try:
        parser.fill([located], [arena.numpy()])
    except MemoryError as error:
        raise _no_memory(block, error) from error
    if located.failures:
        return located.failures
    # Nobody sees the batch if some of its rows are refused.
    refused = located.refused
    return batch_of(parser, located.columns, arena, has_views=not len(refused)), refused


def batch_of(
    parser: ExampleParser, columns: Sequence[Column], arena: Tensor, *, has_views: bool = False
) -> Batch:
    """Return the batch of columns that a parser has finished."""
    form = Form(parser.names, parser.padded, parser.paths, parser.images)
    return Batch(Columns(arena, columns, form), has_views=has_views)


def image_threads() -> int | None:
    """Return the number of threads that decode the images of a batch; None for one per CPU."""
    # In DataLoader workers, the number of workers sets the number of busy CPUs.
    return None if get_worker_info() is None else 1


def _no_memory(block: RecordBlock | RecordList, error: MemoryError) -> MemoryError:
    return MemoryError(
        f"not enough memory to parse a batch of {counted(len(block), 'record')}, "
        f"{counted(block.native().total_bytes, 'byte')} as stored ({error}): reduce batch_size"
    )


def parse_examples(examples: Iterable[Record], schema: Schema | Features) -> Batch:
    """Parse serialized ``tf.train.Example`` messages, as ``tf.io.parse_example`` does.

    Args:
        examples: Any number of messages, including none. Bytes objects are not copied.
        schema: Features to read. Reusing a :class:`Schema` is faster than passing a dict.

    Returns:
        One column for each feature; see the feature classes for their types and shapes.

    Raises:
        DecodeError: If a record does not match the schema. ``record`` is its position, ``offset``
            the byte in it.
        SchemaError: If the schema is inconsistent, or is for SequenceExamples.
    """
    made = Schema.of(schema)
    if made.is_sequence:
        raise SchemaError(
            "schema must be for Examples, got one with context and sequence: use "
            "parse_sequence_examples"
        )
    return _parse(examples, made)


def parse_example(example: bytes, schema: Schema | Features) -> Sample:
    """Parse one serialized ``tf.train.Example``, as ``tf.io.parse_single_example`` does.

    Args:
        example: The message.
        schema: Features to read.

    Returns:
        Values without a batch dimension: a Tensor of the feature's shape, bytes for a scalar
        string, a 1-D Tensor or BytesArray for a VarLenFeature.

    Raises:
        DecodeError: If the record does not match the schema.
        SchemaError: If the schema is inconsistent, or is for SequenceExamples.
    """
    return parse_examples([example], schema).samples()[0]


def parse_sequence_examples(examples: Iterable[Record], schema: Schema) -> Batch:
    """Parse serialized ``SequenceExample`` messages, as ``tf.io.parse_sequence_example`` does.

    Args:
        examples: Any number of messages, including none. Bytes objects are not copied.
        schema: A ``Schema(context=..., sequence=...)``.

    Returns:
        One column for each feature of the context and each feature list. ``batch.lengths[name]`` is
        the number of steps of each record for a FixedLenSequenceFeature.

    Raises:
        DecodeError: If a record does not match the schema.
        SchemaError: If the schema is not for SequenceExamples.
    """
    if not isinstance(schema, Schema) or not schema.is_sequence:
        raise SchemaError(
            "schema must be a Schema(context=..., sequence=...) for SequenceExamples, "
            f"got {schema!r}"
        )
    return _parse(examples, schema)


def parse_sequence_example(example: bytes, schema: Schema) -> Sample:
    """Parse one ``SequenceExample``, as ``tf.io.parse_single_sequence_example`` does.

    Args:
        example: The message.
        schema: A ``Schema(context=..., sequence=...)``.

    Returns:
        Values without a batch dimension: for a feature list a Tensor ``[steps, ...]``, or a
        :class:`Ragged` of steps.

    Raises:
        DecodeError: If the record does not match the schema.
        SchemaError: If the schema is not for SequenceExamples.
    """
    return parse_sequence_examples([example], schema).samples()[0]


def _parse(examples: Iterable[Record], schema: Schema) -> Batch:
    batch = all_or_error(*parse_block(ExampleParser.of(schema), RecordList.of(examples)))
    batch.schema = schema
    return batch


def all_or_error(batch: Batch, failures: list[RecordFailure]) -> Batch:
    """Return the batch of all records, or raise a DecodeError for the first failure."""
    if failures:
        first = failures[0]
        raise DecodeError(
            first.message(), record=first.position, offset=first.offset, feature=first.feature
        )
    return batch
