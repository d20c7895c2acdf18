"""Export of TFRecord files to Parquet and CSV: a row per record, a column per feature."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing
from typing import Any, Unpack

import numpy as np

from .._order.selection import Span
from .._parsing.numpy_columns import RaggedRows
from .._records.record_block import RecordBlock
from .._schema.schema import Schema
from .._schema.specs import FixedLenFeature, VarLenFeature
from .._storage.local import StrPath
from .._storage.location import Location
from .._storage.outputs import refuse_existing
from .._writing.output_group import OutputGroup
from .._writing.shards import find_shards, refuse_shards, shards_of
from ..checks import check_integer
from ..errors import SchemaError
from ..inspection.byte_formats import EMPTY, TEXT
from ..tools.options import InputOptions
from ..tools.outputs import check_file_name
from ..tools.report import Result
from . import arrow as pa
from .arrow_columns import list_array
from .arrow_rows import cast_column
from .export import Export
from .options import ColumnOptions

# Approximate limits of a row group, which is the amount of data in memory.
_MAX_RECORDS = 1 << 16
_MAX_BYTES = 1 << 25
# Key of the metadata that contains the schema, with shapes, as JSON.
SCHEMA_KEY = b"torchrec_io._schema"


def to_parquet(
    paths: StrPath | Iterable[StrPath],
    destination: StrPath,
    *,
    schema: Schema | Mapping[str, Any] | None = None,
    include: Collection[str] | None = None,
    exclude: Collection[str] = (),
    num_shards: int | None = None,
    force: bool = False,
    **options: Unpack[InputOptions],
) -> Result:
    """Write records as rows of Parquet files.

    | feature spec | type of the column |
    | --- | --- |
    | FixedLenFeature of shape ``[]`` | its dtype; bytes as binary |
    | FixedLenFeature of another shape | list of its dtype, values in row-major order |
    | VarLenFeature | list of its dtype |
    | feature list | list of lists: steps and their values |
    | ImageFeature, RawFeature, SerializedTensorFeature | binary: the stored bytes |
    | SequenceFeature without partitions | list of binary |

    Without a schema, records are inspected first. A feature of bytes that are all UTF-8 text then
    becomes a string column, and one with at most one value in each record a column of values and
    nulls. Otherwise a feature that a record lacks becomes an empty list. The metadata of each file
    contains the schema as JSON under the key ``torchrec_io._schema``. Row groups have about 32 MiB
    of records.

    Args:
        paths: Files, glob patterns, directories or URLs. Compression is detected from the content.
        destination: Path of the output file. ``.parquet`` is added if it is missing.
        schema: Features to read from each record. By default all records are inspected first, and
            the schema fits all of them. :attr:`Result.left_out` counts features that are
            left out.
        include: Names of the features to write. Default: all.
        exclude: Names of features to leave out.
        num_shards: Number of files ``name-00000-of-00008.parquet`` and so on, each with consecutive
            records. By default there is one file ``name.parquet``.
        force: Whether outputs that exist are replaced. By default they are refused.
        options: Keyword options, see :class:`torchrec_io.tools.InputOptions`:
            ``on_error``, ``allow_missing``, ``jobs``, ``watcher`` and ``storage_options``.

    Returns:
        Paths, numbers of records and other facts of the outputs.

    Raises:
        ImportError: If pyarrow is not installed: ``pip install torchrec-io[parquet]``.
        SchemaError: If there is no record to infer a schema from, a feature has values that no spec
            reads, or a spec reads several features.
        DecodeError: If a record does not fit the schema, unless it is skipped.
        CorruptRecordError: If a record is damaged, unless it is skipped.
        TruncatedFileError: If a file is truncated, unless its rest is skipped.
        FileNotFoundError: If a path matches no file, or shards are missing.
        FileExistsError: If an output exists, or there are shards of this name and another number,
            unless they may be replaced.
        ValueError: If an argument is invalid or an output is an input.
    """
    pa.load()
    outputs, replaced = _outputs(destination, ".parquet", num_shards, options, force=force)
    export = Export(paths, options, [*outputs, *replaced])
    export.choose(schema, ColumnOptions(include, exclude))
    group = OutputGroup(force=force)
    group.remove(replaced)
    return _write(export, group, outputs, pa.parquet.ParquetWriter, has_lists=True)


def to_csv(
    paths: StrPath | Iterable[StrPath],
    destination: StrPath,
    *,
    schema: Schema | Mapping[str, Any] | None = None,
    include: Collection[str] | None = None,
    exclude: Collection[str] = (),
    num_shards: int | None = None,
    force: bool = False,
    **options: Unpack[InputOptions],
) -> Result:
    """Write records as rows of CSV files, with a header.

    Numbers are written so that they read back as they are, and text in quotes. A feature that a
    record lacks becomes an empty field, which :func:`from_csv` reads as a missing one. It is quoted
    if there is only one column, because readers of CSV skip empty lines.

    Args:
        paths: Files, glob patterns, directories or URLs. Compression is detected from the content.
        destination: Path of the output file. ``.csv`` is added if it is missing.
        schema: Features to read from each record. By default all records are inspected first, and
            the schema fits all of them. :attr:`Result.left_out` counts features that are left out.
        include: Names of the features to write. Default: all.
        exclude: Names of features to leave out.
        num_shards: Number of files ``name-00000-of-00008.csv`` and so on, each with consecutive
            records. By default there is one file ``name.csv``.
        force: Whether outputs that exist are replaced. By default they are refused.
        options: Keyword options, see :class:`torchrec_io.tools.InputOptions`:
            ``on_error``, ``allow_missing``, ``jobs``, ``watcher`` and ``storage_options``.

    Returns:
        Paths, numbers of records and other facts of the outputs.

    Raises:
        ImportError: If pyarrow is not installed: ``pip install torchrec-io[parquet]``.
        SchemaError: If there is no record to infer a schema from, a feature has values that no spec
            reads, a spec reads several features, or a feature has lists of values.
        DecodeError: If a record does not fit the schema, or has several values or bytes that are
            not UTF-8 in a feature, unless it is skipped.
        CorruptRecordError: If a record is damaged, unless it is skipped.
        TruncatedFileError: If a file is truncated, unless its rest is skipped.
        FileNotFoundError: If a path matches no file, or shards are missing.
        FileExistsError: If an output exists, or there are shards of this name and another number,
            unless they may be replaced.
        ValueError: If an argument is invalid or an output is an input.
    """
    pa.load()
    outputs, replaced = _outputs(destination, ".csv", num_shards, options, force=force)
    export = Export(paths, options, [*outputs, *replaced])
    export.choose(schema, ColumnOptions(include, exclude))
    group = OutputGroup(force=force)
    group.remove(replaced)
    return _write(export, group, outputs, pa.csv.CSVWriter, has_lists=False)


def _outputs(
    destination: StrPath,
    suffix: str,
    num_shards: int | None,
    options: InputOptions,
    *,
    force: bool,
) -> tuple[list[Location], list[Location]]:
    """Return the files to write, and other shards of their name, which they replace."""
    start = os.fspath(destination).removesuffix(suffix)
    name = check_file_name(start, options.get("storage_options"))
    if num_shards is None:
        if not force:
            refuse_existing(name.beside(suffix))
        return [name.beside(suffix)], []
    num_shards = check_integer("num_shards", num_shards, 1)
    files = [shard.beside(suffix) for shard in shards_of(name, num_shards)]
    pattern = re.compile(rf"-\d{{5}}-of-\d{{5}}{re.escape(suffix)}")
    if not force:
        refuse_shards(name, pattern)
    return files, find_shards(name, pattern, files)


def _write(
    export: Export,
    group: OutputGroup,
    outputs: list[Location],
    open_writer: Callable[..., Any],
    *,
    has_lists: bool,
) -> Result:
    """Write the records to all files in turn, of which each gets consecutive ones."""
    arrow_schema = _arrow_schema(export, has_lists=has_lists)
    total, counts = len(export.files), []
    with group:
        for i, output in enumerate(outputs):
            begin, end = total * i // len(outputs), total * (i + 1) // len(outputs)
            blocks = export.files.blocks(
                Span(begin, end - begin, total),
                export.jobs,
                count_records=False,
                max_records=_MAX_RECORDS,
                max_bytes=_MAX_BYTES,
            )
            counts.append(0)
            # Arrow gets an open file because it refuses names that are not UTF-8.
            with (
                closing(blocks),
                group.open_file(output) as file,
                open_writer(file, arrow_schema) as writer,
            ):
                for block in blocks:
                    table = _table(export, block, arrow_schema)
                    if table.num_rows:
                        writer.write_table(table)
                    export.report.add(table.num_rows, 0)
                    counts[-1] += table.num_rows
    return export.result(outputs, counts)


# ---- columns ----


def _arrow_schema(export: Export, *, has_lists: bool) -> Any:
    """Return the Arrow schema of the columns.

    If records were surveyed, features with at most one value are columns with nulls, and bytes that
    are UTF-8 text are strings. Without lists, all features are such columns.
    """
    fields = []
    for name, spec in export.schema.items():
        assert isinstance(spec, (FixedLenFeature, VarLenFeature))  # a schema of stored columns
        is_list = name in (export.schema.sequence or {})
        found = None
        if export.survey is not None:
            found = (export.survey.lists if is_list else export.survey.context).get(name)
        kind = pa.binary() if spec.dtype == "string" else pa.from_numpy_dtype(np.dtype(spec.dtype))
        is_text = found is not None and {*found.format_counts} <= {TEXT, EMPTY}
        if spec.dtype == "string" and (is_text or not has_lists):
            kind = pa.string()
        most = 1 if found is None or found.counts is None else found.counts[1]
        is_single = (found is not None or not has_lists) and not is_list and most <= 1
        if spec.shape if isinstance(spec, FixedLenFeature) else not is_single:
            kind = pa.list_(kind)
        if is_list:
            kind = pa.list_(kind)
        if pa.types.is_list(kind) and not has_lists:
            reason = (
                "CSV cannot store several values in a field; leave the feature out with exclude, "
                "or write Parquet"
            )
            raise SchemaError(reason, feature=name)
        fields.append(pa.field(name, kind))
    if len(fields) == 1 and not has_lists and isinstance(spec, VarLenFeature):
        # Readers of CSV skip an empty line: a missing value is an empty text, which is quoted.
        fields = [pa.field(name, pa.string(), nullable=False)]
    return pa.schema(fields, metadata={SCHEMA_KEY: export.schema.to_json()})


def _table(export: Export, block: RecordBlock, schema: Any) -> Any:
    """Return the rows of a block, without those whose values a column cannot store."""
    arrays = []
    invalid: dict[int, tuple[str, str]] = {}
    found, columns = export.parse(block)
    for field, column in zip(schema, columns.values(), strict=True):
        array = list_array(_with_flat_rows(column))
        if pa.types.is_list(array.type) and not pa.types.is_list(field.type):
            lengths = array.value_lengths().to_numpy()
            for i in np.flatnonzero(lengths > 1).tolist():
                invalid.setdefault(i, ("the record has several values", field.name))
            starts = pa.array(array.offsets.to_numpy()[:-1], mask=lengths == 0)
            array = array.values.take(starts)
        if pa.types.is_string(field.type) and pa.types.is_binary(array.type):
            array, others = cast_column(array.view(pa.string()), "string")
            for i in others:
                invalid.setdefault(i, ("the value is not UTF-8 text", field.name))
        array = array.cast(field.type)
        arrays.append(array if field.nullable else array.fill_null(""))
    table = pa.table(arrays, schema=schema)
    if not invalid:
        return table
    for i in sorted(invalid):
        export.skip(int(found.numbers[i]), *invalid[i])
    return table.filter(pa.array([i not in invalid for i in range(table.num_rows)]))


def _with_flat_rows(column: Any) -> Any:
    """Return a column whose values of a record have one dimension at most."""
    if isinstance(column, RaggedRows) or len(column.shape) <= 2:
        return column
    return column.reshape((column.shape[0], math.prod(column.shape[1:])))
