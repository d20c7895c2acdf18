"""Conversion of Parquet files to TFRecord, one record per row."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .._storage.local import StrPath
from ..errors import ConversionError
from ..tools.report import Result
from .arrow import import_pyarrow
from .arrow_rows import ColumnTypes, encode_columns, values_of
from .conversion import Conversion, ConvertedPiece, Options, SourceFile, SourcePart
from .rows import Row

if TYPE_CHECKING:
    from typing_extensions import Unpack

# Limits of a piece.
_PIECE_BYTES = 1 << 22
_PIECE_ROWS = 1 << 12
# About the size of a part.
_PART_BYTES = 1 << 26


class _ParquetRows(NamedTuple):
    """Some rows of a file.

    Attributes:
        path: Path of the file.
        first: Number of the first row.
        batch: Rows, a ``pyarrow.RecordBatch``.
        size: Size of the rows in the file in bytes.
    """

    path: str
    first: int
    batch: Any
    size: int


def from_parquet(
    sources: StrPath | Sequence[StrPath], destination: StrPath, **options: Unpack[Options]
) -> Result:
    """Convert Parquet files to TFRecord files of ``tf.train.Example`` records, one for each row.

    This needs pyarrow: ``pip install torchrec-io[parquet]``.

    Columns of booleans and integers become int64 features, floats float32 (double is rounded),
    strings and binary string, and lists of those become features of several values. The record has
    no feature for a null. If a column is a list of lists, records are ``tf.train.SequenceExample``:
    that column becomes a feature list, each inner list a step, and the other columns are the
    context.

    Args:
        sources: One file or several with the same columns.
        destination: Path of the output file, or common start of the paths of the shards.
        options: Keyword options of all conversions, see :class:`Options`: ``num_shards``,
            ``max_bytes``, ``compression``, ``index``, ``force``, ``jobs``, ``on_error``,
            ``watcher`` and ``storage_options``.

    Returns:
        Paths, schema, counts and errors of the conversion.

    Raises:
        ConversionError: If a value does not fit its dtype, a string is not UTF-8, or a list has a
            null, unless ``on_error="skip"``. Also if a file is damaged or not Parquet; a column has
            a type that an Example cannot store, such as a date or struct; files differ; or there
            are no rows.
        ImportError: If pyarrow is not installed.
        FileExistsError: If an output exists, unless ``force``.
        ValueError: If an argument is invalid.
        OSError: If a file cannot be read or written.
    """
    import_pyarrow()
    return convert_parquet(Conversion(destination, options), sources)


def convert_parquet(conversion: Conversion, sources: StrPath | Sequence[StrPath]) -> Result:
    """Run a conversion of Parquet files; see :func:`from_parquet`."""
    files = conversion.source_files(sources)
    tables = [_types_of(file) for file in files]
    for file, columns in zip(files, tables, strict=True):
        if columns != tables[0]:
            reason = f"the columns differ from those of {files[0].path!r}"
            raise ConversionError(reason, path=file.path)
    conversion.report.watcher.started(sum(file.size for file in files))
    dtypes, lists = tables[0]
    work = functools.partial(_convert, types=tables[0])
    parts = [part for file in files for part in _parts(file)]
    return conversion.write(
        work, parts, lambda counts, records: counts.schema(dtypes, records, lists)
    )


# ---- reading ----


def _types_of(source: SourceFile) -> ColumnTypes:
    with _opened(source) as file:
        fields = [(field.name, field.type) for field in file.schema_arrow]
    return ColumnTypes.of(fields, source.path)


@contextlib.contextmanager
def _opened(source: SourceFile) -> Iterator[Any]:
    """Open a file and report errors while reading as damage. Checksums of pages are verified."""
    pa = import_pyarrow()
    path = source.path
    try:
        content = source.location.local_path or source.open()
        with pa.parquet.ParquetFile(content, page_checksum_verification=True) as file:
            yield file
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # an error of the system, not damage
        reason = f"the file is damaged or not a Parquet file: {error}"
        raise ConversionError(reason, path=path) from None


def _parts(source: SourceFile) -> Iterator[SourcePart[_ParquetRows]]:
    """Yield parts of a file: consecutive row groups, about the same number of bytes in each."""
    with _opened(source) as file:
        metadata = file.metadata
        rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    per_row = source.size / max(1, sum(rows))
    begin = first = size = 0
    for group, count in enumerate(rows, 1):
        size += int(per_row * count)
        if size >= _PART_BYTES or group == len(rows):
            groups = range(begin, group)
            key = f"{source.path} row groups {begin} to {group}"
            yield SourcePart(key, size, functools.partial(_pieces, source, groups, first, per_row))
            begin, size = group, 0
            first = sum(rows[:group])


def _pieces(
    source: SourceFile, groups: Iterable[int], first: int, per_row: float
) -> Iterator[_ParquetRows]:
    """Yield the rows of some row groups.

    Args:
        source: File.
        groups: Numbers of the row groups.
        first: Number of their first row.
        per_row: Mean size of a row in the file in bytes.
    """
    with _opened(source) as file:
        for group in groups:
            for batch in file.iter_batches(_piece_rows(file.metadata.row_group(group)), [group]):
                yield _ParquetRows(source.path, first, batch, int(per_row * batch.num_rows))
                first += batch.num_rows


def _piece_rows(group: Any) -> int:
    row_bytes = max(1, group.total_byte_size // max(1, group.num_rows))
    return int(max(1, min(_PIECE_ROWS, _PIECE_BYTES // row_bytes)))


# ---- in the processes ----


def _convert(piece: _ParquetRows, types: ColumnTypes) -> ConvertedPiece:
    rows = [Row(piece.path, f"row {piece.first + i}", {}) for i in range(piece.batch.num_rows)]
    columns = zip(piece.batch.schema.names, map(values_of, piece.batch.columns), strict=True)
    return encode_columns(rows, dict(columns), types, piece.size)
