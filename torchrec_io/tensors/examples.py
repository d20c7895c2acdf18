"""Parsing records that are in memory: ``tf.io.parse_example`` and its single form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..errors import DecodeError
from ..features.parse import ExampleParser, RecordFailure
from ..features.schema import Feature, Schema
from ..records.reader import RecordBlock
from .batch import Batch, Sample, allocate_arena


def parse_block(parser: ExampleParser, block: RecordBlock) -> tuple[Batch, list[RecordFailure]]:
    """Parses a block, less the records that cannot be parsed.

    Returns:
        The batch of the good records, in their order, and one failure for each bad one, by position
        in ``block``.
    """
    located = parser.locate(block)
    bad = located.failures
    if not bad:
        arena = allocate_arena(located.arena_bytes)
        columns, bad = located.fill(arena.numpy())
        if not bad:
            return Batch(arena, columns, tuple(parser.schema)), []
    return _parse_rest(parser, block, bad)


def _parse_rest(
    parser: ExampleParser, block: RecordBlock, bad: list[RecordFailure]
) -> tuple[Batch, list[RecordFailure]]:
    """Parses a block less its bad records, of which decoding may find more."""
    failures: dict[int, RecordFailure] = {}
    for failure in bad:
        failures.setdefault(failure.position, failure)
    kept = [position for position in range(len(block)) if position not in failures]
    batch, more = parse_block(parser, block.without(list(failures)))
    for failure in more:
        position = kept[failure.position]
        failures[position] = failure._replace(position=position)
    return batch, [failures[position] for position in sorted(failures)]


def parse_examples(examples: Sequence[bytes], schema: Schema | Mapping[str, Feature]) -> Batch:
    """Parses serialized ``tf.train.Example`` messages, as ``tf.io.parse_example`` does.

    Args:
        examples: Any number of them, none included.
        schema: What to read from each.

    Returns:
        One column for each feature; see the feature classes for their types and shapes.

    Raises:
        DecodeError: a record does not hold what the schema asks for; ``record`` is its position.
        SchemaError: the schema contradicts itself.
    """
    block = RecordBlock.of(examples)
    batch, failures = parse_block(ExampleParser(Schema.of(schema)), block)
    if failures:
        first = failures[0]
        raise DecodeError(first.reason, record=first.position, feature=first.feature)
    return batch


def parse_example(example: bytes, schema: Schema | Mapping[str, Feature]) -> Sample:
    """Parses one serialized ``tf.train.Example``, as ``tf.io.parse_single_example`` does.

    Returns:
        Values without a batch dimension: a Tensor of the feature's shape, bytes for a scalar
        string, a 1-D Tensor or BytesArray for a VarLenFeature.

    Raises:
        DecodeError: as :func:`parse_examples`.
    """
    return parse_examples([example], schema).samples()[0]
