"""Samples: single records."""

from __future__ import annotations

import pickle
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, Sequence, ValuesView
from typing import Any, NoReturn

import torch
from torch import Tensor

from .._parsing.layout import Column
from ..display import braced
from .columns import Form, columns_from_bytes
from .ragged import BytesArray, Ragged, Sparse
from .rows import Hints, Origins, Rows
from .views import describe

# In place of the schema of values that were given.
_GIVEN: Mapping[str, Any] = {}


class Sample(dict[str, Any]):
    """The values of one record by name: Tensors, bytes, BytesArrays, Raggeds or Sparses.

    A sample is a row of a parsed batch. Its values are made when they are asked for. It is used
    like a dict, but it cannot be changed; ``dict(sample)`` and ``sample | {"x": x}`` make plain
    dicts. Where the schema has dicts of features, the sample has plain dicts of values; changes to
    these are collated.

    Samples of a dataset share the memory of their batch while the iteration is near them. Those
    that are kept longer copy their own row. A pickled sample is its own row alone.

    Two samples are equal if they have the same keys and equal values. Tensors are equal if they
    have the same dtype and shape and ``torch.equal`` says so. A sample is compared with other dicts
    in the same way.

    ``default_collate`` and :func:`collate` join samples into a :class:`Batch`.

    Args:
        values: Values by name.
        ragged: dtype of the offsets, for each value that becomes a row of a Ragged, by flat name
            such as ``"objects/label"``.
        padded: Fill value, for each value that is padded to the longest one of a batch.
        axes: Axes that are padded, for padded values. Default: the first axis.
    """

    # The base class makes a sample a dict for code that asks for one, such as a trainer.
    # Its own storage is always empty.
    __slots__ = ("__weakref__", "_place")

    def __init__(
        self,
        values: Mapping[str, Any] | Iterable[tuple[str, Any]] = (),
        ragged: Mapping[str, str] | None = None,
        padded: Mapping[str, Any] | None = None,
        axes: Mapping[str, tuple[int, ...]] | None = None,
    ) -> None:
        super().__init__()
        rows = Rows.of_values(dict(values), Hints(ragged or {}, padded or {}, axes or {}), _GIVEN)
        # Replaced as a whole: another thread may read the value of a sample that leaves its batch.
        self._place: tuple[Rows, int] = rows, 0

    @classmethod
    def of_rows(cls, rows: Rows, numbers: Iterable[int]) -> list[Sample]:
        """Internal interface: return the samples of some rows."""
        samples = []
        new = dict.__new__
        for number in numbers:  # once for each record of a dataset
            sample = new(cls)
            sample._place = rows, number  # noqa: SLF001  # of this class
            samples.append(sample)
        return samples

    @staticmethod
    def runs_of(samples: Iterable[Sample]) -> list[tuple[Rows, int, int]]:
        """Internal interface: return rows that hold samples, and the begin and end of each run."""
        runs: list[tuple[Rows, int, int]] = []
        rows: Rows | None = None
        begin = end = 0
        for sample in samples:  # once for each record of a batch
            here, row = sample._place  # noqa: SLF001  # of this class
            if here is rows and row == end:
                end += 1
                continue
            if rows is not None:
                runs.append((rows, begin, end))
            rows, begin, end = here, row, row + 1
        if rows is not None:
            runs.append((rows, begin, end))
        return runs

    @property
    def place(self) -> tuple[Rows, int]:
        """Internal interface: the rows that hold the values, and the number of the row."""
        return self._place

    def leave(self) -> None:
        """Internal interface: copy the values into memory of their own."""
        rows, row = self._place
        self._place = rows.own(row), 0

    def with_values(self, values: Mapping[str, Any]) -> Sample:
        """Internal interface: return a sample of other values, which are joined like these."""
        rows = Rows.of_values(values, self.hints, self._place[0].schema)
        [sample] = Sample.of_rows(rows, [0])
        return sample

    @property
    def stored_by(self) -> Any:
        """Internal interface: the schema that says how the values are stored.

        It is an empty dict if the values were given.

        Raises:
            TypeError: If it is not known, as in another process.
        """
        schema = self._place[0].schema
        if schema is None:
            raise TypeError(
                "it is not known how the values of this sample are stored: it is of a Batch, of "
                "another process, or no record; pass kinds=schema, which reads what you write"
            )
        return schema

    @property
    def hints(self) -> Hints:
        """Internal interface: what is known about values of different lengths."""
        return self._place[0].hints

    @property
    def ragged(self) -> Mapping[str, str]:
        """Dtypes of the offsets, for each value that becomes a row of a Ragged, by flat name."""
        return self.hints.ragged

    @property
    def padded(self) -> Mapping[str, Any]:
        """Fill value, for each value that is padded to the longest one of a batch."""
        return self.hints.padded

    @property
    def axes(self) -> Mapping[str, tuple[int, ...]]:
        """Axes that are padded, for padded values. Default: the first axis."""
        return self.hints.axes

    # ---- reading ----

    def __getitem__(self, key: str) -> Any:
        rows, row = self._place
        return rows[key][row]

    def __contains__(self, key: object) -> bool:
        return key in self._place[0].names

    def __iter__(self) -> Iterator[str]:
        return iter(self._place[0].names)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._place[0].names)

    def __len__(self) -> int:
        return len(self._place[0].names)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of that name, or ``default`` if it is missing."""
        return self[key] if key in self._place[0].names else default

    def keys(self) -> KeysView[str]:  # type: ignore[override]
        """Return the names."""
        return KeysView(self)

    def values(self) -> ValuesView[Any]:  # type: ignore[override]
        """Return the values."""
        return ValuesView(self)

    def items(self) -> ItemsView[str, Any]:  # type: ignore[override]
        """Return the names with their values."""
        return ItemsView(self)

    def copy(self) -> dict[str, Any]:
        """Return the values in a plain dict."""
        return dict(self)

    def __or__(self, other: Any) -> Any:
        return dict(self) | other if isinstance(other, dict) else NotImplemented

    def __ror__(self, other: Any) -> Any:
        return other | dict(self) if isinstance(other, dict) else NotImplemented

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        return _are_equal(self, other)

    def __ne__(self, other: object) -> bool:
        return NotImplemented if (found := self.__eq__(other)) is NotImplemented else not found

    __hash__ = None  # like a dict

    def __repr__(self) -> str:
        return f"Sample({braced(self.copy(), describe)})"

    def __copy__(self) -> Sample:
        return self.with_values(self)  # shares the values, like the copy of a dict

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        rows, row = self._place
        own = rows.own(row)  # the row alone, and not all memory that it shares
        arena = own.columns.arena
        if arena is None:
            values = {name: own[name][0] for name in own.names}
            hints = Hints(*map(dict, own.hints))
            # As bytes in the message of a DataLoader worker. For a Tensor, PyTorch opens a file.
            return _given_sample, (pickle.dumps(values), hints, own.schema is _GIVEN)
        return _own_sample, (
            arena.numpy().tobytes(),
            own.columns.layout,
            own.columns.form,
            own.origins,
        )

    # ---- not writing ----

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError(
            "a Sample cannot be changed: make a dict of it, as in {**sample, 'x': x}, or "
            "dict(sample)"
        )

    __setitem__: Any = _refuse
    __delitem__: Any = _refuse
    __ior__: Any = _refuse
    setdefault: Any = _refuse
    pop: Any = _refuse
    popitem: Any = _refuse
    clear: Any = _refuse

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Change values of a copy; raise a TypeError for a row of a batch.

        PyTorch's ``default_convert`` and ``pin_memory`` update copies of mappings.
        """
        rows, _ = self._place
        if rows.columns.arena is not None:
            self._refuse()
        values = {**self, **dict(*args, **kwargs)}
        self._place = Rows.of_values(values, rows.hints, rows.schema), 0


