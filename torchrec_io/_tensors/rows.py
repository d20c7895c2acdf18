"""Rows of batches, which hold the values of samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from .._parsing.arrays import view_of
from .._parsing.layout import ListColumn, RaggedColumn
from .._parsing.record_random import RecordRandom
from .._schema.nesting import Path, leaves_of, nested
from ..checks import UnknownNameError
from .columns import Columns, Form
from .gather import copy_rows, data_of
from .ragged import Ragged, integers, name_dtype
from .views import list_rows


class Hints(NamedTuple):
    """Hints for :func:`collate` to join values of different lengths, by flat name.

    Attributes:
        ragged: dtype of the offsets, for each value that becomes a row of a Ragged.
        padded: Fill value, for each value that is padded to the longest one of a batch.
        axes: Axes that are padded, for padded values. Default: the first axis.
    """

    ragged: Mapping[str, str]
    padded: Mapping[str, Any]
    axes: Mapping[str, tuple[int, ...]]


NO_HINTS = Hints({}, {}, {})


# The source of the random numbers of records in an epoch, and their numbers for the reader.
Origins: TypeAlias = tuple[RecordRandom, "Sequence[Any] | npt.NDArray[Any]"]


class Rows(dict[str, Any]):
    """The values of some records.

    ``rows[key][row]`` is a value of a record. The dict holds the columns that were asked for so
    far.

    Args:
        columns: Columns of the records.
        origins: Origins of the records in a dataset; None if they are not known.
        schema: Schema that the records were parsed with; None if it is not known.
        hints: Hints about values of different lengths. Default: those of the columns.

    Attributes:
        names: Top-level keys of each record.
        columns: The columns.
        origins: Origins of the records in a dataset; None if they are not known.
        schema: The schema.
    """

    __slots__ = (
        "_hints",
        "_is_ordered",
        "_leaves",
        "columns",
        "names",
        "origins",
        "schema",
    )

    def __init__(
        self,
        columns: Columns,
        origins: Origins | None = None,
        *,
        schema: Any = None,
        hints: Hints | None = None,
    ) -> None:
        super().__init__()
        self.columns: Columns = columns
        self.names: tuple[str, ...] = columns.form.keys
        self.schema: Any = schema
        self.origins: Origins | None = origins
        self._hints = hints
        # Whether the arena has rows, and none overlap.
        self._is_ordered: bool | None = None
        # The values of which the dicts were made, for each key of a nested schema.
        self._leaves: dict[str, list[dict[Path, Any]]] | None = None

    @classmethod
    def of_values(cls, values: Mapping[str, Any], hints: Hints, schema: Any) -> Rows:
        """Return the values of a single record that are given, as row 0.

        Args:
            values: The values by name. Values in dicts stay in these.
            hints: Hints about values of different lengths.
            schema: Schema that the record was parsed with; an empty dict if there is none.
        """
        columns = Columns.of_values(
            {name: [value] for name, value in values.items()}, Form((*values,))
        )
        return cls(columns, schema=schema, hints=hints)

    def __missing__(self, key: str) -> Any:
        columns = self.columns
        if key not in self.names:
            raise UnknownNameError(key, self.names, "the sample has")
        paths = columns.form.paths
        names = [name for name in columns.form.names if name in paths and paths[name][0] == key]
        rows: Any
        if names:  # of the columns in a dict
            inside = [paths[name][1:] for name in names]
            values = list(zip(*(_rows_of(columns, name) for name in names), strict=True))
            leaves = [dict(zip(inside, each, strict=True)) for each in values]
            self._leaves = {**(self._leaves or {}), key: leaves}
            rows = [nested(dict(zip(names, each, strict=True)), paths)[key] for each in values]
        else:
            rows = _rows_of(columns, key)
        self[key] = rows
        return rows

    @property
    def has_changed_dicts(self) -> bool:
        """True if a dict of a nested schema was changed by someone who got it."""
        return not all(
            all(map(_has_leaves, self[key], leaves)) for key, leaves in (self._leaves or {}).items()
        )

    @property
    def hints(self) -> Hints:
        """Hints about values of different lengths."""
        if self._hints is None:
            padded = self.columns.form.padded
            self._hints = Hints(
                {
                    name: name_dtype(value.offsets)
                    for name, value in self.columns.flat().items()
                    if isinstance(value, Ragged)
                },
                {name: padding.fill for name, padding in padded.items()},
                {name: padding.axes for name, padding in padded.items()},
            )
        return self._hints

    @property
    def can_be_gathered(self) -> bool:
        """True if the rows can be copied from the arena."""
        if self._is_ordered is None:
            self._is_ordered = self.columns.is_in_memory and _has_ordered_offsets(self.columns)
        return self._is_ordered and not self.has_changed_dicts

    def own(self, row: int) -> Rows:
        """Return the values of one record in memory of their own, as row 0."""
        if not self.can_be_gathered:  # a copy of each value
            values = tree_map(_copied, {name: self[name][row] for name in self.names})
            return Rows.of_values(values, self.hints, self.schema)
        # There may be many copies, so they are small.
        copy = copy_rows([self.columns], [(0, row, 1)])
        layout = copy.plan(is_small=True)
        data = np.empty(copy.size, np.uint8)
        copy.write(data)
        origins = None
        if self.origins is not None:
            random, numbers = self.origins
            origins = random, (numbers[row],)
        columns = Columns(torch.from_numpy(data), layout, self.columns.form)
        return Rows(columns, origins, schema=self.schema)


def _copied(value: Any) -> Any:
    is_plain = isinstance(value, Tensor) and not value.requires_grad  # a graph stays as it is
    return value.clone() if is_plain else value


def _has_leaves(made: dict[str, Any], leaves: dict[Path, Any]) -> bool:
    """Return whether a dict has exactly these objects at their paths."""
    found = dict(leaves_of(made))
    return found.keys() == leaves.keys() and all(found[path] is leaves[path] for path in leaves)


def _rows_of(columns: Columns, name: str) -> Sequence[Any]:
    """Return the rows of a column, without padding."""
    if name in columns.form.images:
        return list_rows(columns.encoded()[name].to("cpu"))
    rows = list_rows(columns.views()[name])
    padding = columns.form.padded.get(name)
    if padding is None:
        return rows
    lengths = integers(columns.views()[padding.lengths], f"the lengths of {name!r}")
    if padding.axes == (0,):
        return [row[:length] for row, length in zip(rows, lengths, strict=True)]
    for axis, sizes in zip(padding.axes, zip(*lengths, strict=True), strict=bool(lengths)):
        rows = [row.narrow(axis, 0, size) for row, size in zip(rows, sizes, strict=True)]
    return rows


def _has_ordered_offsets(columns: Columns) -> bool:
    """Return whether no offset is smaller than the one before. Others were not validated."""
    arena = data_of(columns)
    raggeds = [
        array
        for column in columns.layout
        for array in (column.arrays if isinstance(column, ListColumn) else (column,))
        if isinstance(array, RaggedColumn)
    ]
    levels = [view_of(arena, level) for column in raggeds for level in column.splits]
    return all(bool((level[1:] >= level[:-1]).all()) for level in levels)
