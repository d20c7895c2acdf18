"""Feature specs: what to read from each record, named and shaped as TensorFlow's.

Specs and their rules are those of ``tf.io.parse_example`` and ``tf.io.parse_sequence_example``
(TensorFlow 2.21).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from ..errors import SchemaError
from .checks import Shape, check_default, check_key, check_names, check_shape, is_whole
from .checks import set_fields as _set
from .dtypes import DType, dtype_name
from .valid_range import Range, check_range


class Feature:
    """Base of all feature specs: what to read from each record, and into which column."""

    @property
    def is_slow(self) -> bool:
        """Whether values are decoded outside of the native parser, one by one."""
        return False


def _checked_bitcast(bitcast: bool, spec: Any) -> bool:
    if bitcast and spec.dtype != "uint64":
        raise SchemaError(f"bitcast is for the dtype 'uint64', not {spec.dtype!r}")
    return bool(bitcast)


@dataclass(frozen=True)
class FixedLenFeature(Feature):
    """A feature with the same number of values in every record (``tf.io.FixedLenFeature``).

    Gives a Tensor ``[B, *shape]``, or for "string" a :class:`BytesArray` of that shape.

    Args:
        shape: Of one record's values; an int or a sequence. ``[]`` is one value.
        dtype: Of the column; stored values are cast to it and must fit.
        default_value: For records that lack the feature: as many values as ``shape`` holds, in any
            shape. An empty list of values is not a missing feature. Without a default (and with an
            empty one, as in TensorFlow) the feature is required.
        valid_range: ``(low, high)`` that every value must lie in, both ends included; None in place
            of one of them: no bound on that side. nan lies in no range. Values are compared as the
            column holds them, with bounds rounded to its dtype. By default nothing is checked.
        names: Of the classes that the values number, from 0 on: different texts, for integers. For
            whoever uses the schema: values are not compared with them.
        bitcast: Only for "uint64": the 64 bits as they are stored, so that a stored -1 is 2**64 - 1
            (TensorFlow Datasets stores uint64 this way). Otherwise stored values are the numbers
            meant, and negative ones do not fit.

    Raises:
        SchemaError: the dtype does not exist, the default has another size, does not fit or is not
            valid, valid_range is none of the dtype, or names or bitcast are not for it.
    """

    shape: tuple[int, ...]
    dtype: str
    default_value: Any = None
    valid_range: Range = None
    names: tuple[str, ...] | None = field(default=None, repr=False)  # there may be thousands
    bitcast: bool = False

    def __init__(
        self,
        shape: Shape,
        dtype: DType,
        default_value: Any = None,
        *,
        valid_range: Range = None,
        names: Sequence[str] | None = None,
        bitcast: bool = False,
    ) -> None:
        _set(self, shape=check_shape(shape), dtype=dtype_name(dtype))
        default = None
        if default_value is not None:
            default = check_default(default_value, self.dtype, self.shape)
        _set(self, default_value=default)
        _set(self, valid_range=check_range(valid_range, self.dtype, default))
        _set(self, names=check_names(names, self.dtype), bitcast=_checked_bitcast(bitcast, self))

    @property
    def count(self) -> int:
        """Values in one record."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class VarLenFeature(Feature):
    """A feature with any number of values in a record, none included (``tf.io.VarLenFeature``).

    Gives a :class:`Ragged` of the records' values; in feature lists a Ragged of steps, each with
    its values. A missing feature is an empty one.

    Args:
        dtype: Of the values; stored values are cast to it and must fit.
        valid_range: As of :class:`FixedLenFeature`.
        names: As of :class:`FixedLenFeature`.
        bitcast: As of :class:`FixedLenFeature`.

    Raises:
        SchemaError: the dtype does not exist, or valid_range, names or bitcast are not for it.
    """

    dtype: str
    valid_range: Range = None
    names: tuple[str, ...] | None = field(default=None, repr=False)
    bitcast: bool = False

    def __init__(
        self,
        dtype: DType,
        *,
        valid_range: Range = None,
        names: Sequence[str] | None = None,
        bitcast: bool = False,
    ) -> None:
        _set(self, dtype=dtype_name(dtype))
        _set(self, valid_range=check_range(valid_range, self.dtype))
        _set(self, names=check_names(names, self.dtype), bitcast=_checked_bitcast(bitcast, self))


