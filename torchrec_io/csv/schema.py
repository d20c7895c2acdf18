"""Schema of lines of comma-separated values, by the rules of TensorFlow's ``decode_csv``."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from .._parsing.failures import RecordFailure
from .._schema.checks import errors_of, is_text
from .._schema.dtypes import is_integer_dtype
from .._schema.specs import FixedLenFeature, as_feature
from .._schema.valid_range import Limits
from ..checks import counted, is_integer
from ..display import braced
from ..errors import SchemaError
from .numbers import parse_floats, parse_integers

Columns: TypeAlias = "dict[str, npt.NDArray[Any] | list[bytes]]"
# Reasons by line number.
Faults: TypeAlias = "dict[int, str]"

_BREAK_FAULT = "a field contains a line break"
_MISSING_FAULT = "the value is missing, and the column has no default_value"
_QUOTE_FAULT = (
    "a quote or line break is misplaced: a field that contains a quote must start and end with a "
    "quote, quotes inside it must be doubled, and it must not contain a line break"
)
_FLOATS = ("float32", "float64")
_OPTIONS = ("field_delim", "use_quote_delim", "na_value", "select_cols")


class Schema:
    r"""The columns of CSV lines: the schema of a :class:`TextLineDataset` of CSV files.

    Rules and values are those of ``tf.io.decode_csv`` (TensorFlow 2.21), which has the same
    arguments. An unquoted field contains no quote and no ``"\r"``. A quoted field ends with its
    quote, and quotes inside it are doubled. An empty line has no fields. Beyond
    ``tf.io.decode_csv``, a column may have any integer dtype. An integer must be in the range of
    its dtype, and a float beyond the range of its dtype becomes infinity. A field cannot span
    several lines, because each line is a record. Hexadecimal floats and "nan(...)" are rejected.

    In a batch, a column is a Tensor ``[B]``, or a :class:`BytesArray` ``[B]`` for "string". A
    sample is a dict of scalar Tensors and bytes.

    Args:
        columns: A ``FixedLenFeature([], dtype, default_value)`` for each column by name, in the
            order of the fields. A field that is empty or equal to ``na_value`` gets the default.
            Without a default the field is required. The dtype is any integer dtype, "bool" (0 or
            1), "float32", "float64" or "string".
        field_delim: Delimiter of fields, one ASCII character. Default: ``","``.
        use_quote_delim: Whether fields may be enclosed in double quotes. If not, a quote is an
            ordinary character.
        na_value: Text that marks a missing value, in addition to the empty text.
        select_cols: Positions of the fields that the columns are parsed from, in ascending order.
            Fields after the last of them are ignored. By default each line has exactly one field
            for each column.

    Raises:
        SchemaError: If a column is not a scalar FixedLenFeature, if its dtype is not supported,
            or if another argument is invalid.
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
        self._columns = {name: _check_column(name, spec) for name, spec in dict(columns).items()}
        if not self._columns:
            raise SchemaError("columns must contain at least one column, got {}")
        if not _is_delimiter(field_delim):
            raise SchemaError(
                "field_delim must be one ASCII character that is not a quote or a line break, got "
                f"{field_delim!r}"
            )
        if not isinstance(na_value, str) or not is_text(na_value):
            raise SchemaError(f"na_value must be text, got {na_value!r}")
        self.field_delim = field_delim
        self.use_quote_delim: bool = bool(use_quote_delim)
        self.na_value = na_value
        self.select_cols: tuple[int, ...] | None = _check_positions(select_cols, len(self._columns))
        most = None if self.select_cols is None else self.select_cols[-1] + 1
        self._grammar = _compile_grammar(field_delim.encode(), most, quotes=self.use_quote_delim)
        self._fault = _QUOTE_FAULT if self.use_quote_delim else _BREAK_FAULT
        self._missing = (b"", na_value.encode())

    @property
    def columns(self) -> Mapping[str, FixedLenFeature]:
        """Specs of the columns, by name."""
        return MappingProxyType(self._columns)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schema):
            return NotImplemented
        return self._arguments() == other._arguments()

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # like other schemas

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={getattr(self, name)!r}" for name in _OPTIONS)
        return f"csv.Schema({braced(self._columns, repr)}, {options})"

    def _arguments(self) -> list[Any]:
        columns = list(self._columns.items())  # the order of columns matters
        return [columns, *(getattr(self, name) for name in _OPTIONS)]

    def names_of(self, name: str) -> list[str]:
        """Return the name of a column in a list; an empty list if it is unknown."""
        return [name] if name in self._columns else []

    def narrow(self, names: Sequence[str]) -> Schema:
        """Return a schema of some of the columns. Fields after the last of them are ignored."""
        positions = self.select_cols or range(len(self._columns))
        kept = {
            position: name
            for position, name in zip(positions, self._columns, strict=True)
            if name in names
        }
        options = {name: getattr(self, name) for name in _OPTIONS if name != "select_cols"}
        columns = {name: self._columns[name] for name in kept.values()}
        return Schema(columns, select_cols=list(kept), **options)

    # ---- parsing ----

    def line_parser(self) -> Any:
        """Return the parser of lines, as datasets use it."""
        from .parser import CsvParser  # noqa: PLC0415  # needs torch

        return CsvParser(self)

    def parse(self, lines: Sequence[bytes]) -> tuple[Columns, list[RecordFailure]]:
        """Parse lines, without those that are invalid.

        Args:
            lines: Lines without their line breaks.

        Returns:
            An array ``[n]`` or a list of n bytes for each column, where n is the number of valid
            lines; and a failure for each invalid line, in the order of the lines.
        """
        rows, faults = self._split(lines)
        numbers = list(rows)
        failures = {n: RecordFailure(n, None, None, reason) for n, reason in faults.items()}
        fields = zip(*rows.values(), strict=True) if rows else [()] * len(self._columns)
        made: Columns = {}
        bad: set[int] = set()  # positions in rows
        for (name, spec), texts in zip(self._columns.items(), fields, strict=True):
            made[name], wrong = self._convert(spec, [text.encode("latin-1") for text in texts])
            for row, reason in wrong.items():
                number = numbers[row]
                bad.add(row)
                failures.setdefault(number, RecordFailure(number, name, None, reason))
        if bad:
            keep = [row for row in range(len(rows)) if row not in bad]
            made = {name: _take(values, keep) for name, values in made.items()}
        return made, [failures[number] for number in sorted(failures)]

    def _split(self, lines: Sequence[bytes]) -> tuple[dict[int, Sequence[str]], Faults]:
        """Return the fields of valid lines as Latin-1, by line number, and the faults.

        The csv module splits the lines. It differs from TensorFlow only where a line contains
        quotes or line breaks, so ``_grammar`` checks these lines first.
        """
        texts: dict[int, str] = {}
        faults: Faults = {}
        for number, line in enumerate(lines):
            if b'"' in line or b"\r" in line or b"\n" in line:
                found = self._grammar.match(line)
                if found is None:
                    faults[number] = self._fault
                    continue
                line = found[0]  # noqa: PLW2901  # without the fields that are ignored
            texts[number] = line.decode("latin-1")
        _allow_field_size(max(map(len, texts.values()), default=0))
        rows: dict[int, Sequence[str]] = {}
        reader = csv.reader(
            texts.values(),
            delimiter=self.field_delim,
            quoting=csv.QUOTE_MINIMAL if self.use_quote_delim else csv.QUOTE_NONE,
            strict=True,
        )
        for number in texts:
            try:
                row = self._select(next(reader))
            except csv.Error as error:  # before Python 3.11, for a NUL
                row = f"the line is not valid CSV: {error}"
            if isinstance(row, str):
                faults[number] = row
            else:
                rows[number] = row
        return rows, faults

    def _select(self, fields: list[str]) -> Sequence[str] | str:
        """Return the fields of the columns, or the reason why the line lacks one of them."""
        if self.select_cols is not None:
            last = self.select_cols[-1]
            if len(fields) <= last:
                return (
                    f"the line has {counted(len(fields), 'field')}, but column {last} is selected"
                )
            return [fields[position] for position in self.select_cols]
        if len(fields) != len(self._columns):
            return f"the line has {counted(len(fields), 'field')}, expected {len(self._columns)}"
        return fields

    def _convert(
        self, spec: FixedLenFeature, texts: list[bytes]
    ) -> tuple[npt.NDArray[Any] | list[bytes], dict[int, str]]:
        """Return the values of a column, and the reasons for invalid rows by row."""
        default = None if spec.default_value is None else spec.default_value[0]
        absent: list[int] = []
        if any(missing in texts for missing in self._missing):
            absent = [row for row, text in enumerate(texts) if text in self._missing]
        wrong = dict.fromkeys(absent, _MISSING_FAULT) if default is None else {}
        if spec.dtype == "string":
            for row in absent:
                texts[row] = default or b""
            return texts, wrong
        for row in absent:
            texts[row] = b"0"
        parse = parse_integers if is_integer_dtype(spec.dtype) else parse_floats
        values, misfits = parse(texts, spec.dtype)
        if default is not None:
            values[absent] = default
        if spec.valid_range is not None:
            limits = Limits.of(spec.valid_range, spec.dtype)
            numbers = values.view(np.uint8) if spec.dtype == "bool" else values
            for row in limits.outside(numbers).tolist():
                misfits.setdefault(row, limits.reason(numbers[row]))
        if spec.normalize is not None:
            values = spec.normalize(values)
        return values, {**misfits, **wrong}


