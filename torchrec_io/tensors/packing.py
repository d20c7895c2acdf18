"""Batches of packed rows, made from a batch of documents."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .. import _core
from ..order.pack import Pack
from ..order.packed_rows import RowPlan
from .batch import SEGMENT_LENGTHS, Batch
from .batch_builder import BatchBuilder
from .ragged import BytesArray, Ragged

_Ints: TypeAlias = npt.NDArray[np.int64]

_LABELS = {"same": _core.Labels.same, "next": _core.Labels.next}
_NO_LABELS = (torch.bool, torch.uint64)


class TokenValues(NamedTuple):
    """The values that a feature has for each token of some documents.

    Attributes:
        values: Values of all documents; ``[n]``.
        starts: Index of the first value of each document; int64 ``[B]``.
        lengths: Number of values of each document; int64 ``[B]``.
    """

    values: Tensor
    starts: _Ints
    lengths: _Ints

    @classmethod
    def of(cls, batch: Batch, name: str) -> TokenValues | None:
        """Return the values of a column of documents; None if it has not one for each token."""
        column = batch.flat_columns()[name]
        if isinstance(column, Ragged) and isinstance(column.values, Tensor):
            if column.values.dim() != 1:
                return None
            offsets = column.offsets.numpy().astype(np.int64, copy=False)
            return cls(column.values, offsets[:-1], np.diff(offsets))
        lengths = batch.lengths.get(name)
        if isinstance(column, Tensor) and column.dim() == 2 and lengths is not None:
            starts = np.arange(len(column)) * column.shape[1]
            return cls(column.reshape(-1), starts, lengths.numpy())
        return None


def check_columns(batch: Batch, pack: Pack) -> None:
    """Raise ValueError if documents with the columns of a batch cannot be packed."""
    assert pack.key is not None
    columns = batch.flat_columns()
    for name in (pack.key, *pack.also):
        if name not in columns:
            raise ValueError(f"pack needs the feature {name!r}, which the schema does not have")
        if TokenValues.of(batch, name) is None:
            raise ValueError(
                f"the feature {name!r} cannot be packed: it must be a VarLenFeature, a "
                "RaggedFeature without partitions or a FixedLenSequenceFeature of shape [], of "
                "numbers"
            )
    for name, column in columns.items():
        if name in (pack.key, *pack.also):
            continue
        if name in batch.lengths or not isinstance(column, (Tensor, BytesArray, Ragged)):
            raise ValueError(
                f"the feature {name!r} cannot be packed by document: read it as a VarLenFeature or "
                "RaggedFeature, or leave it out of the schema"
            )
    taken = [name for name in made_columns(pack) if name in columns or name in batch]
    if taken:
        raise ValueError(
            f"packed rows have a column {taken[0]!r}, and so has the schema: rename the feature, "
            f"as in {{'other_name': tio.RaggedFeature(..., value_key={taken[0]!r})}}"
        )
    tokens = TokenValues.of(batch, pack.key)
    assert tokens is not None
    _check_tokens(tokens.values.dtype, pack)


def _check_tokens(dtype: torch.dtype, pack: Pack) -> None:
    if pack.labels is not None and (dtype.is_floating_point or dtype in _NO_LABELS):
        raise ValueError(f"labels need tokens of an integer dtype such as int64, got {dtype}")
    if dtype.is_floating_point or dtype == torch.bool:
        return
    limits = torch.iinfo(dtype)
    for name, value in (("separator", pack.separator), ("pad_id", pack.pad_id)):
        if value is not None and not limits.min <= value <= limits.max:
            raise ValueError(f"{name} must fit the tokens, which are {dtype}, got {value}")


def made_columns(pack: Pack) -> list[str]:
    """Return the names of the columns that packed rows have in addition to the schema's."""
    labels = [] if pack.labels is None else ["labels"]
    return [*labels, "segment_ids", "position_ids", SEGMENT_LENGTHS, "record_numbers"]


def pack_rows(batch: Batch, plan: RowPlan, rows: _Ints, pack: Pack) -> Batch:
    """Return the rows of a plan.

    Args:
        batch: The documents.
        plan: The rows.
        rows: Row in ``batch`` of each document of the plan; -1 if it is lost. Its place becomes
            padding at the end of the row.
        pack: The options.
    """
    return _Packing(batch, plan, rows, pack).build()


