"""Batches of packed rows, made from a batch of documents."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .. import _core
from .._order.pack import Pack
from .._parsing.columns.base import ColumnBuilder, LocatedBlock
from .._parsing.layout import (
    ArenaLayout,
    Column,
    DenseColumns,
    Numbers,
    RaggedColumn,
    grouped,
)
from .._parsing.parser import ExampleParser
from .arena import Allocate, allocate_arena, allocate_for
from .batch import SEGMENT_LENGTHS, Batch
from .columns import Columns, Form
from .ragged import BytesArray, Ragged
from .views import number_bytes

_Ints: TypeAlias = npt.NDArray[np.int64]

_LABELS = {"same": _core.Labels.same, "next": _core.Labels.next}
_NO_LABELS = (torch.bool, torch.uint64)


class _TokenColumns(NamedTuple):
    """The columns with a value for each token, which an arena of rows begins with.

    Attributes:
        columns: The columns.
        size: Size of these columns and of the offsets, in bytes.
        format: Positions of the columns, for the core.
        piece_offsets: Number of the first piece of each row, and of all pieces.
        segment_offsets: The same of segments.
    """

    columns: Sequence[DenseColumns]
    size: int
    format: _core.RowFormat
    piece_offsets: Numbers
    segment_offsets: Numbers


def _token_dtype(batch: Batch, name: str) -> torch.dtype | None:
    """Return the dtype of the values of a feature; None if it has not one for each token."""
    column = batch.columns.flat()[name]
    if isinstance(column, Ragged) and isinstance(column.values, Tensor):
        return column.values.dtype if column.values.dim() == 1 else None
    is_padded = isinstance(column, Tensor) and column.dim() == 2 and name in batch.lengths
    return column.dtype if is_padded else None


def check_columns(batch: Batch, pack: Pack) -> None:
    """Raise ValueError if documents with the columns of a batch cannot be packed."""
    assert pack.key is not None
    columns = batch.columns.flat()
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
            f"as in {{'other_name': tio.VarLenFeature(..., key={taken[0]!r})}}"
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


def count_tokens(batch: Batch, name: str) -> _Ints:
    """Return the number of values that a packed feature has in each document; int64 ``[B]``."""
    column = batch.columns.flat()[name]
    counts = column.offsets.diff() if isinstance(column, Ragged) else batch.lengths[name]
    return counts.to(torch.int64).numpy()


class RowSources(NamedTuple):
    """The records that rows are made from.

    Attributes:
        records: Positions of the records that are located, repeats allowed; None for all, in order.
        documents: Position of each document's record among those that are located; -1 if it is
            lost. None if they are the same.
    """

    records: _Ints | None
    documents: _Ints | None


class RowLayout:
    """The columns of packed rows of documents of one schema.

    Args:
        pack: The options.
        parser: Parser of the documents that only locates the packed features.
    """

    def __init__(self, pack: Pack, parser: ExampleParser) -> None:
        assert pack.key is not None
        self._pack = pack
        self._packed = (pack.key, *pack.also)
        self._parser = parser
        self._builders = [parser.builder(name) for name in self._packed]
        names = (*self._packed, *made_columns(pack), *parser.names)
        paths = {name: parser.paths[name] for name in names if name in parser.paths}
        self._form = Form(names, paths=paths)
        self._has_others = len(parser.names) > 0
        # Batches usually have two numbers of rows, and few lengths.
        self._token_columns = functools.lru_cache(maxsize=8)(self._lay_out)

    def sources(self, plan: _core.RowPlan, found: _Ints | None = None) -> RowSources:
        """Return the records that are located for the rows of a plan.

        The columns that are not packed have a row for each piece of a document. If there are such
        columns, the record of a document in several pieces is located for each of them.

        Args:
            plan: The rows.
            found: Position of each document's record; -1 if it is lost. None if the records are
                those of the plan.
        """
        pieces = plan.documents
        if not self._has_others or (found is None and len(pieces) == len(plan.numbers)):
            return RowSources(None, found)
        kept = pieces if found is None else pieces[found[pieces] >= 0]
        documents, first_pieces = np.unique(kept, return_index=True)
        of_documents = np.full(len(plan.numbers), -1, np.int64)
        of_documents[documents] = first_pieces
        return RowSources(kept if found is None else found[kept], of_documents)

    def make(
        self,
        plans: Sequence[_core.RowPlan],
        located: Sequence[LocatedBlock],
        documents: Sequence[_Ints | None],
        allocate: Allocate = allocate_arena,
    ) -> list[Batch]:
        """Return the rows of plans, up to the first one with a fault.

        That is a document that is not valid, or not as long as planned.

        Args:
            plans: The rows of each batch.
            located: The records of each plan, laid out.
            documents: Position of each document's record among those of its plan; -1 if it is lost.
                Its place becomes padding at the end of the row. None if they are the same.
            allocate: Function that allocates the arenas.
        """
        written: list[tuple[Tensor, list[Column], int]] = []
        for plan, block, found in zip(plans, located, documents, strict=True):
            rows = self._write_tokens(plan, block, found, allocate)
            if rows is None:
                break
            written.append(rows)
        blocks = located[: len(written)]
        # Together, because threads pass the interpreter on after each call.
        done = self._parser.fill(blocks, [arena.numpy()[size:] for arena, _, size in written])
        valid = itertools.takewhile(lambda block: not len(block.refused), blocks[:done])
        return [
            Batch(Columns(arena, columns, self._form), has_views=False)
            for (arena, columns, _), _ in zip(written, valid, strict=False)
        ]

    def _write_tokens(
        self,
        plan: _core.RowPlan,
        located: LocatedBlock,
        documents: _Ints | None,
        allocate: Allocate,
    ) -> tuple[Tensor, list[Column], int] | None:
        """Write the columns of the packed features of a batch; see :meth:`make`.

        Returns:
            The arena, all columns, and the offset in bytes of those that are not packed. None if
            there is a fault.
        """
        writer = _core.row_writer(plan, plan.length, len(located), documents)
        layout = self._token_columns(len(plan), plan.length)
        room = ArenaLayout(layout.size)
        numbers = room.reserve_numbers("int64", (writer.num_pieces,))
        lengths = room.reserve_numbers("int32", (writer.num_segments,))
        columns: list[Column] = [
            *layout.columns,
            RaggedColumn("record_numbers", (layout.piece_offsets,), numbers),
            RaggedColumn(SEGMENT_LENGTHS, (layout.segment_offsets,), lengths),
        ]
        for column in located.columns:  # which have a row for each piece
            columns += grouped(column, layout.piece_offsets, room.size)
        size = room.size + located.layout.size
        arena = allocate_for(size, columns, len(plan), allocate)
        out = arena.numpy()
        writer.write_pieces(
            out,
            layout.piece_offsets.at,
            numbers.at,
            layout.segment_offsets.at,
            lengths.at,
        )
        is_written = writer.write(located.located, layout.format, out)
        return (arena, columns, room.size) if is_written else None

    def _lay_out(self, rows: int, length: int) -> _TokenColumns:
        """Lay out the columns with a value for each token, of a number of rows of a length."""
        pack = self._pack
        by_dtype: dict[str, list[str]] = {}
        for builder in self._builders:
            by_dtype.setdefault(builder.feature.dtype, []).append(builder.name)
        if pack.labels is not None:
            by_dtype.setdefault("int64", []).append("labels")
        by_dtype.setdefault("int32", []).extend(("segment_ids", "position_ids"))
        room = ArenaLayout()
        shape = (rows, length)
        columns = [room.reserve_dense(tuple(by_dtype[dtype]), dtype, shape) for dtype in by_dtype]
        places = {name: array.at for column in columns for name, array in column.arrays()}
        row_format = _core.RowFormat(
            [self._packed_column(builder, places[builder.name]) for builder in self._builders],
            segments_at=places["segment_ids"],
            positions_at=places["position_ids"],
            continues=pack.positions == "continue",
            labels=None if pack.labels is None else _LABELS[pack.labels],
            labels_at=places.get("labels", 0),
            separator=pack.separator,
        )
        offsets = [room.reserve_numbers("int64", (rows + 1,)) for _ in range(2)]
        return _TokenColumns(columns, room.size, row_format, *offsets)

    def _packed_column(self, builder: ColumnBuilder, at: int) -> _core.PackedColumn:
        dtype, pack = builder.feature.dtype, self._pack
        is_key = builder.name == pack.key
        padding = number_bytes(pack.pad_id if is_key else 0, dtype)
        has_separator = is_key and pack.separator is not None
        separator = number_bytes(pack.separator, dtype) if has_separator else None
        return _core.PackedColumn(builder.first_spec, at, padding, separator)
