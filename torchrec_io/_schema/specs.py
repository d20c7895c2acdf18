"""Specs of the features of ``tf.io.parse_example`` and ``tf.io.parse_sequence_example``.

Names, arguments and rules are those of TensorFlow 2.21.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, ClassVar

from ..errors import SchemaError
from .checks import (
    Shape,
    check_default,
    check_key,
    check_names,
    check_own_key,
    check_shape,
    set_fields,
)
from .dtypes import (
    DType,
    DTypeName,
    OffsetDType,
    OffsetDTypeName,
    dtype_name,
    stored_dtype,
)
from .feature import Feature, Place, spec_class
from .normalize import Normalize, check_normalize
from .row_partitions import (
    RowLengths,
    RowLimits,
    RowSplits,
    RowStarts,
    UniformRowCount,
    UniformRowLength,
    ValueRowIds,
    as_partitions,
    outer_row_count,
    partition_keys,
    uniform_shape,
)
from .stored_keys import StoredCount, StoredKey
from .valid_range import Range, check_default_range, check_range


def _set_options(
    spec: Any,
    valid_range: Range,
    names: Sequence[str] | None,
    key: str | None = None,
    *,
    bitcast: bool | None = None,
    normalize: Normalize | None,
    shape: tuple[int, ...] = (),
) -> None:
    """Check and set the options that TensorFlow's specs do not have; ``shape`` is of an item."""
    set_fields(spec, normalize=check_normalize(normalize, spec.dtype, shape))
    if bitcast and spec.dtype != "uint64":
        raise SchemaError(f"bitcast needs the dtype 'uint64', got {spec.dtype!r}")
    if bitcast is not None:
        set_fields(spec, bitcast=bool(bitcast))
    set_fields(spec, valid_range=check_range(valid_range, spec.dtype))
    set_fields(spec, names=check_names(names, spec.dtype), key=check_own_key(key))


@dataclass(frozen=True)
class FixedLenFeature(Feature):
    """A feature with the same number of values in every record (``tf.io.FixedLenFeature``).

    The column is a Tensor ``[B, *shape]``, or for "string" a :class:`BytesArray` of that shape.

    Args:
        shape: Shape of one record's values; an int or a sequence of ints. ``[]`` is one value.
        dtype: Dtype of the column. Stored values are cast to it and must fit.
        default_value: Value for records without the feature: as many values as ``shape`` holds, in
            any shape. An empty list of values is not a missing feature. Without a default, or with
            an empty one, the feature is required, as in TensorFlow.
        valid_range: Range ``(low, high)`` that every value must be in, bounds included; None in
            place of a bound means no bound. NaN is in no range. Values are compared as the column
            holds them, with the bounds rounded to its dtype. By default values are not checked.
        names: Names of classes, for features whose values are class numbers from 0: different
            str, for an integer dtype. They are for users of the schema; values are not checked
            against them.
        bitcast: Whether values are the stored 64 bits, for "uint64" only: a stored -1 is
            2**64 - 1. TensorFlow Datasets stores uint64 in this way. By default stored values are
            numbers, and negative ones do not fit.
        key: Name of the stored feature; by default this feature's own name.
        normalize: A :class:`Normalize` of the values, for "float32" and "float64". It applies last:
            ``valid_range`` is about the stored values, and a default is normalized, too. Samples
            with normalized values cannot be encoded.

    Raises:
        SchemaError: If the dtype does not exist; the default has another size, does not fit or is
            not valid; valid_range, names, bitcast or normalize are not possible for the dtype or
            shape; or key is not a name.
    """

    column = "torchrec_io._parsing.columns.plain:FixedBuilder"
    places: ClassVar[frozenset[Place]] = frozenset({"example", "context", "ranked"})
    has_tf_class = True

    shape: tuple[int, ...]
    dtype: DTypeName
    default_value: Any = None
    valid_range: Range = None
    names: tuple[str, ...] | None = None
    bitcast: bool = False
    key: str | None = None
    normalize: Normalize | None = None

    def __init__(
        self,
        shape: Shape,
        dtype: DType,
        default_value: Any = None,
        *,
        valid_range: Range = None,
        names: Sequence[str] | None = None,
        bitcast: bool = False,
        key: str | None = None,
        normalize: Normalize | None = None,
    ) -> None:
        set_fields(self, shape=check_shape(shape), dtype=dtype_name(dtype))
        default = check_default(default_value, self.dtype, self.shape)
        set_fields(self, default_value=default)
        _set_options(
            self, valid_range, names, key, bitcast=bitcast, normalize=normalize, shape=self.shape
        )
        check_default_range(default, self.dtype, self.valid_range)

    @property
    def count(self) -> int:
        """Number of values of one record."""
        return math.prod(self.shape)

    @property
    def known_shape(self) -> tuple[int, ...] | None:
        return self.shape

    @property
    def has_steps(self) -> bool:
        return len(self.shape) > 0

    @property
    def is_written_as_is(self) -> bool:
        return not self.bitcast and self.normalize is None

    def stored_keys(self, name: str) -> list[StoredKey]:
        is_required = self.default_value is None
        return [
            StoredKey(self.key or name, "dense", stored_dtype(self.dtype), is_required=is_required)
        ]

    def step_count(self, name: str) -> StoredCount | None:
        values_per_step = math.prod(self.shape[1:])
        if self.default_value is not None or values_per_step == 0:
            return None  # the values of a default are not stored
        return StoredCount(self.key or name, self.dtype, values_per_step)

    def as_stored(self, name: str) -> Feature:
        del name
        return dataclasses.replace(self, normalize=None)


