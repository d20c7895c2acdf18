"""Tables of Arrow columns as records: the one path of CSV, JSON lines and Parquet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from .._schema.image_spec import ImageFeature
from .._schema.schema import Schema
from .._schema.specs import FixedLenFeature
from ..errors import ConversionError, TorchRecIOError
from ..inspection.inference import Inspected, make_findings
from ..inspection.surveyor import Survey
from . import arrow as pa
from .conversion import ConvertedPiece
from .options import Types
from .rows import Table, encode_rows, shortened


class ColumnTypes(NamedTuple):
    """The stored types of the columns of a table.

    Attributes:
        dtypes: Stored dtype of each column.
        lists: Names of columns that are lists of lists.
    """

    dtypes: dict[str, str]
    lists: frozenset[str] = frozenset()

    @classmethod
    def of(
        cls, types: Iterable[tuple[str, Any]], path: str, casts: Types | None = None
    ) -> ColumnTypes:
        """Return the stored types of Arrow columns.

        Args:
            types: Name and Arrow type of each column.
            path: File, for error messages.
            casts: Stored dtypes of columns that are cast to them.

        Raises:
            ConversionError: If a column has a type that an Example cannot store or that cannot be
                cast, two columns have the same name, or there are no columns.
        """
        casts = casts or {}
        dtypes: dict[str, str] = {}
        lists = set()
        for name, kind in types:
            depth, _ = unnested(kind)
            dtype = casts.get(name) or stored_dtype(kind, 2)
            if dtype is None or depth > 2 or not _can_cast(kind, dtype):
                reason = f"an Example cannot store a column of type {kind}"
                if name in casts:
                    reason = f"a column of type {kind} cannot be cast to {dtype}"
                remedy = "cast it with types, or leave it out with exclude"
                raise ConversionError(f"{reason}; {remedy}", path=path, feature=name)
            if name in dtypes:
                raise ConversionError("two columns have this name", path=path, feature=name)
            dtypes[name] = dtype
            if depth == 2:
                lists.add(name)
        if not dtypes:
            raise ConversionError("the file has no columns", path=path)
        return cls(dtypes, frozenset(lists))

    def schema(self, survey: Survey) -> Schema | None:
        """Return a schema of the columns by the rules of :meth:`Schema.infer`.

        Args:
            survey: Facts about all records.
        """
        findings = make_findings(survey, Inspected(survey.records, survey.records))
        specs: dict[str, Any] = {}
        for name in self.dtypes:
            spec = findings[name].spec if name in findings else None
            if spec is not None:  # images stay bytes
                is_image = isinstance(spec, ImageFeature)
                specs[name] = FixedLenFeature([], "string") if is_image else spec
        sequence = {name: specs.pop(name) for name in self.lists & specs.keys()}
        if self.lists:
            return Schema(context=specs, sequence=sequence)
        return Schema(specs) if specs else None


def encode_table(table: Table, types: ColumnTypes) -> ConvertedPiece:
    """Cast the Arrow columns of a table to their stored types, and serialize its rows."""
    errors: dict[int, TorchRecIOError] = {}
    columns = {}
    names = {*table.columns.schema.names}
    for name, dtype in types.dtypes.items():
        if name not in names:  # a JSON member that these lines lack
            continue
        column = table.columns.column(name)
        cast, invalid = cast_column(column, dtype, 2 if name in types.lists else 1)
        for i in invalid:
            reason = f"{shown(column[i])} does not fit in {dtype}"
            errors.setdefault(i, table.error(i, reason, name))
        columns[name] = _values_of(cast)
    return encode_rows(table._replace(columns=columns), types.dtypes, types.lists, errors)


def _values_of(column: Any) -> Iterable[Any]:
    """Return values for the encoder. Lists of numbers become arrays, which is much faster."""
    depth, _ = unnested(column.type)
    if stored_dtype(column.type) in ("int64", "float32") and depth and not column.null_count:
        items = column.flatten()
        if len(column) and not items.null_count:
            lengths = pa.compute.list_value_length(column).to_numpy(zero_copy_only=False)
            return np.split(items.to_numpy(zero_copy_only=False), lengths.cumsum()[:-1])
    return list(column.to_pylist())


def shown(value: Any) -> str:
    """Return an Arrow value for an error message."""
    try:
        return shortened(repr(value.as_py()))
    except UnicodeDecodeError:
        return "text that is not UTF-8"


# ---- casts ----


def cast_column(column: Any, dtype: str, max_depth: int = 1) -> tuple[Any, list[int]]:
    """Return a column of a stored dtype, and the positions of values that cannot be cast."""
    if unnested(column.type)[0] > max_depth:
        valid = pa.compute.indices_nonzero(column.is_valid()).to_pylist()
        return pa.nulls(len(column)), valid
    try:
        return _cast_all(column, dtype), []
    except pa.ArrowException:
        pass
    pieces, invalid = [], []
    for i in range(len(column)):
        try:
            # A slice would be cast with the values of other lists.
            pieces.append(_cast_all(column.take(pa.array([i])), dtype))
        except pa.ArrowException:
            invalid.append(i)
            pieces.append(pa.nulls(1, _target(column.type, dtype)))
    return pa.concat_arrays(pieces), invalid


def _cast_all(column: Any, dtype: str) -> Any:
    """Cast a column. Text is stored as its UTF-8 bytes."""
    depth, item = unnested(column.type)
    target = _target(column.type, dtype)
    if not _is_text(item):
        return column.cast(target, safe=dtype != "float32")  # an integer becomes the nearest float
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    # This cast checks that the text is UTF-8.
    text = column.cast(_nested(pa.binary(), depth)).cast(_nested(pa.string(), depth))
    if dtype == "string" or depth:
        return text.cast(target)
    text = pa.compute.utf8_trim_whitespace(text)
    text = pa.compute.replace_substring_regex(text, r"^\+", "")
    numbers = text.cast(target)
    if dtype == "float32":
        has_digits = pa.compute.match_substring_regex(text, "[0-9]")
        if pa.compute.any(pa.compute.and_(pa.compute.is_inf(numbers), has_digits)).as_py():
            raise pa.ArrowInvalid("a number does not fit in float64")
    return numbers


def _target(kind: Any, dtype: str) -> Any:
    """Return the Arrow type that a column is cast to. The encoder rounds floats to float32."""
    depth, item = unnested(kind)
    if stored_dtype(item) == dtype and not pa.types.is_boolean(item):
        return _nested(pa.binary() if dtype == "string" else item, depth)
    return _nested({"string": pa.string, "float32": pa.float64, "int64": pa.int64}[dtype](), depth)


def _can_cast(kind: Any, dtype: str) -> bool:
    try:
        _cast_all(pa.nulls(0, kind), dtype)
    except pa.ArrowNotImplementedError:
        return False
    return True


# ---- types ----


def unnested(kind: Any) -> tuple[int, Any]:
    """Return the depth of the lists of a type, and the type of the values, also of a dictionary."""
    depth = 0
    while isinstance(kind, (pa.ListType, pa.LargeListType, pa.FixedSizeListType)):
        depth, kind = depth + 1, kind.value_type
    return depth, kind.value_type if pa.types.is_dictionary(kind) else kind


def stored_dtype(kind: Any, max_depth: int = 1) -> str | None:
    """Return the stored dtype of a column of an Arrow type, or None if it cannot be stored."""
    depth, item = unnested(kind)
    if depth > max_depth:
        return None
    if pa.types.is_boolean(item) or pa.types.is_integer(item):
        return "int64"
    if pa.types.is_floating(item):
        return "float32"
    is_bytes = pa.types.is_fixed_size_binary(item) or item in (pa.binary(), pa.large_binary())
    return "string" if is_bytes or _is_text(item) else None


def _nested(item: Any, depth: int) -> Any:
    return item if depth == 0 else pa.list_(_nested(item, depth - 1))


def _is_text(kind: Any) -> bool:
    return kind in (pa.string(), pa.large_string())
