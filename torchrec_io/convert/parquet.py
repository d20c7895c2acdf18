"""Parquet to TFRecord: a record for each row."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import ConversionError, TorchRecIOError
from ..storage.local import StrPath
from .rows import Row, encode_rows
from .sources import SourceFile
from .target import Conversion, Converter, Made, Options

if TYPE_CHECKING:
    from typing_extensions import Unpack

# Bytes of the rows that a process is given at a time.
_PIECE_BYTES = 1 << 22
_MOST_ROWS = 1 << 12


class Table(NamedTuple):
    """Columns of a file.

    Attributes:
        kinds: The dtype that each is stored as.
        lists: Those that are lists of lists.
    """

    kinds: dict[str, str]
    lists: frozenset[str]


class Piece(NamedTuple):
    """Some rows of a file.

    Attributes:
        path: The file.
        first: Number of the first row.
        batch: A ``pyarrow.RecordBatch``.
        size: Bytes of the file that they stand for.
    """

    path: str
    first: int
    batch: Any
    size: int


def convert_parquet(
    sources: StrPath | Sequence[StrPath], destination: StrPath, **options: Unpack[Options]
) -> Conversion:
    """Converts Parquet files to TFRecord files of ``tf.train.Example`` records, one for each row.

    Needs pyarrow: ``pip install torchrec-io[parquet]``. Columns become features: of booleans and
    integers int64, of floats float32 (double is rounded), of strings and binary string; of lists of
    those, features of that many values. Null is a feature that the record does not have. A column
    of lists of lists is a feature list, each inner list a step of it; records then are
    ``tf.train.SequenceExample``, whose context has the other columns.

    Args:
        sources: One file or several, of the same columns.
        destination: Name of the file, or of the shards without their numbers.
        options: See :class:`~torchrec_io.convert.target.Options`.

    Returns:
        What was done.

    Raises:
        ConversionError: a value does not fit its dtype, a string is not UTF-8, or there is null in
            a list, unless ``on_error="skip"``. A file is no Parquet or damaged; a column has a type
            that has no place in an Example, as dates and structs have none; files differ; there is
            no row.
        ImportError: pyarrow is missing.
        ValueError: an argument has a value that it cannot have.
        OSError: a file cannot be read, or written.
    """
    _import_pyarrow()
    converter = Converter(destination, options)
    files = converter.files(sources)
    tables = [_table_of(file.path) for file in files]
    for file, table in zip(files, tables, strict=True):
        if table != tables[0]:
            reason = f"the columns are not those of {files[0].path!r}"
            raise ConversionError(reason, path=file.path)
    converter.tally.watcher.started(sum(file.size for file in files))
    kinds, lists = tables[0]
    work = functools.partial(_make, table=tables[0])
    return converter.write(
        work, _pieces(files), lambda shapes, records: shapes.schema(kinds, records, lists)
    )


def _import_pyarrow() -> Any:
    try:
        import pyarrow.compute  # noqa: PLC0415  # an extra
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError:
        raise ImportError(
            "Parquet needs the package pyarrow: pip install torchrec-io[parquet]"
        ) from None
    return pyarrow


# ---- columns ----


def _table_of(path: str) -> Table:
    with _opened(path) as file:
        fields = [(field.name, field.type) for field in file.schema_arrow]
    kinds: dict[str, str] = {}
    lists = set()
    for name, whole in fields:
        kind = whole
        if _is_list(kind) and _is_list(kind.value_type):
            kind = kind.value_type
            lists.add(name)
        stored = _stored(_item_type(kind))
        if stored is None:
            reason = f"a column of type {whole} has no place in an Example"
            raise ConversionError(reason, path=path, feature=name)
        if name in kinds:
            raise ConversionError("two columns have this name", path=path, feature=name)
        kinds[name] = stored
    if not kinds:
        raise ConversionError("the file has no columns", path=path)
    return Table(kinds, frozenset(lists))


def _is_list(kind: Any) -> bool:
    types = _import_pyarrow().types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _item_type(kind: Any) -> Any:
    """Type of a column's values: of those in lists, and of those that a dictionary has."""
    if _is_list(kind):
        kind = kind.value_type
    return kind.value_type if _import_pyarrow().types.is_dictionary(kind) else kind


