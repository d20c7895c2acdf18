"""Conversion of CSV files to TFRecord, one record per row."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Unpack

from .._storage.binary_file import open_binary
from .._storage.local import StrPath
from .._storage.location import Location
from ..checks import counted
from ..errors import ConversionError
from ..tools.report import Result
from . import arrow as pa
from .arrow_rows import ColumnTypes, encode_table
from .columns import FoundType, add_types, stored_dtypes
from .conversion import Conversion, size_of
from .escaped_text import END, escaped_text, unescaped
from .options import ColumnOptions, Options, Types
from .rows import Table

# Size of the text in a piece, and largest size of a row.
_PIECE_BYTES = 1 << 22

# Values that need each dtype, in the order in which they are tried.
_PATTERNS = {
    "int64": r"[+-]?(0|[1-9][0-9]*)",
    "float32": r"[+-]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?",
    "word": r"[+-]?(?i:nan|inf|infinity)",
    "string": r"(?s:.*)",
}


def from_csv(
    sources: StrPath | Iterable[StrPath],
    destination: StrPath,
    *,
    columns: Sequence[str] | None = None,
    include: Collection[str] | None = None,
    exclude: Collection[str] = (),
    types: Types | None = None,
    **options: Unpack[Options],
) -> Result:
    r"""Convert CSV files to TFRecord files of ``tf.train.Example`` records, one for each row.

    This needs pyarrow: ``pip install torchrec-io[parquet]``.

    Each column becomes a feature of one value. The record of a row has no feature for an empty
    field, and empty lines are skipped. The dtype of a column follows from all of its values, so
    files are read twice: int64 for integers, float32 for other numbers, and string if no value is a
    number. A number with a leading zero (``02134``) counts as text; ``nan`` and ``inf`` count as
    the kind of the other values.

    Args:
        sources: Files, glob patterns, directories or URLs, of files with the same columns. Files
            are UTF-8. Fields are separated by commas, in files ``*.tsv`` by tabs, and quoted as in
            RFC 4180 (``"a ""b"", c"``).
        destination: Path of the output file, or common start of the paths of the shards.
        columns: Names of the columns, for files without a header. By default the first line
            contains them.
        include: Names of the columns to convert. Default: all.
        exclude: Names of columns to leave out.
        types: Stored dtypes of some columns: "int64", "float32" or "string" (the unchanged field).
            If all columns have a type, files are read once.
        options: Keyword options of all conversions, see :class:`Options`: ``num_shards``,
            ``max_bytes``, ``compression``, ``index``, ``force``, ``jobs``, ``on_error``,
            ``allow_missing``, ``watcher`` and ``storage_options``.

    Returns:
        Paths, schema, counts and errors of the conversion.

    Raises:
        ConversionError: If a row has a wrong number of fields, is not UTF-8, or a value does not
            fit its dtype, unless ``on_error="skip"``. Also if a column without a type has both
            numbers and text; a header is missing, has duplicate names or differs from that of
            another file; a quote is not closed; a row has more than 4 MiB; or there are no rows.
        FileExistsError: If an output exists, unless ``force``.
        ImportError: If pyarrow is not installed.
        ValueError: If an argument is invalid.
        OSError: If a file cannot be read or written.
    """
    pa.load()
    choice = ColumnOptions(include, exclude, types or {})
    conversion = Conversion(destination, options)
    files = conversion.source_files(sources)
    names = _columns_of(files, columns)
    chosen = choice.chosen(names)
    untyped = [name for name in chosen if name not in choice.types]
    conversion.report.watcher.started(sum(map(size_of, files)) * (2 if untyped else 1))

    def tables() -> Iterator[Table]:
        for file in files:
            yield from _tables(file, names, chosen, has_header=columns is None)

    found = {}
    if untyped:
        found = conversion.find_types(functools.partial(_find_types, names=untyped), tables())
    dtypes = {**choice.types, **stored_dtypes(found, untyped)}
    types_of_all = ColumnTypes({name: dtypes[name] for name in chosen if name in dtypes})
    work = functools.partial(encode_table, types=types_of_all)
    return conversion.write(work, tables(), types_of_all.schema)


# ---- reading ----


def _columns_of(files: Sequence[Location], columns: Sequence[str] | None) -> list[str]:
    names = list(columns or [])
    if columns is None:
        headers = [_header(file) for file in files]
        names = headers[0]
        for file, header in zip(files, headers, strict=True):
            if header != names:
                raise ConversionError(
                    f"the columns are {', '.join(header)}, but those of {files[0].name!r} are "
                    + ", ".join(names),
                    path=file.name,
                )
    duplicates = [name for name, count in Counter(names).items() if count > 1]
    if duplicates or "" in names or not names:
        reason = (
            f"two columns are named {duplicates[0]!r}" if duplicates else "a column has no name"
        )
        if columns is None:
            raise ConversionError(f"row 1: {reason}", path=files[0].name)
        raise ValueError(reason)
    return names


def _header(source: Location) -> list[str]:
    if not size_of(source):
        reason = "row 1: the header is missing; give the names of columns with columns"
        raise ConversionError(reason, path=source.name)
    with _opened(source, None, lambda _: "skip") as reader:
        names = unescaped(pa.array(reader.schema.names, "binary"))
    try:
        return [name.decode() for name in names.to_pylist()]
    except UnicodeDecodeError:
        raise ConversionError("row 1: the header is not UTF-8", path=source.name) from None


@contextlib.contextmanager
def _opened(
    source: Location,
    names: Sequence[str] | None,
    skip: Callable[[Any], str],
) -> Iterator[Any]:
    """Open a file as batches of Arrow columns of escaped text.

    Args:
        source: File.
        names: Names of the columns, or None if the first row has them. With names, the first row is
            one of values, and a row of ``END`` is added at the end.
        skip: Function that receives rows with a wrong number of fields.
    """
    delimiter = "\t" if os.path.splitext(source.name)[1].lower() == ".tsv" else ","
    # Rows have numbers if one thread reads them.
    read = pa.csv.ReadOptions(use_threads=False, block_size=_PIECE_BYTES, column_names=names)
    parse = pa.csv.ParseOptions(
        delimiter=delimiter, newlines_in_values=True, invalid_row_handler=skip
    )
    convert = pa.csv.ConvertOptions(
        column_types=dict.fromkeys(names or (), pa.binary()),
        strings_can_be_null=True,
        null_values=[""],
    )
    end = f"\n{delimiter.join([END] * len(names or ()))}\n"
    try:
        # Arrow prints an error if it skips a row that is not UTF-8.
        with open_binary(source) as file:
            yield pa.csv.open_csv(escaped_text(file, end), read, parse, convert)
    except pa.ArrowInvalid as error:
        reason = f"the file cannot be read as CSV: {error}"
        raise ConversionError(reason, path=source.name) from None


def _tables(
    source: Location, names: Sequence[str], kept: Sequence[str], *, has_header: bool
) -> Iterator[Table]:
    """Yield the rows of a file in pieces, with some of the columns."""
    skipped: set[int] = set()
    errors: list[ConversionError] = []

    def skip(row: Any) -> str:
        fields = counted(row.actual_columns, "field")
        reason = f"row {row.number}: the row has {fields}, expected {row.expected_columns}"
        errors.append(ConversionError(reason, path=source.name))
        skipped.add(row.number)
        return "skip"

    numbers = (n for n in itertools.count(1) if n not in skipped)
    left, is_end = size_of(source), False
    with _opened(source, names, skip) as reader:
        for found in reader:
            is_end = bool(found.num_rows) and found.column(0)[-1].as_py() == END.encode()
            rows = found.slice(0, found.num_rows - is_end)
            if has_header and rows.num_rows:
                next(numbers)
                rows, has_header = rows.slice(1), False
            columns = [unescaped(rows.column(name)).view(pa.string()) for name in kept]
            batch = pa.RecordBatch.from_arrays(columns, list(kept))
            places = [f"row {n}" for n in itertools.islice(numbers, rows.num_rows)]
            size = left if is_end else min(left, _PIECE_BYTES)
            left -= size
            now = errors[:]
            del errors[: len(now)]  # Arrow may add further ones meanwhile
            yield Table(source.name, batch, places, size, now)
    if not is_end:
        reason = f"row {next(numbers) - 1}: a quote is not closed before the end of the file"
        raise ConversionError(reason, path=source.name)


# ---- types ----


def _find_types(table: Table, names: Sequence[str]) -> tuple[dict[str, FoundType], int]:
    """Find the dtypes that some columns need. Digits with a leading zero (02134) are text."""
    found: dict[str, FoundType] = {}
    for name in names:
        values = table.columns.column(name).view(pa.binary())
        is_left = pa.compute.is_valid(values)
        for dtype, pattern in _PATTERNS.items():
            is_match = pa.compute.match_substring_regex(values, rf"^\s*{pattern}\s*$")
            is_match = pa.compute.and_(is_left, is_match.fill_null(False))
            is_left = pa.compute.and_not(is_left, is_match)
            i = pa.compute.index(is_match, True).as_py()
            if i >= 0:
                value = repr(values[i].as_py().decode(errors="replace"))
                add_types(found, {name: FoundType(dtype, table.example(i, value))})
    return found, table.size
