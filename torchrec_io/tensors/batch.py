"""Batch: the columns of some records, all of them views into one allocation, the arena."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Mapping, Sequence, ValuesView
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import get_worker_info

from .. import _core
from ..parsing.layout import Column, Padding
from ..schema.nesting import Path, nested
from . import interop as convert
from .ragged import Ragged
from .views import Value, described, rows_of, views_of

if TYPE_CHECKING:
    from tensordict import TensorDict

# Arenas up to this size are pickled as bytes. A larger one is a tensor's storage, which PyTorch
# puts into shared memory between processes. In workers for what finds no slot: see crossing.py.
_INLINE_BYTES = 1 << 20


class Batch:
    """The columns of a batch by name, like a dict, with all their data in one allocation.

    Where the schema has dicts of features, the batch has plain dicts of columns:
    ``batch["objects"]["label"]``.

    One buffer to fill, one to send from a worker, one to pin and one to copy to a device: methods
    work on the arena as a whole and make the views anew. It is deliberately no ``Mapping``:
    PyTorch's loaders take those apart and would handle each column by itself. ``dict(batch)`` and
    ``**batch`` work.

    Attributes:
        arena: uint8 ``[n]``: every column's data, in parts aligned to 64 bytes.
    """

    def __init__(
        self,
        arena: Tensor,
        columns: Sequence[Column],
        names: Sequence[str],
        padded: Mapping[str, Padding] | None = None,
        paths: Mapping[str, Path] | None = None,
    ) -> None:
        """Made by parsing and collating.

        Args:
            arena: uint8, its size a multiple of 64.
            columns: Where the columns lie in it.
            names: The order in which they are shown.
            padded: How padded columns are padded.
            paths: Which columns are shown in dicts, and where there.
        """
        self._set(arena, columns, names, padded, paths)
        self.with_views()

    @classmethod
    def without_views(
        cls,
        arena: Tensor,
        columns: Sequence[Column],
        names: Sequence[str],
        padded: Mapping[str, Padding] | None = None,
        paths: Mapping[str, Path] | None = None,
    ) -> Batch:
        """A batch whose views are made by :meth:`with_views`, or when they are first asked for.

        For threads that work ahead: views take as long as much of the rest, and only one thread
        makes them at a time.
        """
        batch = cls.__new__(cls)
        batch._set(arena, columns, names, padded, paths)  # noqa: SLF001  # it is one of these
        return batch

    def _set(
        self,
        arena: Tensor,
        columns: Sequence[Column],
        names: Sequence[str],
        padded: Mapping[str, Padding] | None,
        paths: Mapping[str, Path] | None,
    ) -> None:
        self.arena = arena
        self._columns = tuple(columns)
        self._names = tuple(names)
        self._padded = padded or {}
        self._paths = paths or {}
        self._keys = _keys_of(self._names, self._paths) if self._paths else self._names
        self._made: dict[str, Any] | None = None
        self._shown: dict[str, Any] = {}  # as made, nested; without paths there may be others in it

    def with_views(self) -> Batch:
        """This batch with its views made, as who is given it should find it.

        ``torch.compile`` takes views, not what makes them. In a worker they are not made: what is
        sent as a whole needs none.
        """
        if get_worker_info() is None:
            self._views()
        return self

    def _views(self) -> dict[str, Any]:
        """All columns by flat name, those of lengths too."""
        if self._made is None:
            views = views_of(self.arena, self._columns)
            self._shown = views
            if self._paths:
                self._shown = nested({name: views[name] for name in self._names}, self._paths)
            self._made = views
        return self._made

    @property
    def _values(self) -> dict[str, Any]:
        self._views()
        return {key: self._shown[key] for key in self._keys}

    @property
    def _flat(self) -> dict[str, Any]:
        """The columns by flat name."""
        views = self._views()
        return {name: views[name] for name in self._names}

    @property
    def lengths(self) -> dict[str, Tensor]:
        """For columns that were padded: each record's own length, int64 ``[B]``, by flat name.

        Of images height and width, ``[B, 2]``.
        """
        views = self._views()
        return {name: views[padding.lengths] for name, padding in self._padded.items()}

    # ---- like a dict ----

    def __getitem__(self, key: str) -> Any:
        if key not in self._keys:
            raise KeyError(key)
        if self._made is None:
            self._views()
        return self._shown[key]

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def get(self, key: str, default: Any = None) -> Any:
        """The column, or dict of columns, or ``default`` if there is none of that name."""
        return self[key] if key in self._keys else default

    def keys(self) -> KeysView[str]:
        """Names of the columns and dicts of columns."""
        return self._values.keys()

    def values(self) -> ValuesView[Any]:
        """The columns and dicts of columns."""
        return self._values.values()

    def items(self) -> ItemsView[str, Any]:
        """Names, and columns or dicts of columns."""
        return self._values.items()

    # ---- as one buffer ----

    def to(self, device: torch.device | str | int, non_blocking: bool = False) -> Batch:
        """This batch on another device, moved in one copy; itself if it is there already."""
        arena = self.arena.to(device, non_blocking=non_blocking)
        return self if arena is self.arena else self._with(arena)

    def pin_memory(self) -> Batch:
        """This batch in page-locked memory; itself if it is there. DataLoader calls it."""
        arena = self.arena.pin_memory()
        return self if arena is self.arena else self._with(arena)

    def is_pinned(self) -> bool:
        """Whether it lies in page-locked memory."""
        return self.arena.is_pinned()

    def record_stream(self, stream: Any) -> None:
        """Keeps the memory from reuse until ``stream`` is done; see ``Tensor.record_stream``."""
        self.arena.record_stream(stream)

    @property
    def device(self) -> torch.device:
        """Where the data is."""
        return self.arena.device

    def _with(self, arena: Tensor) -> Batch:
        return Batch(arena, self._columns, self._names, self._padded, self._paths)

    # ---- as others have it ----

    def to_tensordict(self) -> TensorDict:
        """The columns as a ``TensorDict`` of batch size ``[B]``; needs the tensordict package.

        Tensors and Raggeds of numbers share the arena, the latter as nested tensors of jagged
        layout. Other columns (bytes, rows of rows, Sparse, lists) are ``NonTensorStack``s of their
        rows, as :meth:`samples` has them. Dicts of columns are TensorDicts themselves. What was
        padded has its lengths under ``("lengths", name)``, by flat name.

        Raises:
            ValueError: something was padded and another column is named ``"lengths"``.
        """
        columns = list(self._flat.values())
        return convert.to_tensordict(self, [len(columns[0])] if columns else [])

    def to_keyed_jagged(
        self, names: Sequence[str], lengths_dtype: torch.dtype = torch.int64
    ) -> tuple[list[str], Tensor, Tensor]:
        """Keys, values and lengths, as TorchRec's ``KeyedJaggedTensor`` takes them.

        ``KeyedJaggedTensor(keys, values, lengths=lengths)``. Values of several columns are joined
        in one copy; those of a single one are not copied.

        Args:
            names: Flat names of Raggeds of numbers, or of Tensors ``[B]`` or ``[B, n]``: n values a
                record.
            lengths_dtype: int32 or int64.

        Returns:
            The names; the values ``[total]``, feature by feature; the lengths
            ``[len(names) * B]``, likewise.

        Raises:
            KeyError: there is no such column.
            TypeError: a column is of another type.
            ValueError: no name is given, or rows of a Ragged do not follow each other.
        """
        return convert.to_keyed_jagged(self._flat, names, lengths_dtype)

    def __copy__(self) -> Batch:
        return self._with(self.arena)  # as of a dict: the values are shared

    @property
    def layout(
        self,
    ) -> tuple[tuple[Column, ...], tuple[str, ...], Mapping[str, Padding], Mapping[str, Path]]:
        """All that makes a batch of an arena: columns, names, how they are padded and nested."""
        return self._columns, self._names, self._padded, self._paths

    def __reduce__(self) -> tuple[Any, ...]:
        if self.arena.device.type == "cpu" and self.arena.numel() <= _INLINE_BYTES:
            return _from_bytes, (self.arena.numpy().tobytes(), *self.layout)
        return Batch, (self.arena, *self.layout)

    def __repr__(self) -> str:
        return f"Batch({described(self._values)})"

    # ---- as records ----

    def samples(self) -> list[Sample]:
        """The records one by one, without padding; their tensors share the arena."""
        columns = [self._rows_of(name, value) for name, value in self._flat.items()]
        ragged = {
            name: str(value.offsets.dtype).removeprefix("torch.")
            for name, value in self._flat.items()
            if isinstance(value, Ragged)
        }
        padded = {name: padding.fill for name, padding in self._padded.items()}
        axes = {name: padding.axes for name, padding in self._padded.items()}
        return [
            Sample(self._nested(row), ragged, padded, axes) for row in zip(*columns, strict=True)
        ]

    def _nested(self, row: Sequence[Any]) -> Any:
        """The values of a record by name, in dicts where the columns are."""
        values = zip(self._names, row, strict=True)
        return nested(dict(values), self._paths) if self._paths else values

    def _rows_of(self, name: str, value: Value) -> Sequence[Any]:
        rows = rows_of(value)
        if name not in self._padded:
            return rows
        lengths = self.lengths[name].tolist()
        axes = self._padded[name].axes
        if axes == (0,):
            return [row[:length] for row, length in zip(rows, lengths, strict=True)]
        for axis, sizes in zip(axes, zip(*lengths, strict=True), strict=bool(lengths)):
            rows = [row.narrow(axis, 0, size) for row, size in zip(rows, sizes, strict=True)]
        return rows


class Sample(dict[str, Any]):
    """One record's values by name: tensors, bytes, BytesArrays, Raggeds or Sparses.

    Where the schema has dicts of features, they are in plain dicts. The attributes say by flat name
    (``"objects/label"``) how :func:`collate` joins values that differ in length.

    Attributes:
        ragged: Names whose values become rows of a Ragged, each with the dtype of its offsets.
        padded: Names whose values are padded to the longest, each with what it is padded with.
        axes: Which axes of a padded value that is; by default the first.
    """

    def __init__(
        self,
        values: Any = (),
        ragged: Mapping[str, str] | None = None,
        padded: Mapping[str, Any] | None = None,
        axes: Mapping[str, tuple[int, ...]] | None = None,
    ) -> None:
        super().__init__(values)
        self.ragged = ragged or {}
        self.padded = padded or {}
        self.axes = axes or {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Sample, (dict(self), self.ragged, self.padded, self.axes)


def allocate_arena(size: int) -> Tensor:
    """A new arena, 64-byte aligned. Its memory serves another once no view of it is left."""
    return torch.from_numpy(_core.allocate(size))


def _from_bytes(data: bytes, *layout: Any) -> Batch:
    arena = allocate_arena(len(data))
    # A copy, since bytes must not be written to.
    np.copyto(arena.numpy(), np.frombuffer(data, np.uint8))
    return Batch(arena, *layout)


def _keys_of(names: Sequence[str], paths: Mapping[str, Path]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(paths[name][0] if name in paths else name for name in names))
