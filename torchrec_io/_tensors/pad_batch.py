"""Padding of the columns of a whole batch, without making samples of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor

from .._parsing.layout import Column, DenseColumns, RaggedColumn, names_of
from .batch import Batch
from .batch_builder import BatchBuilder, gathered
from .padding import PaddedLength
from .ragged import BytesArray, Ragged


def pad_batch(
    batch: Batch,
    fill: float,
    to: PaddedLength,
    allocate: Callable[[int], Tensor],
    unpadded: Collection[str] = (),
) -> Batch:
    """Return a batch whose Raggeds are padded, and whose padded columns have another length.

    Args:
        batch: Batch whose other columns are copied.
        fill: Fill value after the end of shorter rows of a Ragged of numbers.
        to: Length of padded rows.
        allocate: Function that allocates an arena of a number of bytes.
        unpadded: Names of Raggeds that are copied.

    Raises:
        ValueError: If a row is longer than the last bucket.
        TypeError: If a Ragged has rows of rows of bytes.
        MemoryError: If there is not enough memory.
    """
    if batch.arena is None:
        batch = gathered(batch, batch.device)
    _, names, _, paths = batch.layout
    padded = _PaddedColumns(batch, fill, to, unpadded)
    return padded.builder.build(padded.records, names, paths, allocate)


class _PaddedColumns:
    """The columns of a batch, padded."""

    def __init__(
        self, batch: Batch, fill: float, to: PaddedLength, unpadded: Collection[str]
    ) -> None:
        self.builder = BatchBuilder()
        self._fill = fill
        self._to = to
        self._moves: list[tuple[int, int, int]] = []  # old offset, new offset and size in bytes
        columns, _, padded, _ = batch.layout
        # Images are padded in other axes. They are copied like columns that are not padded.
        self._fills = {name: each.fill for name, each in padded.items() if each.axes == (0,)}
        self.builder.padded |= padded
        hidden = {padded[name].lengths for name in self._fills}
        values = batch.flat_columns()
        self.records = len(next(iter(values.values()), ()))
        for column in columns:
            if isinstance(column, RaggedColumn) and column.name not in unpadded:
                self._pad(column.name, values[column.name])
                continue
            for part in _split(column, self._fills.keys() | hidden):
                name = names_of(part)[0]
                if name in self._fills:
                    self._pad_again(name, values[name], batch.lengths[name])
                elif name not in hidden:
                    self.builder.columns.append(part.moved(self._move))
        self.builder.writes.append(lambda arena: self._copy(batch.arena, arena))

    # ---- columns that are padded ----

    def _pad(self, name: str, rows: Ragged) -> None:
        lengths = rows.lengths.long()
        longest = int(lengths.max()) if len(rows) else 0
        length = self._to.length(longest, name)
        lengths = self._add_lengths(name, lengths, self._fill)
        if isinstance(rows.values, BytesArray):
            texts = _pad_texts(rows.values, rows.offsets, lengths, length, b"")
            self.builder.add_bytes(name, texts)
            return
        padded = rows.to_padded(self._fill, self._to.max_len, self._to.buckets or None)
        self.builder.add_dense(name, padded)

    def _pad_again(self, name: str, column: Tensor | BytesArray, lengths: Tensor) -> None:
        """Change the length of a column that is padded already."""
        fill = self._fills[name]
        before = column.shape[1]
        # This may be less than ``before``, if the column was padded to a bucket.
        longest = int(lengths.max()) if len(lengths) else 0
        length = self._to.length(longest, name)
        kept = self._to.cut(longest)
        self._add_lengths(name, lengths, fill)
        if isinstance(column, BytesArray):
            offsets = torch.arange(len(lengths) + 1, device=lengths.device) * before
            rows = BytesArray(
                column.data, column.offsets, (len(lengths) * before, *column.shape[2:])
            )
            fill = fill if isinstance(fill, bytes) else b""
            full = torch.full_like(lengths, kept)
            self.builder.add_bytes(name, _pad_texts(rows, offsets, full, length, fill))
            return
        padded = column.new_full((len(column), length, *column.shape[2:]), fill)
        padded[:, :kept] = column[:, :kept]
        self.builder.add_dense(name, padded)

    def _add_lengths(self, name: str, lengths: Tensor, fill: Any) -> Tensor:
        """Add the lengths after cutting, and return them."""
        if self._to.max_len is not None:
            lengths = lengths.clamp(max=self._to.max_len)
        self.builder.add_lengths(name, lengths, fill)
        return lengths

    # ---- columns that are copied ----

    def _move(self, source: int, size: int) -> int:
        """Reserve space for a copy of a part of the old arena, and return its new offset."""
        room = self.builder.room
        at = room.reserve(size)
        size = room.size - at  # up to the aligned start of the next part
        if self._moves:
            last, last_at, last_size = self._moves[-1]
            if (last + last_size, last_at + last_size) == (source, at):
                self._moves[-1] = last, last_at, last_size + size
                return at
        self._moves.append((source, at, size))
        return at

    def _copy(self, old: Tensor, new: Tensor) -> None:
        for source, at, size in self._moves:
            new[at : at + size] = old[source : source + size]


def _split(column: Column, names: set[str]) -> list[Any]:
    """Return a column, or several columns of one name each if ``names`` contains one of them."""
    if not isinstance(column, DenseColumns) or names.isdisjoint(column.names):
        return [column]
    return [DenseColumns((name,), *array, column.stride) for name, array in column.arrays()]


def _pad_texts(
    array: BytesArray, offsets: Tensor, lengths: Tensor, length: int, fill: bytes
) -> BytesArray:
    """Pad the first ``lengths[i]`` values of each row ``array[offsets[i] : offsets[i + 1]]``."""
    inner = math.prod(array.shape[1:])
    begins = offsets[:-1].long().unsqueeze(1)
    ends = begins + lengths.unsqueeze(1)
    positions = begins + torch.arange(length, device=offsets.device)
    shape = (len(begins), length, *array.shape[1:])
    is_uncut = bool((ends == offsets[1:].unsqueeze(1)).all())
    if inner == 1 and not fill and is_uncut and array.shape[0]:
        # Only the offsets change: empty values start and end where their row ends.
        starts = array.offsets[torch.minimum(positions, ends)]
        return BytesArray(array.data, torch.cat((starts.flatten(), array.offsets[-1:])), shape)
    fill_number = array.shape[0] * inner
    chosen = positions.unsqueeze(2) * inner + torch.arange(inner, device=offsets.device)
    chosen = chosen.masked_fill((positions >= ends).unsqueeze(2), fill_number)
    return _choose_texts(array, chosen.flatten(), fill, shape)


def _choose_texts(
    array: BytesArray, chosen: Tensor, fill: bytes, shape: tuple[int, ...]
) -> BytesArray:
    """Return values by their numbers. The number after the last value stands for ``fill``."""
    data = torch.cat((array.data, array.data.new_tensor(list(fill))))
    starts = torch.cat((array.offsets[:-1], array.offsets.new_tensor([array.data.numel()])))
    sizes = torch.cat((array.offsets.diff(), array.offsets.new_tensor([len(fill)])))[chosen]
    ends = torch.cat((sizes.new_zeros(1), sizes.cumsum(0)))
    total = int(ends[-1])
    shifts = torch.repeat_interleave(starts[chosen] - ends[:-1], sizes, output_size=total)
    return BytesArray(data[torch.arange(total, device=data.device) + shifts], ends, shape)