# ---- pickling ----


def _own_sample(
    data: bytes, layout: Sequence[Column], form: Form, origins: Origins | None
) -> Sample:
    """Return the sample of a pickled row."""
    [sample] = Sample.of_rows(Rows(columns_from_bytes(data, layout, form), origins), [0])
    return sample


def _given_sample(data: bytes, hints: Hints, has_no_schema: bool) -> Sample:
    """Return the sample of pickled values."""
    values = pickle.loads(data)  # noqa: S301  # trusted like the message that contains it
    rows = Rows.of_values(values, hints, _GIVEN if has_no_schema else None)
    [sample] = Sample.of_rows(rows, [0])
    return sample


# ---- comparing ----


def _are_equal(value: Any, other: Any) -> bool:
    """Return whether two values of samples are equal, and of the same dtypes and shapes."""
    if isinstance(value, Mapping):
        if not isinstance(other, Mapping) or value.keys() != other.keys():
            return False
        return all(_are_equal(value[key], other[key]) for key in value)
    if isinstance(value, Tensor):
        return (
            isinstance(other, Tensor)
            and (value.dtype, value.shape) == (other.dtype, other.shape)
            and torch.equal(value, other)
        )
    if isinstance(value, BytesArray):
        return bool(value == other)
    if isinstance(value, (Ragged, Sparse)):
        return type(value) is type(other) and _have_equal_parts(value, other)
    return type(value) is type(other) and bool(value == other)


def _have_equal_parts(value: Ragged | Sparse, other: Any) -> bool:
    if isinstance(value, Sparse) and value.dense_shape != other.dense_shape:
        return False
    return all(map(_are_equal, value.parts, other.parts))
