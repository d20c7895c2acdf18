"""Row partitions, which divide the values of a RaggedFeature or a SequenceFeature into rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, ClassVar

from ..errors import SchemaError
from .checks import check_integer, check_key, set_fields
from .feature import Spec, spec_class
from .stored_keys import StoredCount, StoredKey


class Partition(Spec, is_abstract=True):
    """Base of row partitions.

    Attributes:
        key: The stored feature that has the numbers of the partition; None if there is none.
        has_number_per_row: Whether there is one stored number for each row.
    """

    key: Any = None
    has_number_per_row: ClassVar[bool] = False


@dataclass(frozen=True)
class _KeyPartition(Partition, is_abstract=True):
    """Base of partitions whose numbers are in a stored feature."""

    key: str

    def __post_init__(self) -> None:
        check_key("key of a partition", self.key)


@dataclass(frozen=True)
class RowSplits(_KeyPartition):
    """Start offset of each row, then the end offset of the last one; the first is 0."""


@dataclass(frozen=True)
class RowLengths(_KeyPartition):
    """Number of values of each row."""

    has_number_per_row = True


@dataclass(frozen=True)
class RowStarts(_KeyPartition):
    """Start offset of each row; the first is 0."""

    has_number_per_row = True


@dataclass(frozen=True)
class RowLimits(_KeyPartition):
    """End offset of each row; the last one is the number of values."""

    has_number_per_row = True


@dataclass(frozen=True)
class ValueRowIds(_KeyPartition):
    """Number of the row of each value."""


@dataclass(frozen=True)
class UniformRowLength(Partition):
    """Rows of one length."""

    length: int

    def __post_init__(self) -> None:
        set_fields(self, length=check_integer("length", self.length, 1))


@dataclass(frozen=True)
class UniformRowCount(Partition):
    """The same number of rows in each record, all of one length. TensorFlow does not have it."""

    rows: int

    def __post_init__(self) -> None:
        set_fields(self, rows=check_integer("rows", self.rows, 1))


def as_partitions(partitions: Any) -> tuple[Partition, ...]:
    """Return partitions as a tuple; partitions of TensorFlow are translated.

    Raises:
        SchemaError: If this is not a sequence of partitions.
    """
    if not isinstance(partitions, Iterable):
        raise SchemaError(f"partitions must be a sequence of partitions, got {partitions!r}")
    return tuple(map(_as_partition, partitions))


def _as_partition(partition: Any) -> Any:
    kind = spec_class(type(partition).__name__)
    if kind is None or not issubclass(kind, Partition):
        raise SchemaError(f"partitions must be partitions of RaggedFeature, got {partition!r}")
    if isinstance(partition, kind):
        return partition
    [argument] = signature(kind).parameters
    return kind(**{argument: getattr(partition, argument)})


def partition_keys(partitions: Sequence[Partition], splits_dtype: str) -> list[StoredKey]:
    """Return the stored features that partitions read."""
    keys = [partition.key for partition in partitions if partition.key is not None]
    return [StoredKey(key, "ragged", "int64", splits_dtype) for key in keys]


def uniform_shape(partitions: Sequence[Partition]) -> tuple[int, ...]:
    """Return the shape of the innermost rows, as far as partitions give them one length."""
    lengths: list[int] = []
    for partition in reversed(partitions):
        if not isinstance(partition, UniformRowLength):
            break
        lengths.insert(0, partition.length)
    return tuple(lengths)


def outer_row_count(values: StoredCount, partitions: Sequence[Partition]) -> StoredCount | None:
    """Return the stored values whose number gives the number of rows of the outermost partition.

    Args:
        values: The values that are divided, which are the rows if there is no partition.
        partitions: Partitions of the values, outermost first.

    Returns:
        The stored values to count; None if counting does not give the number of rows.
    """
    values_per_item = 1
    for partition in partitions:
        if partition.has_number_per_row:
            return StoredCount(partition.key, "int64", values_per_item)
        if not isinstance(partition, UniformRowLength):
            return None
        values_per_item *= partition.length
    return values._replace(values_per_item=values_per_item)
