"""Conversion of connectors to the specs of the features that they store.

The stored features and their keys follow TFDS 4.9: ``get_serialized_info`` of each connector,
``core/example_serializer.py`` and ``core/example_parser.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from .._schema.dtypes import (
    FLOAT_ENDS,
    MOST_VALUES,
    RAW_DTYPES,
    dtype_name,
    integer_range,
    is_integer_dtype,
)
from .._schema.feature import Feature
from .._schema.image_spec import ImageFeature
from .._schema.specs import FixedLenFeature, RaggedFeature, VarLenFeature
from .._schema.stored_specs import RawFeature, SequenceFeature
from ..errors import SchemaError
from .connectors import (
    Audio,
    ClassLabel,
    Connector,
    FeaturesDict,
    Image,
    Sequence,
    Tensor,
    TfdsShape,
    Unknown,
)

_MOST_DEFAULTS = 1_000_000  # number of default values of all optional features together


@dataclass(frozen=True)
class Unreadable:
    """A feature that cannot be read, in place of its spec.

    Attributes:
        reason: Why it cannot be read.
        class_name: Class of its connector, if the connector is not known.
    """

    reason: str
    class_name: str | None = None


SpecTree: TypeAlias = "Mapping[str, Feature | Unreadable | SpecTree]"


def to_specs(features: Connector, path: str) -> dict[str, Any]:
    """Return specs of the stored features, nested like the connectors; see :data:`SpecTree`.

    Args:
        features: Connectors of a dataset.
        path: Path for errors.

    Raises:
        SchemaError: If there are no features, or if the dataset is a single feature without a name,
            which TFDS cannot store or whose connector is not known.
    """
    found = _convert(features, _StoredFeature("", ()), _Defaults())
    if isinstance(found, Unreadable) and found.class_name is not None:
        raise SchemaError(
            f"{found.reason}. The dataset has no other features: use TFRecordDataset with the "
            "files and a schema of your own",
            path=path,
        )
    if not isinstance(found, dict):
        raise SchemaError(
            "the features of a dataset must be a dict, got one feature without a name", path=path
        )
    if next(features.leaves(), None) is None:
        raise SchemaError("the dataset has no features", path=path)
    return found


def _convert(feature: Connector, stored: _StoredFeature, defaults: _Defaults) -> Any:
    if isinstance(feature, FeaturesDict):
        return {
            name: _convert(inner, stored.inside(name), defaults)
            for name, inner in feature.features.items()
        }
    if isinstance(feature, Sequence):
        lengths = (*stored.lengths, feature.length)
        return _convert(feature.feature, _StoredFeature(stored.key, lengths), defaults)
    if isinstance(feature, Unknown):
        return Unreadable(
            f"{feature.class_name} is not a connector of TFDS, so it is not known what it stores",
            feature.class_name,
        )
    try:
        if isinstance(feature, Image):
            return _one_or_sequence(_convert_image(feature), stored)
        assert isinstance(feature, Tensor)
        return _convert_tensor(feature, stored, defaults)
    except SchemaError as error:
        return Unreadable(error.reason)


@dataclass(frozen=True)
class _StoredFeature:
    """The position of a feature in stored records.

    Attributes:
        key: Flat name of the feature.
        lengths: Lengths of the sequences that contain it, from the outermost to the innermost; None
            for a length that varies.
    """

    key: str
    lengths: TfdsShape

    def inside(self, name: str) -> _StoredFeature:
        """Return the position of a feature of this dict."""
        return _StoredFeature(f"{self.key}/{name}" if self.key else name, self.lengths)

    @property
    def value_key(self) -> str:
        """Name of the stored feature that holds the values."""
        return f"{self.key}/ragged_flat_values" if len(self.lengths) > 1 else self.key

    @property
    def partitions(self) -> list[Any]:
        """Partitions of the values into the rows of all sequences except the outermost."""
        return [
            RaggedFeature.RowLengths(f"{self.key}/ragged_row_lengths_{number}")
            for number in range(len(self.lengths) - 1)
        ]


class _Defaults:
    """Default values of optional features, a million values at most."""

    def __init__(self) -> None:
        self._left = _MOST_DEFAULTS

    def of(self, feature: Tensor, shape: TfdsShape) -> list[Any]:
        """Return the default values of a feature, like ``Tensor._default_value`` of TFDS.

        Raises:
            SchemaError: If there are too many values.
        """
        count = math.prod(_known_sizes(shape))
        if count > self._left:
            raise SchemaError(
                f"optional features must have at most {_MOST_DEFAULTS:,} default values together; "
                f"this one has {count:,}"
            )
        self._left -= count
        return [_default_value(feature)] * count


def _convert_tensor(feature: Tensor, stored: _StoredFeature, defaults: _Defaults) -> Feature:
    dtype_name(feature.dtype, (*RAW_DTYPES, "string"))  # raises for a dtype that only TFDS knows
    if isinstance(feature, Audio) and feature.lazy_decode:
        feature = Tensor(shape=(), dtype="string")
    if feature.encoding != "none":
        return _convert_raw(feature, stored)
    if feature.dtype.startswith("complex"):
        raise SchemaError(f"a feature of dtype {feature.dtype} must have an encoding")
    shape = (*stored.lengths, *feature.shape)
    inner = feature.shape if len(stored.lengths) > 1 else shape
    unknown = inner.count(None)
    _check_size(shape)
    if unknown > 1 or (unknown and len(stored.lengths) > 1):
        raise SchemaError(
            f"a feature without encoding must have at most one unknown dimension, got "
            f"{_format_shape(shape)}; TFDS cannot read it either"
        )
    if len(stored.lengths) > 1:
        partitions = [*stored.partitions, *_make_uniform(_known_sizes(inner))]
        return _make_ragged(feature, partitions, stored.value_key)
    if unknown:
        return _convert_variable(feature, shape)
    default = defaults.of(feature, shape) if feature.optional and not stored.lengths else None
    return FixedLenFeature(_known_sizes(shape), feature.dtype, default, **_extra_arguments(feature))


def _convert_variable(feature: Tensor, shape: TfdsShape) -> Feature:
    """Return the spec of values with one unknown dimension."""
    if shape == (None,):
        return VarLenFeature(feature.dtype, **_extra_arguments(feature))
    at = shape.index(None)
    outer, inner = _known_sizes(shape[:at]), _known_sizes(shape[at:])
    partitions = _make_uniform(inner)
    if outer:
        # First rows for all outer dimensions together, then one partition for each of them.
        rows = RaggedFeature.UniformRowCount(math.prod(outer))
        partitions = [*_make_uniform(outer[1:]), rows, *partitions]
    return _make_ragged(feature, partitions)


def _make_ragged(feature: Tensor, partitions: list[Any], key: str | None = None) -> Feature:
    return RaggedFeature(
        feature.dtype, key, partitions, row_splits_dtype="int64", **_extra_arguments(feature)
    )


def _make_uniform(sizes: tuple[int, ...]) -> list[Any]:
    if 0 in sizes:
        raise SchemaError(
            "a feature with an unknown dimension must not have a dimension of size 0; TFDS cannot "
            "read it either"
        )
    return [RaggedFeature.UniformRowLength(size) for size in sizes]


def _convert_raw(feature: Tensor, stored: _StoredFeature) -> Feature:
    """Return the spec of values that are stored as the bytes of their elements."""
    compression: Literal["zlib"] | None = "zlib" if feature.encoding == "zlib" else None
    if feature.shape.count(None) < 2:
        spec = RawFeature(feature.dtype, feature.shape, compression=compression)
        return _one_or_sequence(spec, stored)
    shape_at, value_at = stored.inside("shape"), stored.inside("value")
    if not stored.lengths:
        return RawFeature(
            feature.dtype, shape_key=shape_at.key, key=value_at.key, compression=compression
        )
    element = RawFeature(feature.dtype, shape_key=shape_at.value_key, compression=compression)
    return _one_or_sequence(element, value_at)


def _convert_image(feature: Image) -> ImageFeature:
    height, width = feature.shape[-3:-1]
    channels: Any = feature.shape[-1] or 0
    size = None if height is None or width is None else (height, width)
    return ImageFeature(
        channels,
        feature.dtype,
        "HWC",
        size,
        resize="stretch" if size is None else None,
        bitcast=feature.dtype == "float32",
        animated=len(feature.shape) == 4,
        names=feature.names,
    )


def _one_or_sequence(element: ImageFeature | RawFeature, stored: _StoredFeature) -> Feature:
    """Return the spec of one bytes value in each record, or of a sequence of them."""
    if not stored.lengths:
        return element
    length = stored.lengths[0] if len(stored.lengths) == 1 else None
    return SequenceFeature(
        element,
        length,
        key=stored.value_key,
        partitions=stored.partitions,
        row_splits_dtype="int64",
    )


# ---- details ----


def _extra_arguments(feature: Tensor) -> dict[str, Any]:
    if isinstance(feature, ClassLabel) and feature.names is not None:
        return {"names": feature.names}
    # TFDS stores the bits of a uint64 as an int64.
    return {"bitcast": True} if feature.dtype == "uint64" else {}


def _default_value(feature: Tensor) -> Any:
    if feature.dtype == "string":
        return b""
    if feature.dtype == "bool":
        return 0
    if is_integer_dtype(feature.dtype):
        return integer_range(feature.dtype)[0]
    return _least_float(feature.dtype)


def _least_float(dtype: str) -> float:
    if dtype == "float64":
        return -math.inf  # the smallest float64, after conversion to the float32 that is stored
    if dtype == "bfloat16":
        return -float(FLOAT_ENDS[dtype] - 2**119)  # half a step below what rounds to infinity
    return float(np.finfo(dtype).min)


def _known_sizes(shape: TfdsShape) -> tuple[int, ...]:
    return tuple(size for size in shape if size is not None)


def _check_size(shape: TfdsShape) -> None:
    if math.prod(max(1, size or 1) for size in shape) >= MOST_VALUES:
        raise SchemaError(f"values of the shape {_format_shape(shape)} do not fit in memory")


def _format_shape(shape: TfdsShape) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
