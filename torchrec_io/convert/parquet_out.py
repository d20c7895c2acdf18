"""TFRecord to Parquet: a row a record, a column a feature."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import closing
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from ..order.selection import Span
from ..schema.schema import Schema
from ..schema.specs import FixedLenFeature, VarLenFeature
from ..storage.local import StrPath
from ..tools.record_files import RecordFiles
from ..writing.sharded import refuse_other_shards, shard_path
from .jobs import OnError, Tally, Watcher
from .outputs import Written, refuse_inputs
from .staging import StagedFiles, open_output
from .stored import StoredBlock, StoredColumn, StoredReader

# Of a row group, about: so much is in memory at a time.
_MOST_RECORDS = 1 << 16
_MOST_BYTES = 1 << 25
_SUFFIX = ".parquet"
# Under this key the file's metadata has the schema, with shapes, as JSON.
SCHEMA_KEY = b"torchrec_io.schema"


def to_parquet(
    paths: StrPath | Iterable[StrPath],
    destination: StrPath,
    *,
    schema: Schema | Mapping[str, Any] | None = None,
    num_shards: int | None = None,
    on_error: OnError = "raise",
    jobs: int = 1,
    watcher: Watcher | None = None,
) -> Written:
    """Writes records as rows of Parquet files.

    | a feature read by | is a column of |
    | --- | --- |
    | FixedLenFeature of shape ``[]`` | its dtype; bytes as binary |
    | FixedLenFeature of another shape | lists of these, values in row-major order |
    | VarLenFeature | lists of these |
    | a feature list | lists of lists: steps, and their values |
    | ImageFeature, RawFeature, SerializedTensorFeature | binary: the bytes that are stored |
    | SequenceFeature without partitions | list of binary |

    A feature that a record lacks is an empty list. The metadata of each file has the schema as
    JSON, under ``torchrec_io.schema``. Row groups have about 32 MiB of records.

    Args:
        paths: Files, patterns or directories; compressed or not is told by content.
        destination: The file; ``.parquet`` is added where it is missing.
        schema: What to read of each record; by default it is inferred from 1,000 of them, and
            features that only others have are not written.
        num_shards: Instead of one file ``name.parquet``, so many of them,
            ``name-00000-of-00008.parquet``, each with a stretch of the records.
        on_error: ``"raise"``, or ``"skip"``: records that are damaged or do not fit the schema are
            left out, and counted.
        jobs: Threads that read. The result does not depend on it.
        watcher: Is told how it gets on.

    Raises:
        ImportError: pyarrow is missing: ``pip install torchrec-io[parquet]``.
        SchemaError: there is nothing to infer a schema from, or a feature that no spec reads; or a
            spec reads several features.
        DecodeError: a record does not fit the schema, unless that is skipped.
        CorruptRecordError, TruncatedFileError: a file is damaged, unless that is skipped.
        FileNotFoundError: a path stands for no file.
        FileExistsError: another number of shards has the name already.
        ValueError: an argument is none of its choices, or an output is an input.
    """
    _import_parquet()
    outputs = _outputs(destination, num_shards)
    tally = Tally(on_error, watcher)
    files = RecordFiles(paths, tally)
    refuse_inputs(files.paths, outputs)
    reader = StoredReader(files, schema, tally)
    tally.watcher.started(files.size)
    count = len(files)
    bounds = [count * shard // len(outputs) for shard in range(len(outputs) + 1)]
    counts = []
    with StagedFiles() as staged:
        for path, begin, end in zip(outputs, bounds[:-1], bounds[1:], strict=True):
            blocks = reader.blocks(
                Span(begin, end - begin, count),
                jobs,
                most_records=_MOST_RECORDS,
                most_bytes=_MOST_BYTES,
            )
            # Opened here, because Arrow takes no name that is not UTF-8.
            with closing(blocks), open_output(staged.add(path), path) as file:
                counts.append(_write(file, reader.schema, blocks, tally))
    return Written.of(outputs, tally, counts)


def _import_parquet() -> Any:
    try:
        from pyarrow import parquet  # noqa: PLC0415  # an extra, and slow to import
    except ImportError:
        raise ImportError(
            "Parquet needs the package pyarrow: pip install torchrec-io[parquet]"
        ) from None
    return parquet


def _outputs(destination: StrPath, num_shards: int | None) -> list[str]:
    name = os.fspath(destination).removesuffix(_SUFFIX)
    if not os.path.basename(name):
        raise ValueError(f"{os.fspath(destination)!r} is no name of a file")
    if num_shards is None:
        return [name + _SUFFIX]
    if num_shards < 1:
        raise ValueError(f"num_shards must be 1 or more, not {num_shards}")
    outputs = [shard_path(name, i, num_shards) + _SUFFIX for i in range(num_shards)]
    refuse_other_shards(name, re.compile(r"-\d{5}-of-\d{5}\.parquet"), outputs)
    return outputs


def _write(file: BinaryIO, schema: Schema, blocks: Iterable[StoredBlock], tally: Tally) -> int:
    parquet = _import_parquet()
    count = 0
    arrow_schema = _arrow_schema(schema)
    with parquet.ParquetWriter(file, arrow_schema) as writer:
        for rows in blocks:
            if len(rows.block):
                writer.write_table(_table(rows, arrow_schema))
            tally.add(len(rows.block), 0)
            count += len(rows.block)
    return count


# ---- columns ----


def _arrow_schema(schema: Schema) -> Any:
    import pyarrow as pa  # noqa: PLC0415  # an extra, and slow to import

    fields = []
    for name, spec in schema.items():
        assert isinstance(spec, (FixedLenFeature, VarLenFeature))  # as of all that are stored
        kind = pa.binary() if spec.dtype == "string" else pa.from_numpy_dtype(np.dtype(spec.dtype))
        if isinstance(spec, VarLenFeature) or spec.shape:
            kind = pa.list_(kind)
        if name in (schema.sequence or {}):
            kind = pa.list_(kind)
        fields.append(pa.field(name, kind))
    return pa.schema(fields, metadata={SCHEMA_KEY: schema.to_json()})


def _table(rows: StoredBlock, schema: Any) -> Any:
    import pyarrow as pa  # noqa: PLC0415  # an extra, and slow to import

    count = len(rows.block)
    return pa.table([_array(column, count) for column in rows.columns.values()], schema=schema)


def _array(column: StoredColumn, records: int) -> Any:
    import pyarrow as pa  # noqa: PLC0415  # an extra, and slow to import

    if column.offsets is None:
        array = pa.array(column.values)
    else:
        # A stretch has 32 MiB, or a single record, and no message has 2 GiB.
        starts, data = pa.py_buffer(column.offsets.astype(np.int32)), pa.py_buffer(column.values)
        array = pa.Array.from_buffers(pa.binary(), len(column.offsets) - 1, [None, starts, data])
    splits = column.splits
    if column.shape:
        splits = (np.arange(records + 1) * math.prod(column.shape),)
    for offsets in reversed(splits):
        array = _list_array(offsets, array)
    return array


def _list_array(offsets: npt.NDArray[np.int64], values: Any) -> Any:
    import pyarrow as pa  # noqa: PLC0415  # an extra, and slow to import

    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values)
