"""Records as columns of stored values, whatever features each of them has."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._parsing.failures import RecordFailure
from .._parsing.numpy_columns import RaggedRows, numpy_columns
from .._parsing.parser import ExampleParser
from .._parsing.valid_records import parse_columns
from .._records.record_block import RecordBlock
from .._schema.checks import is_text
from .._schema.schema import Schema
from .._schema.specs import VarLenFeature
from ..inspection.inference import DTYPES
from ..presets.recognition import AnySchema
from ..ranking.list_block import split_lists
from ..ranking.schema import Schema as ListSchema


class PartColumns(NamedTuple):
    """The features of one part of some records.

    Attributes:
        part: "features", "context", "sequence" or "examples".
        numbers: Number of the record of each row; int64.
        columns: Columns by name.
    """

    part: str
    numbers: npt.NDArray[np.int64]
    columns: dict[str, RaggedRows]


class BlockColumns(NamedTuple):
    """Some records in columns.

    Attributes:
        records: Number of records that could be parsed.
        parts: Parts of the records.
        failures: Number and failure of each record that could not be parsed.
        list_sizes: Number of examples in each record, if records are lists.
    """

    records: int
    parts: list[PartColumns]
    failures: list[tuple[int, RecordFailure]]
    list_sizes: npt.NDArray[np.int64] | None


def part_of(schema: AnySchema, name: str) -> str:
    """Return the part of a record that a feature belongs to, also if the schema leaves it out."""
    (first, _), *others = schema.parts.items()
    is_list = (schema.findings or {})[name].where == "list"
    return next((part for part, specs in others if is_list or name in specs), first)


class ColumnParser:
    """A parser of records to columns: of all features with values of one kind.

    Args:
        schema: Inferred schema of the records.
    """

    def __init__(self, schema: AnySchema) -> None:
        self._has_lists = isinstance(schema, ListSchema)
        self._parts: dict[str, dict[str, Any]] = {part: {} for part in schema.parts}
        for name, found in (schema.findings or {}).items():
            is_known = found.spec is not None or not self._has_lists
            if is_known and found.kind in DTYPES and is_text(name):
                # It accepts any number of values.
                self._parts[part_of(schema, name)][name] = VarLenFeature(DTYPES[found.kind])
        if self._has_lists:
            schemas = {part: Schema(each) for part, each in self._parts.items() if each}
        else:
            schemas = {"": Schema(**self._parts)}
        self._parsers = {part: ExampleParser(each) for part, each in schemas.items()}

    def parse(self, block: RecordBlock) -> BlockColumns:
        """Parse a block of records."""
        return self._parse_lists(block) if self._has_lists else self._parse_examples(block)

    def _parse_examples(self, block: RecordBlock) -> BlockColumns:
        found, failures = _parse(self._parsers[""], block)
        parts = [
            PartColumns(part, found.numbers, {name: found.columns[name] for name in names})
            for part, names in self._parts.items()
        ]
        return BlockColumns(len(found.numbers), parts, failures, None)

    def _parse_lists(self, block: RecordBlock) -> BlockColumns:
        lists, bad = split_lists(block)
        failures = [(int(block.numbers[each.position]), each) for each in bad]
        if bad:
            lists, _ = split_lists(block.without([each.position for each in bad]))
        parts = []
        for part, parser in self._parsers.items():
            inner = lists.contexts if part == "context" else lists.examples
            found, bad_parts = _parse(parser, inner, part)
            parts.append(found)
            failures += bad_parts
        # A record counts as one failure, even if several of its examples have one.
        unique = dict(reversed(failures))
        sizes = np.diff(lists.offsets)
        return BlockColumns(len(lists.contexts), parts, list(unique.items()), sizes)


def _parse(
    parser: ExampleParser, block: RecordBlock, part: str = ""
) -> tuple[PartColumns, list[tuple[int, RecordFailure]]]:
    """Return the columns of the valid records of a block, and the failures of the others."""
    found, failures = parse_columns(parser, block)
    columns = numpy_columns(found.arena, found.columns)
    failed = [(int(block.numbers[failure.position]), failure) for failure in failures]
    return PartColumns(part, found.block.numbers, columns), failed
