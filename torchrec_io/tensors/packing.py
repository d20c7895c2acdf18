"""Batches of packed rows, made from a batch of documents."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .. import _core
from ..order.pack import Pack
from ..parsing.layout import ArenaLayout, DenseColumns, Numbers, RaggedColumn
from .batch import SEGMENT_LENGTHS, Batch
from .batch_builder import BatchBuilder
from .gather import array_of
from .ragged import BytesArray, Ragged
from .selecting import take_rows

_Ints: TypeAlias = npt.NDArray[np.int64]

_LABELS = {"same": _core.Labels.same, "next": _core.Labels.next}
_NO_LABELS = (torch.bool, torch.uint64)


class TokenSource(NamedTuple):
    """The values that a feature has for each token of some documents, in their arena.

    Attributes:
        at: Offset of the values of all documents.
        dtype: Dtype of the values.
        begins: Index of the first value of each document; int64 ``[B]``.
        ends: Index after the last value of each document; int64 ``[B]``.
    """

    at: int
    dtype: str
    begins: _Ints
    ends: _Ints

    @property
    def lengths(self) -> _Ints:
        """Number of values of each document; int64 ``[B]``."""
        return self.ends - self.begins

    @classmethod
    def of_rows(cls, arena: npt.NDArray[np.uint8], column: RaggedColumn) -> TokenSource:
        """Return the source of a column of rows of numbers."""
        assert isinstance(column.values, Numbers)
        offsets = array_of(arena, column.splits[0]).astype(np.int64, copy=False)
        return cls(column.values.at, column.values.dtype, offsets[:-1], offsets[1:])

    @classmethod
    def of_padded(cls, array: Numbers, lengths: _Ints) -> TokenSource:
        """Return the source of a column that is padded to the longest document."""
        count, width = array.shape
        begins = np.arange(count, dtype=np.int64) * width
        return cls(array.at, array.dtype, begins, begins + lengths)


class _TokenColumns(NamedTuple):
    """The columns with a value for each token, which an arena of rows begins with.

    Attributes:
        columns: The columns.
        size: Size of these columns, in bytes.
        places: Offset of each column in the arena, by name.
    """

    columns: Sequence[DenseColumns]
    size: int
    places: Mapping[str, int]


def _token_dtype(batch: Batch, name: str) -> torch.dtype | None:
    """Return the dtype of the values of a feature; None if it has not one for each token."""
    column = batch.flat_columns()[name]
    if isinstance(column, Ragged) and isinstance(column.values, Tensor):
        return column.values.dtype if column.values.dim() == 1 else None
    is_padded = isinstance(column, Tensor) and column.dim() == 2 and name in batch.lengths
    return column.dtype if is_padded else None


def check_columns(batch: Batch, pack: Pack) -> None:
    """Raise ValueError if documents with the columns of a batch cannot be packed."""
    assert pack.key is not None
    columns = batch.flat_columns()
    for name in (pack.key, *pack.also):
        if name not in columns:
            raise ValueError(f"pack needs the feature {name!r}, which the schema does not have")
        if _token_dtype(batch, name) is None:
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
    dtype = _token_dtype(batch, pack.key)
    assert dtype is not None
    _check_tokens(dtype, pack)


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


class RowLayout:
    """The columns of packed rows of documents of one schema.

    Args:
        pack: The options.
    """

    def __init__(self, pack: Pack) -> None:
        assert pack.key is not None
        self._pack = pack
        self._key = pack.key
        self._packed = (pack.key, *pack.also)
        # Batches usually have two numbers of rows.
        self._token_columns = functools.lru_cache(maxsize=8)(self._lay_out)

    def sources(self, batch: Batch) -> dict[str, TokenSource]:
        """Return where the values of a batch of documents are that are packed."""
        columns, _, padded, _ = batch.layout
        arena = batch.arena.numpy()
        found = {
            name: TokenSource.of_rows(arena, column)
            for column in columns
            if isinstance(column, RaggedColumn) and (name := column.name) in self._packed
        }
        if len(found) < len(self._packed):
            arrays = {
                name: array
                for column in columns
                if isinstance(column, DenseColumns)
                for name, array in column.arrays()
            }
            for name in self._packed:
                if name in found:
                    continue
                lengths = array_of(arena, arrays[padded[name].lengths])
                found[name] = TokenSource.of_padded(arrays[name], lengths)
        return found

    def make(
        self,
        batch: Batch,
        sources: Mapping[str, TokenSource],
        plan: _core.RowPlan,
        rows: _Ints | None,
    ) -> Batch:
        """Return the rows of a plan.

        Args:
            batch: The documents.
            sources: Places of their values, by feature.
            plan: The rows.
            rows: Row in ``batch`` of each document of the plan; -1 if it is lost. Its place becomes
                padding at the end of the row. None if the documents are the rows of the batch.
        """
        pack = self._pack
        writer = _core.row_writer(plan, pack.length, sources[self._key].begins, rows)
        others = self._others(batch, writer)
        names = [*self._packed, *made_columns(pack), *others]
        _, _, _, paths = batch.layout
        kept = {name: paths[name] for name in names if name in paths} if paths else {}
        dtypes = tuple(sources[name].dtype for name in self._packed)
        columns, size, places = self._token_columns(len(plan), dtypes)
        builder = BatchBuilder(size)
        builder.columns.extend(columns)
        pieces = (
            *self._add_rows(builder, "record_numbers", len(plan), "int64", writer.num_pieces),
            *self._add_rows(builder, SEGMENT_LENGTHS, len(plan), "int32", writer.num_segments),
        )
        if others:
            offsets = torch.from_numpy(writer.splits)
            for name, column in others.items():
                builder.add_values(name, Ragged(column, offsets))
        source = batch.arena.numpy()

        def write(arena: Tensor) -> None:
            out = arena.numpy()
            writer.write_pieces(out, *pieces)
            self._write(writer, plan, rows, source, sources, out, places)

        builder.writes.append(write)
        return builder.build(len(plan), names, kept, has_views=False)

    def _lay_out(self, rows: int, dtypes: Sequence[str]) -> _TokenColumns:
        """Lay out the columns with a value for each token.

        Args:
            rows: Number of rows.
            dtypes: Dtypes of the packed features.
        """
        by_dtype: dict[str, list[str]] = {}
        for name, dtype in zip(self._packed, dtypes, strict=True):
            by_dtype.setdefault(dtype, []).append(name)
        if self._pack.labels is not None:
            by_dtype.setdefault("int64", []).append("labels")
        by_dtype.setdefault("int32", []).extend(("segment_ids", "position_ids"))
        room = ArenaLayout()
        shape = (rows, self._pack.length)
        columns = [room.reserve_dense(tuple(by_dtype[dtype]), dtype, shape) for dtype in by_dtype]
        places = {name: array.at for column in columns for name, array in column.arrays()}
        return _TokenColumns(columns, room.size, places)

    def _add_rows(
        self, builder: BatchBuilder, name: str, rows: int, dtype: str, count: int
    ) -> tuple[int, int]:
        """Lay out a column of numbers by row; return where its offsets and its values are."""
        offsets = builder.room.reserve_numbers("int64", (rows + 1,))
        values = builder.room.reserve_numbers(dtype, (count,))
        builder.columns.append(RaggedColumn(name, (offsets,), values))
        return offsets.at, values.at

    def _write(  # noqa: PLR0917  # all that a row is made of
        self,
        writer: _core.RowWriter,
        plan: _core.RowPlan,
        rows: _Ints | None,
        source: npt.NDArray[np.uint8],
        sources: Mapping[str, TokenSource],
        arena: npt.NDArray[np.uint8],
        places: Mapping[str, int],
    ) -> None:
        pack, tokens = self._pack, sources[self._key]
        for name in self._packed:
            at, dtype, begins, _ = sources[name]
            is_key = name == self._key
            is_alike = is_key or np.array_equal(begins, tokens.begins)
            own = writer if is_alike else _core.row_writer(plan, pack.length, begins, rows)
            padding = _item(pack.pad_id if is_key else 0, dtype)
            last = _item(pack.separator, dtype) if is_key and pack.separator is not None else None
            own.write_values(source, at, padding, last, arena, places[name])
        if pack.labels is not None:
            kind = _LABELS[pack.labels]
            writer.write_labels(
                kind, source, tokens.at, tokens.dtype, pack.separator, arena, places["labels"]
            )
        continues = pack.positions == "continue"
        writer.write_marks(continues, arena, places["segment_ids"], places["position_ids"])

    def _others(self, batch: Batch, writer: _core.RowWriter) -> dict[str, Any]:
        """Return the columns that are not packed, with a row for each piece."""
        _, names, _, _ = batch.layout
        others = [name for name in names if name not in self._packed]
        if not others:
            return {}
        rows = torch.from_numpy(writer.rows)
        columns = batch.flat_columns()
        return {name: take_rows(columns[name], rows) for name in others}


@functools.lru_cache(64)
def _item(value: int, dtype: str) -> bytes:
    """Return a number as the bytes of a dtype."""
    item = torch.tensor([value], dtype=getattr(torch, dtype))
    return item.view(torch.uint8).numpy().tobytes()
