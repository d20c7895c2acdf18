"""Columns that a plain tensor cannot hold: rows of any length, and bytes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor


class BytesArray:
    """An array of bytes values of any size, held in two tensors.

    Value ``i`` of the flattened array is ``data[offsets[i] : offsets[i + 1]]``.

    Attributes:
        data: uint8 ``[total bytes]``.
        offsets: int64 ``[n + 1]``, ascending; the first is where the first value starts.
        shape: Of the array; its product is n.
    """

    __slots__ = ("data", "offsets", "shape")

    def __init__(self, data: Tensor, offsets: Tensor, shape: tuple[int, ...] | None = None) -> None:
        self.data = data
        self.offsets = offsets
        self.shape: tuple[int, ...] = (len(offsets) - 1,) if shape is None else tuple(shape)
        if math.prod(self.shape) != len(offsets) - 1:
            raise ValueError(f"{len(offsets) - 1} values do not fill the shape {self.shape}")

    @classmethod
    def from_list(cls, values: list[bytes]) -> BytesArray:
        """An array ``[n]`` of n bytes values."""
        ends = list(itertools.accumulate((len(value) for value in values), initial=0))
        joined = bytearray(b"".join(values))
        data = torch.frombuffer(joined, dtype=torch.uint8) if joined else torch.empty(0).byte()
        return cls(data, torch.tensor(ends))

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a BytesArray without dimensions")
        return self.shape[0]

    def __getitem__(self, index: int | slice) -> bytes | BytesArray:
        """Row ``index``: bytes if that is one value, else a smaller array that shares the data."""
        row_shape = self.shape[1:]
        row = math.prod(row_shape)
        if isinstance(index, slice):
            begin, end, step = index.indices(len(self))
            if step != 1:
                raise ValueError("a BytesArray can be sliced with a step of 1 only")
            end = max(begin, end)
            return BytesArray(
                self.data, self.offsets[begin * row : end * row + 1], (end - begin, *row_shape)
            )
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of range for {len(self)} rows")
        index %= len(self)
        offsets = self.offsets[index * row : (index + 1) * row + 1]
        if row_shape:
            return BytesArray(self.data, offsets, row_shape)
        begin, end = offsets.tolist()
        return self.data[begin:end].cpu().numpy().tobytes()

    def __iter__(self) -> Iterator[bytes | BytesArray]:
        return (self[i] for i in range(len(self)))

    def flat(self) -> list[bytes]:
        """All values in row-major order."""
        offsets = self.offsets.tolist()
        if len(offsets) == 1:
            return []
        joined = self.data[offsets[0] : offsets[-1]].cpu().numpy().tobytes()
        return [
            joined[begin - offsets[0] : end - offsets[0]]
            for begin, end in itertools.pairwise(offsets)
        ]

    def tolist(self) -> Any:
        """The values as bytes in nested lists; a single bytes if there are no dimensions."""
        values: list[Any] = self.flat()
        for axis in range(len(self.shape) - 1, 0, -1):
            rows, size = math.prod(self.shape[:axis]), self.shape[axis]
            values = [values[i * size : (i + 1) * size] for i in range(rows)]
        return values if self.shape else values[0]

    def to(self, device: torch.device | str | int, non_blocking: bool = False) -> BytesArray:
        """A copy on another device."""
        return BytesArray(
            self.data.to(device, non_blocking=non_blocking),
            self.offsets.to(device, non_blocking=non_blocking),
            self.shape,
        )

    def pin_memory(self) -> BytesArray:
        """A copy in page-locked memory."""
        return BytesArray(self.data.pin_memory(), self.offsets.pin_memory(), self.shape)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BytesArray):
            return NotImplemented
        return self.shape == other.shape and self.flat() == other.flat()

    __hash__ = None  # type: ignore[assignment]  # its tensors can change

    def __repr__(self) -> str:
        return f"BytesArray(shape={self.shape}, {self.data.numel()} bytes of data)"


class Ragged:
    """Rows of values of any length, held flat.

    Row ``i`` is ``values[offsets[i] : offsets[i + 1]]``.

    Attributes:
        values: Tensor ``[total]`` or :class:`BytesArray` of that shape.
        offsets: int64 ``[rows + 1]``, ascending from 0.
    """

    __slots__ = ("offsets", "values")

    def __init__(self, values: Tensor | BytesArray, offsets: Tensor) -> None:
        self.values = values
        self.offsets = offsets

    @property
    def lengths(self) -> Tensor:
        """Values in each row; int64 ``[rows]``."""
        return self.offsets.diff()

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> Tensor | BytesArray:
        """Row ``index``; shares memory with this."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"index {index} is out of range for {len(self)} rows")
        begin, end = self.offsets[index % len(self) :][:2].tolist()
        row = self.values[begin:end]
        assert not isinstance(row, bytes)  # a slice of a BytesArray is one
        return row

    def __iter__(self) -> Iterator[Tensor | BytesArray]:
        return iter(self.rows())

    def rows(self) -> list[Tensor | BytesArray]:
        """All rows; they share memory with this."""
        if isinstance(self.values, Tensor):
            return list(torch.split(self.values, self.lengths.tolist()))
        return [self[i] for i in range(len(self))]

    def tolist(self) -> list[list[Any]]:
        """Rows as lists of Python numbers or bytes."""
        values = self.values.tolist()
        offsets = self.offsets.tolist()
        return [values[begin:end] for begin, end in itertools.pairwise(offsets)]

    def to_padded(self, fill: float = 0, max_len: int | None = None) -> Tensor:
        """A dense Tensor ``[rows, longest]``.

        Args:
            fill: What is put behind shorter rows.
            max_len: Rows are cut to this many values.

        Raises:
            TypeError: the values are bytes.
        """
        if not isinstance(self.values, Tensor):
            raise TypeError("rows of bytes cannot be padded into a Tensor")
        lengths = self.lengths
        longest = int(lengths.max()) if len(self) else 0
        if max_len is not None:
            longest = min(longest, max_len)
        places = torch.arange(longest, device=lengths.device)
        filled = places < lengths.unsqueeze(1)
        padded = self.values.new_full((len(self), longest), fill)
        padded[filled] = self.values[(self.offsets[:-1].unsqueeze(1) + places)[filled]]
        return padded

    def to_nested(self) -> Tensor:
        """A nested tensor of jagged layout that shares memory with this."""
        if not isinstance(self.values, Tensor):
            raise TypeError("rows of bytes cannot be a nested tensor")
        return torch.nested.nested_tensor_from_jagged(self.values, self.offsets)

    def to_sparse(self) -> Tensor:
        """A sparse COO tensor ``[rows, longest]``, as TensorFlow gives for a VarLenFeature."""
        if not isinstance(self.values, Tensor):
            raise TypeError("rows of bytes cannot be a sparse tensor")
        lengths = self.lengths
        rows = torch.repeat_interleave(torch.arange(len(self), device=lengths.device), lengths)
        places = torch.arange(len(rows), device=lengths.device) - self.offsets[rows]
        longest = int(lengths.max()) if len(self) else 0
        return torch.sparse_coo_tensor(
            torch.stack((rows, places)),
            self.values,
            (len(self), longest),
            is_coalesced=True,
            check_invariants=False,
        )

    def to(self, device: torch.device | str | int, non_blocking: bool = False) -> Ragged:
        """A copy on another device."""
        return Ragged(
            self.values.to(device, non_blocking=non_blocking),
            self.offsets.to(device, non_blocking=non_blocking),
        )

    def pin_memory(self) -> Ragged:
        """A copy in page-locked memory."""
        return Ragged(self.values.pin_memory(), self.offsets.pin_memory())

    def __repr__(self) -> str:
        return f"Ragged({len(self)} rows, values={self.values!r})"
