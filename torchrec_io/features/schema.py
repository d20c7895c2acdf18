"""What to read from each record: feature specs, named and shaped as TensorFlow's, and the schema.

Specs and their rules are those of ``tf.io.parse_example`` (TensorFlow 2.21). Stored values are
int64, float32 or bytes ("string"); every other dtype is a cast of one of these, checked value by
value.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from ..errors import SchemaError

# The position is the code that the native core knows the dtype by (Element in _core/example.h).
_INTEGERS = ("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool")
_FLOATS = ("float32", "float64", "float16", "bfloat16")
DTYPES: tuple[str, ...] = (*_INTEGERS, *_FLOATS, "string")

_ALIASES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "int": "int64",
    "bool_": "bool",  # NumPy 1
}
# Also NumPy's names for strings of a size, such as "bytes40".
_STRING_NAME = re.compile(r"string|(bytes|str)(\d+|_)?|object_?")
_ITEM_BYTES = {
    **dict.fromkeys(("int64", "uint64", "float64"), 8),
    **dict.fromkeys(("int32", "uint32", "float32"), 4),
    **dict.fromkeys(("int16", "uint16", "float16", "bfloat16"), 2),
    **dict.fromkeys(("int8", "uint8", "bool"), 1),
}
# Numbers from here on round to infinity.
_FLOAT_ENDS = {
    "float64": 2**1024 - 2**970,
    "float32": 2**128 - 2**103,
    "bfloat16": 2**128 - 2**119,
    "float16": 65520,
}

# An array of this many values or more has no place in memory: strides are 63-bit numbers of bytes.
MOST_VALUES = 2**60

DType: TypeAlias = Any  # a torch or NumPy dtype, a Python type, or a name
Shape: TypeAlias = "int | Sequence[int]"


def dtype_name(dtype: DType) -> str:
    """The name in :data:`DTYPES` of a torch or NumPy dtype, a Python type or a name.

    Raises:
        SchemaError: there is no such dtype.
    """
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    name = str(name).removeprefix("torch.")
    name = _ALIASES.get(name, name)
    if _STRING_NAME.fullmatch(name):
        return "string"
    if name not in DTYPES:
        raise SchemaError(f"dtype must be one of {', '.join(DTYPES)}, not {dtype!r}")
    return name


def item_bytes(dtype: str) -> int:
    """Bytes of one element of a numeric dtype."""
    return _ITEM_BYTES[dtype]


def is_integer(dtype: str) -> bool:
    """Whether a dtype is stored as int64."""
    return dtype in _INTEGERS


def _check_shape(shape: Shape) -> tuple[int, ...]:
    try:
        sizes = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    except TypeError:
        raise SchemaError(f"a shape must be whole numbers, not {shape!r}") from None
    for size in sizes:
        if not isinstance(size, (int, np.integer)) or isinstance(size, bool) or size < 0:
            raise SchemaError(f"every size of a shape must be a whole number, not {size!r}")
    if math.prod(max(1, int(size)) for size in sizes) >= MOST_VALUES:
        raise SchemaError(f"no memory holds values of the shape {list(sizes)}")
    return tuple(int(size) for size in sizes)


class Feature:
    """Base of all feature specs: what to read from each record, and into which column."""


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

    Raises:
        SchemaError: the dtype does not exist, or the default has another size or does not fit.
    """

    shape: tuple[int, ...]
    dtype: str
    default_value: Any = None

    def __init__(self, shape: Shape, dtype: DType, default_value: Any = None) -> None:
        object.__setattr__(self, "shape", _check_shape(shape))
        object.__setattr__(self, "dtype", dtype_name(dtype))
        default = None if default_value is None else _check_default(self, default_value)
        object.__setattr__(self, "default_value", default)

    @property
    def count(self) -> int:
        """Values in one record."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class VarLenFeature(Feature):
    """A feature with any number of values in a record, none included (``tf.io.VarLenFeature``).

    Gives a :class:`Ragged` of the records' values. A missing feature is an empty one.

    Args:
        dtype: Of the values; stored values are cast to it and must fit.
    """

    dtype: str

    def __init__(self, dtype: DType) -> None:
        object.__setattr__(self, "dtype", dtype_name(dtype))


@dataclass(frozen=True)
class RawFeature(Feature):
    """An array stored as the bytes of its elements, little-endian (``tf.io.decode_raw``).

    With ``shape`` it gives a Tensor ``[B, *shape]``. With ``shape_key`` it gives a list of B
    Tensors, each of its own shape.

    Args:
        dtype: Of the elements; any numeric dtype.
        shape: Of each record's array.
        shape_key: The feature that holds each record's shape as an int64 list.

    Raises:
        SchemaError: the dtype is not numeric, or not exactly one of shape and shape_key is given.
    """

    dtype: str
    shape: tuple[int, ...] | None
    shape_key: str | None

    def __init__(
        self, dtype: DType, shape: Shape | None = None, shape_key: str | None = None
    ) -> None:
        object.__setattr__(self, "dtype", dtype_name(dtype))
        object.__setattr__(self, "shape", None if shape is None else _check_shape(shape))
        object.__setattr__(self, "shape_key", shape_key)
        if self.dtype == "string":
            raise SchemaError("a RawFeature needs a numeric dtype")
        if (shape is None) == (shape_key is None):
            raise SchemaError("a RawFeature needs either shape or shape_key")
        if shape_key is not None and not isinstance(shape_key, str):
            raise SchemaError(f"shape_key must be a feature's name, not {shape_key!r}")


@dataclass(frozen=True)
class ImageFeature(Feature):
    """An encoded image: PNG, JPEG, GIF (first frame), BMP, WebP, TIFF: whatever Pillow reads.

    With ``size`` it gives a Tensor ``[B, C, H, W]`` (or ``[B, H, W, C]``). Without, a list of B
    Tensors, each of its own size.

    Args:
        channels: 1 (gray), 3 (RGB) or 4 (RGBA); images of other modes are converted.
        dtype: "uint8", 0 to 255, or a float dtype, scaled to 0..1.
        layout: "CHW", as PyTorch's layers want, or "HWC".
        size: ``(height, width)`` that images are resized to, by antialiased bilinear filtering.
        max_pixels: Images that claim more pixels are refused before they are decoded
            (decompression bombs). Pillow's own ``PIL.Image.MAX_IMAGE_PIXELS`` holds as well: it
            warns above that, and refuses more than twice as many.

    Raises:
        SchemaError: an argument is not one of the above.
    """

    channels: Literal[1, 3, 4] = 3
    dtype: DType = "uint8"
    layout: Literal["CHW", "HWC"] = "CHW"
    size: Sequence[int] | None = None
    max_pixels: int = 1 << 26

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", dtype_name(self.dtype))
        if self.channels not in (1, 3, 4):
            raise SchemaError(f"channels must be 1, 3 or 4, not {self.channels!r}")
        if self.dtype not in ("uint8", "float32", "float64", "float16"):
            raise SchemaError(f"an image's dtype must be uint8 or a float, not {self.dtype}")
        if self.layout not in ("CHW", "HWC"):
            raise SchemaError(f"layout must be 'CHW' or 'HWC', not {self.layout!r}")
        if self.size is not None:
            size = _check_shape(self.size)
            if len(size) != 2 or 0 in size:
                raise SchemaError(f"size must be (height, width), not {self.size!r}")
            object.__setattr__(self, "size", size)

    def shape_of(self, height: int, width: int) -> tuple[int, int, int]:
        """Shape of a decoded image."""
        if self.layout == "CHW":
            return self.channels, height, width
        return height, width, self.channels


@dataclass(frozen=True)
class Schema(Mapping[str, Feature]):
    """The features to read from each ``tf.train.Example``, by name. Others stay unread.

    Args:
        features: Spec of each feature.

    Raises:
        SchemaError: there is no feature, a spec is not one of this module's, or a shape_key names a
            feature of the schema that does not hold int64 values.
    """

    features: dict[str, Feature] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.features, Mapping) or not self.features:
            raise SchemaError("a schema needs a dict of at least one feature")
        object.__setattr__(self, "features", dict(self.features))
        for name, feature in self.features.items():
            self._check(name, feature)

    def _check(self, name: str, feature: Feature) -> None:
        if not isinstance(name, str):
            raise SchemaError(f"a feature's name must be a str, not {name!r}")
        if not isinstance(feature, Feature):
            raise SchemaError(f"no feature spec: {feature!r}", feature=name)
        if isinstance(feature, RawFeature) and feature.shape_key is not None:
            shape = self.features.get(feature.shape_key, VarLenFeature("int64"))
            if not isinstance(shape, (FixedLenFeature, VarLenFeature)) or not is_integer(
                shape.dtype
            ):
                raise SchemaError(
                    f"its shape_key {feature.shape_key!r} is not an integer feature", feature=name
                )

    @classmethod
    def of(cls, features: Schema | Mapping[str, Feature]) -> Schema:
        """A schema as it is, or made from a dict."""
        return features if isinstance(features, Schema) else cls(dict(features))

    def __getitem__(self, name: str) -> Feature:
        return self.features[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.features)

    def __len__(self) -> int:
        return len(self.features)


# ---- defaults ----


def _check_default(feature: FixedLenFeature, value: Any) -> tuple[Any, ...] | None:
    """A default as a flat tuple of ints, floats or bytes; None if it is empty."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    values = tuple(_flatten(value))
    if len(values) != feature.count:
        raise SchemaError(
            f"default_value has {len(values)} values, the shape {list(feature.shape)} holds "
            f"{feature.count}"
        )
    if not values:
        return None
    return tuple(_check_default_item(item, feature.dtype) for item in values)


