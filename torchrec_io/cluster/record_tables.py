"""Arrow tables of records: a row for each record, a column for each feature."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from .._parsing.failures import RecordFailure
from .._parsing.numpy_columns import numpy_columns
from .._parsing.parser import ExampleParser
from .._parsing.valid_records import ParsedBlock, parse_columns
from .._records.record_size import MAX_RECORD_BYTES
from .._records.scanned_block import ScannedBlock
from .._schema.feature import Feature
from .._schema.image_spec import ImageFeature
from .._schema.nesting import nested
from .._schema.schema import Schema
from .._schema.specs import RaggedFeature
from .._storage.byte_source import Ints
from ..convert import arrow as pa
from ..errors import DecodeError, SchemaError, TorchRecIOError
from .arrow_columns import arrow_array, bytes_array, padded_array
from .file_piece import FilePiece

BYTES_COLUMN = "bytes"
KEY_COLUMN = "__key__"
NUMBER_COLUMN = "__number__"


class RecordTable(NamedTuple):
    """Some records as a table.

    Attributes:
        table: Table with a row for each valid record: ``pyarrow.Table``.
        errors: Errors of the other records.
    """

    table: Any
    errors: list[TorchRecIOError]


@dataclass(frozen=True)
class TableReader:
    """A reader of pieces of files as Arrow tables.

    Attributes:
        schema: Features to read; None for the records as bytes.
        names: Names of the columns, in order.
        verify_crc: Whether checksums are compared, those of lengths and of data.
        max_record_bytes: Largest size of a record in bytes.
    """

    schema: Schema | None
    names: tuple[str, ...]
    verify_crc: bool = True
    max_record_bytes: int = MAX_RECORD_BYTES

    @classmethod
    def of(cls, schema: Any, *, with_key: bool, **options: Any) -> TableReader:
        """Return a reader for a schema as users give it.

        Args:
            schema: A schema, a dict of features, or None.
            with_key: Whether the first column has the key of each record.
            options: Other attributes.

        Raises:
            SchemaError: If the schema is inconsistent, or has a feature that Arrow cannot store.
            ValueError: If it is not a schema.
        """
        names = [KEY_COLUMN] if with_key else []
        if schema is None:
            return cls(None, (*names, BYTES_COLUMN), **options)
        if not isinstance(schema, Mapping) or hasattr(schema, "message_parser"):
            raise ValueError(f"schema must be a Schema, a dict of features or None, got {schema!r}")
        given = Schema.of(schema)
        parts = {
            part: nested({name: _for_arrow(spec) for name, spec in specs.items()}, given.paths)
            for part, specs in given.parts.items()
        }
        checked = Schema(**parts)
        for name, spec in checked.items():
            if spec.column_dtype.startswith("complex"):
                raise SchemaError("Arrow has no complex numbers", feature=name)
            if name in names:
                raise SchemaError("with_key=True makes a column of this name", feature=name)
        return cls(checked, (*names, *checked), **options)

    def narrow(self, names: Iterable[str]) -> TableReader:
        """Return a reader of some of the columns, or of the first one if there are none.

        Args:
            names: Names of columns, in order.
        """
        kept = tuple(names) or self.names[:1]
        schema = self.schema
        if schema is not None:
            features = [name for name in kept if name in schema]
            schema = schema.narrow(features) if features else None
        return replace(self, schema=schema, names=kept)

    def tables(self, pieces: Iterable[FilePiece]) -> Generator[RecordTable]:
        """Yield the records of pieces as tables, in order.

        Raises:
            StaleIndexError: If a file is not the one that was indexed.
            OSError: If a file cannot be read.
        """
        for piece in pieces:
            blocks = piece.blocks(
                verify_crc=self.verify_crc, max_record_bytes=self.max_record_bytes
            )
            for block in blocks:
                yield self._table(block, piece.base)

    def skipped(self, pieces: Iterable[FilePiece], found: Sequence[Ints]) -> Any:
        """Return a row for each record of pieces that is not among some numbers: null, not bytes.

        Args:
            pieces: The pieces.
            found: Numbers of the valid records, in order.
        """
        begins = [(piece.base + piece.first, piece.count) for piece in pieces]
        every = np.concatenate([np.arange(begin, begin + count) for begin, count in begins])
        numbers = np.setdiff1d(every, np.concatenate([every[:0], *found]), assume_unique=True)
        nulls = pa.nulls(len(numbers), pa.binary())
        return pa.table({NUMBER_COLUMN: numbers, BYTES_COLUMN: nulls})

    def _table(self, found: ScannedBlock, base: int) -> RecordTable:
        columns: dict[str, Any] = {}
        block, errors = found.block, found.errors
        if self.schema is not None:
            # Ray gives a task one CPU.
            parsed, failures = parse_columns(ExampleParser.of(self.schema), block, threads=1)
            errors += (_error(found, failure) for failure in failures)
            block = parsed.block
            columns = _arrays(self.schema, parsed)
        elif BYTES_COLUMN in self.names:
            columns[BYTES_COLUMN] = bytes_array(block)
        if KEY_COLUMN in self.names:
            offsets = found.offsets[np.searchsorted(found.block.numbers, block.numbers)]
            columns[KEY_COLUMN] = [f"{found.path}:{offset}" for offset in offsets.tolist()]
        if NUMBER_COLUMN in self.names:
            columns[NUMBER_COLUMN] = block.numbers + base
        table = pa.table({name: columns[name] for name in self.names})
        errors.sort(key=lambda error: error.record or 0)
        return RecordTable(table, errors)


def _for_arrow(spec: Feature) -> Feature:
    """Return a spec that reads the same values as Arrow stores them."""
    if isinstance(spec, RaggedFeature):
        return replace(spec, validate=True)  # rows out of order: Arrow's lists cannot overlap
    if isinstance(spec, ImageFeature) and spec.mixed == "pad":
        return replace(spec, mixed="list")
    return spec


def _arrays(schema: Schema, parsed: ParsedBlock) -> dict[str, Any]:
    """Return the Arrow array of each feature."""
    padded = ExampleParser.of(schema).padded
    columns = numpy_columns(parsed.arena, parsed.columns)
    arrays = {}
    for name, spec in schema.items():
        column = columns[name]
        if name in padded:
            arrays[name] = padded_array(column, columns[padded[name].lengths])
        else:
            arrays[name] = arrow_array(column, spec.known_rank)
    return arrays


def _error(found: ScannedBlock, failure: RecordFailure) -> TorchRecIOError:
    reason = failure.message(with_offset=True)
    return DecodeError(reason, **found.place(failure.position), feature=failure.feature)
