"""The columns of a batch, in one arena or each in memory of its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .. import _core
from .._parsing.layout import Column, Padding
from .._schema.nesting import Path, nested
from .arena import allocate_arena
from .ragged import TensorParts
from .views import count_rows, make_views

if TYPE_CHECKING:
    from .encoded_images import EncodedImages

# Arenas up to this size are pickled as bytes. PyTorch moves the storage of a larger one to shared
# memory when it is sent to another process. DataLoader workers first try transport.py.
_INLINE_BYTES = 1 << 20


class Form(NamedTuple):
    """The names of columns, and what is known about them apart from their data.

    Attributes:
        names: Flat names of the columns, in the order of iteration.
        padded: Padding of each padded column, by flat name.
        paths: Keys of the dicts that lead to each nested column, by flat name.
        images: Spec of each column of encoded images, which :meth:`Batch.to` decodes, by flat name.
    """

    names: tuple[str, ...]
    padded: Mapping[str, Padding] = {}
    paths: Mapping[str, Path] = {}
    images: Mapping[str, Any] = {}

    @property
    def all_names(self) -> list[str]:
        """Names of all columns, including the hidden columns of lengths."""
        return [*self.names, *(padding.lengths for padding in self.padded.values())]

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the columns that are in no dict, and of the outermost dicts."""
        if not self.paths:
            return self.names
        tops = (self.paths[name][0] if name in self.paths else name for name in self.names)
        return tuple(dict.fromkeys(tops))


class Columns(TensorParts):
    """The columns of a batch, with their names.

    Columns that share one buffer, the arena, are copied as a whole. Others may be any objects;
    methods that need Tensors, or columns made of Tensors, raise a TypeError for others.

    Args:
        arena: uint8 ``[n]``, a multiple of 64 bytes; None if each column has its own memory.
        layout: Positions of the columns in the arena.
        form: Names of the columns.

    Attributes:
        arena: The data of all columns; None if each column has its own memory.
        layout: Positions of the columns in the arena.
        form: Names of the columns.
    """

    __slots__ = ("_views", "arena", "form", "layout")

    def __init__(self, arena: Tensor | None, layout: Sequence[Column], form: Form) -> None:
        self.arena: Tensor | None = arena
        # A worker pickles layout and form again only if their parts are other objects.
        self.layout: tuple[Column, ...] = tuple(layout)
        self.form: Form = form
        self._views: dict[str, Any] | None = None

    @classmethod
    def of_values(cls, values: Mapping[str, Any], form: Form) -> Columns:
        """Return columns that have memory of their own each.

        Args:
            values: All columns by flat name, including the hidden columns of lengths.
            form: Names of the columns.
        """
        columns = cls(None, (), form)
        columns._views = dict(values)  # of this class
        return columns

    @property
    def is_in_memory(self) -> bool:
        """True if there is an arena in the memory of the CPU."""
        return self.arena is not None and self.arena.device.type == "cpu"

    # ---- views ----

    def views(self) -> dict[str, Any]:
        """Return all columns by flat name, including the hidden columns of lengths."""
        if self._views is None:
            assert self.arena is not None
            self._views = make_views(self.arena, self.layout)
        return self._views

    def flat(self) -> dict[str, Any]:
        """Return the columns by flat name."""
        views = self.views()
        found = {name: views[name] for name in self.form.names}
        return {**found, **self.encoded()} if self.form.images else found

    def encoded(self) -> dict[str, EncodedImages]:
        """Return the columns of encoded images by flat name."""
        from .encoded_images import EncodedImages  # noqa: PLC0415  # rarely needed

        views, images = self.views(), self.form.images
        return {name: EncodedImages(name, views[name], images[name]) for name in images}

    def nested(self) -> dict[str, Any]:
        """Return the columns in dicts, as users see them."""
        return nested(self.flat(), self.form.paths) if self.form.paths else self.flat()

    def lengths(self) -> dict[str, Tensor]:
        """Return the lengths of the records of each padded column, by flat name."""
        views = self.views()
        return {name: views[padding.lengths] for name, padding in self.form.padded.items()}

    def count_records(self) -> int:
        """Return the number of records.

        Raises:
            TypeError: If a column is not made of Tensors, or a Tensor has no dimension.
            ValueError: If columns have different numbers of records.
        """
        if self.arena is not None:
            return next((column.num_records for column in self.layout), 0)
        views = self.views()
        counts = {name: count_rows(views[name]) for name in self.form.names}
        if len(set(counts.values())) > 1:
            raise ValueError(f"the columns have different numbers of records: {counts}")
        return next(iter(counts.values()), 0)

    # ---- memory ----

    @property
    def parts(self) -> list[Any]:
        """Internal interface: the arena, or all columns, and those in a list."""
        if self.arena is not None:
            return [self.arena]
        return [part for value in self.views().values() for part in _parts_of(value)]

    def with_parts(self, parts: Iterable[Any]) -> Columns:
        """Internal interface: return columns with other parts, or these if they are the same."""
        changed = list(parts)
        if are_same(changed, self.parts):
            return self
        if self.arena is not None:
            return Columns(changed[0], self.layout, self.form)
        left = iter(changed)
        return self.with_values(
            {
                name: [next(left) for _ in value] if isinstance(value, list) else next(left)
                for name, value in self.views().items()
            }
        )

    def _tensors(self) -> list[Any]:
        views = {} if self.arena is not None else self.views()
        for name, value in views.items():
            for part in _parts_of(value):
                if not isinstance(part, (Tensor, TensorParts)):
                    found = f"{'a list with ' if part is not value else ''}{type(part).__name__}"
                    # The lengths of a padded column are a column with a hidden name.
                    shown = name.partition("\0")[0]
                    raise TypeError(f"column {shown!r} must be made of Tensors, got {found}")
        return self.parts

    def decoded(self, device: torch.device, moved: Columns) -> Columns:
        """Return columns on a device, with the images of these columns, which are on the CPU.

        Args:
            device: The device.
            moved: These columns on the device.
        """
        images = {name: images.to(device) for name, images in self.encoded().items()}
        return Columns.of_values({**moved.views(), **images}, moved.form._replace(images={}))

    def with_values(self, values: Mapping[str, Any]) -> Columns:
        """Return columns of the same names with other values, each in memory of its own.

        Args:
            values: All columns by flat name, including the hidden columns of lengths.
        """
        return Columns.of_values(values, self.form)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.arena is None:
            return Columns.of_values, (self.views(), self.form)
        if self.is_in_memory and self.arena.numel() <= _INLINE_BYTES:
            return columns_from_bytes, (self.arena.numpy().tobytes(), self.layout, self.form)
        return Columns, (self.arena, self.layout, self.form)


def columns_from_bytes(data: bytes, layout: Sequence[Column], form: Form) -> Columns:
    """Return the columns of a pickled arena."""
    _core.stay_if_exiting()
    arena = allocate_arena(len(data))
    # Copied because the memory of a bytes object must not be written to.
    np.copyto(arena.numpy(), np.frombuffer(data, np.uint8))
    return Columns(arena, layout, form)


def _parts_of(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def are_same(values: Iterable[Any], others: Iterable[Any]) -> bool:
    """Return whether columns consist of the very same Tensors."""
    return all(map(_is_same, values, others))


def _is_same(value: Any, other: Any) -> bool:
    if value is other:
        return True
    if type(value) is not type(other):
        return False
    if isinstance(value, list):
        return len(value) == len(other) and are_same(value, other)
    return isinstance(value, TensorParts) and are_same(value.parts, other.parts)
