"""From connectors to a schema that reads what they store.

What is stored under which key are the rules of TFDS 4.9: ``get_serialized_info`` of each connector,
``core/example_serializer.py`` and ``core/example_parser.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from ..errors import SchemaError
from ..schema.dtypes import (
    FLOAT_ENDS,
    MOST_VALUES,
    RAW_DTYPES,
    dtype_name,
    integer_range,
    is_integer_dtype,
)
from ..schema.feature import Feature
from ..schema.image_spec import ImageFeature
from ..schema.specs import FixedLenFeature, RaggedFeature, VarLenFeature
from ..schema.stored_specs import RawFeature, SequenceFeature
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

_MOST_DEFAULTS = 1_000_000  # values in the defaults of all optional features


@dataclass(frozen=True)
class Unread:
    """In place of the spec of a feature that cannot be read.

    Attributes:
        reason: Why.
        class_name: Of the connector that nobody here knows, if that is why.
    """

    reason: str
    class_name: str | None = None

    def error(self, name: str, path: str) -> SchemaError:
        """Says so."""
        return SchemaError(self.reason, path=path, feature=name)


SpecTree: TypeAlias = "Mapping[str, Feature | Unread | SpecTree]"


def to_specs(features: Connector, path: str) -> dict[str, Any]:
    """Specs of what connectors store, nested as they are; see :data:`SpecTree`.

    Args:
        features: Those of a dataset.
        path: What to call them in errors.

    Raises:
        SchemaError: there are none, or one without a name: TFDS cannot store it, or it is of a
            connector that nobody here knows.
    """
    found = _specs(features, _Stored("", ()), _Defaults())
    if isinstance(found, Unread) and found.class_name is not None:
        raise SchemaError(
            f"{found.reason}. It is all of the dataset: give TFRecordDataset its files, and a "
            "schema for them",
            path=path,
        )
    if not isinstance(found, dict):
        raise SchemaError(
            "the dataset is one feature without a name; TFDS stores no such thing", path=path
        )
    if next(features.leaves(), None) is None:
        raise SchemaError("the dataset has no features", path=path)
    return found


def _specs(feature: Connector, stored: _Stored, defaults: _Defaults) -> Any:
    if isinstance(feature, FeaturesDict):
        return {
            name: _specs(inner, stored.inside(name), defaults)
            for name, inner in feature.features.items()
        }
    if isinstance(feature, Sequence):
        lengths = (*stored.lengths, feature.length)
        return _specs(feature.feature, _Stored(stored.key, lengths), defaults)
    if isinstance(feature, Unknown):
        return Unread(
            f"{feature.class_name} is no connector of TFDS's own: only its code knows what it "
            "stores",
            feature.class_name,
        )
    try:
        if isinstance(feature, Image):
            return _several(_image(feature), stored.key, stored.lengths)
        assert isinstance(feature, Tensor)
        return _tensor(feature, stored, defaults)
    except SchemaError as error:
        return Unread(error.reason)


@dataclass(frozen=True)
class _Stored:
    """Where a feature is stored.

    Attributes:
        key: Its name, with those around it.
        lengths: Of the sequences around it, the outermost first; None where that differs.
    """

    key: str
    lengths: TfdsShape

    def inside(self, name: str) -> _Stored:
        """Where a feature of this dict is stored."""
        return _Stored(f"{self.key}/{name}" if self.key else name, self.lengths)

    @property
    def value_key(self) -> str:
        """The stored feature with the values."""
        return f"{self.key}/ragged_flat_values" if len(self.lengths) > 1 else self.key

    @property
    def partitions(self) -> list[Any]:
        """Of the values into the rows of all sequences but the outermost."""
        return [
            RaggedFeature.RowLengths(f"{self.key}/ragged_row_lengths_{number}")
            for number in range(len(self.lengths) - 1)
        ]


class _Defaults:
    """What stands for optional features that a record lacks: a million values in all at most."""

    def __init__(self) -> None:
        self._left = _MOST_DEFAULTS

    def of(self, feature: Tensor, shape: TfdsShape) -> list[Any]:
        """As ``Tensor._default_value`` of TFDS has it.

        Raises:
            SchemaError: there are too many values.
        """
        count = math.prod(_known(shape))
        if count > self._left:
            raise SchemaError(
                f"with the {count} of this one the default values of optional features are more "
                f"than {_MOST_DEFAULTS}"
            )
        self._left -= count
        return [_default(feature)] * count


def _tensor(feature: Tensor, stored: _Stored, defaults: _Defaults) -> Feature:
    dtype_name(feature.dtype, (*RAW_DTYPES, "string"))  # it may be one that only TFDS knows
    if isinstance(feature, Audio) and feature.lazy_decode:
        feature = Tensor(shape=(), dtype="string")
    if feature.encoding != "none":
        return _raw(feature, stored)
    if feature.dtype.startswith("complex"):
        raise SchemaError(f"TFDS stores {feature.dtype} with an encoding only")
    shape = (*stored.lengths, *feature.shape)
    inner = feature.shape if len(stored.lengths) > 1 else shape
    unknown = inner.count(None)
    _check_size(shape)
    if unknown > 1 or (unknown and len(stored.lengths) > 1):
        raise SchemaError(
            f"it has several unknown dimensions, {_text(shape)}, and no encoding: TFDS cannot read "
            "that either"
        )
    if len(stored.lengths) > 1:
        return _ragged(feature, stored, inner)
    if unknown:
        return _variable(feature, shape)
    default = defaults.of(feature, shape) if feature.optional and not stored.lengths else None
    return FixedLenFeature(_known(shape), feature.dtype, default, **_more(feature))


def _variable(feature: Tensor, shape: TfdsShape) -> Feature:
    """Values of one unknown dimension."""
    if shape == (None,):
        return VarLenFeature(feature.dtype, **_more(feature))
    at = shape.index(None)
    outer, inner = _known(shape[:at]), _known(shape[at:])
    partitions = _uniform(inner)
    if outer:
        # As many rows as all outer dimensions make, and these then row by row.
        rows = RaggedFeature.UniformRowCount(math.prod(outer))
        partitions = [*_uniform(outer[1:]), rows, *partitions]
    return RaggedFeature(
        feature.dtype, None, partitions, row_splits_dtype="int64", **_more(feature)
    )


def _ragged(feature: Tensor, stored: _Stored, inner: TfdsShape) -> Feature:
    """Values in sequences of sequences."""
    partitions = [*stored.partitions, *_uniform(_known(inner))]
    return RaggedFeature(
        feature.dtype, stored.value_key, partitions, row_splits_dtype="int64", **_more(feature)
    )


def _uniform(sizes: tuple[int, ...]) -> list[Any]:
    if 0 in sizes:
        raise SchemaError("an unknown dimension beside one of 0: TFDS cannot read that either")
    return [RaggedFeature.UniformRowLength(size) for size in sizes]


def _raw(feature: Tensor, stored: _Stored) -> Feature:
    """Values as the bytes of their elements."""
    compression: Literal["zlib"] | None = "zlib" if feature.encoding == "zlib" else None
    if feature.shape.count(None) < 2:
        spec = RawFeature(feature.dtype, feature.shape, compression=compression)
        return _several(spec, stored.key, stored.lengths)
    shape_at = _Stored(f"{stored.key}/shape", stored.lengths)
    value_at = _Stored(f"{stored.key}/value", stored.lengths)
    if not stored.lengths:
        return RawFeature(
            feature.dtype,
            shape_key=shape_at.key,
            value_key=value_at.key,
            compression=compression,
        )
    element = RawFeature(feature.dtype, shape_key=shape_at.value_key, compression=compression)
    return _sequence(element, value_at)


def _image(feature: Image) -> ImageFeature:
    height, width, channels = feature.shape[-3:]
    size = None if height is None or width is None else (height, width)
    more: dict[str, Any] = {"names": feature.names} if feature.names is not None else {}
    if size is not None:
        more |= {"size": size, "resize": None}
    if len(feature.shape) == 4:
        more["animated"] = True
    if feature.dtype == "float32":
        more["bitcast"] = True
    more["channels"] = channels or 0
    return ImageFeature(dtype=feature.dtype, layout="HWC", **more)


def _several(spec: ImageFeature | RawFeature, key: str, lengths: TfdsShape) -> Feature:
    """One value of bytes in each record, or as many as sequences have."""
    return _sequence(spec, _Stored(key, lengths)) if lengths else spec


def _sequence(element: ImageFeature | RawFeature, stored: _Stored) -> Feature:
    length = stored.lengths[0] if len(stored.lengths) == 1 else None
    return SequenceFeature(
        element,
        length,
        value_key=stored.value_key,
        partitions=stored.partitions,
        row_splits_dtype="int64",
    )


# ---- details ----


def _more(feature: Tensor) -> dict[str, Any]:
    if isinstance(feature, ClassLabel) and feature.names is not None:
        return {"names": feature.names}
    # No int64 holds all of them: TFDS stores their bits.
    return {"bitcast": True} if feature.dtype == "uint64" else {}


def _default(feature: Tensor) -> Any:
    if feature.dtype == "string":
        return b""
    if feature.dtype == "bool":
        return 0
    if is_integer_dtype(feature.dtype):
        return integer_range(feature.dtype)[0]
    return _least_float(feature.dtype)


def _least_float(dtype: str) -> float:
    if dtype == "float64":
        return -math.inf  # what is left of it in the float32 that it is stored as
    if dtype == "bfloat16":
        return -float(FLOAT_ENDS[dtype] - 2**119)  # half a step below what rounds to infinity
    return float(np.finfo(dtype).min)


def _known(shape: TfdsShape) -> tuple[int, ...]:
    return tuple(size for size in shape if size is not None)


def _check_size(shape: TfdsShape) -> None:
    if math.prod(max(1, size or 1) for size in shape) >= MOST_VALUES:
        raise SchemaError(f"no memory holds values of the shape {_text(shape)}")


def _text(shape: TfdsShape) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