@dataclass(frozen=True)
class FixedLenSequenceFeature(Feature):
    """Any number of equal parts, padded to the most (``tf.io.FixedLenSequenceFeature``).

    Gives a Tensor ``[B, T, *shape]``, T being the greatest number of parts in the batch, or for
    "string" a :class:`BytesArray` of that shape; ``batch.lengths[name]`` has each record's own
    number. In feature lists a part is a step; elsewhere the values of a record are its parts one
    behind the other. A single record is not padded: ``[T, *shape]``.

    Args:
        shape: Of one part; an int or a sequence without zeros.
        dtype: Of the column; stored values are cast to it and must fit.
        allow_missing: Whether a record may lack the feature, which then has no parts. Outside of
            feature lists it must be True, as in TensorFlow.
        default_value: What to pad with; one value. By default 0 or ``b""``; feature lists take no
            other.
        valid_range: As of :class:`FixedLenFeature`; padding is not checked.
        names: As of :class:`FixedLenFeature`.

    Raises:
        SchemaError: the shape holds no value, the dtype does not exist, the default does not fit,
            or valid_range or names are not for the dtype.
    """

    shape: tuple[int, ...]
    dtype: str
    allow_missing: bool = False
    default_value: Any = None
    valid_range: Range = None
    names: tuple[str, ...] | None = field(default=None, repr=False)

    def __init__(
        self,
        shape: Shape,
        dtype: DType,
        allow_missing: bool = False,
        default_value: Any = None,
        *,
        valid_range: Range = None,
        names: Sequence[str] | None = None,
    ) -> None:
        _set(self, shape=check_shape(shape), dtype=dtype_name(dtype))
        if 0 in self.shape:
            raise SchemaError(f"a part of the shape {list(self.shape)} holds no value")
        default = None if default_value is None else check_default(default_value, self.dtype, ())
        _set(self, allow_missing=bool(allow_missing), default_value=default)
        _set(self, valid_range=check_range(valid_range, self.dtype))
        _set(self, names=check_names(names, self.dtype))

    @property
    def count(self) -> int:
        """Values in one part."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class SparseFeature(Feature):
    """Values and their places, stored as features of their own (``tf.io.SparseFeature``).

    Gives a :class:`Sparse` of shape ``[B, *size]``, its entries in the order of their indices,
    equal ones in the order stored.

    Args:
        index_key: The feature that holds each value's index, or one for each dimension.
        value_key: The feature that holds the values.
        dtype: Of the values; stored values are cast to it and must fit.
        size: Of the dimension, or of each. Indices must lie within (TensorFlow does not look).
        already_sorted: Leave entries in the order stored.
        valid_range: As of :class:`FixedLenFeature`, for the values.

    Raises:
        SchemaError: a key is empty, index_key and size are not of one length, or valid_range is
            none of the dtype.
    """

    index_key: tuple[str, ...]
    value_key: str
    dtype: str
    size: tuple[int, ...]
    already_sorted: bool = False
    valid_range: Range = None

    def __init__(
        self,
        index_key: str | Sequence[str],
        value_key: str,
        dtype: DType,
        size: Shape,
        already_sorted: bool = False,
        *,
        valid_range: Range = None,
    ) -> None:
        is_one = isinstance(index_key, str) or not isinstance(index_key, Iterable)
        keys = (index_key,) if is_one else tuple(index_key)
        _set(self, index_key=keys, value_key=value_key, dtype=dtype_name(dtype))
        _set(self, size=check_shape(size), already_sorted=bool(already_sorted))
        _set(self, valid_range=check_range(valid_range, self.dtype))
        for key in (*keys, value_key):
            check_key(key, "index_key and value_key")
        if not keys or len(keys) != len(self.size):
            raise SchemaError(
                f"index_key names {len(keys)} features, size has {len(self.size)} dimensions"
            )


class _KeyPartition:
    """Base of partitions that are stored in a feature; ``key`` names it."""

    key: str

    def __post_init__(self) -> None:
        check_key(self.key, "the key of a partition")


@dataclass(frozen=True)
class RowSplits(_KeyPartition):
    """Where each row starts, then where the last one ends; the first is 0."""

    key: str


@dataclass(frozen=True)
class RowLengths(_KeyPartition):
    """How many values each row has."""

    key: str


@dataclass(frozen=True)
class RowStarts(_KeyPartition):
    """Where each row starts; the first is 0."""

    key: str


@dataclass(frozen=True)
class RowLimits(_KeyPartition):
    """Where each row ends; the last is the number of values."""

    key: str


@dataclass(frozen=True)
class ValueRowIds(_KeyPartition):
    """Which row each value is in."""

    key: str


@dataclass(frozen=True)
class UniformRowLength:
    """Rows of one length."""

    length: int

    def __post_init__(self) -> None:
        if not is_whole(self.length) or self.length < 1:
            raise SchemaError(f"length must be a whole number of at least 1, not {self.length!r}")
        _set(self, length=int(self.length))


@dataclass(frozen=True)
class UniformRowCount:
    """So many rows in each record, of one length, whatever that is. TensorFlow has none."""

    rows: int

    def __post_init__(self) -> None:
        if not is_whole(self.rows) or self.rows < 1:
            raise SchemaError(f"rows must be a whole number of at least 1, not {self.rows!r}")
        _set(self, rows=int(self.rows))


UNIFORM = (UniformRowLength, UniformRowCount)  # what no feature is stored for
KEYED = (RowSplits, RowLengths, RowStarts, RowLimits, ValueRowIds)
Partition: TypeAlias = (
    RowSplits
    | RowLengths
    | RowStarts
    | RowLimits
    | ValueRowIds
    | UniformRowLength
    | UniformRowCount
)
PARTITIONS: dict[str, Any] = {partition.__name__: partition for partition in (*KEYED, *UNIFORM)}


@dataclass(frozen=True)
class RaggedFeature(Feature):
    """Any number of values, in rows that other features tell (``tf.io.RaggedFeature``).

    Gives a :class:`Ragged`: records, then the rows of each partition, then the values. In feature
    lists the steps come after the records, and every step has its own partitions.

    How rows tally with values is checked in each record (TensorFlow adds up the batch at best).

    Args:
        dtype: Of the values; stored values are cast to it and must fit.
        value_key: The feature that holds the values; by default the one of this spec's own name.
        partitions: ``RaggedFeature.RowSplits(key)``, ``RowLengths(key)``, ``RowStarts(key)``,
            ``RowLimits(key)``, ``ValueRowIds(key)`` or ``UniformRowLength(length)``; outermost
            first. ``UniformRowCount(rows)`` is our own: as many rows in each record, all as long.
        row_splits_dtype: Of the offsets: "int32" or "int64".
        validate: Also check that rows neither overlap nor run backwards.
        valid_range: As of :class:`FixedLenFeature`, for the values.
        names: As of :class:`FixedLenFeature`.
        bitcast: As of :class:`FixedLenFeature`.

    Raises:
        SchemaError: an argument is not one of the above.
    """

    RowSplits: ClassVar = RowSplits
    RowLengths: ClassVar = RowLengths
    RowStarts: ClassVar = RowStarts
    RowLimits: ClassVar = RowLimits
    ValueRowIds: ClassVar = ValueRowIds
    UniformRowLength: ClassVar = UniformRowLength
    UniformRowCount: ClassVar = UniformRowCount

    dtype: str
    value_key: str | None = None
    partitions: tuple[Partition, ...] = ()
    row_splits_dtype: str = "int32"
    validate: bool = False
    valid_range: Range = None
    names: tuple[str, ...] | None = field(default=None, repr=False)
    bitcast: bool = False

    def __init__(
        self,
        dtype: DType,
        value_key: str | None = None,
        partitions: Sequence[Any] = (),
        row_splits_dtype: DType = "int32",
        validate: bool = False,
        *,
        valid_range: Range = None,
        names: Sequence[str] | None = None,
        bitcast: bool = False,
    ) -> None:
        _set(self, dtype=dtype_name(dtype), value_key=value_key, validate=bool(validate))
        _set(self, partitions=as_partitions(partitions))
        _set(self, row_splits_dtype=dtype_name(row_splits_dtype, ("int32", "int64")))
        _set(self, valid_range=check_range(valid_range, self.dtype))
        _set(self, names=check_names(names, self.dtype), bitcast=_checked_bitcast(bitcast, self))
        if value_key is not None:
            check_key(value_key, "value_key")


def as_feature(spec: Any) -> Feature:
    """A spec of this module; one of ``tf.io`` is translated, by its class's name and fields.

    Raises:
        SchemaError: it is neither, or TensorFlow would refuse it.
    """
    if isinstance(spec, Feature):
        return spec
    fields = _TF_FIELDS.get(type(spec).__name__)
    if fields is None or not all(hasattr(spec, name) for name in fields):
        raise SchemaError(f"no feature spec: {spec!r}")
    made: Feature = _TF_CLASSES[type(spec).__name__](
        **{name: getattr(spec, name) for name in fields}
    )
    return made


_TF_CLASSES: Mapping[str, Any] = {
    feature.__name__: feature
    for feature in (
        FixedLenFeature,
        VarLenFeature,
        FixedLenSequenceFeature,
        SparseFeature,
        RaggedFeature,
    )
}
_NOT_OF_TF = ("valid_range", "names", "bitcast")
_TF_FIELDS = {
    name: tuple(each.name for each in dataclasses.fields(made) if each.name not in _NOT_OF_TF)
    for name, made in _TF_CLASSES.items()
}


def as_partitions(partitions: Any) -> tuple[Partition, ...]:
    """Partitions of this module; those of TensorFlow are translated.

    Raises:
        SchemaError: one is neither, or this is no sequence.
    """
    if not isinstance(partitions, Iterable):
        raise SchemaError(f"partitions must be a sequence of them, not {partitions!r}")
    return tuple(map(_as_partition, partitions))


def _as_partition(partition: Any) -> Any:
    made = PARTITIONS.get(type(partition).__name__)
    if made is None:
        raise SchemaError(f"no partition of a RaggedFeature: {partition!r}")
    if isinstance(partition, made):
        return partition
    return made(partition.length if made is UniformRowLength else partition.key)


def keys_of(partitions: Sequence[Partition]) -> list[str]:
    """The features that partitions are stored in."""
    return [part.key for part in partitions if not isinstance(part, UNIFORM)]