@dataclass(frozen=True)
class VarLenFeature(Feature):
    """A feature with any number of values in a record, also 0 (``tf.io.VarLenFeature``).

    The column is a :class:`Ragged` of the records' values; in feature lists it is a Ragged of
    steps, each with its values. A missing feature has no values.

    Args:
        dtype: Dtype of the values. Stored values are cast to it and must fit.
        valid_range: Range ``(low, high)`` of valid values, as for :class:`FixedLenFeature`.
        names: Names of classes, as for :class:`FixedLenFeature`.
        bitcast: Whether values are the stored 64 bits, as for :class:`FixedLenFeature`.
        key: Name of the stored feature; by default this feature's own name.
        normalize: A :class:`Normalize` of single values, as for :class:`FixedLenFeature`.

    Raises:
        SchemaError: If the dtype does not exist, valid_range, names, bitcast or normalize are not
            possible for it, or key is not a name.
    """

    column = "torchrec_io._parsing.columns.plain:RaggedBuilder"
    places: ClassVar[frozenset[Place]] = frozenset({"example", "context", "sequence", "ranked"})
    has_tf_class = True
    has_steps = True

    dtype: DTypeName
    valid_range: Range = None
    names: tuple[str, ...] | None = None
    bitcast: bool = False
    key: str | None = None
    normalize: Normalize | None = None

    def __init__(
        self,
        dtype: DType,
        *,
        valid_range: Range = None,
        names: Sequence[str] | None = None,
        bitcast: bool = False,
        key: str | None = None,
        normalize: Normalize | None = None,
    ) -> None:
        set_fields(self, dtype=dtype_name(dtype))
        _set_options(self, valid_range, names, key, bitcast=bitcast, normalize=normalize)

    @property
    def is_written_as_is(self) -> bool:
        return not self.bitcast and self.normalize is None

    def stored_keys(self, name: str) -> list[StoredKey]:
        return [StoredKey(self.key or name, "sparse", stored_dtype(self.dtype))]

    def length_count(self, name: str) -> StoredCount | None:
        return StoredCount(self.key or name, self.dtype)

    def as_stored(self, name: str) -> Feature:
        del name
        return dataclasses.replace(self, normalize=None)


