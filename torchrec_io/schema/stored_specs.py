"""Specs of values that are stored as bytes and decoded: arrays, serialized tensors, sequences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ..errors import SchemaError
from .checks import Shape, check_key, check_shape, is_whole
from .checks import set_fields as _set
from .dtypes import RAW_DTYPES, DType, dtype_name, item_bytes
from .image_spec import ImageFeature
from .specs import Feature, Partition, as_partitions
from .valid_range import Range, check_range

# As many as an image of the default max_pixels has with four channels.
_MAX_BYTES = 1 << 28


@dataclass(frozen=True)
class RawFeature(Feature):
    """An array stored as the bytes of its elements (``tf.io.decode_raw``).

    With ``shape`` it gives a Tensor ``[B, *shape]``. With ``shape_key``, or with a None in
    ``shape``, it gives a list of B Tensors, each of its own shape. With ``fixed_length`` it gives a
    Tensor of as many elements as have room in that many bytes, ``[B, n]``, or of ``shape``.

    Args:
        dtype: Of the elements; any numeric dtype, complex ones too.
        shape: Of each record's array. One size may be None: it is found from the number of bytes.
            With ``shape_key`` several may: what is known is checked.
        shape_key: The feature that holds each record's shape as an int64 list.
        little_endian: Whether the least significant byte of each element comes first.
        fixed_length: Bytes that each value is cut to, or filled up to with zero bytes
            (``tf.io.decode_raw(..., fixed_length=...)``). Otherwise a value must have as many as
            its shape needs.
        valid_range: As of :class:`FixedLenFeature`; not for complex numbers.
        value_key: The feature that holds the bytes; by default the one of this spec's own name.
        compression: None, or "zlib": the bytes are one zlib stream, which must end where they end
            (``tf.io.decode_compressed(..., compression_type="ZLIB")``).
        dequantize: ``(low, high)``: bytes stand for 256 even steps between the two. The dtype is
            "uint8", the column's float32: ``value * ((high - low) / 255) + (high - low) / 512 +
            low``, as YouTube-8M's ``utils.Dequantize`` computes it. ``valid_range`` is then of
            these numbers.
        max_bytes: With compression: arrays whose size only the data says may have so many bytes
            when inflated; of others their shape says it. Nothing is inflated beyond that.

    Raises:
        SchemaError: the dtype is not numeric, not exactly one of shape, shape_key and fixed_length
            is given (shape may be beside fixed_length, if they agree, or with a None beside
            shape_key), a None in the shape cannot be found, fixed_length is no whole number of
            elements, valid_range is none of the dtype, or options exclude each other.
    """

    dtype: str
    shape: tuple[int | None, ...] | None = None
    shape_key: str | None = None
    little_endian: bool = True
    fixed_length: int | None = None
    valid_range: Range = None
    value_key: str | None = None
    compression: Literal["zlib"] | None = None
    dequantize: tuple[float, float] | None = None
    max_bytes: int = _MAX_BYTES

    def __init__(
        self,
        dtype: DType,
        shape: int | Sequence[int | None] | None = None,
        shape_key: str | None = None,
        *,
        little_endian: bool = True,
        fixed_length: int | None = None,
        valid_range: Range = None,
        value_key: str | None = None,
        compression: Literal["zlib"] | None = None,
        dequantize: Sequence[float] | None = None,
        max_bytes: int = _MAX_BYTES,
    ) -> None:
        _set(self, dtype=dtype_name(dtype, RAW_DTYPES), little_endian=bool(little_endian))
        room = None if fixed_length is None else self._count_in(fixed_length)
        _set(self, shape_key=shape_key, fixed_length=fixed_length and int(fixed_length))
        _set(self, value_key=value_key, compression=compression, max_bytes=max_bytes)
        _set(self, dequantize=None if dequantize is None else self._check_steps(dequantize))
        _set(self, valid_range=check_range(valid_range, self.column_dtype))
        if shape is None and shape_key is None:
            shape = room
        _set(self, shape=None if shape is None else _check_open_shape(shape))
        self._check_ways()
        if room and math.prod(self.known_shape or ()) != room:
            raise SchemaError(
                f"{fixed_length} bytes do not make the shape {list(self.shape or ())} of "
                f"{self.dtype}"
            )
        for key in ("shape_key", "value_key"):
            if getattr(self, key) is not None:
                check_key(getattr(self, key), key)

    @property
    def known_shape(self) -> tuple[int, ...] | None:
        """The shape of every array, if it is known."""
        if self.shape is None:
            return None
        sizes = tuple(size for size in self.shape if size is not None)
        return sizes if len(sizes) == len(self.shape) else None

    @property
    def column_dtype(self) -> str:
        """The dtype of the column."""
        return "float32" if self.dequantize is not None else self.dtype

    @property
    def is_slow(self) -> bool:
        return self.compression is not None

    @property
    def is_stored_as_it_is(self) -> bool:
        """Whether a value's bytes are those of its array, but for their order."""
        return self.compression is None and self.dequantize is None

    def _count_in(self, size: int) -> int:
        if not is_whole(size) or size < 1 or size % item_bytes(self.dtype):
            raise SchemaError(
                f"fixed_length must be a multiple of the {item_bytes(self.dtype)} bytes of a "
                f"{self.dtype}, not {size!r}"
            )
        return int(size) // item_bytes(self.dtype)

    def _check_steps(self, ends: Any) -> tuple[float, float]:
        if self.dtype != "uint8":
            raise SchemaError(f"dequantize is for uint8, not {self.dtype}")
        are_numbers = isinstance(ends, (tuple, list)) and all(
            is_whole(end) or isinstance(end, float) for end in ends
        )
        if not are_numbers or len(ends) != 2 or not -(2**127) < ends[0] < ends[1] < 2**127:
            raise SchemaError(f"dequantize must be (low, high) with low < high, not {ends!r}")
        return ends[0], ends[1]

    def _check_ways(self) -> None:
        """Whether there is one way to know the shape, and the options go together."""
        if self.shape is None and self.shape_key is None:
            raise SchemaError("a RawFeature needs either shape or shape_key, or fixed_length")
        if self.shape is not None and self.shape_key is not None and None not in self.shape:
            raise SchemaError(
                "a RawFeature needs either shape or shape_key; with both, the shape has a None"
            )
        if self.shape_key is None and None in (self.shape or ()):
            _check_findable(self.shape or ())
        if self.compression not in (None, "zlib"):
            raise SchemaError(f"compression must be None or 'zlib', not {self.compression!r}")
        if not is_whole(self.max_bytes) or self.max_bytes < 1:
            raise SchemaError(f"max_bytes must be a whole number from 1, not {self.max_bytes!r}")
        if self.max_bytes != _MAX_BYTES and self.compression is None:
            raise SchemaError("max_bytes is of arrays with compression")
        if self.fixed_length and (self.shape_key is not None or not self.is_stored_as_it_is):
            raise SchemaError("fixed_length goes with no shape_key, compression or dequantize")


