"""Parsing records that are in memory, as ``tf.io.parse_example`` and its siblings do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias, TypeVar

from torch.utils.data import get_worker_info

from ..errors import DecodeError, SchemaError
from ..parsing.parser import ExampleParser, Picks, RecordFailure
from ..parsing.record_random import NO_EPOCH, Draws
from ..records.reader import RecordBlock, RecordList
from ..schema.schema import Features, Schema
from .arena import allocate_for
from .batch import Batch, Sample

Record: TypeAlias = "bytes | bytearray | memoryview"
_Block = TypeVar("_Block", RecordBlock, RecordList)


def parse_block(
    parser: ExampleParser, block: _Block, draws: Draws = NO_EPOCH
) -> tuple[Batch, list[RecordFailure]]:
    """Parses a block, less the records that cannot be parsed.

    Args:
        parser: Knows the schema.
        block: The records.
        draws: What random numbers depend on.

    Returns:
        The batch of the good records, in their order, and one failure for each bad one, by position
        in ``block``.

    Raises:
        MemoryError: there is not enough for the batch.
    """
    return parse_sound(block, lambda part: parse_all(parser, part, draws))


def parse_sound(
    block: _Block, parse: Callable[[_Block], Batch | list[RecordFailure]]
) -> tuple[Batch, list[RecordFailure]]:
    """As :func:`parse_block`; ``parse`` gives the batch of all records, or what is wrong."""
    found = parse(block)
    failures: dict[int, RecordFailure] = {}
    kept: Sequence[int] = range(len(block))
    while not isinstance(found, Batch):  # without the bad ones, decoding may find more
        for failure in found:
            position = kept[failure.position]
            failures.setdefault(position, failure._replace(position=position))
        kept = [position for position in range(len(block)) if position not in failures]
        found = parse(block.without(list(failures)))
    return found, [failures[position] for position in sorted(failures)]


def parse_all(
    parser: ExampleParser, block: _Block, draws: Draws, picks: Picks | None = None
) -> Batch | list[RecordFailure]:
    """The batch of all records of a block, or what is wrong with some of them.

    Args:
        parser: Knows the schema.
        block: The records.
        draws: What random numbers depend on.
        picks: See :meth:`ExampleParser.locate`.

    Raises:
        MemoryError: there is not enough for the batch.
    """
    try:
        located = parser.locate(block, draws, image_threads(), picks)
    except MemoryError as error:
        raise _no_memory(block, error) from error
    if located.failures:
        return located.failures
    arena = allocate_for(located.arena_bytes, located.columns, len(block), parser.padded)
    try:
        columns, bad = located.fill(arena.numpy())
    except MemoryError as error:
        raise _no_memory(block, error) from error
    return bad or Batch(arena, columns, parser.names, parser.padded, parser.paths)


def image_threads() -> int | None:
    """How many threads decode the images of a batch; None: as many as there are CPUs."""
    # DataLoader has as many workers as are to be busy.
    return None if get_worker_info() is None else 1


def _no_memory(block: RecordBlock | RecordList, error: MemoryError) -> MemoryError:
    return MemoryError(
        f"there is no memory to parse a batch of {len(block)} records, "
        f"{block.native().total_bytes} bytes as stored ({error}): a smaller batch_size needs less"
    )


def parse_examples(examples: Iterable[Record], schema: Schema | Features) -> Batch:
    """Parses serialized ``tf.train.Example`` messages, as ``tf.io.parse_example`` does.

    Args:
        examples: Any number of them, none included; bytes objects are not copied.
        schema: What to read from each. A :class:`Schema` that is used again is quicker than a dict.

    Returns:
        One column for each feature; see the feature classes for their types and shapes.

    Raises:
        DecodeError: a record does not hold what the schema asks for; ``record`` is its position,
            ``offset`` the byte in it.
        SchemaError: the schema contradicts itself, or is one of SequenceExamples.
    """
    made = Schema.of(schema)
    if made.is_sequence:
        raise SchemaError("a schema with context and sequence is for parse_sequence_examples")
    return _parse(examples, made)


def parse_example(example: bytes, schema: Schema | Features) -> Sample:
    """Parses one serialized ``tf.train.Example``, as ``tf.io.parse_single_example`` does.

    Returns:
        Values without a batch dimension: a Tensor of the feature's shape, bytes for a scalar
        string, a 1-D Tensor or BytesArray for a VarLenFeature.

    Raises:
        DecodeError: as :func:`parse_examples`.
        SchemaError: as :func:`parse_examples`.
    """
    return parse_examples([example], schema).samples()[0]


def parse_sequence_examples(examples: Iterable[Record], schema: Schema) -> Batch:
    """Parses serialized ``SequenceExample`` messages, as ``tf.io.parse_sequence_example`` does.

    Args:
        examples: Any number of them, none included; bytes objects are not copied.
        schema: A ``Schema(context=..., sequence=...)``.

    Returns:
        One column for each feature of the context and each feature list;
        ``batch.lengths[name]`` has the number of steps for each FixedLenSequenceFeature.

    Raises:
        DecodeError: as :func:`parse_examples`.
        SchemaError: the schema is not one of SequenceExamples.
    """
    if not isinstance(schema, Schema) or not schema.is_sequence:
        raise SchemaError("SequenceExamples need a Schema(context=..., sequence=...)")
    return _parse(examples, schema)


def parse_sequence_example(example: bytes, schema: Schema) -> Sample:
    """Parses one ``SequenceExample``, as ``tf.io.parse_single_sequence_example`` does.

    Returns:
        Values without a batch dimension: of a feature list a Tensor ``[steps, ...]``, or a
        :class:`Ragged` of steps.

    Raises:
        DecodeError: as :func:`parse_examples`.
        SchemaError: as :func:`parse_sequence_examples`.
    """
    return parse_sequence_examples([example], schema).samples()[0]


def _parse(examples: Iterable[Record], schema: Schema) -> Batch:
    return all_or_error(*parse_block(ExampleParser.of(schema), RecordList.of(examples)))


def all_or_error(batch: Batch, failures: list[RecordFailure]) -> Batch:
    """The batch of all records; a DecodeError of the first one that could not be parsed."""
    if failures:
        first = failures[0]
        raise DecodeError(
            first.reason, record=first.position, offset=first.offset, feature=first.feature
        )
    return batch
