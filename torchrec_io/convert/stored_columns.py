"""The stored values of records, without decoding: columns of numbers and bytes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._parsing.arrays import Arena, view_of
from .._parsing.failures import RecordFailure
from .._parsing.layout import BytesColumn, Column, DenseColumns, Numbers, RaggedColumn, Values
from .._parsing.parser import ExampleParser
from .._parsing.valid_records import parse_columns
from .._records.record_block import RecordBlock
from .._schema.feature import Feature
from .._schema.schema import Schema


@dataclass(frozen=True)
class StoredColumn:
    """The values of a feature in some records.

    Attributes:
        dtype: Dtype of the values; "string" for bytes.
        shape: Shape of the values of a record, or None if records have different numbers of values.
        splits: If ``shape`` is None, int64 offsets of the values of each record; for a feature
            list, offsets of the steps of each record and of the values of each step.
        values: All values, flat; for bytes, all their bytes as uint8.
        offsets: For bytes, int64 offsets of the values in ``values``, one more than there are
            values; otherwise None.
    """

    dtype: str
    shape: tuple[int, ...] | None
    splits: tuple[npt.NDArray[np.int64], ...]
    values: npt.NDArray[Any]
    offsets: npt.NDArray[np.int64] | None = None

    def row(self, record: int) -> Any:
        """Return the values of a record: an array or list of bytes; for steps, a list of those."""
        if self.shape is not None:
            count = math.prod(self.shape)
            found = self._between(record * count, (record + 1) * count)
            return found if isinstance(found, list) else found.reshape(self.shape)
        begin, end = self.splits[0][record : record + 2].tolist()
        if len(self.splits) == 1:
            return self._between(begin, end)
        steps = self.splits[1][begin : end + 1].tolist()
        return [self._between(*pair) for pair in itertools.pairwise(steps)]

    def _between(self, begin: int, end: int) -> Any:
        if self.offsets is None:
            return self.values[begin:end]
        starts = self.offsets[begin : end + 1].tolist()
        return [self.values[start:stop].tobytes() for start, stop in itertools.pairwise(starts)]


class StoredBlock(NamedTuple):
    """Some records and the columns of their features, in the order of the schema."""

    block: RecordBlock
    columns: dict[str, StoredColumn]


class StoredParser:
    """A parser of records to columns of their stored values.

    Args:
        schema: Features to read.
        names: Names of the features to read. Default: all.

    Attributes:
        schema: Schema of the stored values, with a FixedLenFeature or VarLenFeature for every
            feature.

    Raises:
        SchemaError: If a spec reads several stored features.
    """

    def __init__(self, schema: Schema, names: Collection[str] | None = None) -> None:
        self.schema: Schema = _as_stored(schema, names)
        self._parser = ExampleParser(self.schema)

    def parse(self, block: RecordBlock) -> tuple[StoredBlock, list[tuple[int, RecordFailure]]]:
        """Parse a block of records.

        Returns:
            The records that fit the schema, and the number and failure of each of the others.
        """
        parsed, failures = parse_columns(self._parser, block)
        views = self._views(parsed.columns, parsed.arena)
        numbers = [int(block.numbers[failure.position]) for failure in failures]
        return StoredBlock(parsed.block, views), list(zip(numbers, failures, strict=True))

    def _views(self, columns: tuple[Column, ...], arena: Arena) -> dict[str, StoredColumn]:
        found: dict[str, StoredColumn] = {}
        for column in columns:
            if isinstance(column, DenseColumns):
                for number, name in enumerate(column.names):
                    values = Numbers(column.dtype, column.shape, column.at + number * column.stride)
                    found[name] = _column(arena, values, column.shape[1:], ())
            elif isinstance(column, BytesColumn):
                found[column.name] = _column(arena, column.values, column.values.shape[1:], ())
            else:
                assert isinstance(column, RaggedColumn)
                splits = tuple(view_of(arena, split) for split in column.splits)
                found[column.name] = _column(arena, column.values, None, splits)
        return {name: found[name] for name in self.schema}


def _column(
    arena: Arena,
    values: Values,
    shape: tuple[int, ...] | None,
    splits: tuple[npt.NDArray[Any], ...],
) -> StoredColumn:
    if isinstance(values, Numbers):
        return StoredColumn(values.dtype, shape, splits, view_of(arena, values).reshape(-1))
    count = math.prod(values.shape)
    offsets = view_of(arena, Numbers("int64", (count + 1,), values.offsets_at))
    data = arena[values.data_at : values.data_at + values.data_bytes]
    return StoredColumn("string", shape, splits, data, offsets)


# ---- schemas ----


def _as_stored(schema: Schema, names: Collection[str] | None) -> Schema:
    """Return a schema of the stored values of all features, or of some."""

    def stored(specs: Mapping[str, Feature]) -> dict[str, Feature]:
        return {
            name: _stored(name, spec)
            for name, spec in specs.items()
            if names is None or name in names
        }

    if schema.sequence is None:
        return Schema(stored(schema.context))
    return Schema(context=stored(schema.context), sequence=stored(schema.sequence))


def _stored(name: str, spec: Feature) -> Feature:
    """Return the spec that reads the stored values of another one, without decoding or padding."""
    stored = spec.as_stored(name)
    if stored.dtype != "bfloat16":
        return stored
    return replace(stored, dtype="float32")  # type: ignore[type-var]  # no other package has bfloat16
