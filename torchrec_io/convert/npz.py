"""NumPy's ``.npz`` archives to TFRecord: a record for each row."""

from __future__ import annotations

import contextlib
import functools
import math
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import ConversionError
from ..schema.schema import Schema
from ..schema.specs import FixedLenFeature, VarLenFeature
from ..storage.local import StrPath
from .rows import Row, encode_rows
from .sources import SourceFile
from .target import Conversion, Converter, Made, Options

if TYPE_CHECKING:
    from typing_extensions import Unpack

# Bytes of the rows that a process is given at a time.
_PIECE_BYTES = 1 << 22
_MOST_ROWS = 1 << 14
_STORED = {"b": "int64", "i": "int64", "u": "int64", "f": "float32", "S": "string", "U": "string"}
# zipfile has a RuntimeError for what is encrypted, or compressed by what it does not know.
_DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError)


class Column(NamedTuple):
    """One array of an archive.

    Attributes:
        member: Name of its file in the archive.
        shape: Of the array.
        dtype: Of the array.
        fortran: Whether it is stored column by column.
    """

    member: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool

    @property
    def name(self) -> str:
        """Of the feature."""
        return self.member.removesuffix(".npy")

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    @property
    def stored(self) -> str:
        """Dtype of the feature."""
        return _STORED[self.dtype.kind]

    def spec(self) -> FixedLenFeature | VarLenFeature:
        """Reads the feature."""
        if 0 in self.shape[1:]:
            return VarLenFeature(self.stored)
        return FixedLenFeature(self.shape[1:], self.stored)


class Piece(NamedTuple):
    """Some rows: their number in the archive, and of each array what it has of them."""

    path: str
    first: int
    arrays: dict[str, npt.NDArray[Any]]
    size: int


def convert_npz(
    sources: StrPath | Sequence[StrPath], destination: StrPath, **options: Unpack[Options]
) -> Conversion:
    """Converts ``.npz`` archives to TFRecord files of ``tf.train.Example`` records.

    Row ``i`` of all arrays becomes a record, with a feature for each array. Booleans and integers
    are stored as int64, floats as float32 (float64 is rounded), strings as string; values of a row
    in row-major order. Arrays are read some rows at a time, those in Fortran order whole.

    Args:
        sources: One archive or several, with arrays of the same names, dtypes and row shapes.
        destination: Name of the file, or of the shards without their numbers.
        options: See :class:`~torchrec_io.convert.target.Options`.

    Returns:
        What was done.

    Raises:
        ConversionError: a value does not fit its dtype, unless ``on_error="skip"``. A file is no
            archive or damaged; two arrays have one name; arrays have unequal numbers of rows, none
            at all, or a dtype that cannot be stored (objects are never loaded); archives differ;
            there is no row.
        ValueError: an argument has a value that it cannot have.
        OSError: a file cannot be read, or written.
    """
    converter = Converter(destination, options)
    files = converter.files(sources)
    tables = [_columns_of(file.path) for file in files]
    for file, table in zip(files, tables, strict=True):
        _check_same(file.path, table, files[0].path, tables[0])
    converter.tally.watcher.started(
        sum(column.row_bytes * column.shape[0] for table in tables for column in table)
    )
    schema = Schema({column.name: column.spec() for column in tables[0]})
    work = functools.partial(_make, kinds={column.name: column.stored for column in tables[0]})
    return converter.write(work, _pieces(files, tables), lambda *_: schema)


def _columns_of(path: str) -> list[Column]:
    with _damage_named(path), zipfile.ZipFile(path) as archive:
        columns = [_column(archive, name) for name in archive.namelist()]
    if not columns:
        raise ConversionError("the archive holds no array", path=path)
    names = [column.name for column in columns]
    for column in columns:
        if names.count(column.name) > 1:
            raise ConversionError("two arrays have this name", path=path, feature=column.name)
        if column.dtype.kind not in _STORED:
            reason = f"an array of {column.dtype} cannot be stored"
            raise ConversionError(reason, path=path, feature=column.name)
        if not column.shape:
            raise ConversionError("the array has no rows", path=path, feature=column.name)
        if column.shape[0] != columns[0].shape[0]:
            reason = (
                f"the array has {column.shape[0]} rows, {columns[0].name!r} has "
                f"{columns[0].shape[0]}"
            )
            raise ConversionError(reason, path=path, feature=column.name)
    if not sum(column.row_bytes for column in columns):
        raise ConversionError("the arrays hold no values", path=path)
    return columns


