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
from .._parsing.layout import DenseColumns, Numbers, Texts
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


class _StoredViews:
    """Maker of the stored columns of an arena, in the place of ``ArenaViews``."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena

    def numbers(self, dtype: str, shape: tuple[int, ...], at: int) -> StoredColumn:
        values = view_of(self._arena, Numbers(dtype, shape, at)).reshape(-1)
        return StoredColumn(dtype, shape[1:], (), values)

    def texts(self, texts: Texts) -> StoredColumn:
        count = math.prod(texts.shape)
        offsets = view_of(self._arena, Numbers("int64", (count + 1,), texts.offsets_at))
        data = self._arena[texts.data_at : texts.data_at + texts.data_bytes]
        return StoredColumn("string", texts.shape[1:], (), data, offsets)

    def dense(self, columns: DenseColumns) -> list[StoredColumn]:
        return [self.numbers(*numbers) for _, numbers in columns.arrays()]

    def ragged(self, rows: StoredColumn, offsets: StoredColumn) -> StoredColumn:
        return replace(rows, shape=None, splits=(offsets.values, *rows.splits))


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
        views: dict[str, StoredColumn] = {}
        maker = _StoredViews(parsed.arena)
        for column in parsed.columns:
            column.add_views(maker, views)
        found = StoredBlock(parsed.block, {name: views[name] for name in self.schema})
        return found, [(int(block.numbers[failure.position]), failure) for failure in failures]


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
