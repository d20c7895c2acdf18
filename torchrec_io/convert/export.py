"""The steps that all conversions from TFRecord share: records, their schema and stored values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

from .._parsing.numpy_columns import numpy_columns, stored_values
from .._parsing.parser import ExampleParser
from .._parsing.valid_records import parse_columns
from .._records.record_block import RecordBlock
from .._schema.feature import Feature
from .._schema.schema import Schema
from .._storage.local import StrPath
from .._storage.location import Location
from ..errors import DecodeError, SchemaError
from ..inspection.inference import InferredParts, infer_surveyed
from ..inspection.record_sample import all_records
from ..inspection.survey_files import survey_sample
from ..inspection.surveyor import Survey, Surveyor
from ..tools.options import InputOptions, open_inputs, with_defaults
from ..tools.outputs import refuse_inputs
from ..tools.record_files import RecordFiles
from ..tools.report import JobReport, Result
from .options import ColumnOptions

# What to do about a record that does not fit a schema that was given.
_REMEDY = (
    "leave schema out to infer one that fits all records, use VarLenFeature for a feature that is "
    'missing or has another number of values, or skip such records with on_error="skip"'
)


class Export:
    """A conversion from TFRecord, which reads the stored values: an image stays its bytes.

    Args:
        paths: Files, glob patterns, directories or URLs.
        options: Keyword options of the conversion.
        outputs: Files to write, as far as they are known, and files to remove.

    Attributes:
        report: Counts of the conversion.
        files: Files to read.
        jobs: Number of threads that read.
        survey: Facts about the features of all records, once a schema is inferred from them.
        schema: Schema of the stored values, with a FixedLenFeature or VarLenFeature for every
            feature, once it is chosen.

    Raises:
        TypeError: If there is an unknown option.
        ValueError: If an output is an input.
    """

    def __init__(
        self,
        paths: StrPath | Iterable[StrPath],
        options: InputOptions,
        outputs: Iterable[Location] = (),
    ) -> None:
        given = with_defaults(options, InputOptions)
        self.files: RecordFiles = open_inputs(paths, given)
        self.report: JobReport = self.files.report
        refuse_inputs(self.files.locations, outputs)
        self.survey: Survey | None = None
        self.jobs: int = given["jobs"]
        self._surveyor = Surveyor(with_values=False)

    def choose(
        self, schema: Schema | Mapping[str, Any] | None, columns: ColumnOptions | None = None
    ) -> None:
        """Choose the features to read. Without a schema, all records are inspected for one.

        Args:
            schema: Features to read, or None.
            columns: Names of features to include and exclude.

        Raises:
            SchemaError: If there is no record to infer a schema from, a feature that has values
                would be left out, or a spec reads several stored features.
            DecodeError: If a record has no features, unless the report skips errors.
            CorruptRecordError: If a record is damaged, unless the report skips errors.
            ValueError: If there is no feature of a given name.
        """
        columns = columns or ColumnOptions()
        if schema is not None:
            self.report.watcher.started(self.files.size)
            schema = Schema.of(schema)
            self.use(_stored(schema, columns.chosen(schema)))
            return
        found = self.infer()
        names = columns.chosen(found.findings)
        for name in names:
            finding = found.findings[name]
            if finding.spec is None and finding.kind != "none":
                raise SchemaError(f"{finding.why}; use schema to give one without it", feature=name)
        self.use(_stored(Schema(**found.parts), names))

    def infer(self) -> InferredParts:
        """Infer a schema from all records.

        Damaged records are skipped if the report does so, and counted later.
        """
        watcher = self.report.watcher
        watcher.started(2 * self.files.size)
        self.survey = survey_sample(
            all_records(self.files.reader.indexes),
            skip_errors=self.report.on_error == "skip",
            jobs=self.jobs,
            advanced=lambda size: watcher.advanced(size, 0),
            all_text=True,
        )
        return infer_surveyed(self.survey)

    def use(self, schema: Schema, remedy: str = _REMEDY) -> None:
        """Choose the stored values to read.

        Args:
            schema: Schema with a FixedLenFeature or VarLenFeature for every feature.
            remedy: Advice in the error of a record that does not fit it.
        """
        self.schema: Schema = schema
        self._remedy = remedy

    def parse(self, block: RecordBlock) -> tuple[RecordBlock, dict[str, Any]]:
        """Parse a block, without the records that do not fit the schema.

        Returns:
            The records that fit, and the columns of :func:`numpy_columns`, in the order of the
            schema.

        Raises:
            DecodeError: If a record does not fit the schema, unless the report skips errors.
        """
        parsed, failures = parse_columns(ExampleParser.of(self.schema), block)
        for failure in failures:
            # The remedy stands in the place of the hint.
            reason = failure._replace(hint=None).message(with_offset=True)
            number = int(block.numbers[failure.position])
            self.skip(number, f"{reason}; {self._remedy}", failure.feature)
        if self.survey is None:
            self._surveyor.add(parsed.block)
        columns = numpy_columns(parsed.arena, parsed.columns)
        return parsed.block, {name: columns[name] for name in self.schema}

    def write_each(self, write: Callable[[int, Mapping[str, Any]], None]) -> None:
        """Pass the number and the stored values of each valid record to a function, in order.

        Args:
            write: Function that writes the record. It may raise DecodeError, without the place of
                the record, if it cannot be written.

        Raises:
            DecodeError: If a record does not fit the schema or cannot be written, unless the report
                skips errors.
            CorruptRecordError: If a record is damaged, unless the report skips errors.
        """
        blocks = self.files.blocks(self.files.all, self.jobs, count_records=False)
        with closing(blocks):
            for block in blocks:
                count = 0
                found, columns = self.parse(block)
                for position, number in enumerate(found.numbers.tolist()):
                    values = {
                        name: stored_values(column, position) for name, column in columns.items()
                    }
                    try:
                        write(number, values)
                        count += 1
                    except DecodeError as error:
                        self.skip(number, error.reason, error.feature)
                self.report.add(count, 0)

    def skip(self, number: int, reason: str, feature: str | None) -> None:
        """Count a record as skipped, or raise the reason."""
        [place] = self.files.reader.locate([number])
        self.report.skip(DecodeError(reason, **place.where, feature=feature))

    def result(self, outputs: Sequence[Location], counts: Sequence[int]) -> Result:
        """Return the result, with the features that were not read, once all blocks were read."""
        survey = self.survey or self._surveyor.result()
        specs_of_parts = (self.schema.context, self.schema.sequence or {})
        left_out: dict[str, int] = {}
        for summaries, specs in zip((survey.context, survey.lists), specs_of_parts, strict=True):
            read = {key.key for name, spec in specs.items() for key in spec.stored_keys(name)}
            for name, summary in sorted(summaries.items()):
                if summary.kinds and name not in read:
                    left_out[name] = max(left_out.get(name, 0), summary.present)
        return replace(self.report.result(outputs, counts), left_out=left_out)


def _stored(schema: Schema, names: Collection[str]) -> Schema:
    """Return a schema of the stored values of some features, without decoding or padding."""

    def stored(name: str, spec: Feature) -> Feature:
        found = spec.as_stored(name)
        if found.dtype != "bfloat16":
            return found
        return replace(found, dtype="float32")  # type: ignore[type-var]  # no other package has it

    parts = {
        part: {name: stored(name, spec) for name, spec in specs.items() if name in names}
        for part, specs in schema.parts.items()
    }
    return Schema(**parts)