def _check_open_shape(shape: Any) -> tuple[int | None, ...]:
    """A shape in which sizes may be None."""
    try:
        sizes = (shape,) if is_whole(shape) else tuple(shape)
    except (TypeError, ValueError):  # the second from a TensorShape of unknown rank
        sizes = None
    if sizes is None or None not in sizes:
        return check_shape(shape)
    known = iter(check_shape([size for size in sizes if size is not None]))
    return tuple(None if size is None else next(known) for size in sizes)


def _check_findable(shape: Sequence[int | None]) -> None:
    if list(shape).count(None) > 1:
        raise SchemaError(f"only one size of a shape can be found, not those of {list(shape)}")
    if 0 in shape:
        raise SchemaError(f"the None of {list(shape)} cannot be found: such an array has no bytes")


@dataclass(frozen=True)
class SerializedTensorFeature(Feature):
    """A tensor as ``tf.io.serialize_tensor`` writes it, read as ``tf.io.parse_tensor`` does.

    With ``shape`` it gives a Tensor ``[B, *shape]``, or for "string" a :class:`BytesArray` of that
    shape. Without, a list of B of them, each of its own shape.

    Args:
        dtype: The stored one; there is no cast.
        shape: That every record's tensor must have.

    Raises:
        SchemaError: there is no such dtype.
    """

    dtype: str
    shape: tuple[int, ...] | None = None

    def __init__(self, dtype: DType, shape: Shape | None = None) -> None:
        _set(self, dtype=dtype_name(dtype, (*RAW_DTYPES, "string")))
        _set(self, shape=None if shape is None else check_shape(shape))


