"""Conversion of JSON lines to TFRecord, one record per object."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Unpack

from .._storage.binary_file import open_binary
from .._storage.local import StrPath
from .._storage.location import Location
from ..errors import ConversionError
from ..tools.report import Result
from . import arrow as pa
from .arrow_rows import (
    ColumnTypes,
    encode_table,
    shown,
    stored_dtype,
    unnested,
)
from .columns import FoundType, stored_dtypes
from .conversion import Conversion, size_of
from .options import ColumnOptions, Options, Types
from .rows import Table

# Size of the lines in a piece.
_PIECE_BYTES = 1 << 20
_BOM = b"\xef\xbb\xbf"
# Errors of lines, also those of Arrow, which are ValueErrors.
_ERRORS = (ValueError, TypeError, OverflowError, RecursionError)


def from_jsonl(
    sources: StrPath | Iterable[StrPath],
    destination: StrPath,
    *,
    include: Collection[str] | None = None,
    exclude: Collection[str] = (),
    types: Types | None = None,
    **options: Unpack[Options],
) -> Result:
    """Convert files of JSON lines to TFRecord files of ``tf.train.Example`` records.

    This needs pyarrow: ``pip install torchrec-io[parquet]``.

    Each line is an object, which becomes a record. Empty lines are skipped. Each member of the
    object becomes a feature: a number, a string, true or false, or a list of those. The record has
    no feature for a member that is null or missing. The dtype of a feature follows from all of its
    values, so files are read twice: int64 for integers, or for true and false; float32 if a number
    has a decimal point or an exponent; string for strings.

    Args:
        sources: Files, glob patterns, directories or URLs.
        destination: Path of the output file, or common start of the paths of the shards.
        include: Names of the members to convert. Default: all.
        exclude: Names of members to leave out.
        types: Stored dtypes of some features: "int64", "float32" or "string". Their values are
            cast.
        options: Keyword options of all conversions, see :class:`Options`: ``num_shards``,
            ``max_bytes``, ``compression``, ``index``, ``force``, ``jobs``, ``on_error``,
            ``allow_missing``, ``watcher`` and ``storage_options``.

    Returns:
        Paths, schema, counts and errors of the conversion.

    Raises:
        ConversionError: If a line is not a JSON object, has a duplicate name, null in a list, or a
            value that differs from those of other lines (an object, a list, or true among numbers)
            or does not fit its dtype, unless ``on_error="skip"``. Also if a feature without a type
            has both numbers and strings, or only objects, or there are no records.
        FileExistsError: If an output exists, unless ``force``.
        ImportError: If pyarrow is not installed.
        ValueError: If an argument is invalid.
        OSError: If a file cannot be read or written.
    """
    pa.load()
    choice = ColumnOptions(include, exclude, types or {})
    conversion = Conversion(destination, options)
    files = conversion.source_files(sources)
    conversion.report.watcher.started(2 * sum(map(size_of, files)))

    def tables() -> Iterator[Table]:
        return itertools.chain.from_iterable(map(_tables, files))

    find = functools.partial(_find_types, typed=choice.types)
    found = conversion.find_types(find, tables())
    chosen = choice.chosen({**found, **choice.types})  # a typed member may be missing
    stored = ColumnTypes(stored_dtypes(found, chosen))
    return conversion.write(functools.partial(encode_table, types=stored), tables(), stored.schema)


# ---- reading ----


def _tables(source: Location) -> Iterator[Table]:
    """Yield the lines of a file in pieces."""
    first = 1
    with open_binary(source) as content:
        while lines := content.readlines(_PIECE_BYTES):
            size = sum(map(len, lines))
            if first == 1:
                lines[0] = lines[0].removeprefix(_BOM)
            filled = [(n, line) for n, line in enumerate(lines, first) if line.strip()]
            yield from _parsed(source.name, filled, size)
            first += len(lines)


def _parsed(path: str, lines: Sequence[tuple[int, bytes]], size: int) -> Iterator[Table]:
    """Yield lines, with their numbers, as a table; or as several, which are valid or one line."""
    places = [f"line {number}" for number, _ in lines]
    try:
        batch = _parse([line for _, line in lines])
    except _ERRORS as error:
        if len(lines) > 1:
            middle = len(lines) // 2
            yield from _parsed(path, lines[:middle], 0)
            yield from _parsed(path, lines[middle:], size)
            return
        is_large = isinstance(error, OverflowError)
        reason = "an integer does not fit in int64" if is_large else str(error)
        invalid = ConversionError(f"{places[0]}: invalid JSON: {reason}", path=path)
        yield Table(path, _parse([]), [], size, [invalid])
    else:
        yield Table(path, batch, places, size)


def _parse(lines: Sequence[bytes]) -> Any:
    """Return a ``pyarrow.RecordBatch`` with a row for each line.

    Arrow's own reader of JSON is not used: it reads text as timestamps and large integers as
    floats, and lists that are nested deeply end the process.

    Raises:
        ValueError: If a line is not an object, or lines have values of different types.
        OverflowError: If an integer has more than 64 bits.
        RecursionError: If values are nested too deeply.
    """
    rows = [_DECODER.decode(line.decode()) for line in lines]
    if not all(isinstance(row, dict) for row in rows):
        raise ValueError("the line is not an object")
    # A column has one type, so where one line has a list, all have lists.
    lists = {name for row in rows for name, value in row.items() if isinstance(value, list)}
    for row in rows if lists else ():
        for name in lists & row.keys():
            if not isinstance(row[name], (list, type(None))):
                row[name] = [row[name]]
    return pa.RecordBatch.from_struct_array(pa.array(rows, None if rows else pa.struct([])))


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("two members have the same name")
    return members


_DECODER = json.JSONDecoder(object_pairs_hook=_members)


# ---- types ----


def _find_types(table: Table, typed: Types) -> tuple[dict[str, FoundType], int]:
    """Find the dtypes that members need. Errors of lines are reported when they are converted."""
    found: dict[str, FoundType] = {}
    for name, column in zip(table.columns.schema.names, table.columns.columns, strict=True):
        i = max(0, pa.compute.index(column.is_valid(), True).as_py())
        is_empty = pa.types.is_null(unnested(column.type)[1])
        dtype = "none" if is_empty else stored_dtype(column.type) or "object"
        dtype = typed.get(name, dtype)
        found[name] = FoundType(dtype, table.example(i, shown(column[i])))
    return found, table.size
