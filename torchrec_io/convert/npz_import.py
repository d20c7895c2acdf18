"""Conversion of NumPy archives (``.npz``) to TFRecord, one record per row."""

from __future__ import annotations

import contextlib
import errno
import functools
import itertools
import math
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any, NamedTuple, Unpack

import numpy as np
import numpy.typing as npt

from .._schema.dtypes import StoredDTypeName
from .._schema.schema import Schema
from .._schema.specs import FixedLenFeature, VarLenFeature
from .._storage.binary_file import open_binary
from .._storage.local import StrPath
from .._storage.location import Location
from ..checks import counted
from ..errors import ConversionError
from ..tools.report import Result
from .conversion import Conversion
from .options import Options
from .rows import Table, encode_rows

# Limits of a piece.
_PIECE_BYTES = 1 << 22
_PIECE_ROWS = 1 << 14
_LAST_CHARACTER = 0x10FFFF
# Beginnings of archives, and of those without files. NumPy reads only files that begin so, too.
_MAGICS = (b"PK\x03\x04", b"PK\x05\x06")
_STORED: dict[str, StoredDTypeName] = {
    "b": "int64",
    "i": "int64",
    "u": "int64",
    "f": "float32",
    "S": "string",
    "U": "string",
}


class _Array(NamedTuple):
    """The header of an array in an archive.

    Attributes:
        member: Name of its file in the archive.
        shape: Shape of the array.
        dtype: Dtype of the array.
        fortran: True for Fortran (column-major) order.
    """

    member: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool

    @property
    def name(self) -> str:
        """Name of the feature."""
        return self.member.removesuffix(".npy")

    @property
    def row_bytes(self) -> int:
        """Size of one row in bytes."""
        return math.prod(self.shape[1:]) * self.dtype.itemsize

    @property
    def stored(self) -> StoredDTypeName:
        """Stored dtype of the feature."""
        return _STORED[self.dtype.kind]

    def spec(self) -> FixedLenFeature | VarLenFeature:
        """Return the spec that reads the feature."""
        if 0 in self.shape[1:]:
            return VarLenFeature(self.stored)
        return FixedLenFeature(self.shape[1:], self.stored)


def from_npz(
    sources: StrPath | Iterable[StrPath], destination: StrPath, **options: Unpack[Options]
) -> Result:
    """Convert ``.npz`` archives to TFRecord files of ``tf.train.Example`` records.

    Row ``i`` of all arrays becomes a record with one feature per array. Booleans and integers are
    stored as int64, floats as float32 (float64 is rounded), strings as string. Values of a row are
    stored in row-major order. Arrays are read in pieces, but arrays in Fortran order as a whole.

    Args:
        sources: Files, glob patterns, directories or URLs, of archives with arrays of the same
            names, dtypes and row shapes.
        destination: Path of the output file, or common start of the paths of the shards.
        options: Keyword options of all conversions, see :class:`Options`: ``num_shards``,
            ``max_bytes``, ``compression``, ``index``, ``force``, ``jobs``, ``on_error``,
            ``allow_missing``, ``watcher`` and ``storage_options``.

    Returns:
        Paths, schema, counts and errors of the conversion.

    Raises:
        ConversionError: If a value does not fit its dtype, unless ``on_error="skip"``. Also if a
            file is damaged or not an archive; two arrays have the same name; an array has no rows,
            another number of rows than the others, or a dtype that cannot be stored (objects are
            never loaded); archives differ; or there are no rows.
        FileExistsError: If an output exists, unless ``force``.
        ValueError: If an argument is invalid.
        OSError: If a file cannot be read or written.
    """
    conversion = Conversion(destination, options)
    files = conversion.source_files(sources)
    archives = [_arrays_of(file) for file in files]
    for file, arrays in zip(files, archives, strict=True):
        if _row_formats(arrays) != _row_formats(archives[0]):
            reason = (
                f"names, row shapes or dtypes of the arrays differ from those of {files[0].name!r}"
            )
            raise ConversionError(reason, path=file.name)
    sizes = [array.row_bytes * array.shape[0] for arrays in archives for array in arrays]
    conversion.report.watcher.started(sum(sizes))
    schema = Schema({array.name: array.spec() for array in archives[0]})
    dtypes = {array.name: array.stored for array in archives[0]}
    tables = itertools.chain.from_iterable(map(_tables, files, archives))
    return conversion.write(functools.partial(encode_rows, dtypes=dtypes), tables, schema)