@dataclass(frozen=True)
class SequenceFeature(Feature):
    """Any number of bytes values in one feature, each an image or an array of its own.

    In feature lists of SequenceExamples each step has one bytes value. A missing feature is an
    empty one. Elements are decoded by several threads.

    If all elements are of one shape (``ImageFeature.size``, or a ``RawFeature.shape`` without
    None), it gives a :class:`Ragged` of values ``[N, *shape]``: records, then the rows of each
    partition, then the elements; with ``length`` a Tensor ``[B, length, *shape]``.

    If they are of other shapes, it gives a list of B Tensors ``[n, *shape]``, each of its own n and
    shape; elements of one record must be of one shape. A record of no elements has zeros in place
    of the sizes that only elements would show. With partitions it is a list of B Raggeds.

    Args:
        element: An :class:`ImageFeature` or a :class:`RawFeature`; what it says of the dtype, the
            layout and so on holds for each element. With a ``shape_key`` the shapes of a record's
            elements are stored one behind the other.
        length: How many elements every record must have.
        value_key: The feature that holds the values; by default the one of this spec's own name.
        partitions: As of :class:`RaggedFeature`; not in feature lists.
        row_splits_dtype: Of the offsets: "int32" or "int64".

    Raises:
        SchemaError: the element is another spec, or one with ``augment``, ``mixed="pad"``,
            ``decoder=None``, ``fixed_length`` or a ``value_key`` of its own; length and partitions
            are both given; or another argument is not one of the above.
    """

    element: ImageFeature | RawFeature
    length: int | None = None
    value_key: str | None = None
    partitions: tuple[Partition, ...] = ()
    row_splits_dtype: str = "int64"

    def __init__(
        self,
        element: ImageFeature | RawFeature,
        length: int | None = None,
        value_key: str | None = None,
        partitions: Sequence[Any] = (),
        row_splits_dtype: DType = "int64",
    ) -> None:
        _check_element(element)
        _set(self, element=element, length=length, value_key=value_key)
        _set(self, partitions=as_partitions(partitions))
        _set(self, row_splits_dtype=dtype_name(row_splits_dtype, ("int32", "int64")))
        if value_key is not None:
            check_key(value_key, "value_key")
        if length is None:
            return
        if not is_whole(length) or length < 0:
            raise SchemaError(f"length must be a whole number from 0, not {length!r}")
        _set(self, length=int(length))
        if self.partitions:
            raise SchemaError("a sequence has a length or partitions, not both")

    @property
    def is_slow(self) -> bool:
        return self.element.is_slow

    @property
    def element_shape(self) -> tuple[int, ...] | None:
        """The shape of every element, if it is known."""
        return self.element.known_shape

    @property
    def column_dtype(self) -> str:
        """The dtype of the column."""
        if isinstance(self.element, RawFeature):
            return self.element.column_dtype
        return str(self.element.dtype)


def _check_element(element: Any) -> None:
    if isinstance(element, RawFeature):
        refused = [name for name in ("fixed_length", "value_key") if getattr(element, name)]
    elif isinstance(element, ImageFeature):
        refused = ["augment"] if element.augment is not None else []
        refused += ["mixed='pad'"] if element.mixed == "pad" else []
        refused += ["decoder=None"] if element.decoder is None else []
    else:
        raise SchemaError(f"an element is an ImageFeature or a RawFeature, not {element!r}")
    if refused:
        raise SchemaError(f"the element of a sequence takes no {' and no '.join(refused)}")