def _compile_grammar(delimiter: bytes, most: int | None, *, quotes: bool) -> re.Pattern[bytes]:
    """Return a pattern of lines that ``decode_csv`` accepts, or of their first ``most`` fields."""
    plain = rb'[^\r\n"%b]*' if quotes else rb"[^\r\n%b]*"
    field = plain % re.escape(delimiter)
    if quotes:
        field = rb'(?:"[^"]*(?:""[^"]*)*"|%b)' % field
    more = b"*" if most is None else b"{,%d}" % (most - 1)
    end = rb"\Z" if most is None else rb"(?=%b|\Z)" % re.escape(delimiter)
    return re.compile(rb"%b(?:%b%b)%b%b" % (field, re.escape(delimiter), field, more, end))


def _allow_field_size(size: int) -> None:
    """Raise the limit of the csv module, which by default rejects fields over 128 KiB."""
    if size > csv.field_size_limit():
        csv.field_size_limit(size)


def _take(values: npt.NDArray[Any] | list[bytes], rows: list[int]) -> Any:
    return [values[row] for row in rows] if isinstance(values, list) else values[rows]


def _check_column(name: Any, spec: Any) -> FixedLenFeature:
    """Validate one of ``columns``."""
    if not isinstance(name, str) or not is_text(name):
        raise SchemaError(f"the name of a column must be text, got {name!r}")
    with errors_of(name):
        feature = as_feature(spec)
    if not isinstance(feature, FixedLenFeature) or feature.shape != ():
        raise SchemaError(
            f"a CSV column must be a FixedLenFeature([], dtype), got {spec!r}", feature=name
        )
    if feature.bitcast:
        raise SchemaError("CSV fields are text, so bitcast is not supported", feature=name)
    if feature.key is not None:
        raise SchemaError("CSV fields have no names, so key is not supported", feature=name)
    dtype = feature.dtype
    if not is_integer_dtype(dtype) and dtype not in (*_FLOATS, "string"):
        raise SchemaError(
            "the dtype of a CSV column must be an integer dtype, 'float32', 'float64' or "
            f"'string', got {dtype!r}",
            feature=name,
        )
    return feature


def _is_delimiter(text: Any) -> bool:
    return isinstance(text, str) and len(text) == 1 and text.isascii() and text not in '"\r\n'


def _check_positions(given: Sequence[int] | None, count: int) -> tuple[int, ...] | None:
    """Validate the argument ``select_cols``."""
    if given is None:
        return None
    positions = tuple(given)
    are_ascending = all(is_integer(position) for position in positions) and all(
        before < after for before, after in zip((-1, *positions), positions, strict=False)
    )
    if not are_ascending or len(positions) != count:
        raise SchemaError(
            f"select_cols must be {count} ascending positions, one for each column, got {given!r}"
        )
    return tuple(int(position) for position in positions)