def _arrays_of(source: Location) -> list[_Array]:
    path = source.name
    with _named_damage(path), open_binary(source) as file:
        if file.read(4) not in _MAGICS:  # zipfile also reads archives behind other data
            raise zipfile.BadZipFile("File is not a zip file")
        with zipfile.ZipFile(file) as archive:
            arrays = [_array(archive, name) for name in archive.namelist()]
    if not arrays:
        raise ConversionError("the archive has no arrays", path=path)
    counts = Counter(array.name for array in arrays)
    for array in arrays:
        reason = None
        if counts[array.name] > 1:
            reason = "two arrays have this name"
        elif array.dtype.kind not in _STORED:
            reason = f"an array of {array.dtype} cannot be stored"
        elif not array.shape:
            reason = "the array is a scalar, which has no rows"
        elif array.shape[0] != arrays[0].shape[0]:
            rows = counted(array.shape[0], "row")
            reason = f"the array has {rows}, but {arrays[0].name!r} has {arrays[0].shape[0]}"
        if reason is not None:
            raise ConversionError(reason, path=path, feature=array.name)
    if not sum(array.row_bytes for array in arrays):
        raise ConversionError("the arrays have no values", path=path)
    return arrays


def _array(archive: zipfile.ZipFile, member: str) -> _Array:
    with archive.open(member) as file:
        shape, fortran, dtype = _read_header(file)
    if min(shape, default=0) < 0:
        raise ValueError(f"the shape of {member!r} is {shape}")
    return _Array(member, shape, dtype, fortran)


def _read_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    return np.lib.format.read_array_header_2_0(file)


def _row_formats(arrays: list[_Array]) -> dict[str, tuple[Any, ...]]:
    return {array.name: (array.shape[1:], array.stored) for array in arrays}


@contextlib.contextmanager
def _named_damage(path: str) -> Iterator[None]:
    """Raise errors of reading an archive with the path of the file."""
    try:
        yield
    except (ConversionError, MemoryError):
        raise
    except Exception as error:
        # zipfile and its decompressors raise nearly anything on damaged bytes: also OSError, with
        # EINVAL for an offset before the file, and without a number for a damaged bzip2 stream.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            if error.filename is not None:
                raise
            raise OSError(error.errno, error.strerror, path) from error
        reason = f"the file is damaged or not an .npz archive: {error}"
        raise ConversionError(reason, path=path) from None


# ---- reading ----


def _tables(file: Location, arrays: Sequence[_Array]) -> Iterator[Table]:
    """Yield the rows of an archive in pieces."""
    row_bytes = max(1, sum(array.row_bytes for array in arrays))
    step = max(1, min(_PIECE_ROWS, _PIECE_BYTES // row_bytes))
    with (
        _named_damage(file.name),
        open_binary(file) as content,
        zipfile.ZipFile(content) as archive,
        contextlib.ExitStack() as stack,
    ):
        opened = [stack.enter_context(archive.open(array.member)) for array in arrays]
        readers = [_read_rows(*pair, step) for pair in zip(opened, arrays, strict=True)]
        first = 0
        for rows in zip(*readers, strict=True):
            columns = {array.name: part for array, part in zip(arrays, rows, strict=True)}
            end = first + len(rows[0])
            places = [f"row {number}" for number in range(first, end)]
            yield Table(file.name, columns, places, len(places) * row_bytes)
            first = end


def _read_rows(file: IO[bytes], array: _Array, step: int) -> Iterator[npt.NDArray[Any]]:
    """Yield all rows of an array, ``step`` at a time."""
    _read_header(file)
    count, *rest = array.shape
    whole = None
    if array.fortran:
        whole = _read_array(file, array, array.shape[::-1]).T
    for begin in range(0, count, step):
        end = min(begin + step, count)
        rows = _read_array(file, array, (end - begin, *rest)) if whole is None else whole[begin:end]
        if end == count:
            file.read(1)  # at the end of the file its checksum is verified
        yield rows


def _read_array(file: IO[bytes], array: _Array, shape: Sequence[int]) -> npt.NDArray[Any]:
    size = math.prod(shape) * array.dtype.itemsize
    if size == 0:
        return np.zeros(shape, array.dtype)
    data = file.read(size)
    if len(data) < size:
        raise EOFError(f"the array {array.name!r} is truncated")
    if array.dtype.kind == "U":
        # Python cannot make characters of all numbers.
        characters = np.frombuffer(data, np.dtype("u4").newbyteorder(array.dtype.byteorder))
        if characters.max() > _LAST_CHARACTER:
            raise ValueError(f"the array {array.name!r} has text that is not Unicode")
    return np.frombuffer(data, array.dtype).reshape(shape)