def _column(archive: zipfile.ZipFile, member: str) -> Column:
    with archive.open(member) as file:
        shape, fortran, dtype = _read_header(file)
    if min(shape, default=0) < 0:
        raise ValueError(f"the shape of {member!r} is {shape}")
    return Column(member, shape, dtype, fortran)


def _read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    return np.lib.format.read_array_header_2_0(file)


def _check_same(path: str, columns: list[Column], first: str, wanted: list[Column]) -> None:
    def forms(table: list[Column]) -> dict[str, tuple[Any, ...]]:
        return {column.name: (column.shape[1:], column.stored) for column in table}

    if forms(columns) != forms(wanted):
        reason = f"the arrays are not those of {first!r}, of the same names, shapes and dtypes"
        raise ConversionError(reason, path=path)


@contextlib.contextmanager
def _damage_named(path: str) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        raise ConversionError(f"the archive is damaged, or none: {error}", path=path) from None


# ---- reading ----


def _pieces(files: Iterable[SourceFile], tables: Iterable[list[Column]]) -> Iterator[Piece]:
    for file, columns in zip(files, tables, strict=True):
        row_bytes = max(1, sum(column.row_bytes for column in columns))
        step = max(1, min(_MOST_ROWS, _PIECE_BYTES // row_bytes))
        with (
            _damage_named(file.path),
            zipfile.ZipFile(file.path) as archive,
            contextlib.ExitStack() as stack,
        ):
            readers = [_RowReader(archive, column, stack) for column in columns]
            for first in range(0, columns[0].shape[0], step):
                count = min(step, columns[0].shape[0] - first)
                arrays = {reader.column.name: reader.read(count) for reader in readers}
                yield Piece(file.path, first, arrays, count * row_bytes)


class _RowReader:
    """Reads one array of an archive, some rows after others."""

    def __init__(
        self, archive: zipfile.ZipFile, column: Column, stack: contextlib.ExitStack
    ) -> None:
        self.column = column
        self._left = column.shape[0]
        self._file = stack.enter_context(archive.open(column.member))
        _read_header(self._file)
        self._whole: npt.NDArray[Any] | None = None
        if column.fortran:
            reverse = column._replace(shape=column.shape[::-1])
            self._whole = _read_array(self._file, reverse, column.shape[-1]).T

    def read(self, count: int) -> npt.NDArray[Any]:
        """The next rows."""
        begin = self.column.shape[0] - self._left
        self._left -= count
        if self._whole is not None:
            return self._whole[begin : begin + count]
        rows = _read_array(self._file, self.column, count)
        if not self._left:
            self._file.read(1)  # at the end the checksum is looked at
        return rows


def _read_array(file: IO[bytes], column: Column, count: int) -> npt.NDArray[Any]:
    shape = (count, *column.shape[1:])
    size = count * column.row_bytes
    if size == 0:
        return np.zeros(shape, column.dtype)
    data = file.read(size)
    if len(data) < size:
        raise EOFError(f"the array {column.name!r} is cut short")
    return np.frombuffer(data, column.dtype).reshape(shape)


# ---- in the processes ----


def _make(piece: Piece, kinds: dict[str, str]) -> Made:
    count = len(next(iter(piece.arrays.values())))
    rows = [
        Row(
            piece.path,
            f"row {piece.first + i}",
            {name: array[i] for name, array in piece.arrays.items()},
        )
        for i in range(count)
    ]
    return encode_rows(rows, kinds, piece.size)
