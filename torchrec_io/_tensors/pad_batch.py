"""Padding of the columns of a whole batch, without making samples of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor

from .._parsing.layout import DenseColumns
from .building import ColumnsBuilder, gathered
from .columns import Columns
from .padding import PaddedLength
from .ragged import BytesArray, Ragged
from .selecting import take_rows
from .views import ArenaViews


def pad_columns(
    columns: Columns,
    fill: float,
    to: PaddedLength,
    allocate: Callable[[int], Tensor],
    unpadded: Collection[str] = (),
) -> Columns:
    """Return columns whose Raggeds are padded, and whose padded columns have another length.

    Args:
        columns: The columns. Others are copied, and so are padded images, which have other axes.
        fill: Fill value after the end of shorter rows of a Ragged of numbers.
        to: Length of padded rows.
        allocate: Function that allocates an arena of a number of bytes.
        unpadded: Names of Raggeds that are copied.

    Raises:
        ValueError: If a row is longer than the last bucket.
        TypeError: If a Ragged has rows of rows of bytes.
        MemoryError: If there is not enough memory.
    """
    if columns.arena is None:
        columns = gathered(columns, columns.device)
    assert columns.arena is not None
    builder = ColumnsBuilder(columns.padded)
    views = ArenaViews(columns.arena)
    groups = [each for each in columns.layout if isinstance(each, DenseColumns)]
    copied: set[str] = set()
    for group in groups:
        if len(group.names) > 1:  # never padded ones
            builder.add_together(group.names, views.together(group))
            copied.update(group.names)
    lengths_of = columns.lengths()
    values = {name: value for name, value in columns.flat().items() if name not in copied}
    for name, value in values.items():
        padding = columns.padded.get(name)
        if isinstance(value, Ragged) and name not in unpadded:
            _pad(builder, name, value, to, lengths=value.lengths.long(), fill=fill)
        elif padding is not None and padding.axes == (0,):
            _pad(builder, name, value, to, lengths=lengths_of[name], fill=padding.fill)
        else:
            builder.add(name, value)
            if padding is not None:
                builder.add(padding.lengths, lengths_of[name])
    records = columns.count_records()
    return builder.build(records, columns.names, columns.paths, allocate)


def _pad(
    builder: ColumnsBuilder, name: str, value: Any, to: PaddedLength, *, lengths: Tensor, fill: Any
) -> None:
    """Add a padded column, and its lengths after cutting."""
    longest = int(lengths.max()) if len(lengths) else 0
    length = to.length(longest, name)
    if to.max_len is not None:
        lengths = lengths.clamp(max=to.max_len)
    builder.add_lengths(name, lengths, fill)
    if not isinstance(value, Ragged):
        builder.add(name, _pad_again(value, length, to.cut(longest), fill))
    elif isinstance(value.values, BytesArray):
        builder.add(name, _pad_texts(value.values, value.offsets, lengths, length, b""))
    else:
        builder.add(name, value.to_padded(fill, to.max_len, to.buckets or None))


def _pad_again(
    column: Tensor | BytesArray, length: int, kept: int, fill: Any
) -> Tensor | BytesArray:
    """Change the length of a column that is padded already.

    Args:
        column: The column.
        length: New length.
        kept: Number of values that are kept.
        fill: Padding.
    """
    count, before, *inner = column.shape
    if isinstance(column, Tensor):
        padded = column.new_full((count, length, *inner), fill)
        padded[:, :kept] = column[:, :kept]
        return padded
    rows = BytesArray(column.data, column.offsets, (count * before, *inner))
    offsets = torch.arange(count + 1, device=rows.offsets.device) * before
    fill = fill if isinstance(fill, bytes) else b""
    return _pad_texts(rows, offsets, torch.full_like(offsets[1:], kept), length, fill)


def _pad_texts(
    array: BytesArray, offsets: Tensor, lengths: Tensor, length: int, fill: bytes
) -> BytesArray:
    """Pad the first ``lengths[i]`` values of each row ``array[offsets[i] : offsets[i + 1]]``."""
    count, *inner = array.shape
    begins = offsets[:-1].long().unsqueeze(1)
    ends = begins + lengths.unsqueeze(1)
    positions = begins + torch.arange(length, device=offsets.device)
    shape = (len(begins), length, *inner)
    is_uncut = bool((ends == offsets[1:].unsqueeze(1)).all())
    if not inner and not fill and is_uncut and count:
        # Only the offsets change: empty values start and end where their row ends.
        starts = array.offsets[torch.minimum(positions, ends)]
        return BytesArray(array.data, torch.cat((starts.flatten(), array.offsets[-1:])), shape)
    # The padding is one more value, after all others.
    size = math.prod(inner)
    data = torch.cat((array.data, array.data.new_tensor(list(fill * size))))
    steps = torch.arange(1, size + 1, device=offsets.device) * len(fill)
    with_fill = BytesArray(
        data, torch.cat((array.offsets, array.data.numel() + steps)), (count + 1, *inner)
    )
    taken = take_rows(with_fill, positions.masked_fill(positions >= ends, count).flatten())
    return BytesArray(taken.data, taken.offsets, shape)
