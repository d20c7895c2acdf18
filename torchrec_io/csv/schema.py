"""Lines of comma-separated values, by the rules of TensorFlow's ``decode_csv``."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ..checks import is_integer
from ..errors import SchemaError
from ..parsing.parser import RecordFailure
from ..schema.checks import is_text
from ..schema.dtypes import integer_range, is_integer_dtype
from ..schema.specs import FixedLenFeature, as_feature
from ..schema.valid_range import Limits
from .numbers import floats_of, integers_of

Columns: TypeAlias = "dict[str, npt.NDArray[Any] | list[bytes]]"
# By the numbers of lines.
Faults: TypeAlias = "dict[int, str]"

_BREAK_FAULT = "a field has a line break in it"
_QUOTE_FAULT = (
    "its quotes are amiss, or a line break is outside of them: a field that holds a quote begins "
    "and ends with one, each inner one is there twice, and all of it is in one line"
)
_FLOATS = ("float32", "float64")


class CsvSchema:
    r"""What the fields of a line are: the schema of a :class:`TextLineDataset` of CSV files.

    The rules and the values are those of ``tf.io.decode_csv`` (TensorFlow 2.21), which takes the
    same arguments: an unquoted field holds no quote and no ``"\r"``; a quoted one ends with its
    quote, and inside of it a quote is written twice; an empty line has no field. Beyond it, a
    number may be of any dtype, and must lie within it; a float beyond is an infinity, as there. A
    field cannot go over several lines, since each line is a record.

    Batched, a column is a Tensor ``[B]``, or a :class:`BytesArray` ``[B]`` for "string". A sample
    is a dict of scalar Tensors and bytes.

    Args:
        columns: A ``FixedLenFeature([], dtype, default_value)`` of each field by name, in the order
            of the fields. A field that is empty or ``na_value`` gets the default; without one it is
            required. dtype: any integer, "bool" (0 or 1), "float32", "float64" or "string".
        field_delim: What separates fields; one ASCII character.
        use_quote_delim: Whether a field may stand in double quotes. If not, a quote is a character
            like any other.
        na_value: What a field may hold in place of nothing.
        select_cols: Of which fields the columns are: their positions, ascending. By default there
            are no others. What follows the last of them is not looked at.

    Raises:
        SchemaError: a column is of another kind or shape, or of a dtype that is none of these;
            or another argument is not one of the above.
    """

    def __init__(
        self,
        columns: Mapping[str, Any],
        *,
        field_delim: str = ",",
        use_quote_delim: bool = True,
        na_value: str = "",
        select_cols: Sequence[int] | None = None,
    ) -> None:
        self._columns = {name: _column(name, spec) for name, spec in dict(columns).items()}
        if not self._columns:
            raise SchemaError("a CsvSchema needs a dict of at least one column")
        if not _is_delimiter(field_delim):
            raise SchemaError(
                "field_delim must be one ASCII character that is no quote and ends no line, not "
                f"{field_delim!r}"
            )
        if not isinstance(na_value, str) or not is_text(na_value):
            raise SchemaError(f"na_value must be text, not {na_value!r}")
        self.field_delim = field_delim
        self.use_quote_delim = bool(use_quote_delim)
        self.na_value = na_value
        self.select_cols = _positions(select_cols, len(self._columns))
        most = None if self.select_cols is None else self.select_cols[-1] + 1
        self._grammar = _grammar(field_delim.encode(), most, quotes=self.use_quote_delim)
        self._dialect: dict[str, Any] = {
            "delimiter": field_delim,
            "quoting": csv.QUOTE_MINIMAL if self.use_quote_delim else csv.QUOTE_NONE,
            "strict": True,
        }
        self._fault = _QUOTE_FAULT if self.use_quote_delim else _BREAK_FAULT
        self._missing = (b"", na_value.encode())

    @property
    def columns(self) -> Mapping[str, FixedLenFeature]:
        """Specs of the columns by name."""
        return MappingProxyType(self._columns)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CsvSchema):
            return NotImplemented
        return self._described() == other._described()

    __hash__ = None  # type: ignore[assignment]  # as of a Schema

    def __repr__(self) -> str:
        return (
            f"CsvSchema({self._columns!r}, field_delim={self.field_delim!r}, "
            f"use_quote_delim={self.use_quote_delim}, na_value={self.na_value!r}, "
            f"select_cols={self.select_cols})"
        )

    def _described(self) -> tuple[Any, ...]:
        columns = tuple(self._columns.items())  # their order counts
        quotes = self.use_quote_delim
        return columns, self.field_delim, quotes, self.na_value, self.select_cols

    # ---- parsing ----

    def line_parser(self) -> Any:
        """Return the parser of lines, as datasets use it."""
        from .parser import CsvParser  # noqa: PLC0415  # needs torch

        return CsvParser(self)

    def parse(self, lines: Sequence[bytes]) -> tuple[Columns, list[RecordFailure]]:
        """Columns of the lines that are good, and what is wrong with each other one.

        Args:
            lines: Without what ends them.

        Returns:
            An array ``[n]`` or a list of bytes for each column, and a failure for each bad line.
        """
        rows, numbers, faults = self._rows(lines)
        failures = {n: RecordFailure(n, None, None, reason) for n, reason in faults.items()}
        fields = zip(*rows, strict=True) if rows else [()] * len(self._columns)
        made: Columns = {}
        bad: set[int] = set()  # rows
        for (name, spec), texts in zip(self._columns.items(), fields, strict=True):
            made[name], wrong = self._column_of(spec, [text.encode("latin-1") for text in texts])
            for row, reason in wrong.items():
                number = numbers[row]
                bad.add(row)
                failures.setdefault(number, RecordFailure(number, name, None, reason))
        if bad:
            keep = [row for row in range(len(rows)) if row not in bad]
            made = {name: _taken(values, keep) for name, values in made.items()}
        return made, [failures[number] for number in sorted(failures)]

    def _rows(self, lines: Sequence[bytes]) -> tuple[list[Sequence[str]], list[int], Faults]:
        """Fields of the columns, as Latin-1; the lines that they are of, and why others have none.

        The csv module takes lines apart. What it would take otherwise than TensorFlow does, which
        is only where there is a quote or a break, it does not get.
        """
        texts: list[str] = []
        numbers: list[int] = []
        faults: Faults = {}
        for number, line in enumerate(lines):
            if b'"' in line or b"\r" in line or b"\n" in line:
                found = self._grammar.match(line)
                if found is None:
                    faults[number] = self._fault
                    continue
                line = found[0]  # noqa: PLW2901  # less what is not looked at
            texts.append(line.decode("latin-1"))
            numbers.append(number)
        _let_fields_be(max(map(len, texts), default=0))
        rows: list[Sequence[str]] = []
        kept: list[int] = []
        reader = csv.reader(texts, **self._dialect)
        for number in numbers:
            try:
                row = self._wanted(next(reader))
            except csv.Error as error:  # before Python 3.11: of a NUL
                row = f"the line cannot be read: {error}"
            if isinstance(row, str):
                faults[number] = row
            else:
                rows.append(row)
                kept.append(number)
        return rows, kept, faults

    def _wanted(self, fields: list[str]) -> Sequence[str] | str:
        """The fields that columns are made of, or why they are not there."""
        if self.select_cols is not None:
            if len(fields) <= self.select_cols[-1]:
                return f"the line has {len(fields)} fields, column {self.select_cols[-1]} is wanted"
            return [fields[position] for position in self.select_cols]
        if len(fields) != len(self._columns):
            return f"the line has {len(fields)} fields, not {len(self._columns)}"
        return fields

    def _column_of(
        self, spec: FixedLenFeature, texts: list[bytes]
    ) -> tuple[npt.NDArray[Any] | list[bytes], dict[int, str]]:
        """The values of a column, and for some rows why there is none; those hold anything."""
        wrong: dict[int, str] = {}
        default = None if spec.default_value is None else spec.default_value[0]
        absent: list[int] = []
        if any(missing in texts for missing in self._missing):
            absent = [row for row, text in enumerate(texts) if text in self._missing]
        if absent and default is None:
            wrong = dict.fromkeys(absent, "it is required, but missing, and has no default_value")
        if spec.dtype == "string":
            for row in absent:
                texts[row] = default or b""
            return texts, wrong
        for row in absent:
            texts[row] = b"0"
        if is_integer_dtype(spec.dtype):
            values, misfits = integers_of(texts, spec.dtype, integer_range(spec.dtype))
        else:
            values, misfits = floats_of(texts, spec.dtype)
        if default is not None:
            values[absent] = default
        limits = Limits.of(spec.valid_range, spec.dtype)
        if limits is not None:
            numbers = values.view(np.uint8) if spec.dtype == "bool" else values
            for row in limits.outside(numbers).tolist():
                misfits.setdefault(row, limits.reason(numbers[row]))
        return values, {**misfits, **wrong}


def _grammar(delimiter: bytes, most: int | None, *, quotes: bool) -> re.Pattern[bytes]:
    """Lines that ``decode_csv`` takes; with ``most``, so many of their fields at most."""
    plain = rb'[^\r\n"%b]*' if quotes else rb"[^\r\n%b]*"
    field = plain % re.escape(delimiter)
    if quotes:
        field = rb'(?:"[^"]*(?:""[^"]*)*"|%b)' % field
    more = b"*" if most is None else b"{,%d}" % (most - 1)
    end = rb"\Z" if most is None else rb"(?=%b|\Z)" % re.escape(delimiter)
    return re.compile(rb"%b(?:%b%b)%b%b" % (field, re.escape(delimiter), field, more, end))


def _let_fields_be(size: int) -> None:
    """Has the csv module take fields of that many characters; by default it refuses over 128 Ki."""
    if size > csv.field_size_limit():
        csv.field_size_limit(size)


def _taken(values: npt.NDArray[Any] | list[bytes], rows: list[int]) -> Any:
    return [values[row] for row in rows] if isinstance(values, list) else values[rows]


def _column(name: Any, spec: Any) -> FixedLenFeature:
    if not isinstance(name, str) or not is_text(name):
        raise SchemaError(f"a column's name must be text, not {name!r}")
    try:
        feature = as_feature(spec)
    except SchemaError as error:
        raise SchemaError(error.reason, feature=name) from None
    if not isinstance(feature, FixedLenFeature) or feature.shape != ():
        raise SchemaError(f"a column is a FixedLenFeature([], dtype), not {spec!r}", feature=name)
    if feature.bitcast:
        raise SchemaError("a field of CSV holds digits, not stored bits: no bitcast", feature=name)
    dtype = feature.dtype
    if not is_integer_dtype(dtype) and dtype not in (*_FLOATS, "string"):
        raise SchemaError(
            f"a column of CSV is of integers, 'float32', 'float64' or 'string', not {dtype!r}",
            feature=name,
        )
    return feature


def _is_delimiter(text: Any) -> bool:
    return isinstance(text, str) and len(text) == 1 and text.isascii() and text not in '"\r\n'


def _positions(given: Sequence[int] | None, count: int) -> tuple[int, ...] | None:
    """Checks the argument ``select_cols``."""
    if given is None:
        return None
    positions = tuple(given)
    ascend = all(is_integer(position) for position in positions) and all(
        before < after for before, after in zip((-1, *positions), positions, strict=False)
    )
    if not ascend or len(positions) != count:
        raise SchemaError(
            f"select_cols must be {count} ascending positions, one for each column, not {given!r}"
        )
    return tuple(int(position) for position in positions)
