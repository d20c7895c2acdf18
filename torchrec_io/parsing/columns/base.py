"""What makes a column of a feature: the base of all makers, and what they share."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ... import _core
from ...schema.dtypes import numeric_bytes
from ...schema.valid_range import Limits, as_numbers
from ..layout import Column, Numbers, Padding

if TYPE_CHECKING:
    from ..parser import LocatedBlock

Arena: TypeAlias = npt.NDArray[np.uint8]
Ints: TypeAlias = npt.NDArray[np.int64]

_TYPES = _core.ColumnType
FIXED, RAGGED, FLAT, PADDED = _TYPES.fixed, _TYPES.ragged, _TYPES.flat, _TYPES.padded
RAW, RESIZED, SPAN, ASIDE = (_TYPES.raw_bytes, _TYPES.resized_bytes, _TYPES.span, _TYPES.on_request)


class ColumnMaker:
    """Base of makers.

    Attributes:
        name: Of the column.
        specs: What the native parser is told; the first is the one that has the values.
        first: Position of the first one among those of all makers.
        dense: Dtype and shape of a record's value, if that is all there is to know: such columns
            are laid out together, before anything is located.
        padding: How the column is padded, if it is.
        limits: What values have to lie between; None if nothing is checked.
    """

    dense: tuple[str, tuple[int, ...]] | None = None
    padding: Padding | None = None
    limits: Limits | None = None

    def __init__(self, name: str, specs: list[_core.FeatureSpec]) -> None:
        self.name = name
        self.specs = specs
        self.first = 0

    def lay_out(self, batch: LocatedBlock) -> list[Column]:
        """Reserves room; calls ``batch.fail`` for records that cannot be parsed."""
        raise NotImplementedError

    def finish(self, batch: LocatedBlock, arena: Arena) -> None:
        """Does what is left after the native parser has filled the arena."""

    def held(self, batch: LocatedBlock, arena: Arena) -> Held:
        """The values that the records of a finished column have, without padding."""
        raise NotImplementedError

    def check_range(self, batch: LocatedBlock, arena: Arena) -> None:
        """Calls ``batch.fail`` for records of a finished column with values out of range."""
        assert self.limits is not None
        dtype, values, starts = self.held(batch, arena)
        values = as_numbers(values.reshape(-1), dtype)
        places = self.limits.outside(values)
        records, firsts = np.unique(np.searchsorted(starts, places, "right"), return_index=True)
        for record, place in zip(records.tolist(), places[firsts].tolist(), strict=True):
            batch.fail(record - 1, self.first, self.limits.reason(values[place]))


class Held(NamedTuple):
    """Values of some records, one behind the other: a dtype, them, and where each record starts."""

    dtype: str
    values: npt.NDArray[Any]
    starts: Ints  # [records] or one more

    @classmethod
    def of_dense(
        cls, batch: LocatedBlock, arena: Arena, position: int, dense: tuple[str, tuple[int, ...]]
    ) -> Held:
        """Those of a dense column of a native spec."""
        dtype, shape = dense
        numbers = Numbers(dtype, (len(batch), *shape), batch.data_at(position))
        return cls(dtype, view_of(arena, numbers), np.arange(len(batch)) * math.prod(shape))

    @classmethod
    def of_rows(cls, batch: LocatedBlock, arena: Arena, position: int) -> Held:
        """Those of a column that has all values of a native spec, and no others."""
        numbers = batch.placed(position)
        assert isinstance(numbers, Numbers)  # as of all specs with a range
        offsets, units = batch.counts(position)
        return cls(numbers.dtype, view_of(arena, numbers), offsets[units])


def native_spec(
    key: str,
    dtype: str,
    column_type: _core.ColumnType,
    *,
    count: int = 0,
    in_lists: bool = False,
    optional: bool = False,
    narrow_splits: bool = False,
    default: tuple[Any, ...] | None = None,
    bitcast: bool = False,
) -> _core.FeatureSpec:
    """A spec for the native parser; ``bitcast``: uint64 that is stored by its bits, as int64."""
    data, sizes = b"", []
    if default is not None:
        is_text = dtype == "string"
        data = b"".join(default) if is_text else numeric_bytes(default, dtype)
        sizes = [len(value) for value in default] if is_text else []
    return _core.FeatureSpec(
        key.encode(),
        _core.Dtype["int64" if bitcast else dtype],
        column_type,
        count=count,
        in_lists=in_lists,
        is_optional=optional,
        int32_splits=narrow_splits,
        default_data=data,
        default_sizes=sizes,
    )


def view_of(arena: Arena, numbers: Numbers) -> npt.NDArray[Any]:
    """A numeric array in the arena; bfloat16, which NumPy lacks, as its bits."""
    return flat_view_of(arena, numbers).reshape(numbers.shape)


def flat_view_of(arena: Arena, numbers: Numbers) -> npt.NDArray[Any]:
    """As :func:`view_of`, in one dimension."""
    count = math.prod(numbers.shape)
    return np.frombuffer(arena, _numpy_dtype(numbers.dtype), count, numbers.at)


@functools.cache
def _numpy_dtype(dtype: str) -> np.dtype[Any]:
    return np.dtype("uint16" if dtype == "bfloat16" else dtype)
