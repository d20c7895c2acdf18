"""Parser of lists of Examples that share a context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from .._parsing.arrays import view_of
from .._parsing.columns.base import LocatedBlock
from .._parsing.failures import RecordFailure
from .._parsing.layout import ArenaLayout, Column, grouped
from .._parsing.parser import ExampleParser
from .._parsing.record_random import RecordRandom
from .._parsing.valid_records import parse_valid
from .._records.record_block import RecordBlock
from .._tensors.arena import allocate_for
from .._tensors.batch import Batch
from .._tensors.block_parser import BlockParser
from .._tensors.columns import Columns, Form
from .._tensors.parse import image_threads
from ..checks import counted
from .list_block import ListBlock, split_lists

if TYPE_CHECKING:
    from .schema import Schema


class ExampleListParser(BlockParser):
    """Parser of records that are ``ExampleListWithContext`` messages.

    Contexts and examples are parsed as two batches of Examples, into one arena.

    Args:
        schema: Schema of the lists.
    """

    has_stored_names = True

    def __init__(self, schema: Schema) -> None:
        self.schema: Schema = schema

    def of_features(self, names: Sequence[str]) -> ExampleListParser:
        # A schema of lists needs a feature of the examples.
        examples = self.schema.examples
        has_any = any(each in examples for name in names for each in self.schema.names_of(name))
        needed = names if has_any else [*names, next(iter(examples))]
        return ExampleListParser(self.schema.narrow(needed))

    def parse(self, block: RecordBlock, random: RecordRandom) -> tuple[Batch, list[RecordFailure]]:
        """Parse a block of records, without those that are invalid.

        See :func:`torchrec_io._tensors.parse.parse_block` for the arguments and the result.

        Raises:
            MemoryError: If there is not enough memory for the batch.
        """
        return parse_valid(block, lambda part: self._parse(part, random))

    def _parse(self, block: RecordBlock, random: RecordRandom) -> Batch | list[RecordFailure]:
        """Return a batch of all records, or the failures of some of them."""
        lists, bad = split_lists(block)
        if bad:
            return bad
        parsers = [ExampleParser.of(self.schema.example_schema)]
        located, form = [_locate(parsers[0], lists.examples, random)], Form(())
        examples = located[0]
        if self.schema.context_schema is not None:
            parser = ExampleParser.of(self.schema.context_schema)
            parsers.insert(0, parser)
            located.insert(0, _locate(parser, lists.contexts, random))
            form = Form((), parser.padded, images=parser.images)
        if failures := _failures(lists, located):
            return failures

        room = ArenaLayout()
        starts = [room.reserve(part.layout.size) for part in located]
        splits = room.reserve_numbers("int64", lists.offsets.shape)
        columns: list[Column] = []
        for column in examples.columns:
            columns += grouped(column, splits, starts[-1])
        for part in located[:-1]:  # the context, with which the arena begins
            columns += part.columns
        count = len(lists.contexts)
        tensor = allocate_for(room.size, columns, count, self.allocate)
        arena = tensor.numpy()
        for parser, part, start in zip(parsers, located, starts, strict=True):
            parser.fill([part], [arena[start : start + part.layout.size]])
            part.failures += part.refused.listed()
        if failures := _failures(lists, located):
            return failures
        view_of(arena, splits)[...] = lists.offsets
        form = form._replace(names=tuple(self.schema), paths=dict(self.schema.paths))
        return Batch(Columns(tensor, columns, form))


def _locate(parser: ExampleParser, block: RecordBlock, random: RecordRandom) -> LocatedBlock:
    try:
        return parser.locate(block, random, image_threads())
    except MemoryError as error:
        raise MemoryError(
            f"not enough memory to parse {counted(len(block), 'Example')} ({error}): use a smaller "
            "batch_size"
        ) from error


def _failures(lists: ListBlock, located: list[LocatedBlock]) -> list[RecordFailure]:
    """Return the failures of contexts and examples as failures of their records."""
    *contexts, examples = located
    found = [lists.context_failure(failure) for part in contexts for failure in part.failures]
    # Only the first one of each record: a damaged record may claim to have millions of examples.
    positions = [failure.position for failure in examples.failures]
    owners = np.searchsorted(lists.offsets, positions, "right")
    firsts = np.unique(owners, return_index=True)[1].tolist()
    return found + [lists.example_failure(examples.failures[first]) for first in firsts]