@dataclass(frozen=True)
class FixedLenSequenceFeature(Feature):
    """Any number of items of one shape, padded to the longest (``tf.io.FixedLenSequenceFeature``).

    The column is a Tensor ``[B, T, *shape]``, where T is the largest number of items in the batch,
    or for "string" a :class:`BytesArray` of that shape. ``batch.lengths[name]`` has the number of
    items of each record. In feature lists an item is a step; elsewhere the values of a record are
    its items, one after another. A single record is not padded: ``[T, *shape]``.

    Args:
        shape: Shape of one item; an int or a sequence of ints without zeros.
        dtype: Dtype of the column. Stored values are cast to it and must fit.
        allow_missing: Whether a record may lack the feature; it then has no items. Outside of
            feature lists this must be True, as in TensorFlow.
        default_value: Padding value; one value. By default it is 0 or ``b""``, which is the only
            padding of feature lists.
        valid_range: Range ``(low, high)`` of valid values, as for :class:`FixedLenFeature`. The
            padding is not checked.
        names: Names of classes, as for :class:`FixedLenFeature`.
        key: Name of the stored feature; by default this feature's own name.
        normalize: A :class:`Normalize` of the items, as for :class:`FixedLenFeature`. The padding
            is not normalized.

    Raises:
        SchemaError: If the shape holds no value, the dtype does not exist, the default does not
            fit, valid_range, names or normalize are not possible for the dtype or shape, or key is
            not a name.
    """

    column = "torchrec_io._parsing.columns.plain:PaddedBuilder"
    places: ClassVar[frozenset[Place]] = frozenset({"example", "sequence"})
    has_tf_class = True
    has_steps = True

    shape: tuple[int, ...]
    dtype: DTypeName
    allow_missing: bool = False
    default_value: Any = None
    valid_range: Range = None
    names: tuple[str, ...] | None = None
    key: str | None = None
    normalize: Normalize | None = None

    def __init__(
        self,
        shape: Shape,
        dtype: DType,
        allow_missing: bool = False,
        default_value: Any = None,
        *,
        valid_range: Range = None,
        names: Sequence[str] | None = None,
        key: str | None = None,
        normalize: Normalize | None = None,
    ) -> None:
        set_fields(self, shape=check_shape(shape), dtype=dtype_name(dtype))
        if 0 in self.shape:
            raise SchemaError(f"shape must hold at least one value, got {list(self.shape)}")
        set_fields(self, allow_missing=bool(allow_missing))
        set_fields(self, default_value=check_default(default_value, self.dtype, ()))
        _set_options(self, valid_range, names, key, normalize=normalize, shape=self.shape)

    @property
    def count(self) -> int:
        """Number of values of one item."""
        return math.prod(self.shape)

    @property
    def is_written_as_is(self) -> bool:
        return self.normalize is None

    def check_place(self, place: Place) -> None:
        super().check_place(place)
        if place == "example" and not self.allow_missing:
            raise SchemaError("a FixedLenSequenceFeature of an Example needs allow_missing=True")
        if place == "sequence" and self.default_value is not None:
            raise SchemaError(
                "a FixedLenSequenceFeature of a feature list takes no default_value: its padding "
                "is 0 or b''"
            )

    def stored_keys(self, name: str) -> list[StoredKey]:
        is_required = not self.allow_missing
        return [
            StoredKey(self.key or name, "dense", stored_dtype(self.dtype), is_required=is_required)
        ]

    def length_count(self, name: str) -> StoredCount | None:
        return StoredCount(self.key or name, self.dtype, self.count)

    def as_stored(self, name: str) -> Feature:
        del name
        return VarLenFeature(self.dtype, key=self.key)


@dataclass(frozen=True)
class SparseFeature(Feature):
    """Values and their indices, each stored as a feature of its own (``tf.io.SparseFeature``).

    The column is a :class:`Sparse` of shape ``[B, *size]``. Its entries are in the order of their
    indices; entries with equal indices are in the order stored.

    Args:
        index_key: Name of the feature with the index of each value, or one name a dimension.
        value_key: Name of the feature with the values.
        dtype: Dtype of the values. Stored values are cast to it and must fit.
        size: Size of the dimension, or of each. Indices must be smaller, which TensorFlow does not
            check.
        already_sorted: Whether to keep the entries in the order stored.
        valid_range: Range ``(low, high)`` of valid values, as for :class:`FixedLenFeature`.

    Raises:
        SchemaError: If a key is empty, index_key and size do not have the same length, or
            valid_range is not possible for the dtype.
    """

    column = "torchrec_io._parsing.columns.plain:SparseBuilder"
    places: ClassVar[frozenset[Place]] = frozenset({"example"})
    has_tf_class = True

    index_key: tuple[str, ...]
    value_key: str
    dtype: DTypeName
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
        for key in keys:
            check_key("index_key", key)
        check_key("value_key", value_key)
        set_fields(self, index_key=keys, value_key=value_key, dtype=dtype_name(dtype))
        set_fields(self, size=check_shape(size, "size"), already_sorted=bool(already_sorted))
        set_fields(self, valid_range=check_range(valid_range, self.dtype))
        if not keys or len(keys) != len(self.size):
            raise SchemaError(
                "index_key must name one feature for each dimension of size, got "
                f"{list(keys)} for {list(self.size)}"
            )

    def stored_keys(self, name: str) -> list[StoredKey]:
        del name
        return [
            StoredKey(self.value_key, "sparse", stored_dtype(self.dtype)),
            *(StoredKey(key, "sparse", "int64") for key in self.index_key),
        ]