def _stored(kind: Any) -> str | None:
    types = _import_pyarrow().types
    checks: dict[str, list[Callable[[Any], bool]]] = {
        "int64": [types.is_boolean, types.is_integer],
        "float32": [types.is_floating],
        "string": [
            types.is_string,
            types.is_large_string,
            types.is_binary,
            types.is_large_binary,
            types.is_fixed_size_binary,
        ],
    }
    return next((name for name, tests in checks.items() if any(test(kind) for test in tests)), None)


# ---- reading ----


@contextlib.contextmanager
def _opened(path: str) -> Iterator[Any]:
    """The file; what goes wrong with reading it is damage. Its checksums are looked at, if any."""
    pa = _import_pyarrow()
    try:
        with pa.parquet.ParquetFile(path, page_checksum_verification=True) as file:
            yield file
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the system, not of what is in the file
        raise ConversionError(f"the file is damaged, or no Parquet: {error}", path=path) from None


def _pieces(files: Iterable[SourceFile]) -> Iterator[Piece]:
    for file in files:
        yield from _pieces_of(file)


def _pieces_of(source: SourceFile) -> Iterator[Piece]:
    first = 0
    with _opened(source.path) as file:
        about = file.metadata
        per_row = source.size / max(1, about.num_rows)
        for group in range(about.num_row_groups):
            for batch in file.iter_batches(_rows_at_once(about.row_group(group)), [group]):
                yield Piece(source.path, first, batch, int(per_row * batch.num_rows))
                first += batch.num_rows


def _rows_at_once(group: Any) -> int:
    row_bytes = max(1, group.total_byte_size // max(1, group.num_rows))
    return int(max(1, min(_MOST_ROWS, _PIECE_BYTES // row_bytes)))


# ---- in the processes ----


def _make(piece: Piece, table: Table) -> Made:
    rows = [Row(piece.path, f"row {piece.first + i}", {}) for i in range(piece.batch.num_rows)]
    errors: dict[int, TorchRecIOError] = {}
    for name, column in zip(piece.batch.schema.names, piece.batch.columns, strict=True):
        for i, value in enumerate(_values_of(column)):
            if isinstance(value, list) and _has_null(value):
                errors.setdefault(i, rows[i].error("null in a list has no place", name))
            elif isinstance(value, UnicodeDecodeError):
                errors.setdefault(i, rows[i].error("it is not UTF-8", name))
            elif value is not None:
                rows[i].features[name] = value
    marked = [errors.get(i, row) for i, row in enumerate(rows)]
    return encode_rows(marked, table.kinds, piece.size, table.lists)


def _has_null(values: list[Any]) -> bool:
    return None in values or any(isinstance(step, list) and None in step for step in values)


def _values_of(column: Any) -> Iterable[Any]:
    """Values as the encoder takes them; arrays for lists of numbers, which is a lot quicker."""
    pa = _import_pyarrow()
    if not _is_list(column.type) or column.null_count or not _is_number(column.type.value_type):
        return _objects_of(column)
    flat = column.flatten()
    if flat.null_count:
        return _objects_of(column)
    values = flat.to_numpy(zero_copy_only=False)
    lengths = pa.compute.list_value_length(column).to_numpy(zero_copy_only=False)
    ends = lengths.cumsum()
    return [values[end - length : end] for end, length in zip(ends, lengths, strict=True)]


def _objects_of(column: Any) -> list[Any]:
    """Python's objects; errors in place of text that is not UTF-8, which nobody has checked."""
    try:
        return list(column.to_pylist())
    except UnicodeDecodeError:
        return [_object_of(value) for value in column]


def _object_of(value: Any) -> Any:
    try:
        return value.as_py()
    except UnicodeDecodeError as error:
        return error


def _is_number(kind: Any) -> bool:
    types = _import_pyarrow().types
    return bool(types.is_integer(kind) or types.is_floating(kind))
