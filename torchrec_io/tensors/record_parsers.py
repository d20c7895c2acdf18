"""Batches of records that are no Examples as they are stored."""

from __future__ import annotations

from ..parsing.parser import ExampleParser, RecordFailure
from ..parsing.record_random import Draws
from ..parsing.wrapping import Content, Fields
from ..records.reader import RecordBlock
from ..schema.schema import Schema
from .batch import Batch
from .parse import parse_block


class WrappedParser:
    """Parses records as Examples that they are put into.

    Attributes:
        schema: Of those Examples.

    Args:
        wrapping: Puts them there.
    """

    def __init__(self, wrapping: Fields | Content) -> None:
        self.schema: Schema = wrapping.schema
        self._wrapping = wrapping

    def parse(self, block: RecordBlock, draws: Draws) -> tuple[Batch, list[RecordFailure]]:
        """As :func:`parse_block`."""
        parser = ExampleParser.of(self.schema)
        batch, failures = parse_block(parser, self._wrapping.wrap(block), draws)
        # Where in the Example it is would tell nobody anything.
        return batch, [failure._replace(offset=None) for failure in failures]
