"""Conversion of Parquet files to TFRecord, one record per row."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Unpack

from .._storage.binary_file import open_binary
from .._storage.local import StrPath
from .._storage.location import Location
from ..errors import ConversionError
from ..tools.report import Result
from . import arrow as pa
from .arrow_rows import ColumnTypes, encode_table
from .conversion import Conversion, size_of
from .options import ColumnOptions, Options, Types
from .rows import Table

# Limits of a piece.
_PIECE_BYTES = 1 << 22
_PIECE_ROWS = 1 << 12


def from_parquet(
    sources: StrPath | Iterable[StrPath],
    destination: StrPath,
    *,
    include: Collection[str] | None = None,
    exclude: Collection[str] = (),
    types: Types | None = None,
    **options: Unpack[Options],
) -> Result:
    """Convert Parquet files to TFRecord files of ``tf.train.Example`` records, one for each row.

    This needs pyarrow: ``pip install torchrec-io[parquet]``.

    Columns of booleans and integers become int64 features, floats float32 (double is rounded),
    strings and binary string, and lists of those become features of several values. The record has
    no feature for a null. If a column is a list of lists, records are ``tf.train.SequenceExample``:
    that column becomes a feature list, each inner list a step, and the other columns are the
    context.

    Args:
        sources: Files, glob patterns, directories or URLs, of files with the same columns.
        destination: Path of the output file, or common start of the paths of the shards.
        include: Names of the columns to convert. Default: all.
        exclude: Names of columns to leave out.
        types: Stored dtypes that columns are cast to: "int64", "float32" or "string". Dates cast to
            string are in ISO format.
        options: Keyword options of all conversions, see :class:`Options`: ``num_shards``,
            ``max_bytes``, ``compression``, ``index``, ``force``, ``jobs``, ``on_error``,
            ``allow_missing``, ``watcher`` and ``storage_options``.

    Returns:
        Paths, schema, counts and errors of the conversion.

    Raises:
        ConversionError: If a value does not fit its dtype, a string is not UTF-8, or a list has a
            null, unless ``on_error="skip"``. Also if a file is damaged or not Parquet; a column has
            a type that an Example cannot store, such as a date or struct, and is not cast; files
            differ; or there are no rows.
        ImportError: If pyarrow is not installed.
        FileExistsError: If an output exists, unless ``force``.
        ValueError: If an argument is invalid.
        OSError: If a file cannot be read or written.
    """
    pa.load()
    choice = ColumnOptions(include, exclude, types or {})
    conversion = Conversion(destination, options)
    files = conversion.source_files(sources)
    tables = [_types_of(file, choice) for file in files]
    for file, columns in zip(files, tables, strict=True):
        if columns != tables[0]:
            reason = f"the columns differ from those of {files[0].name!r}"
            raise ConversionError(reason, path=file.name)
    conversion.report.watcher.started(sum(map(size_of, files)))
    work = functools.partial(encode_table, types=tables[0])
    batches = itertools.chain.from_iterable(_tables(file, tables[0]) for file in files)
    return conversion.write(work, batches, tables[0].schema)


# ---- reading ----


def _types_of(source: Location, options: ColumnOptions) -> ColumnTypes:
    with _opened(source) as file:
        fields = [(field.name, field.type) for field in file.schema_arrow]
    chosen = options.chosen(name for name, _ in fields)
    fields = [(name, kind) for name, kind in fields if name in chosen]
    return ColumnTypes.of(fields, source.name, options.types)


@contextlib.contextmanager
def _opened(source: Location) -> Iterator[Any]:
    """Open a file and report errors while reading as damage. Checksums of pages are verified."""
    try:
        content = source.local_path or open_binary(source)
        with pa.parquet.ParquetFile(content, page_checksum_verification=True) as file:
            yield file
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # an error of the system, not damage
        reason = f"the file is damaged or not a Parquet file: {error}"
        raise ConversionError(reason, path=source.name) from None


def _tables(source: Location, types: ColumnTypes) -> Iterator[Table]:
    """Yield the rows of a file in pieces."""
    first = 0
    with _opened(source) as file:
        per_row = size_of(source) / max(1, file.metadata.num_rows)
        for group in range(file.metadata.num_row_groups):
            rows = _piece_rows(file.metadata.row_group(group))
            for batch in file.iter_batches(rows, [group], columns=[*types.dtypes]):
                places = [f"row {first + i}" for i in range(batch.num_rows)]
                yield Table(source.name, batch, places, int(per_row * batch.num_rows))
                first += batch.num_rows


def _piece_rows(group: Any) -> int:
    row_bytes = max(1, group.total_byte_size // max(1, group.num_rows))
    return int(max(1, min(_PIECE_ROWS, _PIECE_BYTES // row_bytes)))
