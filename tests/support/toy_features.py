"""Spec classes of custom feature kinds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torchrec_io._schema.checks import check_integer, set_fields
from torchrec_io._schema.dtypes import dtype_name
from torchrec_io._schema.feature import Feature
from torchrec_io._schema.stored_keys import StoredKey
from torchrec_io._schema.valid_range import Range, check_range


@dataclass(frozen=True)
class DigitsFeature(Feature):
    """Numbers stored as text, such as ``b"1.5 2"``.

    Args:
        count: Number of values in every record. Default: any number.
        dtype: Float dtype of the column.
        valid_range: Range of valid values.
    """

    column = "torchrec_io._parsing.columns.decoded:build_decoded"
    element_decoder = "tests.support.toy_columns:DigitsDecoder"
    places = frozenset({"example", "context", "element"})
    is_slow = True

    count: int | None = None
    dtype: Any = "float32"
    valid_range: Range = None

    def __post_init__(self) -> None:
        count = None if self.count is None else check_integer("count", self.count)
        set_fields(self, count=count, dtype=dtype_name(self.dtype, ("float32", "float64")))
        set_fields(self, valid_range=check_range(self.valid_range, self.dtype))

    @property
    def known_shape(self) -> tuple[int, ...] | None:
        return None if self.count is None else (self.count,)


@dataclass(frozen=True)
class OneHotFeature(Feature):
    """A class number as a vector of zeros with a single one.

    Args:
        classes: Number of classes.
        key: Name of the stored feature with the class number; by default this feature's own name.
    """

    column = "tests.support.toy_columns:OneHotBuilder"
    dtype = "uint8"

    classes: int
    key: str | None = None

    @property
    def known_shape(self) -> tuple[int, ...]:
        return (self.classes,)

    def stored_keys(self, name: str) -> list[StoredKey]:
        return [StoredKey(self.key or name, "dense", "int64", is_required=True)]
