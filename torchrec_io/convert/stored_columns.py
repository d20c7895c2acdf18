"""The stored values of records, without decoding: columns of numbers and bytes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._order.selection import Selection
from .._parsing.arrays import Arena, view_of
from .._parsing.failures import RecordFailure
from .._parsing.layout import BytesColumn, Column, DenseColumns, Numbers, RaggedColumn, Values
from .._parsing.parser import ExampleParser
from .._parsing.valid_records import parse_columns
from .._records.record_block import RecordBlock
from .._schema.feature import Feature
from .._schema.infer import InferredParts, infer_surveyed
from .._schema.record_sample import all_records
from .._schema.schema import Schema
from .._schema.survey import Survey, Surveyor
from .._schema.survey_files import survey_sample
from ..errors import DecodeError, SchemaError
from ..tools.record_files import RecordFiles
from .columns import ColumnOptions

# What to do about a record that does not fit a schema that was given.
_REMEDY = (
    "leave schema out to infer one that fits all records, use VarLenFeature for a feature that is "
    'missing or has another number of values, or skip such records with on_error="skip"'
)


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


class StoredReader:
    """A reader of the stored values of records: an image stays its bytes.

    Args:
        files: Files to read.
        schema: Features to read.
        names: Names of the features to read. Default: all.
        survey: Facts about the features of all records, if they are known. If not, the features of
            records are listed while they are read.
        remedy: Advice in the error of a record that does not fit the schema.

    Attributes:
        schema: Schema of the stored values, with a FixedLenFeature or VarLenFeature for every
            feature.
        survey: Facts about the features of all records, if they are known.

    Raises:
        SchemaError: If a spec reads several stored features.
    """

    def __init__(
        self,
        files: RecordFiles,
        schema: Schema,
        *,
        names: Collection[str] | None = None,
        survey: Survey | None = None,
        remedy: str = _REMEDY,
    ) -> None:
        self._files = files
        self.survey: Survey | None = survey
        self._surveyor = Surveyor(with_values=False)
        self._remedy = remedy
        self._parser = StoredParser(schema, names)
        self.schema: Schema = self._parser.schema

    @classmethod
    def start(
        cls,
        files: RecordFiles,
        schema: Schema | Mapping[str, Any] | None,
        jobs: int,
        options: ColumnOptions | None = None,
    ) -> StoredReader:
        """Report the start of a conversion, and infer a schema from all records if there is none.

        Args:
            files: Files to read.
            schema: Features to read, or None.
            jobs: Number of threads that inspect the records.
            options: Names of features to include and exclude.

        Raises:
            SchemaError: If there is no record to infer a schema from, a feature that has values
                would be left out, or a spec reads several stored features.
            DecodeError: If a record has no features, unless the report skips errors.
            CorruptRecordError: If a record is damaged, unless the report skips errors.
            ValueError: If there is no feature of a given name.
        """
        options = options or ColumnOptions()
        files.report.watcher.started(files.size if schema is not None else 2 * files.size)
        if schema is not None:
            schema = Schema.of(schema)
            return cls(files, schema, names=options.chosen(schema))
        found = infer_schema(files, jobs)
        names = options.chosen(found.findings)
        for name in names:
            finding = found.findings[name]
            if finding.spec is None and finding.kind != "none":
                raise SchemaError(f"{finding.why}; use schema to give one without it", feature=name)
        return cls(files, Schema(**found.parts), names=names, survey=found.survey)

    def left_out(self) -> dict[str, int]:
        """Return the number of records that have values of each feature that was not read.

        It is complete once all blocks were read.
        """
        survey = self.survey or self._surveyor.result()
        read = {"context": self.schema.context, "list": self.schema.sequence or {}}
        counts: dict[str, int] = {}
        for where, summaries in (("context", survey.context), ("list", survey.lists)):
            for name, summary in sorted(summaries.items()):
                if summary.kinds and name not in read[where]:
                    counts[name] = max(counts.get(name, 0), summary.present)
        return counts

    def blocks(
        self,
        selection: Selection,
        jobs: int,
        *,
        max_records: int | None = None,
        max_bytes: int | None = None,
    ) -> Generator[StoredBlock]:
        """Yield the valid records of a selection in blocks, in order.

        The report counts the bytes, but not the records.

        Args:
            selection: Records to read.
            jobs: Number of threads that read.
            max_records: Largest number of records in a block; by default 4,096.
            max_bytes: Largest size of a block with more than one record, in bytes; by default
                4 MiB.

        Raises:
            DecodeError: If a record does not fit the schema, unless the report skips errors.
            CorruptRecordError: If a record is damaged, unless the report skips errors.
        """
        for block in self._files.blocks(
            selection, jobs, count_records=False, max_records=max_records, max_bytes=max_bytes
        ):
            yield self._parse(block)

    def skip(self, number: int, reason: str, feature: str | None) -> None:
        """Count a record as skipped, or raise the reason."""
        [place] = self._files.reader.locate([number])
        self._files.report.skip(DecodeError(reason, **place.where, feature=feature))

    def _parse(self, block: RecordBlock) -> StoredBlock:
        """Parse a block, without the records that do not fit the schema."""
        parsed, failures = self._parser.parse(block)
        for number, failure in failures:
            self.skip(number, self._reason(failure), failure.feature)
        if self.survey is None:
            self._surveyor.add(parsed.block)
        return parsed

    def _reason(self, failure: RecordFailure) -> str:
        reason = failure.reason
        if failure.offset is not None:
            reason += f", at byte {failure.offset} of the record"
        return f"{reason}; {self._remedy}"


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


def infer_schema(files: RecordFiles, jobs: int) -> InferredParts:
    """Infer a schema from all records.

    Damaged records are skipped if the report does so, and counted later.
    """
    survey = survey_sample(
        all_records(files.reader.indexes),
        skip_errors=files.report.on_error == "skip",
        jobs=jobs,
        advanced=lambda size: files.report.watcher.advanced(size, 0),
        all_text=True,
    )
    return infer_surveyed(survey, survey.records)


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
