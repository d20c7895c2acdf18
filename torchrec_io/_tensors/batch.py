"""Batches whose columns share one buffer, the arena."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Sequence, ValuesView
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload

import numpy as np
import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only
from torch.utils.data import get_worker_info

from .._parsing.arrays import Ints
from .._schema.nesting import VALID
from ..checks import UnknownNameError, counted
from ..display import braced, html_table
from . import interop
from .building import in_arena
from .columns import Columns
from .gather import gather_rows, spans_of
from .ragged import Ragged
from .rows import Origins, Rows
from .sample import Sample
from .views import describe, preview

if TYPE_CHECKING:
    from tensordict import TensorDict

_Kind = TypeVar("_Kind")

# Name of the column with the number of tokens of each segment of a packed row.
SEGMENT_LENGTHS = "segment_lengths"


class Batch:
    """A batch whose columns share one buffer.

    A batch maps names to columns, like a dict. Where the schema has dicts of features, the batch
    has plain dicts of columns: ``batch["objects"]["label"]``.

    Methods such as :meth:`to` and :meth:`pin_memory` copy the buffer as a whole and make new views
    of it. A batch is deliberately not a ``Mapping``: PyTorch's loaders would take it apart and
    process each column separately. ``dict(batch)`` and ``**batch`` work.

    Batches are made by datasets, parse functions and collate functions.

    A batch is also a pytree node: ``torch.utils._pytree.tree_map`` applies a function to the
    Tensors of its columns. The result owns its columns: it has no arena, and its methods go column
    by column.
    """

    def __init__(self, columns: Columns, *, has_views: bool = True) -> None:
        """Create a batch and, except in DataLoader workers, the views of its columns.

        Args:
            columns: The columns.
            has_views: Whether to create the views now. Threads that work ahead leave that to
                :meth:`with_views`: it needs the GIL, and as much time as the rest of their work.
        """
        self.columns: Columns = columns  # internal interface
        self._keys = columns.form.keys
        # The views, nested in dicts, once they are created.
        self._shown: dict[str, Any] | None = None
        self.origins: Origins | None = None  # where the records are from, in a transform
        self.schema: Any = None  # that the records were parsed with, if it is known
        self._max_seqlen: int | None = None  # of packed rows, if it is known
        # Memory shared with the worker that made the batch, if it is there; see transport.py.
        self.slot: Any = None
        if has_views:
            self.with_views()

    def with_views(self) -> Batch:
        """Create the views of the columns, and return this batch.

        ``torch.compile`` accepts views, but not the code that creates them. In a DataLoader worker
        no views are created, because a batch is sent as a whole.
        """
        if self._shown is None and (self.columns.arena is None or get_worker_info() is None):
            self._shown = self.columns.nested()
        return self

    @property
    def _values(self) -> dict[str, Any]:
        if self._shown is None:
            self._shown = self.columns.nested()
        return self._shown

    @property
    def arena(self) -> Tensor | Any:
        """uint8 ``[n]``, the data of all columns, each array aligned to 64 bytes.

        None if the batch owns its columns.
        """
        return self.columns.arena

    @property
    def lengths(self) -> dict[str, Tensor]:
        """Lengths of the records of each padded column, int64 ``[B]``, by flat name.

        For padded images, heights and widths: int64 ``[B, 2]``.
        """
        return self.columns.lengths()

    @property
    def valid(self) -> dict[str, Any]:
        """Masks of valid values, by flat name, which batches have as a dict ``"valid"``.

        Steps that exist: bool ``[B]`` or ``[B, offsets]``, with ``outside="repeat"`` or "zeros";
        see :meth:`TFRecordDataset.steps`. Boxes and points that are in view: a Ragged of bool
        ``[N]``; see :class:`BoxFeature`. Other columns have none.
        """
        masks: dict[str, Any] = self.get(VALID, {})
        return masks

    # ---- packed rows ----

    @property
    def cu_seqlens(self) -> Tensor:
        """Ends of the segments of packed rows in the flattened tokens, int32 ``[segments + 1]``.

        They begin with 0. Padding at the end of a row is a segment of its own. Attention kernels
        for sequences of several lengths take them, with :attr:`max_seqlen`.

        Raises:
            ValueError: If the batch has no packed rows.
        """
        ends = self._checked_segments().cumsum(0, dtype=torch.int32)
        return torch.nn.functional.pad(ends, (1, 0))

    @property
    def max_seqlen(self) -> int:
        """Number of tokens of the longest segment of packed rows; padding is a segment, too.

        Raises:
            ValueError: If the batch has no packed rows.
        """
        if self._max_seqlen is None:
            lengths = self._checked_segments()
            self._max_seqlen = int(lengths.max()) if len(lengths) else 0
        return self._max_seqlen

    def _checked_segments(self) -> Tensor:
        segments = self._segments()
        if segments is None:
            raise ValueError(
                f"the batch has no packed rows: it has no column {SEGMENT_LENGTHS!r}, which a "
                "dataset with pack=tio.Pack(...) makes"
            )
        return segments

    def _segments(self) -> Tensor | None:
        """Return the lengths of the segments of packed rows, if there are such rows."""
        if SEGMENT_LENGTHS not in self.columns.form.names:
            return None
        lengths = self.columns.views()[SEGMENT_LENGTHS]
        if not isinstance(lengths, Ragged) or not isinstance(lengths.values, Tensor):
            return None
        return lengths.values if lengths.values.dtype == torch.int32 else None

    # ---- like a dict ----

    @overload
    def __getitem__(self, key: str) -> Any: ...
    @overload
    def __getitem__(self, key: slice) -> Batch: ...
    def __getitem__(self, key: str | slice) -> Any:
        """Return a column or dict of columns by name, or a batch of a slice of the records."""
        if isinstance(key, slice):
            return self.select(key)
        if key not in self._keys:
            raise UnknownNameError(key, self._keys, "the batch has")
        return self._values[key]

    def tensor(self, name: str) -> Tensor:
        """Return a column that is a Tensor. Type checkers know its type, unlike ``batch[name]``.

        Args:
            name: Flat name of the column, such as ``"label"`` or ``"objects/label"``.

        Raises:
            KeyError: If the column does not exist.
            TypeError: If the column is not a Tensor.
        """
        return self._column(name, Tensor)

    def ragged(self, name: str) -> Ragged:
        """Return a column that is a :class:`Ragged`, as :meth:`tensor` does for a Tensor.

        Args:
            name: Flat name of the column.

        Raises:
            KeyError: If the column does not exist.
            TypeError: If the column is not a Ragged.
        """
        return self._column(name, Ragged)

    def _column(self, name: str, kind: type[_Kind]) -> _Kind:
        if name not in self.columns.form.names:
            raise UnknownNameError(name, self.columns.form.names, "the batch has")
        column = self.columns.views()[name]
        if not isinstance(column, kind):
            raise TypeError(
                f"the column {name!r} must be a {kind.__name__}, got a {type(column).__name__}"
            )
        return column

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the column or dict of columns of that name, or ``default`` if it is missing."""
        return self[key] if key in self._keys else default

    def keys(self) -> KeysView[str]:
        """Return the names of the columns and dicts of columns."""
        return self._values.keys()

    def values(self) -> ValuesView[Any]:
        """Return the columns and dicts of columns."""
        return self._values.values()

    def items(self) -> ItemsView[str, Any]:
        """Return the names with their columns or dicts of columns."""
        return self._values.items()

    # ---- as one buffer ----

    def to(
        self,
        device: torch.device | str | int,
        dtype: torch.dtype | None = None,
        non_blocking: bool = False,
    ) -> Batch:
        """Copy the batch to another device in one copy, and decode images with ``decoder="cuda"``.

        Args:
            device: Target device.
            dtype: Floating dtype to which columns of another floating dtype are converted on the
                device, also the values of ragged ones. Integers and bytes stay as they are.
                Converted columns get memory of their own.
            non_blocking: Whether to copy asynchronously, if possible; see ``Tensor.to``.

        Returns:
            The batch on the device, or this batch if it is there already.

        Raises:
            TypeError: If ``dtype`` is not a floating dtype.
        """
        is_floating = isinstance(dtype, torch.dtype) and dtype.is_floating_point
        if dtype is not None and not is_floating:
            raise TypeError(f"dtype must be a floating dtype, such as torch.bfloat16, got {dtype}")
        columns = self.columns.to(device, non_blocking=non_blocking)
        if columns.form.images:
            columns = self.columns.decoded(torch.device(device), columns)
        moved = self._with(columns)
        if dtype is None:
            return moved
        converted: Batch = tree_map_only(
            Tensor, lambda part: part.to(dtype) if part.is_floating_point() else part, moved
        )
        return converted

    def pin_memory(self) -> Batch:
        """Copy the batch to page-locked memory. ``DataLoader(pin_memory=True)`` calls this.

        Returns:
            The batch in page-locked memory, or this batch if it is there already.
        """
        return self._with(self.columns.pin_memory())

    def is_pinned(self) -> bool:
        """Return whether the batch is in page-locked memory."""
        return self.columns.is_pinned()

    def record_stream(self, stream: Any) -> None:
        """Keep the memory until ``stream`` is done with it; see ``Tensor.record_stream``."""
        self.columns.record_stream(stream)

    @property
    def device(self) -> torch.device:
        """Device of the data."""
        return self.columns.device

    def _with(self, columns: Columns) -> Batch:
        if columns is self.columns:
            return self
        other = Batch(columns)
        if self.device.type == "cpu" and self._segments() is not None:
            # To ask a device would wait for all of its work.
            other._max_seqlen = self.max_seqlen  # of this class
        return other

    # ---- conversion ----

    def to_tensordict(self) -> TensorDict:
        """Return the columns as a ``TensorDict`` of batch size ``[B]``.

        This needs the tensordict package. Tensors share memory with the batch, and so do Raggeds of
        numbers, which become nested tensors of jagged layout. Other columns (bytes, rows of rows,
        Sparse, lists) become a ``NonTensorStack`` of their rows, which are those of
        :meth:`samples`. Dicts of columns become TensorDicts. The lengths of a padded column are
        under ``("lengths", name)``, where ``name`` is its flat name.

        Raises:
            ValueError: If the batch has padded columns and a column named ``"lengths"``.
        """
        if self.columns.form.images:
            return self.to(self.device).to_tensordict()
        return interop.to_tensordict(
            self._values, self.lengths, [self.num_records] if self.columns.form.names else []
        )

    def to_keyed_jagged(
        self, names: Sequence[str], lengths_dtype: torch.dtype = torch.int64
    ) -> tuple[list[str], Tensor, Tensor]:
        """Return keys, values and lengths for TorchRec's ``KeyedJaggedTensor``.

        Use them as ``KeyedJaggedTensor(keys, values, lengths=lengths)``. The values of several
        columns are concatenated in one copy. The values of a single column are not copied.

        Args:
            names: Flat names of columns that are Raggeds of numbers, Tensors ``[B]``, or Tensors
                ``[B, n]`` with n values for each record.
            lengths_dtype: dtype of the lengths, int32 or int64. Default: int64.

        Returns:
            The names; the values ``[total]``, column by column; and the lengths
            ``[len(names) * B]``, in the same order.

        Raises:
            KeyError: If a column does not exist.
            TypeError: If a column is of another type.
            ValueError: If ``names`` is empty, or if the rows of a Ragged are not contiguous.
        """
        return interop.to_keyed_jagged(self.columns.flat(), names, lengths_dtype)

    def __copy__(self) -> Batch:
        return Batch(self.columns)  # shares the values, like the copy of a dict

    def __reduce__(self) -> tuple[Any, ...]:
        return Batch, (self.columns,)

    def __repr__(self) -> str:
        return f"Batch({braced(self._values, describe)}{self._where()})"

    def _repr_html_(self) -> str:
        size = "" if self.arena is None else f" of {counted(self.num_records, 'record')}"
        columns = self.columns.flat()
        rows = ((name, describe(value), preview(value)) for name, value in columns.items())
        titles = ("column", "type", "values")
        return html_table(f"Batch{size}{self._where()}", titles, rows, len(columns))

    def _where(self) -> str:
        """Return the device as text, except the CPU."""
        tensors = (self.arena, *self.columns.views().values())
        device = next((each.device for each in tensors if isinstance(each, Tensor)), None)
        return f", device='{device}'" if device is not None and device.type != "cpu" else ""

    # ---- records ----

    @property
    def num_records(self) -> int:
        """Number of records.

        Raises:
            TypeError: If a column is not made of Tensors, or a Tensor has no dimension.
            ValueError: If columns have different numbers of records.
        """
        return self.columns.count_records()

    def select(self, index: Any) -> Batch:
        """Return a batch of some of the records, in the given order.

        The columns are those of a batch of these records alone, except that padded columns keep
        their width. They share no memory with this batch. ``batch[:8]`` selects a slice.

        The rows of a batch on a GPU are copied to the CPU and back: select them before the batch is
        moved. Gradients pass only through plain Tensors of a batch without an arena.

        Args:
            index: Numbers of records, which may repeat and count from the end if they are negative,
                or a mask with one bool for each record: a list, a Tensor or an array. Or a slice.

        Raises:
            IndexError: If a number is out of range, or a mask has another length.
            TypeError: If the index is none of these, or a column is not made of Tensors.
        """
        numbers = _numbers_of(index, self.num_records)
        taken = gather_rows([in_arena(self.columns)], spans_of(numbers), to=None)
        assert taken is not None
        taken = taken.to(self.device, non_blocking=False)
        if self.arena is not None:
            return Batch(taken)
        tensors = {  # the gradients of own columns are kept
            name: value[torch.from_numpy(numbers).to(value.device)]
            for name, value in self.columns.views().items()
            if isinstance(value, Tensor)
        }
        return Batch(self.columns.with_values({**taken.views(), **tensors}))

    def samples(self) -> list[Sample]:
        """Return the records as samples, without padding. Their tensors share the arena."""
        rows = Rows(self.columns, schema=self.schema)
        return Sample.of_rows(rows, range(self.num_records))


def _numbers_of(index: Any, count: int) -> Ints:
    """Return the numbers of the records that an index stands for; see :meth:`Batch.select`."""
    if isinstance(index, slice):
        return np.arange(*index.indices(count))
    found = index.cpu().numpy() if isinstance(index, Tensor) else np.asarray(index)
    is_empty = found.shape == (0,)  # an empty list becomes floats
    if found.ndim != 1 or (found.dtype.kind not in "iub" and not is_empty):
        raise TypeError(
            "the index of records must be a slice, or a list, Tensor or array of integers or "
            f"bools with one dimension, got {found.dtype} {list(found.shape)}"
        )
    if found.dtype == bool:
        if len(found) != count:
            raise IndexError(
                f"a mask must have {counted(count, 'value')}, one for each record, got {len(found)}"
            )
        return np.flatnonzero(found)
    numbers: Ints = found.astype(np.int64)
    outside = numbers[(numbers < -count) | (numbers >= count)]
    if len(outside):
        raise IndexError(f"record {outside[0]} is out of range for {counted(count, 'record')}")
    return np.arange(count)[numbers]


class KeyedBatch(NamedTuple):
    """A batch and the keys of its records. PyTorch's ``default_collate`` knows the class."""

    keys: list[str]
    batch: Batch