def _flatten(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _flatten(item)
    else:
        yield value


def _check_default_item(item: Any, dtype: str) -> Any:
    if dtype == "string":
        if isinstance(item, str):
            return item.encode()
        if isinstance(item, (bytes, bytearray)):
            return bytes(item)
        raise SchemaError(f"default_value must be str or bytes, not {item!r}")
    if isinstance(item, (bool, np.bool_)) and dtype == "bool":
        return int(item)
    if isinstance(item, bool) or not isinstance(item, (int, float, np.integer, np.floating)):
        raise SchemaError(f"default_value must be numbers, not {item!r}")
    if is_integer(dtype):
        if not isinstance(item, (int, np.integer)):
            raise SchemaError(f"default_value {item!r} is no {dtype}: no cast loses digits here")
        low, high = integer_range(dtype)
        if not low <= int(item) <= high:
            raise SchemaError(f"default_value {item} does not fit in {dtype}")
        return int(item)
    number = item if isinstance(item, int) else float(item)
    if abs(number) >= _FLOAT_ENDS[dtype] and number not in (math.inf, -math.inf):
        raise SchemaError(f"default_value {item} does not fit in {dtype}")
    return float(number)


def integer_range(dtype: str) -> tuple[int, int]:
    """Least and greatest value of an integer dtype."""
    if dtype == "bool":
        return 0, 1
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def numeric_bytes(values: Sequence[Any], dtype: str) -> bytes:
    """Elements as a column stores them, little-endian."""
    if dtype != "bfloat16":
        return np.asarray(values, np.dtype(dtype).newbyteorder("<")).tobytes()
    # Round to nearest, ties to even, on the upper half of a float32; NumPy has no bfloat16.
    bits: npt.NDArray[np.uint32] = np.asarray(values, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(bits.view(np.float32)), 0x7FC0, rounded).astype("<u2").tobytes()