class _Packing:
    """The making of one batch of rows; see :func:`pack_rows`."""

    def __init__(self, batch: Batch, plan: RowPlan, rows: _Ints, pack: Pack) -> None:
        assert pack.key is not None
        self._batch = batch
        self._pack = pack
        self._count = len(plan)
        self._columns = batch.flat_columns()
        self._key = pack.key
        in_row = np.repeat(np.arange(len(plan)), np.diff(plan.row_begins))
        documents, begins, sizes = plan.documents, plan.begins, plan.sizes
        if (rows < 0).any():
            kept = np.flatnonzero(rows[documents] >= 0)
            in_row, documents = in_row[kept], documents[kept]
            begins, sizes = begins[kept], sizes[kept]
        self._rows = rows[documents]
        self._numbers = plan.numbers[documents]
        self._begins = begins
        self._sizes = sizes
        counts = np.bincount(in_row, minlength=len(plan))
        # Pieces before each row, and at the end.
        self._splits: _Ints = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts)))
        ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
        before = ends[self._splits]  # tokens before each row
        self._used = np.diff(before)
        self._targets = ends[:-1] - before[in_row] + in_row * pack.length

    def build(self) -> Batch:
        """Return the batch."""
        builder = BatchBuilder()
        shape = (self._count, self._pack.length)
        pack, tokens = self._pack, self._source(self._key)
        self._add_values(builder, self._key, pack.pad_id, pack.separator)
        if pack.labels is not None:
            write: Any = partial(self._write_labels, tokens)
            builder.add_dense_later("labels", torch.int64, shape, write)
        for name in pack.also:
            self._add_values(builder, name, 0, None)
        marks: list[Tensor] = []  # both are written with the second
        builder.add_dense_later("segment_ids", torch.int32, shape, marks.append)
        builder.add_dense_later(
            "position_ids", torch.int64, shape, lambda to: self._write_marks(marks[0], to)
        )
        builder.add_values(SEGMENT_LENGTHS, self._segment_lengths())
        builder.add_values("record_numbers", self._by_row(torch.from_numpy(self._numbers)))
        others = self._others()
        for name, column in others.items():
            builder.add_values(name, self._by_row(column))
        names = [self._key, *pack.also, *made_columns(pack), *others]
        _, _, _, paths = self._batch.layout
        kept = {name: paths[name] for name in names if name in paths}
        return builder.build(self._count, names, kept)

    def _source(self, name: str) -> TokenValues:
        source = TokenValues.of(self._batch, name)
        assert source is not None
        return source

    def _pieces(self, source: TokenValues) -> npt.NDArray[np.int64]:
        """Return the pieces as the native core takes them."""
        rows = self._rows
        return np.stack(
            (self._targets, source.starts[rows], source.lengths[rows], self._begins, self._sizes)
        )

    @cached_property
    def _token_pieces(self) -> npt.NDArray[np.int64]:
        return self._pieces(self._source(self._key))

    def _add_values(
        self, builder: BatchBuilder, name: str, padding: int, separator: int | None
    ) -> None:
        source = self._source(name)
        values = source.values
        pieces = self._token_pieces if name == self._key else self._pieces(source)
        pad = _item(padding, values.dtype)
        last = None if separator is None else _item(separator, values.dtype)

        def write(to: Tensor) -> None:
            _core.write_packed_values(pieces, _raw(values), pad, last, _raw(to))

        builder.add_dense_later(name, values.dtype, (self._count, self._pack.length), write)

    def _write_labels(self, tokens: TokenValues, to: Tensor) -> None:
        assert self._pack.labels is not None
        kind = _LABELS[self._pack.labels]
        source, separator = tokens.values.numpy(), self._pack.separator
        _core.write_packed_labels(
            self._token_pieces, kind, source, separator, to.reshape(-1).numpy()
        )

    def _write_marks(self, segments: Tensor, positions: Tensor) -> None:
        _core.write_packed_marks(
            self._token_pieces,
            self._pack.length,
            self._pack.positions == "continue",
            segments.reshape(-1).numpy(),
            positions.reshape(-1).numpy(),
        )

    def _segment_lengths(self) -> Ragged:
        """Return the sizes of the pieces of each row, with the padding as the last one."""
        room = self._pack.length - self._used
        padded = np.flatnonzero(room)
        sizes = np.insert(self._sizes, self._splits[padded + 1], room[padded])
        splits = self._splits.copy()
        splits[1:] += np.cumsum(room > 0)
        return Ragged(torch.from_numpy(sizes.astype(np.int32)), torch.from_numpy(splits))

    def _by_row(self, column: Any) -> Ragged:
        return Ragged(column, torch.from_numpy(self._splits))

    def _others(self) -> Mapping[str, Any]:
        """Return the columns that are not packed, with a row for each piece."""
        packed = {self._key, *self._pack.also}
        names = [name for name in self._columns if name not in packed]
        if not names:
            return {}
        rows, count = self._rows, len(next(iter(self._columns.values())))
        batch = self._batch
        if len(rows) != count or (rows != np.arange(count)).any():
            batch = batch.select(torch.from_numpy(rows))
        columns = batch.flat_columns()
        return {name: columns[name] for name in names}


def _item(value: int, dtype: torch.dtype) -> bytes:
    """Return a number as the bytes of a dtype."""
    return torch.tensor([value], dtype=dtype).view(torch.uint8).numpy().tobytes()


def _raw(values: Tensor) -> npt.NDArray[np.uint8]:
    """Return the bytes of a Tensor."""
    raw: npt.NDArray[np.uint8] = values.reshape(-1).view(torch.uint8).numpy()
    return raw
