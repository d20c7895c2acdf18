"""Columns of arrays that are stored as the bytes of their elements."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ... import _core
from ..._images.bad_value import BadValueError
from ..._images.inflate import inflate
from ..._schema.dtypes import MOST_VALUES, item_bytes
from ..._schema.stored_keys import StoredKey
from ..._schema.stored_specs import RawFeature
from ...checks import counted
from ..arrays import Arena, Ints
from ..layout import Column
from .base import ColumnBuilder, LocatedBlock
from .decoded import build_decoded
from .elements import ElementDecoder, Elements

_BAD_BOOL = "a byte of a bool array is neither 0 nor 1"


class _RawArray(NamedTuple):
    """An array as it is stored, but decompressed."""

    shape: tuple[int, ...]
    content: bytes | memoryview


class RawDecoder(ElementDecoder):
    """Decoder of the values of a RawFeature."""

    feature: RawFeature

    def __init__(self, name: str, feature: RawFeature) -> None:
        super().__init__(name, feature)
        unknown = (None,) * (feature.known_rank or 0)
        self.empty_shape = tuple(size or 0 for size in feature.shape or unknown)
        self._item_bytes = item_bytes(feature.dtype)
        self._steps = None if feature.dequantize is None else _steps_of(*feature.dequantize)

    # ---- arrays of one known shape ----

    def fill(
        self, block: LocatedBlock, spec: int, elements: Elements, out: npt.NDArray[Any]
    ) -> None:
        if self.feature.compression is not None:
            super().fill(block, spec, elements, out)
            return
        assert self.known_shape is not None
        size = self._bytes_of(self.known_shape)
        for number in np.flatnonzero(elements.sizes != size).tolist():
            reason = self._wrong_size(int(elements.sizes[number]), self.known_shape)
            block.fail(int(elements.records[number]), spec, reason)
        if block.failures:
            return
        rows = out.reshape(len(out), math.prod(self.known_shape))
        is_direct = self._steps is None and size > 0
        stored = rows.view(np.uint8) if is_direct else np.empty((len(out), size), np.uint8)
        block.records.copy_parts(elements.records, elements.offsets, size, stored.reshape(-1))
        if self._steps is not None:
            np.take(self._steps, stored, out=rows, mode="clip")  # no byte is out of range
        else:
            complete_rows(block, spec, elements.records, self.feature, stored)

    # ---- others ----

    def decode(self, value: memoryview, block: LocatedBlock, record: int) -> _RawArray:
        del block, record
        return self.array_of(value, None)

    def decode_all(self, block: LocatedBlock, spec: int, elements: Elements) -> list[Any]:
        shapes = self.stored_shapes(block, spec, elements)
        values = elements.values(block)
        arrays: list[Any] = [None] * len(values)
        if block.failures:
            return arrays

        def work(number: int) -> None:
            arrays[number] = self.array_of(values[number], shapes[number])

        elements.each(block, spec, work, self.threads(block))
        return arrays

    def store(self, decoded: _RawArray, out: npt.NDArray[Any]) -> None:
        stored = np.frombuffer(decoded.content, np.uint8)
        if self._steps is not None:
            np.take(self._steps, stored, out=out, mode="clip")
            return
        data = out.view(np.uint8)
        data[...] = stored
        swap_bytes(data, self.feature)
        if self.feature.dtype == "bool" and data.size and data.max() > 1:
            raise BadValueError(_BAD_BOOL)

    def array_of(self, value: memoryview, sizes: Sequence[int] | None) -> _RawArray:
        """Return the array of a value.

        Args:
            value: The stored bytes.
            sizes: Stored shape, if there is a ``shape_key``.

        Raises:
            BadValueError: If it has another shape or size, or is damaged.
        """
        shape = self.known_shape
        if sizes is not None:
            shape = self._checked_shape(sizes)
        feature = self.feature
        if feature.compression is not None:
            most, bound = feature.max_bytes, f"max_bytes={feature.max_bytes}"
            if shape is not None:
                size = self._bytes_of(shape)
                if sizes is not None and size > most:
                    raise BadValueError(
                        f"its shape {list(shape)} has {counted(size, 'byte')}, over {bound}"
                    )
                most, bound = size, f"the size of its shape {list(shape)} of {feature.dtype}"
            value = memoryview(inflate(value, most, bound))
        if shape is None:
            shape = self._complete_shape(len(value))
        if self._bytes_of(shape) != len(value):
            raise BadValueError(self._wrong_size(len(value), shape))
        return _RawArray(shape, value)

    def _checked_shape(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """Return a stored shape that can exist and agrees with the spec."""
        count = 1  # strides are products of the other sizes, also where a size is 0
        for extent in sizes:
            if extent < 0:
                raise BadValueError(f"its shape {list(sizes)} has a negative size")
            count *= max(1, extent)
            if count >= MOST_VALUES:
                raise BadValueError(f"its shape {list(sizes)} does not fit in memory")
        wanted = self.feature.shape
        if wanted is not None and (
            len(wanted) != len(sizes)
            or any(size not in (None, found) for size, found in zip(wanted, sizes, strict=True))
        ):
            raise BadValueError(f"its shape is {list(sizes)}, the schema wants {list(wanted)}")
        return tuple(sizes)

    def _complete_shape(self, size: int) -> tuple[int, ...]:
        """Return the shape of an array of that many bytes, with its unknown size."""
        shape = self.feature.shape
        assert shape is not None
        step = self._bytes_of([extent for extent in shape if extent is not None])
        if size % step:
            raise BadValueError(
                f"it has {counted(size, 'byte')}, its shape {list(shape)} of {self.feature.dtype} "
                f"needs a multiple of {step}"
            )
        return tuple(size // step if extent is None else extent for extent in shape)

    def _bytes_of(self, shape: Sequence[int]) -> int:
        return math.prod(shape) * self._item_bytes

    def _wrong_size(self, size: int, shape: Sequence[int]) -> str:
        return (
            f"it has {counted(size, 'byte')}, its shape {list(shape)} of {self.feature.dtype} "
            f"needs {self._bytes_of(shape)}"
        )

    def stored_shapes(
        self, block: LocatedBlock, spec: int, elements: Elements
    ) -> list[list[int] | None]:
        """Return the stored shape of each element; None without a ``shape_key``."""
        keys, known = self.feature.shape_keys, self.feature.shape
        before = len(block.failures)  # other features of the block may have failed
        parts = [self._stored_sizes(block, spec, elements, at) for at in range(len(keys))]
        if not keys or len(block.failures) > before:
            return [None] * len(elements.sizes)
        shapes = [list(itertools.chain(*sizes)) for sizes in zip(*parts, strict=True)]
        if known is None or isinstance(self.feature.shape_key, str) or len(keys) == len(known):
            return [*shapes]
        left = itertools.chain(*shapes)  # for each None
        return [[next(left) if size is None else size for size in known] for _ in shapes]

    def _stored_sizes(
        self, block: LocatedBlock, spec: int, elements: Elements, number: int
    ) -> list[list[int]]:
        """Return the sizes of each element in one of the features with the shape.

        Args:
            block: The records.
            spec: Position of the native spec of the values.
            elements: The elements.
            number: Number of the feature among those with the shape.
        """
        sizes, offsets, rows = block.integers(spec + 1 + number)
        begins = offsets[rows]
        stored = np.diff(elements.stored)
        ranks = np.diff(begins) // np.maximum(stored, 1)
        wanted = ranks * stored if isinstance(self.feature.shape_key, str) else stored
        for record in np.flatnonzero(wanted != np.diff(begins)).tolist():
            found = int(begins[record + 1] - begins[record])
            reason = (
                f"{self.feature.shape_keys[number]!r} holds {counted(found, 'value')}, which "
                f"cannot be the shapes of {counted(int(stored[record]), 'array')}"
            )
            block.fail(record, spec, reason)
        each = ranks[elements.records]
        firsts = begins[elements.records]
        firsts += (elements.numbers - elements.stored[elements.records]) * each
        pairs = zip(firsts.tolist(), each.tolist(), strict=True)
        numbers = sizes.tolist()
        return [numbers[first : first + rank] for first, rank in pairs]


def complete_rows(
    block: LocatedBlock,
    spec: int,
    records: Ints,
    feature: RawFeature,
    rows: npt.NDArray[np.uint8],
) -> None:
    """Swap the bytes of stored arrays if necessary; fail the records of bad bools.

    Args:
        block: The records.
        spec: Position of the native spec.
        records: Record of each array.
        feature: Spec of the arrays.
        rows: Bytes of each array.
    """
    swap_bytes(rows, feature)
    if feature.dtype == "bool":
        for number in np.flatnonzero((rows > 1).any(axis=1)).tolist():
            block.fail(int(records[number]), spec, _BAD_BOOL)


def swap_bytes(data: npt.NDArray[np.uint8], feature: RawFeature) -> None:
    """Swap the bytes of elements that are stored big-endian; of complex numbers in each half."""
    size = item_bytes(feature.dtype) // (2 if feature.dtype.startswith("complex") else 1)
    if not feature.little_endian and size > 1 and data.size:
        data.view(f"u{size}").byteswap(inplace=True)


def _steps_of(low: float, high: float) -> npt.NDArray[np.float32]:
    """Return the number of each byte, computed in float32 as TensorFlow does."""
    scale = np.float32((high - low) / 255.0)
    bias = np.float32((high - low) / 512.0 + low)
    return np.arange(256, dtype=np.float32) * scale + bias


class _CopiedBuilder(ColumnBuilder):
    """Builder of a column of arrays of a known shape. The native parser copies their bytes."""

    feature: RawFeature

    def __init__(self, name: str, feature: RawFeature, *, in_lists: bool = False) -> None:
        super().__init__(name, feature, in_lists=in_lists)
        self.dense = feature.dtype, feature.known_shape or ()
        is_swapped = not feature.little_endian and item_bytes(feature.dtype) > 1
        self.has_layout = is_swapped or feature.dtype == "bool"

    def value_spec(self, stored: StoredKey) -> _core.FeatureSpec:
        types = _core.ColumnType
        column_type = types.raw_bytes if self.feature.fixed_length is None else types.resized_bytes
        return self.native_spec(stored, column_type, count=self._bytes_per_record())

    def _bytes_per_record(self) -> int:
        return math.prod(self.feature.known_shape or ()) * item_bytes(self.feature.dtype)

    def lay_out(self, block: LocatedBlock) -> list[Column]:
        if len(block):  # NumPy refuses an array of no rows whose rows are too large
            block.finishers.append(self._finish)
        return []  # it is dense

    def _finish(self, block: LocatedBlock, arena: Arena) -> None:
        size = self._bytes_per_record()
        at = block.targets.data_offset(self.first_spec)
        rows = arena[at : at + len(block) * size].reshape(len(block), size)
        complete_rows(block, self.first_spec, np.arange(len(block)), self.feature, rows)


def build_raw(name: str, feature: RawFeature, *, in_lists: bool = False) -> ColumnBuilder:
    """Return the builder of the column of a RawFeature."""
    if feature.known_shape is not None and feature.is_stored_as_is:
        return _CopiedBuilder(name, feature, in_lists=in_lists)
    return build_decoded(name, feature, in_lists=in_lists)
