"""Columns that do not fit in a plain Tensor: bytes values, ragged rows and sparse arrays."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, NoReturn, Self, overload

import torch
from torch import Tensor

from ..checks import counted
from ..display import brief, brief_line, html_table
from .padding import PaddedLength, fill_rows


class TensorParts:
    """Base of columns that are made of several Tensors, or of columns that are."""

    __slots__ = ()
    PARTS: ClassVar[tuple[str, ...]]
    """Names of the parts."""
    AS_ARRAYS: ClassVar[str] = ""
    """Ways to get arrays of the values."""

    def to(self, device: torch.device | str | int, non_blocking: bool = False) -> Self:
        """Return a copy on another device. Arguments are those of ``Tensor.to``."""
        return self._changed(lambda part: part.to(device, non_blocking=non_blocking))

    def pin_memory(self) -> Self:
        """Return a copy in page-locked memory."""
        return self._changed(lambda part: part.pin_memory())

    def is_pinned(self) -> bool:
        """Return whether the data is in page-locked memory."""
        return all(part.is_pinned() for part in self._tensors())

    def record_stream(self, stream: Any) -> None:
        """Keep the memory until ``stream`` is done with it; see ``Tensor.record_stream``."""
        for part in self._tensors():
            part.record_stream(stream)

    @property
    def device(self) -> torch.device:
        """Device of the data."""
        device: torch.device = self._tensors()[0].device
        return device

    @property
    def parts(self) -> list[Any]:
        """Internal interface: the parts, in the order of the pytree."""
        return [getattr(self, name) for name in self.PARTS]

    def with_parts(self, parts: Iterable[Any]) -> Self:
        """Internal interface: return a copy with other parts, of any type."""
        changed = copy.copy(self)
        for name, part in zip(self.PARTS, parts, strict=True):
            setattr(changed, name, part)
        return changed

    def _tensors(self) -> list[Any]:
        """Return the parts, which must be Tensors, or columns made of them."""
        for name, part in zip(self.PARTS, self.parts, strict=True):
            if not isinstance(part, (Tensor, TensorParts)):
                raise TypeError(
                    f"the {name} of a {type(self).__name__} must be a Tensor, got "
                    f"{type(part).__name__}"
                )
        return self.parts

    def _changed(self, change: Callable[[Any], Any]) -> Self:
        """Return a copy whose parts are the results of a function."""
        return self.with_parts(map(change, self._tensors()))

    def _refuse_array(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} is not a single array: use {self.AS_ARRAYS}")

    __array__: Any = _refuse_array
    __dlpack__: Any = _refuse_array
    __dlpack_device__: Any = _refuse_array


def has_rows(value: Any) -> bool:
    """Return whether a value is a Tensor with at least one dimension."""
    return isinstance(value, Tensor) and value.dim() > 0


def integers(values: Any, name: str) -> list[Any]:
    """Return a Tensor of integers as a list.

    Raises:
        TypeError: If it is no Tensor of integers, for example after ``tree_map``.
    """
    if isinstance(values, Tensor) and not (values.is_floating_point() or values.is_complex()):
        found: list[Any] = values.tolist()
        return found
    got = values.dtype if isinstance(values, Tensor) else type(values).__name__
    raise TypeError(f"{name} must be a Tensor of integers, got {got}")


# ---- descriptions ----


def name_dtype(value: Tensor) -> str:
    """Return the name of the dtype of a tensor, such as "float32"."""
    return str(value.dtype).removeprefix("torch.")


def name_kind(values: Any) -> str:
    """Return the dtype of a Tensor or BytesArray."""
    if isinstance(values, Tensor):
        return name_dtype(values)
    return "bytes" if isinstance(values, BytesArray) else brief(values)


def is_in_memory(value: Any) -> bool:
    """Return whether a column can be shown without waiting for a device."""
    if isinstance(value, list):
        return all(map(is_in_memory, value))
    if not isinstance(value, TensorParts):
        return isinstance(value, Tensor) and value.device.type == "cpu"
    offsets = getattr(value, "offsets", None)
    is_valid = offsets is None or (
        has_rows(offsets) and offsets.dtype in (torch.int32, torch.int64)
    )
    return is_valid and all(map(is_in_memory, value.parts))


def first_values(value: Any, count: int = 7) -> Any:
    """Return the first values of a column in memory, in nested lists.

    Args:
        value: The column, or rows of one.
        count: Largest length of the lists.
    """
    if isinstance(value, bytes):
        return value
    if isinstance(value, Tensor) and value.dim() == 0:
        number = value.item()
        return float(f"{number:.6g}") if isinstance(number, float) else number
    if isinstance(value, Sparse):
        return first_values(value.values, count)
    rows = value.flat() if isinstance(value, BytesArray) and not value.shape else value[:count]
    return [first_values(row, min(count, 7)) for row in rows]


def _text_of(column: BytesArray | Ragged, about: str) -> str:
    """Return the first rows of a column, one a line, and the rest of the text about it."""
    name = type(column).__name__
    if not is_in_memory(column):
        return f"{name}({about})"
    rows = [brief_line(row) for row in first_values(column)]
    rows[6:] = ["..."] * (len(rows) > 6)
    lines = f",\n{' ' * (len(name) + 2)}".join(rows)
    return f"{name}([{lines}], {about})"


def _html_of(column: BytesArray | Ragged, about: str, count: int) -> str:
    values = first_values(column, 10) if is_in_memory(column) else []
    rows = ((str(number), brief_line(row)) for number, row in enumerate(values))
    return html_table(
        f"{type(column).__name__}: {about}", ("row", "values"), rows, count if values else 0
    )


class BytesArray(TensorParts):
    """An array of bytes values of any size, stored in two Tensors.

    Value ``i`` of the flattened array is ``data[offsets[i] : offsets[i + 1]]``.

    Attributes:
        data: Bytes of all values, uint8 ``[total bytes]``.
        offsets: Ascending offsets of the n values in ``data``, int64 ``[n + 1]``. The first one
            may be greater than 0.
        shape: Shape of the array. Its product is n.
    """

    __slots__ = ("data", "offsets", "shape")
    PARTS: ClassVar[tuple[str, ...]] = ("data", "offsets")
    AS_ARRAYS: ClassVar[str] = "tolist(), decode(), or its Tensors data and offsets"

    def __init__(self, data: Tensor, offsets: Tensor, shape: tuple[int, ...] | None = None) -> None:
        self.data: Tensor = data
        self.offsets: Tensor = offsets
        self.shape: tuple[int, ...] = (len(offsets) - 1,) if shape is None else tuple(shape)
        self._check_shape(len(offsets) - 1)

    @classmethod
    def from_list(cls, values: list[bytes]) -> BytesArray:
        """Return an array ``[n]`` of n bytes values."""
        ends = list(itertools.accumulate((len(value) for value in values), initial=0))
        joined = bytearray(b"".join(values))
        data = torch.frombuffer(joined, dtype=torch.uint8) if joined else torch.empty(0).byte()
        return cls(data, torch.tensor(ends))

    def _check_shape(self, count: int) -> None:
        if math.prod(self.shape) != count:
            raise ValueError(f"shape must hold {counted(count, 'value')}, got {self.shape}")

    def _bounds(self) -> list[int]:
        """Return the offsets, which may have been replaced since the array was made."""
        offsets = integers(self.offsets, "offsets")
        self._check_shape(len(offsets) - 1)
        return offsets

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a BytesArray without dimensions has no len()")
        return self.shape[0]

    def __getitem__(self, index: int | slice) -> bytes | BytesArray:
        """Return a row: bytes if it is one value, otherwise an array that shares the data.

        A slice returns an array of several rows. Its step must be 1.
        """
        row_shape = self.shape[1:]
        row = math.prod(row_shape)
        if isinstance(index, slice):
            begin, end, step = index.indices(len(self))
            if step != 1:
                raise ValueError(f"the step of a slice of a BytesArray must be 1, got {step}")
            end = max(begin, end)
            return BytesArray(
                self.data, self.offsets[begin * row : end * row + 1], (end - begin, *row_shape)
            )
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of range for {counted(len(self), 'row')}")
        index %= len(self)
        offsets = self.offsets[index * row : (index + 1) * row + 1]
        if row_shape:
            return BytesArray(self.data, offsets, row_shape)
        begin, end = offsets.tolist()
        return self.data[begin:end].cpu().numpy().tobytes()

    def __iter__(self) -> Iterator[bytes | BytesArray]:
        return (self[i] for i in range(len(self)))

    def flat(self) -> list[bytes]:
        """Return all values in row-major order."""
        offsets = self._bounds()
        if len(offsets) == 1:
            return []
        joined = self.data[offsets[0] : offsets[-1]].cpu().numpy().tobytes()
        return [
            joined[begin - offsets[0] : end - offsets[0]]
            for begin, end in itertools.pairwise(offsets)
        ]

    def views(self) -> list[Tensor]:
        """Return all values in row-major order, as uint8 Tensors ``[bytes]`` that share the data.

        Functions such as ``torchcodec.decoders.decode_jpeg`` accept these Tensors.
        """
        offsets = self._bounds()
        return [self.data[begin:end] for begin, end in itertools.pairwise(offsets)]

    def tolist(self) -> Any:
        """Return the values in nested lists, or one bytes object if there are no dimensions."""
        return self._nested(self.flat())

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> Any:
        """Return the values as str in nested lists, or one str if there are no dimensions.

        Args:
            encoding: Encoding of the values, as for ``bytes.decode``.
            errors: Treatment of values that are not valid, such as "replace", as for
                ``bytes.decode``.

        Raises:
            LookupError: If the encoding or the treatment does not exist.
            UnicodeDecodeError: If a value is not valid. The error names its row.
        """
        texts = []
        for number, value in enumerate(self.flat()):
            try:
                texts.append(value.decode(encoding, errors))
            except UnicodeDecodeError as error:
                row = number // math.prod(self.shape[1:])
                hint = "pass errors='replace', or use tolist() for values that are not text"
                error.reason = f"{error.reason}, in row {row}: {hint}"
                raise
        return self._nested(texts)

    def _nested(self, values: list[Any]) -> Any:
        for axis in range(len(self.shape) - 1, 0, -1):
            rows, size = math.prod(self.shape[:axis]), self.shape[axis]
            values = [values[i * size : (i + 1) * size] for i in range(rows)]
        return values if self.shape else values[0]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BytesArray):
            return NotImplemented
        return self.shape == other.shape and self.flat() == other.flat()

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # its Tensors are mutable

    def _about(self) -> str:
        device = "" if is_in_memory(self) else f", device='{self.data.device}'"
        return f"shape={self.shape}, {counted(self.data.numel(), 'byte')} of data{device}"

    def __repr__(self) -> str:
        if not isinstance(self.data, Tensor):
            return f"BytesArray(data={self.data!r}, offsets={self.offsets!r}, shape={self.shape})"
        return _text_of(self, self._about())

    def _repr_html_(self) -> str:
        return _html_of(self, self._about(), math.prod(self.shape[:1]))


class Ragged(TensorParts):
    """Rows of any length: values in one array, and the offsets of the rows in it.

    Row ``i`` is ``values[offsets[i] : offsets[i + 1]]``. The values may be rows themselves.

    Attributes:
        values: Values of all rows: a Tensor ``[total, ...]``, a :class:`BytesArray` of such a
            shape, or another Ragged of ``total`` rows.
        offsets: Offsets of the rows, int64 or int32 ``[rows + 1]``. They ascend from 0, unless a
            RaggedFeature with ``validate=False`` read others.
    """

    __slots__ = ("offsets", "values")
    PARTS: ClassVar[tuple[str, ...]] = ("offsets", "values")
    AS_ARRAYS: ClassVar[str] = "to_padded(), tolist(), or its Tensors values and offsets"

    def __init__(self, values: Tensor | BytesArray | Ragged, offsets: Tensor) -> None:
        self.values: Tensor | BytesArray | Ragged = values
        self.offsets: Tensor = offsets

    @property
    def lengths(self) -> Tensor:
        """Number of values in each row: ``[rows]``, of the dtype of ``offsets``."""
        return self.offsets.diff()

    @property
    def flat_values(self) -> Tensor | BytesArray:
        """Values of the innermost rows."""
        return self.values.flat_values if isinstance(self.values, Ragged) else self.values

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, index: int) -> Tensor | BytesArray | Ragged: ...
    @overload
    def __getitem__(self, index: slice) -> Ragged: ...
    def __getitem__(self, index: int | slice) -> Tensor | BytesArray | Ragged:
        """Return a row, or a Ragged of a slice of rows. Values are shared, not copied."""
        if isinstance(index, slice):
            begin, end, step = index.indices(len(self))
            if step != 1:
                raise ValueError(f"the step of a slice of a Ragged must be 1, got {step}")
            offsets = self.offsets[begin : max(begin, end) + 1]
            first, last = offsets[[0, -1]].tolist()
            return Ragged(_cut(self.values, first, last), offsets - first)
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of range for {counted(len(self), 'row')}")
        begin, end = self.offsets[index % len(self) :][:2].tolist()
        row: Tensor | BytesArray | Ragged = _cut(self.values, begin, end)
        return row

    def __iter__(self) -> Iterator[Tensor | BytesArray | Ragged]:
        return iter(self.rows())

    def rows(self) -> list[Tensor | BytesArray | Ragged]:
        """Return all rows. Values are shared, not copied."""
        offsets = integers(self.offsets, "offsets")
        return [_cut(self.values, begin, end) for begin, end in itertools.pairwise(offsets)]

    def tolist(self) -> list[list[Any]]:
        """Return the rows as nested lists of Python numbers or bytes."""
        offsets = integers(self.offsets, "offsets")
        values = self.values.tolist()
        return [values[begin:end] for begin, end in itertools.pairwise(offsets)]

    def to_padded(
        self,
        fill: float = 0,
        max_len: int | None = None,
        buckets: Sequence[int] | None = None,
    ) -> Tensor:
        """Return a dense Tensor ``[rows, longest, ...]``, with a dimension for each level of rows.

        Args:
            fill: Fill value after the end of shorter rows. Default: 0.
            max_len: Maximum length of the outermost rows; longer rows are cut. Default: no limit.
            buckets: Lengths in ascending order. The outermost rows are padded to the smallest
                bucket that holds the longest row, so that few shapes occur. Default: pad to the
                longest row.

        Raises:
            TypeError: If the values are bytes.
            ValueError: If a row is longer than the last bucket, if ``max_len`` is negative or
                exceeds the last bucket, or if ``buckets`` are not ascending.
        """
        values = self.values.to_padded(fill) if isinstance(self.values, Ragged) else self.values
        if not isinstance(values, Tensor):
            raise TypeError("rows of bytes cannot be padded to a Tensor: use tolist()")
        longest = int(self.lengths.max()) if len(self) else 0
        length = PaddedLength.of(max_len, buckets).length(longest)
        padded = values.new_full((len(self), length, *values.shape[1:]), fill)
        fill_rows(padded, values, self.offsets, max_len)
        return padded

    def to_nested(self) -> Tensor:
        """Return a nested tensor of jagged layout that shares the values.

        Raises:
            TypeError: If the values are bytes or rows, because PyTorch supports one ragged
                dimension of numbers. Use :meth:`tolist` or :meth:`to_padded` for these.
            ValueError: If the offsets do not ascend.
        """
        if not isinstance(self.values, Tensor):
            other = "to_padded()" if isinstance(self.flat_values, Tensor) else "tolist()"
            raise TypeError(f"only a Ragged of numbers can become a nested tensor: use {other}")
        if bool((self.lengths < 0).any()):
            raise ValueError("the offsets do not ascend")
        return torch.nested.nested_tensor_from_jagged(self.values, self.offsets.long())

    def to_jagged(self) -> tuple[Tensor, Tensor]:
        """Return values and lengths for TorchRec's ``JaggedTensor(values, lengths)``.

        Returns:
            The values, not copied; and the length of each row, ``[rows]``, of the dtype of
            ``offsets``.

        Raises:
            TypeError: If the values are bytes or rows.
            ValueError: If the rows are not contiguous, so that lengths cannot describe them.
        """
        if not isinstance(self.values, Tensor):
            raise TypeError("only a Ragged of numbers can become a jagged tensor")
        lengths = self.lengths
        first, last = self.offsets[[0, -1]].tolist()
        if (first, last) != (0, len(self.values)) or bool((lengths < 0).any()):
            raise ValueError("the rows are not contiguous from the first value to the last")
        return self.values, lengths

    def to_sparse(self) -> Tensor:
        """Return a sparse COO tensor ``[rows, longest, ...]``, like TensorFlow's VarLenFeature."""
        values = self.flat_values
        if not isinstance(values, Tensor):
            raise TypeError("rows of bytes cannot become a sparse tensor")
        indices, shape = _coordinates(self)
        return torch.sparse_coo_tensor(
            indices,
            values,
            (*shape, *values.shape[1:]),
            is_coalesced=True,
            check_invariants=False,
        )

    def _about(self) -> str:
        about = f"rows={len(self)}, dtype={name_kind(self.flat_values)}"
        if not is_in_memory(self):
            return f"{about}, device='{self.offsets.device}'"
        return f"{about}, offsets={brief(first_values(self.offsets))}"

    def __repr__(self) -> str:
        if not has_rows(self.offsets):
            return f"Ragged(values={self.values!r}, offsets={self.offsets!r})"
        return _text_of(self, self._about())

    def _repr_html_(self) -> str:
        return _html_of(self, self._about(), len(self))