@dataclass(frozen=True)
class RaggedFeature(Feature):
    """Any number of values, divided into rows by other features (``tf.io.RaggedFeature``).

    The column is a :class:`Ragged`: records, then the rows of each partition, then the values. In
    feature lists the steps come after the records, and every step has its own partitions.

    Rows and values must agree in each record. TensorFlow checks at most the totals of the batch.

    Args:
        dtype: Dtype of the values. Stored values are cast to it and must fit.
        value_key: Name of the feature with the values; by default this feature's own name.
        partitions: Partitions of the values, outermost first: ``RaggedFeature.RowSplits(key)``,
            ``RowLengths(key)``, ``RowStarts(key)``, ``RowLimits(key)``, ``ValueRowIds(key)``,
            ``UniformRowLength(length)``, or ``UniformRowCount(rows)``, which TensorFlow lacks: the
            same number of rows in each record, all of one length.
        row_splits_dtype: Dtype of the offsets: "int32" or "int64".
        validate: Whether to check that rows do not overlap and are in order.
        valid_range: Range ``(low, high)`` of valid values, as for :class:`FixedLenFeature`.
        names: Names of classes, as for :class:`FixedLenFeature`.
        bitcast: Whether values are the stored 64 bits, as for :class:`FixedLenFeature`.
        normalize: A :class:`Normalize` of the values, or of the innermost rows if these are of a
            ``UniformRowLength``; as for :class:`FixedLenFeature`.

    Raises:
        SchemaError: If an argument is not one of the above.
    """

    column = "torchrec_io._parsing.columns.plain:build_ragged"
    places: ClassVar[frozenset[Place]] = frozenset({"example", "context", "sequence", "ranked"})
    has_tf_class = True
    has_steps = True

    RowSplits: ClassVar[type[RowSplits]] = RowSplits
    RowLengths: ClassVar[type[RowLengths]] = RowLengths
    RowStarts: ClassVar[type[RowStarts]] = RowStarts
    RowLimits: ClassVar[type[RowLimits]] = RowLimits
    ValueRowIds: ClassVar[type[ValueRowIds]] = ValueRowIds
    UniformRowLength: ClassVar[type[UniformRowLength]] = UniformRowLength
    UniformRowCount: ClassVar[type[UniformRowCount]] = UniformRowCount

    dtype: DTypeName
    value_key: str | None = None
    partitions: Sequence[Any] = ()
    row_splits_dtype: OffsetDTypeName = "int32"
    validate: bool = False
    valid_range: Range = None
    names: tuple[str, ...] | None = None
    bitcast: bool = False
    normalize: Normalize | None = None

    def __init__(
        self,
        dtype: DType,
        value_key: str | None = None,
        partitions: Sequence[Any] = (),
        row_splits_dtype: OffsetDType = "int32",
        validate: bool = False,
        *,
        valid_range: Range = None,
        names: Sequence[str] | None = None,
        bitcast: bool = False,
        normalize: Normalize | None = None,
    ) -> None:
        if value_key is not None:
            check_key("value_key", value_key)
        set_fields(self, dtype=dtype_name(dtype), value_key=value_key, validate=bool(validate))
        set_fields(self, partitions=as_partitions(partitions))
        set_fields(self, row_splits_dtype=dtype_name(row_splits_dtype, ("int32", "int64")))
        shape = uniform_shape(self.partitions)
        _set_options(self, valid_range, names, bitcast=bitcast, normalize=normalize, shape=shape)

    @property
    def is_written_as_is(self) -> bool:
        return not (self.partitions or self.value_key or self.bitcast or self.normalize)

    def stored_keys(self, name: str) -> list[StoredKey]:
        splits_dtype = self.row_splits_dtype
        return [
            StoredKey(self.value_key or name, "ragged", stored_dtype(self.dtype), splits_dtype),
            *partition_keys(self.partitions, splits_dtype),
        ]

    def length_count(self, name: str) -> StoredCount | None:
        return StoredCount(self.value_key or name, self.dtype)

    def step_count(self, name: str) -> StoredCount | None:
        return outer_row_count(StoredCount(self.value_key or name, self.dtype), self.partitions)

    def as_stored(self, name: str) -> Feature:
        return VarLenFeature(self.dtype, bitcast=self.bitcast, key=self._only_key(name))


def as_feature(spec: Any) -> Feature:
    """Return a feature spec as it is, or make one.

    One of ``tf.io`` is translated, by its class name and fields. The name of a dtype, or a dtype of
    torch, stands for one value of it.

    Raises:
        SchemaError: If this is not a feature spec, or TensorFlow would refuse it.
    """
    if isinstance(spec, Feature):
        return spec
    kind = spec_class(type(spec).__name__)
    if kind is not None and issubclass(kind, Feature) and kind.has_tf_class:
        parameters = signature(kind).parameters.values()
        names = [each.name for each in parameters if each.kind is not each.KEYWORD_ONLY]
        if all(hasattr(spec, name) for name in names):
            return kind(**{name: getattr(spec, name) for name in names})
    if type(spec).__name__ in ("str", "dtype"):  # the latter of torch
        return FixedLenFeature([], spec)
    raise SchemaError(
        "a feature spec must be one of torchrec_io or tf.io, or the dtype of one value, such as "
        f"'int64', got {spec!r}"
    )
