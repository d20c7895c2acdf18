"""Records as columns of stored values, whatever features each of them has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from .._parsing.failures import RecordFailure
from .._records.record_block import RecordBlock
from .._schema.schema import Schema
from .._schema.specs import VarLenFeature
from ..convert.stored_columns import StoredColumn, StoredParser
from ..inspection.inference import DTYPES, Finding
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
    columns: dict[str, StoredColumn]


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


class ColumnParser(Protocol):
    """A parser of records to columns."""

    def parse(self, block: RecordBlock) -> BlockColumns:
        """Parse a block of records."""


def column_parser(schema: Schema | ListSchema) -> ColumnParser:
    """Return a parser that reads all features of an inferred schema with values of one kind."""
    findings = schema.findings or {}
    if isinstance(schema, ListSchema):
        return _ListParser(
            _variable(findings, schema.context), _variable(findings, schema.examples)
        )
    return _ExampleColumnParser(findings, is_sequence=schema.is_sequence)


def _variable(
    findings: Mapping[str, Finding], names: Mapping[str, object] | None = None
) -> dict[str, VarLenFeature]:
    """Return specs that accept any number of values."""
    return {
        name: VarLenFeature(DTYPES[found.kind])
        for name, found in findings.items()
        if found.kind in DTYPES and _is_text(name) and (names is None or name in names)
    }


def _is_text(name: str) -> bool:
    return name.isascii() or name.encode("utf-8", "replace").decode() == name


class _ExampleColumnParser:
    def __init__(self, findings: Mapping[str, Finding], *, is_sequence: bool) -> None:
        specs = _variable(findings)
        lists = {name: spec for name, spec in specs.items() if findings[name].where == "list"}
        context = {name: spec for name, spec in specs.items() if name not in lists}
        self._names = (
            {"context": context, "sequence": lists} if is_sequence else {"features": specs}
        )
        schema = Schema(context=context, sequence=lists) if is_sequence else Schema(specs)
        self._parser = StoredParser(schema)

    def parse(self, block: RecordBlock) -> BlockColumns:
        (rest, columns), failures = self._parser.parse(block)
        parts = [
            PartColumns(part, rest.numbers, {name: columns[name] for name in names})
            for part, names in self._names.items()
        ]
        return BlockColumns(len(rest), parts, failures, None)


class _ListParser:
    def __init__(
        self, context: Mapping[str, VarLenFeature], examples: Mapping[str, VarLenFeature]
    ) -> None:
        self._context = StoredParser(Schema(context)) if context else None
        self._examples = StoredParser(Schema(examples))

    def parse(self, block: RecordBlock) -> BlockColumns:
        lists, bad = split_lists(block)
        failures = [(int(block.numbers[each.position]), each) for each in bad]
        if bad:
            lists, _ = split_lists(block.without([each.position for each in bad]))
        parts = []
        if self._context is not None:
            (rest, columns), found = self._context.parse(lists.contexts)
            parts.append(PartColumns("context", rest.numbers, columns))
            failures += found
        (rest, columns), found = self._examples.parse(lists.examples)
        parts.append(PartColumns("examples", rest.numbers, columns))
        # A record counts as one failure, even if several of its examples have one.
        failures += found
        unique = dict(reversed(failures))
        return BlockColumns(
            len(lists.contexts), parts, list(unique.items()), np.diff(lists.offsets)
        )
