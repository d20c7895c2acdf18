"""Export of TFRecord files to Parquet: a row per record, a column per feature."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import Any, BinaryIO

import numpy as np

from .._order.selection import Span
from .._schema.schema import Schema
from .._schema.specs import FixedLenFeature, VarLenFeature
from .._storage.local import StrPath
from .._storage.location import Location
from .._storage.remote.options import StorageOptions
from .._writing.output_group import OutputGroup
from .._writing.shards import find_shards, refuse_shards, shards_of
from ..checks import check_integer
from ..tools.outputs import check_file_name, refuse_inputs
from ..tools.record_files import RecordFiles
from ..tools.report import JobReport, OnError, Result, Watcher
from .arrow import import_pyarrow
from .stored_columns import StoredBlock, StoredColumn, StoredReader

# Approximate limits of a row group, which is the amount of data in memory.
_MAX_RECORDS = 1 << 16
_MAX_BYTES = 1 << 25
_SUFFIX = ".parquet"
_SHARD_SUFFIX = re.compile(r"-\d{5}-of-\d{5}\.parquet")
# Key of the metadata that contains the schema, with shapes, as JSON.
SCHEMA_KEY = b"torchrec_io._schema"


def to_parquet(
    paths: StrPath | Iterable[StrPath],
    destination: StrPath,
    *,
    schema: Schema | Mapping[str, Any] | None = None,
    num_shards: int | None = None,
    force: bool = False,
    on_error: OnError = "raise",
    allow_missing: bool = False,
    jobs: int = 1,
    watcher: Watcher | None = None,
    storage_options: StorageOptions = None,
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

    A feature that a record lacks becomes an empty list. The metadata of each file contains the
    schema as JSON under the key ``torchrec_io._schema``. Row groups have about 32 MiB of records.

    Args:
        paths: Files, glob patterns, directories or URLs. Compression is detected from the content.
        destination: Path of the output file. ``.parquet`` is added if it is missing.
        schema: Features to read from each record. By default all records are inspected first, and
            the schema fits all of them. :attr:`Result.left_out` counts features that a schema
            leaves out.
        num_shards: Number of files ``name-00000-of-00008.parquet`` and so on, each with consecutive
            records. By default there is one file ``name.parquet``.
        force: Whether outputs that exist are replaced. By default they are refused.
        on_error: ``"raise"``, or ``"skip"`` to skip and count records that are damaged or do not
            fit the schema.
        allow_missing: Read the files that exist, even if their names ``name-00001-of-00003`` say
            that a directory or pattern lacks some.
        jobs: Number of threads that read. The output does not depend on it.
        watcher: Receiver of progress messages.
        storage_options: Options of remote objects, of inputs and outputs, as for
            :class:`TFRecordDataset`.

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
    import_pyarrow()
    start = os.fspath(destination).removesuffix(_SUFFIX)
    name = check_file_name(start, storage_options)
    outputs, others = _outputs(name, num_shards, force=force)
    report = JobReport(on_error, watcher)
    files = RecordFiles(paths, report, allow_missing=allow_missing, storage_options=storage_options)
    refuse_inputs(files.locations, [*outputs, *others])
    reader = StoredReader.start(files, schema, jobs)
    count = len(files)
    bounds = [count * shard // len(outputs) for shard in range(len(outputs) + 1)]
    counts = []
    with OutputGroup(force=force) as group:
        for output, begin, end in zip(outputs, bounds[:-1], bounds[1:], strict=True):
            selection = Span(begin, end - begin, count)
            blocks = reader.blocks(selection, jobs, max_records=_MAX_RECORDS, max_bytes=_MAX_BYTES)
            # Arrow gets an open file because it refuses names that are not UTF-8.
            with closing(blocks), group.open_file(output) as file:
                counts.append(_write(file, reader.schema, blocks, report))
        group.remove(others)
    return report.result(outputs, counts, left_out=reader.left_out())


def _outputs(
    name: Location, num_shards: int | None, *, force: bool
) -> tuple[list[Location], list[Location]]:
    """Return the outputs, and other shards that they replace."""
    if num_shards is None:
        return [name.beside(_SUFFIX)], []
    num_shards = check_integer("num_shards", num_shards, 1)
    outputs = [shard.beside(_SUFFIX) for shard in shards_of(name, num_shards)]
    if not force:
        refuse_shards(name, _SHARD_SUFFIX)
    return outputs, find_shards(name, _SHARD_SUFFIX, outputs)


def _write(file: BinaryIO, schema: Schema, blocks: Iterable[StoredBlock], report: JobReport) -> int:
    count = 0
    arrow_schema = _arrow_schema(schema)
    with import_pyarrow().parquet.ParquetWriter(file, arrow_schema) as writer:
        for rows in blocks:
            if len(rows.block):
                writer.write_table(_table(rows, arrow_schema))
            report.add(len(rows.block), 0)
            count += len(rows.block)
    return count


# ---- columns ----


def _arrow_schema(schema: Schema) -> Any:
    pa = import_pyarrow()
    fields = []
    for name, spec in schema.items():
        assert isinstance(spec, (FixedLenFeature, VarLenFeature))  # a schema of stored columns
        kind = pa.binary() if spec.dtype == "string" else pa.from_numpy_dtype(np.dtype(spec.dtype))
        if isinstance(spec, VarLenFeature) or spec.shape:
            kind = pa.list_(kind)
        if name in (schema.sequence or {}):
            kind = pa.list_(kind)
        fields.append(pa.field(name, kind))
    return pa.schema(fields, metadata={SCHEMA_KEY: schema.to_json()})


def _table(rows: StoredBlock, schema: Any) -> Any:
    pa = import_pyarrow()
    count = len(rows.block)
    return pa.table([_array(column, count) for column in rows.columns.values()], schema=schema)


def _array(column: StoredColumn, records: int) -> Any:
    pa = import_pyarrow()
    if column.offsets is None:
        array = pa.array(column.values)
    else:
        # int32 suffices: a block has 32 MiB or a single record, and no message reaches 2 GiB.
        starts, data = pa.py_buffer(column.offsets.astype(np.int32)), pa.py_buffer(column.values)
        array = pa.Array.from_buffers(pa.binary(), len(column.offsets) - 1, [None, starts, data])
    splits = column.splits
    if column.shape:
        splits = (np.arange(records + 1) * math.prod(column.shape),)
    for offsets in reversed(splits):
        array = pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), array)
    return array
