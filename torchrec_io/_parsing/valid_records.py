"""Parsing of the valid records of a block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from .. import _core
from .._records.record_block import RecordBlock, RecordList
from .arrays import Arena
from .failures import RecordFailure
from .layout import Column
from .parser import ExampleParser

_Block = TypeVar("_Block", RecordBlock, RecordList)
_Parsed = TypeVar("_Parsed")


def parse_valid(
    block: _Block, parse: Callable[[_Block], _Parsed | list[RecordFailure]]
) -> tuple[_Parsed, list[RecordFailure]]:
    """Parse a block without the records that cannot be parsed.

    Args:
        block: The records.
        parse: Function that returns the result of all records of a block, or a list of failures
            of some of them.

    Returns:
        The result of the valid records, and a failure for each of the others, by its position in
        ``block``.
    """
    found = parse(block)
    failures: dict[int, RecordFailure] = {}
    kept: Sequence[int] = range(len(block))
    while isinstance(found, list):  # parsing the others may find more failures
        for failure in found:
            position = kept[failure.position]
            failures.setdefault(position, failure._replace(position=position))
        kept = [position for position in range(len(block)) if position not in failures]
        found = parse(block.without(list(failures)))
    return found, [failures[position] for position in sorted(failures)]


class ParsedBlock(NamedTuple):
    """The valid records of a block, and their columns.

    Attributes:
        block: The valid records.
        columns: Positions of their columns in the arena.
        arena: Data of the columns.
    """

    block: RecordBlock
    columns: tuple[Column, ...]
    arena: Arena


def parse_columns(
    parser: ExampleParser, block: RecordBlock, threads: int | None = None
) -> tuple[ParsedBlock, list[RecordFailure]]:
    """Parse the valid records of a block into columns of a new arena; see :func:`parse_valid`.

    Args:
        parser: Parser of the schema.
        block: The records.
        threads: Number of threads that decode images; by default that of the CPUs.
    """

    def parse(part: RecordBlock) -> ParsedBlock | list[RecordFailure]:
        located = parser.locate(part, threads=threads)
        if located.failures:
            return located.failures
        arena = _core.allocate(located.layout.size)
        parser.fill([located], [arena])
        failures = located.failures or located.refused.listed()
        return failures or ParsedBlock(part, located.columns, arena)

    return parse_valid(block, parse)
