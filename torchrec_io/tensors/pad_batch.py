"""Padding the columns of a whole batch, without going through its rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..parsing.layout import (
    ArenaLayout,
    BytesColumn,
    Column,
    DenseColumns,
    Padding,
    RaggedColumn,
    SparseColumn,
    Texts,
    Values,
)
from .batch import Batch
from .padding import PaddedLength
from .ragged import BytesArray, Ragged


def pad_batch(
    batch: Batch, fill: float, to: PaddedLength, allocate: Callable[[int], Tensor]
) -> Batch:
    """A batch whose Raggeds are padded and whose padded columns have a length of ``to``.

    Args:
        batch: Its other columns are copied as they are.
        fill: What is put behind shorter rows of a Ragged of numbers.
        to: How long rows become.
        allocate: Makes an arena of so many bytes.

    Raises:
        ValueError: a row is longer than the last bucket.
        TypeError: a Ragged has rows of rows of bytes.
    """
    return _Padded(batch, fill, to).batch(allocate)


class _Padded:
    """Lays out all columns anew first, so that the arena is allocated once at its exact size."""

    def __init__(self, batch: Batch, fill: float, to: PaddedLength) -> None:
        self._old = batch
        self._fill = fill
        self._to = to
        self._room = ArenaLayout()
        self._columns: list[Column] = []
        self._stores: list[tuple[int, Tensor]] = []  # where new parts go
        self._moves: list[tuple[int, int, int]] = []  # from, to and bytes of what stays as it is
        self._paddings = dict(batch._padded)  # noqa: SLF001  # it makes batches of the same parts
        # Others, images, are not rows of values: they stay as they are.
        rows = {name for name, padding in self._paddings.items() if padding.axes == (0,)}
        hidden = {self._paddings[name].lengths for name in rows}
        columns = batch._flat  # noqa: SLF001
        for column in batch._columns:  # noqa: SLF001
            if isinstance(column, RaggedColumn):
                self._paddings[column.name] = Padding(f"{column.name}\0lengths", fill)
                self._pad(column.name, columns[column.name])
                continue
            for part in _single(column, rows | hidden):
                name = part.names[0] if isinstance(part, DenseColumns) else part.name
                if name in rows:
                    self._pad_again(name, columns[name], batch.lengths[name])
                elif name not in hidden:
                    self._columns.append(self._moved(part))

    def batch(self, allocate: Callable[[int], Tensor]) -> Batch:
        arena = allocate(self._room.size)
        for source, at, size in self._moves:
            arena[at : at + size] = self._old.arena[source : source + size]
        for at, part in self._stores:
            size = part.numel() * part.itemsize
            arena[at : at + size].view(part.dtype).view(part.shape).copy_(part)
        _, names, _, paths = self._old.layout
        return Batch(arena, self._columns, names, self._paddings, paths)

    # ---- columns that are padded ----

    def _pad(self, name: str, rows: Ragged) -> None:
        lengths = rows.lengths.long()
        longest = int(lengths.max()) if len(rows) else 0
        length = self._to.length(longest, name)
        lengths = self._add_lengths(name, lengths)
        if isinstance(rows.values, BytesArray):
            texts = _padded_texts(rows.values, rows.offsets, lengths, length, b"")
            self._add_texts(name, texts)
            return
        self._add_dense(
            name, rows.to_padded(self._fill, self._to.max_len, self._to.buckets or None)
        )

    def _pad_again(self, name: str, column: Tensor | BytesArray, lengths: Tensor) -> None:
        """A column that is padded to the longest already gets another length."""
        fill = self._paddings[name].fill
        before = column.shape[1]
        # It may have been padded beyond that, to a bucket.
        longest = int(lengths.max()) if len(lengths) else 0
        length = self._to.length(longest, name)
        kept = self._to.cut(longest)
        self._add_lengths(name, lengths)
        if isinstance(column, BytesArray):
            offsets = torch.arange(len(lengths) + 1, device=lengths.device) * before
            rows = BytesArray(
                column.data, column.offsets, (len(lengths) * before, *column.shape[2:])
            )
            fill = fill if isinstance(fill, bytes) else b""
            full = torch.full_like(lengths, kept)
            self._add_texts(name, _padded_texts(rows, offsets, full, length, fill))
            return
        padded = column.new_full((len(column), length, *column.shape[2:]), fill)
        padded[:, :kept] = column[:, :kept]
        self._add_dense(name, padded)

    def _add_lengths(self, name: str, lengths: Tensor) -> Tensor:
        """Adds what is left of lengths."""
        if self._to.max_len is not None:
            lengths = lengths.clamp(max=self._to.max_len)
        self._add_dense(self._paddings[name].lengths, lengths)
        return lengths

    def _add_dense(self, name: str, values: Tensor) -> None:
        dtype = str(values.dtype).removeprefix("torch.")
        column = self._room.reserve_dense((name,), dtype, tuple(values.shape))
        self._columns.append(column)
        self._stores.append((column.at, values))

    def _add_texts(self, name: str, array: BytesArray) -> None:
        texts = self._room.reserve_texts(array.shape, array.data.numel())
        self._columns.append(BytesColumn(name, texts))
        self._stores += [(texts.offsets_at, array.offsets), (texts.data_at, array.data)]

    # ---- columns that stay as they are ----

    def _moved(self, column: Any) -> Any:
        if isinstance(column, DenseColumns):
            return column._replace(at=self._move(column.at, column.stride * len(column.names)))
        if isinstance(column, BytesColumn):
            return column._replace(values=self._moved_values(column.values))
        if isinstance(column, SparseColumn):
            indices = self._moved_values(column.indices)
            return column._replace(indices=indices, values=self._moved_values(column.values))
        return column._replace(arrays=tuple(map(self._moved_values, column.arrays)))

    def _moved_values(self, values: Values | RaggedColumn) -> Any:
        if isinstance(values, RaggedColumn):
            splits = tuple(map(self._moved_values, values.splits))
            return values._replace(splits=splits, values=self._moved_values(values.values))
        if isinstance(values, Texts):
            offsets_at = self._move(values.offsets_at, 8 * (math.prod(values.shape) + 1))
            data_at = self._move(values.data_at, values.data_bytes)
            return values._replace(offsets_at=offsets_at, data_at=data_at)
        itemsize: int = getattr(torch, values.dtype).itemsize
        return values._replace(at=self._move(values.at, math.prod(values.shape) * itemsize))

    def _move(self, source: int, size: int) -> int:
        at = self._room.reserve(size)
        size = self._room.size - at  # to where the next part is aligned
        if self._moves:
            last, last_at, last_size = self._moves[-1]
            if (last + last_size, last_at + last_size) == (source, at):
                self._moves[-1] = last, last_at, last_size + size
                return at
        self._moves.append((source, at, size))
        return at


def _single(column: Column, names: set[str]) -> list[Any]:
    """A column, or each of several that are viewed together if one of them is named."""
    if not isinstance(column, DenseColumns) or names.isdisjoint(column.names):
        return [column]
    return [
        column._replace(names=(name,), at=column.at + number * column.stride)
        for number, name in enumerate(column.names)
    ]


def _padded_texts(
    array: BytesArray, offsets: Tensor, lengths: Tensor, length: int, fill: bytes
) -> BytesArray:
    """The first ``lengths[i]`` bytes values of ``array[offsets[i] : offsets[i + 1]]``, padded."""
    inner = math.prod(array.shape[1:])
    begins = offsets[:-1].long().unsqueeze(1)
    ends = begins + lengths.unsqueeze(1)
    places = begins + torch.arange(length, device=offsets.device)
    rows = len(begins)
    shape = (rows, length, *array.shape[1:])
    uncut = bool((ends == offsets[1:].unsqueeze(1)).all())
    if inner == 1 and not fill and uncut and array.shape[0]:
        # Only offsets change: what is put behind a row begins and ends where it does.
        starts = array.offsets[torch.minimum(places, ends)]
        return BytesArray(array.data, torch.cat((starts.flatten(), array.offsets[-1:])), shape)
    behind = array.shape[0] * inner  # the number of the value that fills
    chosen = places.unsqueeze(2) * inner + torch.arange(inner, device=offsets.device)
    chosen = chosen.masked_fill((places >= ends).unsqueeze(2), behind)
    return _chosen_texts(array, chosen.flatten(), fill, shape)


def _chosen_texts(
    array: BytesArray, chosen: Tensor, fill: bytes, shape: tuple[int, ...]
) -> BytesArray:
    """Values by their numbers; that behind the last is ``fill``."""
    data = torch.cat((array.data, array.data.new_tensor(list(fill))))
    starts = torch.cat((array.offsets[:-1], array.offsets.new_tensor([array.data.numel()])))
    sizes = torch.cat((array.offsets.diff(), array.offsets.new_tensor([len(fill)])))[chosen]
    ends = torch.cat((sizes.new_zeros(1), sizes.cumsum(0)))
    total = int(ends[-1])
    shifts = torch.repeat_interleave(starts[chosen] - ends[:-1], sizes, output_size=total)
    return BytesArray(data[torch.arange(total, device=data.device) + shifts], ends, shape)