def _coordinates(ragged: Ragged) -> tuple[Tensor, tuple[int, ...]]:
    """Return the coordinates of each flat value, int64 ``[levels + 1, n]``, and the dense shape."""
    lengths = ragged.lengths
    rows = torch.repeat_interleave(torch.arange(len(ragged), device=lengths.device), lengths)
    within = torch.arange(len(rows), device=lengths.device) - ragged.offsets[rows]
    shape = (len(ragged), int(lengths.max()) if len(ragged) else 0)
    if not isinstance(ragged.values, Ragged):
        return torch.stack((rows, within)), shape
    inner, inner_shape = _coordinates(ragged.values)
    row = inner[0]
    return torch.stack((rows[row], within[row], *inner[1:])), (*shape, *inner_shape[1:])


def _cut(values: Any, begin: int, end: int) -> Any:
    # Offsets that were not validated may be negative. Python would count these from the end.
    return values[max(begin, 0) : max(end, 0)]


class Sparse(TensorParts):
    """A sparse array: values and their indices.

    Attributes:
        indices: Index of each value, int64 ``[n, rank]``. In a batch, the first component is the
            record.
        values: Tensor or :class:`BytesArray` ``[n]``.
        dense_shape: Shape of the array.
    """

    __slots__ = ("dense_shape", "indices", "values")
    PARTS: ClassVar[tuple[str, ...]] = ("indices", "values")
    AS_ARRAYS: ClassVar[str] = "to_coo(), or its Tensors indices and values"

    def __init__(
        self, indices: Tensor, values: Tensor | BytesArray, dense_shape: tuple[int, ...]
    ) -> None:
        self.indices: Tensor = indices
        self.values: Tensor | BytesArray = values
        self.dense_shape: tuple[int, ...] = tuple(dense_shape)

    def __len__(self) -> int:
        return self.dense_shape[0]

    def rows(self) -> list[Sparse]:
        """Return the parts along the first dimension, without it. Values are shared, not copied."""
        counts = torch.bincount(self.indices[:, 0], minlength=len(self)).tolist()
        ends = list(itertools.accumulate(counts, initial=0))
        return [
            Sparse(self.indices[b:e, 1:], _cut(self.values, b, e), self.dense_shape[1:])
            for b, e in itertools.pairwise(ends)
        ]

    def to_coo(self) -> Tensor:
        """Return a sparse COO tensor that shares the values. It is not coalesced.

        Raises:
            TypeError: If the values are bytes.
        """
        if not isinstance(self.values, Tensor):
            raise TypeError("a Sparse of bytes cannot become a sparse tensor")
        return torch.sparse_coo_tensor(
            self.indices.t(), self.values, self.dense_shape, check_invariants=False
        )

    def __repr__(self) -> str:
        shape = list(self.dense_shape)
        if not has_rows(self.indices):
            return f"Sparse(indices={self.indices!r}, values={self.values!r}, shape={shape})"
        return f"Sparse({counted(len(self.indices), 'value')} in {shape})"
