"""Records as what is stored in them: columns of numbers and bytes, nothing decoded."""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import DecodeError, SchemaError
from ..order.selection import Selection
from ..parsing.columns.base import Arena, view_of
from ..parsing.layout import BytesColumn, Column, DenseColumns, Numbers, RaggedColumn, Values
from ..parsing.parser import ExampleParser, RecordFailure
from ..records.reader import RecordBlock
from ..schema.feature import Feature
from ..schema.schema import Schema
from ..tools.record_files import RecordFiles
from .jobs import OnError, Tally

_INFERRED_FROM = 1000


@dataclass(frozen=True)
class StoredColumn:
    """The values of a feature in some records.

    Attributes:
        dtype: Of its values: "string" for bytes.
        shape: Of a record's values, where all records have as many; else None.
        splits: Otherwise: int64 offsets of the records' values; of feature lists, those of the
            records' steps, and of the steps' values.
        values: All values, flat; or the bytes of all of them, uint8.
        offsets: Where each bytes value begins in these; int64, one more than there are.
    """

    dtype: str
    shape: tuple[int, ...] | None
    splits: tuple[npt.NDArray[np.int64], ...]
    values: npt.NDArray[Any]
    offsets: npt.NDArray[np.int64] | None = None

    def row(self, record: int) -> Any:
        """A record's values: an array or a list of bytes; of a feature list, a list of those."""
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
        places = self.offsets[begin : end + 1].tolist()
        return [self.values[start:stop].tobytes() for start, stop in itertools.pairwise(places)]


class StoredBlock(NamedTuple):
    """Some records, and the columns of their features in the order of the schema."""

    block: RecordBlock
    columns: dict[str, StoredColumn]


class StoredReader:
    """Parses records by a schema, but keeps what is stored: an image stays its bytes.

    Args:
        files: The records.
        schema: What to read; by default what :meth:`Schema.infer` makes of the files.
        tally: Is told of records that do not hold what the schema asks for.

    Attributes:
        schema: With a FixedLenFeature or VarLenFeature for every feature.

    Raises:
        SchemaError: there is nothing to infer a schema from, or some feature that has values would
            be left out; or a schema has a spec that reads several stored features.
    """

    def __init__(
        self, files: RecordFiles, schema: Schema | Mapping[str, Any] | None, tally: Tally
    ) -> None:
        self._files = files
        self._tally = tally
        self._inferred = schema is None
        if schema is None:
            schema = infer_schema(files, tally)
            _refuse_left_out(schema)
        self.schema = _as_stored(Schema.of(schema))
        self._parser = ExampleParser(self.schema)

    def blocks(
        self, selection: Selection, jobs: int, *, most_records: int, most_bytes: int
    ) -> Generator[StoredBlock]:
        """Good records of a selection, in order; arguments as of :meth:`RecordFiles.blocks`.

        Counts bytes, but no records.

        Raises:
            DecodeError: a record does not hold what the schema asks for, unless that is skipped.
            CorruptRecordError: a record is damaged, unless that is skipped.
        """
        for block in self._files.blocks(
            selection,
            self._tally,
            jobs,
            counted=False,
            most_records=most_records,
            most_bytes=most_bytes,
        ):
            yield self._parse(block)

    def error(
        self, block: RecordBlock, position: int, reason: str, feature: str | None = None
    ) -> DecodeError:
        """What is wrong with a record."""
        path, record, offset = self._files.reader.place(int(block.numbers[position]))
        return DecodeError(reason, path=path, record=record, offset=offset, feature=feature)

    def _parse(self, block: RecordBlock) -> StoredBlock:
        """The columns of a block, less what cannot be parsed."""
        rest, failures = block, dict[int, RecordFailure]()  # by number
        while True:
            located = self._parser.locate(rest)
            found = located.failures
            if not found:
                arena = _core.allocate(located.arena_bytes)
                columns, found = located.fill(arena)
            if not found:
                break
            for failure in found:
                failures.setdefault(int(rest.numbers[failure.position]), failure)
            rest = rest.without([failure.position for failure in found])
        for position, number in enumerate(block.numbers.tolist() if failures else []):
            if number in failures:
                reason, feature = self._reason(failures[number]), failures[number].feature
                self._tally.skip(self.error(block, position, reason, feature))
        return StoredBlock(rest, self._views(columns, arena))

    def _reason(self, failure: RecordFailure) -> str:
        reason = failure.reason
        if failure.offset is not None:
            reason += f", at byte {failure.offset} of the record"
        if self._inferred:
            seen = f"{_INFERRED_FROM:,} records"
            reason += f" (the schema is inferred from {seen}; give one that fits all)"
        return reason

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


def infer_schema(files: RecordFiles, tally: Tally) -> Schema:
    """What :meth:`Schema.infer` makes of the files; damage is the tally's business, not its own."""
    on_error: OnError = "raise" if tally.raises else "skip"
    return Schema.infer(files.paths, _INFERRED_FROM, on_error=on_error)


def _refuse_left_out(schema: Schema) -> None:
    """What a person would see in the schema, nobody sees here."""
    for name, finding in (schema.findings or {}).items():
        if finding.spec is None and finding.kind != "none":
            raise SchemaError(f"{finding.why}: give a schema of what is to be read", feature=name)


def _as_stored(schema: Schema) -> Schema:
    context = {name: _stored(name, spec) for name, spec in schema.context.items()}
    if schema.sequence is None:
        return Schema(context)
    sequence = {name: _stored(name, spec) for name, spec in schema.sequence.items()}
    return Schema(context=context, sequence=sequence)


def _stored(name: str, spec: Feature) -> Feature:
    """The spec that reads what another one decodes or pads."""
    stored = spec.as_stored(name)
    if stored.dtype != "bfloat16":
        return stored
    return replace(stored, dtype="float32")  # type: ignore[type-var]  # no other package has bfloat16
