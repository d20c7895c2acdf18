"""Specs of values that are stored as bytes: arrays, serialized tensors and sequences of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from ..checks import is_integer
from ..errors import SchemaError
from .checks import Shape, check_integer, check_key, check_own_key, check_shape, set_fields
from .crops import Augment, check_size
from .dtypes import (
    RAW_DTYPES,
    OffsetDType,
    OffsetDTypeName,
    RawDType,
    RawDTypeName,
    dtype_name,
    item_bytes,
)
from .feature import Feature, Place
from .image_spec import ImageFeature
from .row_partitions import as_partitions, outer_row_count, partition_keys
from .specs import VarLenFeature
from .stored_keys import StoredCount, StoredKey
from .valid_range import Range, check_range

_IMAGE_DECODER = "torchrec_io._parsing.columns.raw_image:RawImageDecoder"
# The size of an image of the default max_pixels with four channels.
_DEFAULT_MAX_BYTES = 1 << 28


@dataclass(frozen=True)
class RawFeature(Feature):
    """An array stored as the bytes of its elements (``tf.io.decode_raw``).

    With ``shape`` the column is a Tensor ``[B, *shape]``. With ``shape_key``, or with a None in
    ``shape``, it is a list of B Tensors, each of its own shape. With ``fixed_length`` it is a
    Tensor ``[B, n]`` of the elements that fit in that many bytes, or ``[B, *shape]``.

    Args:
        dtype: Dtype of the elements; any numeric dtype, also complex ones.
        shape: Shape of each record's array. One size may be None: it follows from the number of
            bytes. With ``shape_key`` several may be None; the other sizes are checked.
        shape_key: Name of the feature with each record's shape, an int64 list. Or a list of names
            of features with one int64 each, such as ``["height", "width", "channels"]``: the sizes
            of each record's array, or those that are None in ``shape``.
        little_endian: Whether the least significant byte of each element comes first.
        fixed_length: Number of bytes that each value is cut or zero-padded to
            (``tf.io.decode_raw(..., fixed_length=...)``). By default a value must have exactly the
            bytes of its shape.
        valid_range: Range ``(low, high)`` of valid values, as for :class:`FixedLenFeature`; not for
            complex numbers.
        key: Name of the feature with the bytes; by default this feature's own name.
        compression: None, or "zlib": the bytes are one zlib stream that ends where they end
            (``tf.io.decode_compressed(..., compression_type="ZLIB")``).
        dequantize: Range ``(low, high)`` that bytes divide into 256 equal steps. The dtype is
            "uint8", the column is float32: ``value * ((high - low) / 255) + (high - low) / 512 +
            low``, as ``utils.Dequantize`` of YouTube-8M computes it. ``valid_range`` applies to
            these numbers.
        size: Size ``(height, width)`` that images, uint8 ``[H, W, 1 or 3]``, are resized to by
            Pillow's antialiased bilinear filter; the column is a Tensor ``[B, *size, C]``. The last
            size of ``shape`` is the number of channels.
        augment: Function that chooses a box for each record's image, as for :class:`ImageFeature`.
        max_bytes: Maximum size in bytes of decompressed arrays whose shape is not known from the
            schema. Nothing is decompressed beyond it. Needs ``compression``.

    Raises:
        SchemaError: If the dtype is not numeric; not exactly one of shape, shape_key and
            fixed_length is given (shape may stand beside fixed_length if they agree, or with a None
            beside shape_key); a None in the shape does not follow from the bytes; the names in
            shape_key are neither as many as the sizes in shape nor as its Nones; fixed_length is
            not a multiple of the element size; valid_range is not possible for the dtype; or
            options exclude each other.
    """

    column = "torchrec_io._parsing.columns.raw:build_raw"
    element_decoder = "torchrec_io._parsing.columns.raw:RawDecoder"
    places: ClassVar[frozenset[Place]] = frozenset({"example", "context", "ranked", "element"})

    dtype: RawDTypeName
    shape: tuple[int | None, ...] | None = None
    shape_key: str | Sequence[str] | None = None
    little_endian: bool = True
    fixed_length: int | None = None
    valid_range: Range = None
    key: str | None = None
    compression: Literal["zlib"] | None = None
    dequantize: tuple[float, float] | None = None
    max_bytes: int = _DEFAULT_MAX_BYTES
    size: tuple[int, int] | None = None
    augment: Augment | None = None

    def __init__(
        self,
        dtype: RawDType,
        shape: int | Sequence[int | None] | None = None,
        shape_key: str | Sequence[str] | None = None,
        *,
        little_endian: bool = True,
        fixed_length: int | None = None,
        valid_range: Range = None,
        key: str | None = None,
        compression: Literal["zlib"] | None = None,
        dequantize: Sequence[float] | None = None,
        max_bytes: int = _DEFAULT_MAX_BYTES,
        size: Sequence[int] | None = None,
        augment: Augment | None = None,
    ) -> None:
        if isinstance(shape_key, (list, tuple)):
            shape_key = tuple(shape_key)
        if shape_key is not None:
            for each in shape_key if isinstance(shape_key, tuple) else [shape_key]:
                check_key("shape_key", each)
        set_fields(self, shape_key=shape_key)
        set_fields(self, dtype=dtype_name(dtype, RAW_DTYPES), little_endian=bool(little_endian))
        count = None if fixed_length is None else self._count_in(fixed_length)
        set_fields(self, fixed_length=None if fixed_length is None else int(fixed_length))
        set_fields(self, key=check_own_key(key), compression=compression)
        set_fields(self, max_bytes=check_integer("max_bytes", max_bytes, 1))
        set_fields(self, dequantize=None if dequantize is None else self._check_steps(dequantize))
        set_fields(self, valid_range=check_range(valid_range, self.column_dtype))
        if shape is None and shape_key is None:
            shape = count
        set_fields(self, shape=None if shape is None else _check_open_shape(shape))
        set_fields(self, size=None if size is None else check_size(size), augment=augment)
        self._check_options()
        if count is not None and math.prod(self.known_shape or ()) != count:
            raise SchemaError(
                f"fixed_length must be the size of the shape {list(self.shape or ())} of "
                f"{self.dtype}, got {fixed_length}"
            )

    @property
    def shape_keys(self) -> tuple[str, ...]:
        """Names of the features with the shape."""
        if isinstance(self.shape_key, tuple):
            return self.shape_key
        return () if self.shape_key is None else (str(self.shape_key),)

    @property
    def cropped(self) -> ImageFeature | None:
        """Spec of the crop of an image; None if arrays are not cropped or resized."""
        if self.size is None and self.augment is None:
            return None
        channels: Any = (self.shape or (None,))[-1]
        return ImageFeature(
            channels, layout="HWC", size=self.size, augment=self.augment, max_pixels=1 << 62
        )

    @property
    def known_shape(self) -> tuple[int, ...] | None:
        if self.cropped is not None:
            return self.cropped.known_shape
        if self.shape is None:
            return None
        sizes = tuple(size for size in self.shape if size is not None)
        return sizes if len(sizes) == len(self.shape) else None

    @property
    def known_rank(self) -> int | None:
        if self.shape is None:
            return len(self.shape_keys) if isinstance(self.shape_key, tuple) else None
        return len(self.shape)

    @property
    def column_dtype(self) -> str:
        return "float32" if self.dequantize is not None else self.dtype

    @property
    def is_slow(self) -> bool:
        return self.compression is not None or self.cropped is not None

    @property
    def is_stored_as_is(self) -> bool:
        """True if a value is stored as the bytes of its array, in either byte order."""
        return self.compression is None and self.dequantize is None and self.cropped is None

    def check_beside(self, name: str, features: Mapping[str, Feature]) -> None:
        if self.cropped is not None:
            self.cropped.check_beside(name, features)

    def check_place(self, place: Place) -> None:
        super().check_place(place)
        if place == "ranked" and (self.known_shape is None or self.cropped is not None):
            raise SchemaError(
                "a RawFeature of the examples in lists needs a shape without None, and excludes "
                "size and augment"
            )
        if place == "element" and self.fixed_length is not None:
            raise SchemaError("an element of a SequenceFeature excludes fixed_length")

    def stored_keys(self, name: str) -> list[StoredKey]:
        values = StoredKey(self.key or name, "dense", "string", is_required=True)
        shapes = [StoredKey(key, "shape", "int64", is_required=True) for key in self.shape_keys]
        return [values, *shapes]

    def _count_in(self, size: int) -> int:
        """Return the number of elements in that many bytes."""
        if not is_integer(size) or size < 1 or size % item_bytes(self.dtype):
            raise SchemaError(
                f"fixed_length must be a positive multiple of {item_bytes(self.dtype)}, the size "
                f"of a {self.dtype}, got {size!r}"
            )
        return int(size) // item_bytes(self.dtype)

    def _check_steps(self, ends: Any) -> tuple[float, float]:
        if self.dtype != "uint8":
            raise SchemaError(f"dequantize needs the dtype 'uint8', got {self.dtype!r}")
        are_numbers = isinstance(ends, (tuple, list)) and all(
            is_integer(end) or isinstance(end, float) for end in ends
        )
        if not are_numbers or len(ends) != 2 or not -(2**127) < ends[0] < ends[1] < 2**127:
            raise SchemaError(f"dequantize must be (low, high) with low < high, got {ends!r}")
        return ends[0], ends[1]

    def _check_options(self) -> None:
        """Check that the shape follows from one option, and that the options go together."""
        if self.shape is None and self.shape_key is None:
            raise SchemaError("a RawFeature needs shape, shape_key or fixed_length")
        if self.shape is not None and self.shape_key is not None and None not in self.shape:
            raise SchemaError(
                "a RawFeature needs either shape or shape_key, or both with a None in the shape"
            )
        if isinstance(self.shape_key, tuple):
            shape = self.shape or self.shape_key
            if len(self.shape_key) not in (len(shape), shape.count(None)) or not self.shape_key:
                raise SchemaError(
                    "shape_key must name a feature for each size, or for each None in shape, got "
                    f"{list(self.shape_key)}"
                )
        if self.shape_key is None and None in (self.shape or ()):
            _check_one_unknown(self.shape or ())
        if self.compression not in (None, "zlib"):
            raise SchemaError(f"compression must be None or 'zlib', got {self.compression!r}")
        if self.max_bytes != _DEFAULT_MAX_BYTES and self.compression is None:
            raise SchemaError("max_bytes needs compression")
        if self.size is not None or self.augment is not None:
            self._check_image()
            set_fields(self, element_decoder=_IMAGE_DECODER)
        if self.fixed_length and (self.shape_key is not None or not self.is_stored_as_is):
            raise SchemaError("fixed_length excludes shape_key, compression and dequantize")

    def _check_image(self) -> None:
        shape = self.shape or ()
        if self.dtype != "uint8" or len(shape) != 3 or shape[2] not in (1, 3):
            raise SchemaError(
                "size and augment are for images: they need the dtype 'uint8' and a shape "
                f"[height, width, 1 or 3], got {self.dtype!r} and {list(shape)}"
            )
        if self.augment is not None and not callable(self.augment):
            raise SchemaError(f"augment must be a function, got {self.augment!r}")
        if self.compression or self.dequantize or self.fixed_length:
            raise SchemaError("size and augment exclude compression, dequantize and fixed_length")


def _check_open_shape(shape: Any) -> tuple[int | None, ...]:
    """Return a shape in which sizes may be None."""
    try:
        sizes = list(shape)
    except (TypeError, ValueError):  # an int, or a TensorShape of unknown rank
        return check_shape(shape)
    known = iter(check_shape([size for size in sizes if size is not None]))
    return tuple(None if size is None else next(known) for size in sizes)


def _check_one_unknown(shape: Sequence[int | None]) -> None:
    if list(shape).count(None) > 1:
        raise SchemaError(
            f"shape must have at most one None without a shape_key, got {list(shape)}"
        )
    if 0 in shape:
        raise SchemaError(
            f"shape must have no 0 beside a None, got {list(shape)}: such an array has no bytes"
        )


@dataclass(frozen=True)
class SerializedTensorFeature(Feature):
    """A tensor that ``tf.io.serialize_tensor`` wrote, read as by ``tf.io.parse_tensor``.

    With ``shape`` the column is a Tensor ``[B, *shape]``, or for "string" a :class:`BytesArray` of
    that shape. Without, it is a list of B Tensors or BytesArrays, each of its own shape.

    Args:
        dtype: Stored dtype. Values are not cast.
        shape: Shape that every record's tensor must have.
        key: Name of the stored feature; by default this feature's own name.

    Raises:
        SchemaError: If the dtype does not exist, or key is not a name.
    """

    column = "torchrec_io._parsing.columns.tensor:SerializedTensorBuilder"

    dtype: Literal[RawDTypeName, "string"]
    shape: tuple[int, ...] | None = None
    key: str | None = None

    def __init__(
        self,
        dtype: RawDType | Literal["string"],
        shape: Shape | None = None,
        *,
        key: str | None = None,
    ) -> None:
        set_fields(self, dtype=dtype_name(dtype, (*RAW_DTYPES, "string")), key=check_own_key(key))
        set_fields(self, shape=None if shape is None else check_shape(shape))

    @property
    def known_shape(self) -> tuple[int, ...] | None:
        return self.shape


@dataclass(frozen=True)
class SequenceFeature(Feature):
    """Any number of bytes values in one feature, each an image or an array of its own.

    In feature lists of SequenceExamples each step has one bytes value. A missing feature has no
    elements. Elements are decoded by several threads.

    If all elements have one shape (``ImageFeature.size``, or a ``RawFeature.shape`` without None),
    the column is a :class:`Ragged` of values ``[N, *shape]``: records, then the rows of each
    partition, then the elements. With ``length`` it is a Tensor ``[B, length, *shape]``.

    If they have different shapes, the column is a list of B Tensors ``[n, *shape]``, each of its
    own n and shape. The elements of one record must have one shape. For a record without elements,
    sizes that are known only from elements are 0. With partitions it is a list of B Raggeds.

    Args:
        element: Spec of each element: an :class:`ImageFeature` or a :class:`RawFeature`. With a
            ``shape_key`` the shapes of a record's elements are stored one after another.
        length: Number of elements that every record must have.
        key: Name of the feature with the values; by default this feature's own name.
        partitions: Partitions of the elements, as for :class:`RaggedFeature`; not in feature lists.
        row_splits_dtype: Dtype of the offsets: "int32" or "int64".

    Raises:
        SchemaError: If the element is another spec, or has ``augment``, ``mixed="pad"``,
            ``decoder=None``, ``fixed_length`` or a ``key`` of its own; length and partitions are
            both given; or another argument is not one of the above.
    """

    column = "torchrec_io._parsing.columns.decoded:build_decoded"
    places: ClassVar[frozenset[Place]] = frozenset({"example", "context", "sequence"})
    has_steps = True

    element: Feature
    length: int | None = None
    key: str | None = None
    partitions: Sequence[Any] = ()
    row_splits_dtype: OffsetDTypeName = "int64"

    def __init__(
        self,
        element: Feature,
        length: int | None = None,
        key: str | None = None,
        partitions: Sequence[Any] = (),
        row_splits_dtype: OffsetDType = "int64",
    ) -> None:
        if not isinstance(element, Feature):
            raise SchemaError(f"the element of a SequenceFeature must be a spec, got {element!r}")
        element.check_place("element")
        set_fields(self, element=element, key=check_own_key(key))
        set_fields(self, dtype=element.dtype, valid_range=element.valid_range)
        set_fields(self, length=None if length is None else check_integer("length", length))
        set_fields(self, partitions=as_partitions(partitions))
        set_fields(self, row_splits_dtype=dtype_name(row_splits_dtype, ("int32", "int64")))
        if self.length is not None and self.partitions:
            raise SchemaError("a SequenceFeature takes either length or partitions")

    @property
    def column_dtype(self) -> str:
        return self.element.column_dtype

    @property
    def known_rank(self) -> int | None:
        rank = self.element.known_rank
        return None if rank is None or self.partitions else rank + 1

    @property
    def is_slow(self) -> bool:
        return self.element.is_slow

    def check_beside(self, name: str, features: Mapping[str, Feature]) -> None:
        self.element.check_beside(name, features)

    def check_place(self, place: Place) -> None:
        super().check_place(place)
        if place == "sequence" and self.partitions:
            raise SchemaError("a SequenceFeature of a feature list takes no partitions")

    def stored_keys(self, name: str) -> list[StoredKey]:
        _, *shapes = self.element.stored_keys(name)
        is_required = bool(self.length) and not self.partitions
        return [
            StoredKey(self.key or name, "sparse", "string", is_required=is_required),
            *(key._replace(is_required=False) for key in shapes),
            *partition_keys(self.partitions, self.row_splits_dtype),
        ]

    def step_count(self, name: str) -> StoredCount | None:
        return outer_row_count(StoredCount(self.key or name, "string"), self.partitions)

    def as_stored(self, name: str) -> Feature:
        return VarLenFeature("string", key=self._only_key(name))
