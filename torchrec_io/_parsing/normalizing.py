"""Normalization of finished columns."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from .arrays import Arena, view_of
from .columns.base import ColumnBuilder
from .layout import Column
from .ranges import array_of, numbers_of


def normalize_column(arena: Arena, columns: Iterable[Column], builder: ColumnBuilder) -> None:
    """Normalize the values of a column in place, without its padding.

    Args:
        arena: Arena of the columns.
        columns: All columns of a block, finished.
        builder: Builder of the column, whose feature has a ``normalize``.
    """
    normalize = builder.feature.normalize
    values = view_of(arena, numbers_of(array_of(columns, builder.name)))
    if builder.padding is None:
        values[...] = normalize(values)
        return
    lengths = view_of(arena, array_of(columns, builder.padding.lengths))
    is_stored = np.arange(values.shape[1]) < lengths[:, np.newaxis]
    values[is_stored] = normalize(values[is_stored])
