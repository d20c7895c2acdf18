"""Rows of Arrow columns as records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..errors import ConversionError, TorchRecIOError
from .arrow import import_pyarrow
from .conversion import ConvertedPiece
from .rows import Row, encode_rows


class ColumnTypes(NamedTuple):
    """The stored types of the columns of a table.

    Attributes:
        dtypes: Stored dtype of each column.
        lists: Names of columns that are lists of lists.
    """

    dtypes: dict[str, str]
    lists: frozenset[str]

    @classmethod
    def of(cls, types: Iterable[tuple[str, Any]], path: str) -> ColumnTypes:
        """Return the stored types of Arrow columns.

        Args:
            types: Name and Arrow type of each column.
            path: File, for error messages.

        Raises:
            ConversionError: If a column has a type that an Example cannot store, two columns have
                the same name, or there are no columns.
        """
        dtypes: dict[str, str] = {}
        lists = set()
        for name, whole in types:
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
        return cls(dtypes, frozenset(lists))


def encode_columns(
    rows: list[Row],
    columns: Mapping[str, Iterable[Any]],
    types: ColumnTypes,
    size: int,
) -> ConvertedPiece:
    """Serialize rows whose values are in columns.

    Args:
        rows: Rows without values.
        columns: Values of all rows for each column, as :func:`values_of` returns them.
        types: Stored types of the columns.
        size: Size of the rows in bytes.
    """
    errors: dict[int, TorchRecIOError] = {}
    for name, values in columns.items():
        for i, value in enumerate(values):
            if isinstance(value, list) and _has_null(value):
                errors.setdefault(i, rows[i].error("an Example cannot store null in a list", name))
            elif isinstance(value, UnicodeDecodeError):
                errors.setdefault(i, rows[i].error("the value is not UTF-8", name))
            elif value is not None:
                rows[i].features[name] = value
    marked = [errors.get(i, row) for i, row in enumerate(rows)]
    return encode_rows(marked, types.dtypes, size, types.lists)


def values_of(column: Any) -> Iterable[Any]:
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


def _has_null(values: list[Any]) -> bool:
    return None in values or any(isinstance(step, list) and None in step for step in values)


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
