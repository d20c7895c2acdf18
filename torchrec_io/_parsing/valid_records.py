"""Parsing of the valid records of a block into columns of a new arena."""

from __future__ import annotations

from typing import NamedTuple

from .. import _core
from .._records.record_block import RecordBlock
from .columns.base import Arena
from .failures import RecordFailure
from .layout import Column
from .parser import ExampleParser
from .record_random import DEFAULT_RANDOM, RecordRandom


class ParsedBlock(NamedTuple):
    """The valid records of a block, and their columns.

    Attributes:
        block: The valid records.
        columns: Positions of their columns in the arena.
        arena: Data of the columns.
        failures: Number and failure of each of the other records, in the order of the numbers.
    """

    block: RecordBlock
    columns: tuple[Column, ...]
    arena: Arena
    failures: list[tuple[int, RecordFailure]]


def parse_valid(
    parser: ExampleParser,
    block: RecordBlock,
    random: RecordRandom = DEFAULT_RANDOM,
    threads: int | None = None,
) -> ParsedBlock:
    """Parse the records of a block, without those that do not fit the schema.

    Args:
        parser: Parser of the schema.
        block: Records whose numbers are integers.
        random: Source of random numbers.
        threads: Number of threads that decode images; by default that of the CPUs.
    """
    failures = dict[int, RecordFailure]()  # by number
    while True:  # parsing the others may find more failures
        located = parser.locate(block, random, threads)
        found = located.failures
        if not found:
            arena = _core.allocate(located.arena_bytes)
            columns, found = located.fill(arena)
        if not found:
            return ParsedBlock(block, columns, arena, sorted(failures.items()))
        for failure in found:
            failures.setdefault(int(block.numbers[failure.position]), failure)
        block = block.without([failure.position for failure in found])
