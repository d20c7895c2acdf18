"""Conversion of Parquet files to TFRecord, one record per row."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import ConversionError, TorchRecIOError
from ..storage.local import StrPath
from ..tools.report import Result
from .arrow import import_pyarrow
from .conversion import Conversion, ConvertedPiece, Options, SourceFile
from .rows import Row, encode_rows

if TYPE_CHECKING:
    from typing_extensions import Unpack

# Limits of a piece.
_PIECE_BYTES = 1 << 22
_PIECE_ROWS = 1 << 12


class _Columns(NamedTuple):
    """The columns of a file.

    Attributes:
        dtypes: Stored dtype of each column.
        lists: Names of columns that are lists of lists.
    """

    dtypes: dict[str, str]
    lists: frozenset[str]


class _Piece(NamedTuple):
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
            ``max_bytes``, ``compression``, ``index``, ``force``, ``jobs``, ``on_error`` and
            ``watcher``.

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
    conversion = Conversion(destination, options)
    files = conversion.source_files(sources)
    tables = [_columns_of(file.path) for file in files]
    for file, columns in zip(files, tables, strict=True):
        if columns != tables[0]:
            reason = f"the columns differ from those of {files[0].path!r}"
            raise ConversionError(reason, path=file.path)
    conversion.report.watcher.started(sum(file.size for file in files))
    dtypes, lists = tables[0]
    work = functools.partial(_convert, columns=tables[0])
    return conversion.write(
        work, _pieces(files), lambda counts, records: counts.schema(dtypes, records, lists)
    )


# ---- columns ----


def _columns_of(path: str) -> _Columns:
    with _opened(path) as file:
        fields = [(field.name, field.type) for field in file.schema_arrow]
    dtypes: dict[str, str] = {}
    lists = set()
    for name, whole in fields:
        kind = whole
        if _is_list(kind) and _is_list(kind.value_type):
            kind = kind.value_type
            lists.add(name)
        dtype = _stored_dtype(_item_type(kind))
        if dtype is None:
            reason = f"an Example cannot store a column of type {whole}"
            raise ConversionError(reason, path=path, feature=name)
        if name in dtypes:
            raise ConversionError("two columns have this name", path=path, feature=name)
        dtypes[name] = dtype
    if not dtypes:
        raise ConversionError("the file has no columns", path=path)
    return _Columns(dtypes, frozenset(lists))


def _is_list(kind: Any) -> bool:
    types = import_pyarrow().types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _item_type(kind: Any) -> Any:
    """Return the type of a column's values, inside lists and dictionaries."""
    if _is_list(kind):
        kind = kind.value_type
    return kind.value_type if import_pyarrow().types.is_dictionary(kind) else kind


def _stored_dtype(kind: Any) -> str | None:
    types = import_pyarrow().types
    if types.is_boolean(kind) or types.is_integer(kind):
        return "int64"
    if types.is_floating(kind):
        return "float32"
    is_text = types.is_string(kind) or types.is_large_string(kind)
    is_bytes = types.is_binary(kind) or types.is_large_binary(kind)
    return "string" if is_text or is_bytes or types.is_fixed_size_binary(kind) else None


# ---- reading ----


@contextlib.contextmanager
def _opened(path: str) -> Iterator[Any]:
    """Open a file and report errors while reading as damage. Checksums of pages are verified."""
    pa = import_pyarrow()
    try:
        with pa.parquet.ParquetFile(path, page_checksum_verification=True) as file:
            yield file
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # an error of the system, not damage
        reason = f"the file is damaged or not a Parquet file: {error}"
        raise ConversionError(reason, path=path) from None


def _pieces(sources: Iterable[SourceFile]) -> Iterator[_Piece]:
    for source in sources:
        first = 0
        with _opened(source.path) as file:
            metadata = file.metadata
            per_row = source.size / max(1, metadata.num_rows)
            for group in range(metadata.num_row_groups):
                for batch in file.iter_batches(_piece_rows(metadata.row_group(group)), [group]):
                    yield _Piece(source.path, first, batch, int(per_row * batch.num_rows))
                    first += batch.num_rows


def _piece_rows(group: Any) -> int:
    row_bytes = max(1, group.total_byte_size // max(1, group.num_rows))
    return int(max(1, min(_PIECE_ROWS, _PIECE_BYTES // row_bytes)))


# ---- in the processes ----


def _convert(piece: _Piece, columns: _Columns) -> ConvertedPiece:
    rows = [Row(piece.path, f"row {piece.first + i}", {}) for i in range(piece.batch.num_rows)]
    errors: dict[int, TorchRecIOError] = {}
    for name, column in zip(piece.batch.schema.names, piece.batch.columns, strict=True):
        for i, value in enumerate(_values_of(column)):
            if isinstance(value, list) and _has_null(value):
                errors.setdefault(i, rows[i].error("an Example cannot store null in a list", name))
            elif isinstance(value, UnicodeDecodeError):
                errors.setdefault(i, rows[i].error("the value is not UTF-8", name))
            elif value is not None:
                rows[i].features[name] = value
    marked = [errors.get(i, row) for i, row in enumerate(rows)]
    return encode_rows(marked, columns.dtypes, piece.size, columns.lists)


def _has_null(values: list[Any]) -> bool:
    return None in values or any(isinstance(step, list) and None in step for step in values)


def _values_of(column: Any) -> Iterable[Any]:
    """Return values for the encoder. Lists of numbers become arrays, which is much faster."""
    pa = import_pyarrow()
    if not _is_list(column.type) or column.null_count:
        return _objects_of(column)
    if _stored_dtype(column.type.value_type) not in ("int64", "float32"):
        return _objects_of(column)
    flat = column.flatten()
    if flat.null_count:
        return _objects_of(column)
    values = flat.to_numpy(zero_copy_only=False)
    lengths = pa.compute.list_value_length(column).to_numpy(zero_copy_only=False)
    ends = lengths.cumsum()
    return [values[end - length : end] for end, length in zip(ends, lengths, strict=True)]


def _objects_of(column: Any) -> list[Any]:
    """Return Python objects, or errors in place of text that is not UTF-8."""
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        return [_object_of(value) for value in column]


def _object_of(value: Any) -> Any:
    try:
        return value.as_py()
    except UnicodeDecodeError as error:
        return error
