"""Records to columns: a RecordBlock and a Schema become columns in one arena, in two passes.

The first pass locates every value and so says how large the arena must be; the caller allocates it;
the second pass fills it. Both run in the native core for a whole batch at once.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from .. import _core
from ..records.reader import RecordBlock
from .decode import (
    BAD_BOOL,
    BadValueError,
    check_raw_bool,
    check_raw_shape,
    decode_image,
    store_image,
)
from .layout import (
    Column,
    DenseColumns,
    ListColumn,
    RaggedBytesColumn,
    RaggedColumn,
    Room,
)
from .schema import (
    DTYPES,
    Feature,
    FixedLenFeature,
    ImageFeature,
    RawFeature,
    Schema,
    VarLenFeature,
    item_bytes,
    numeric_bytes,
)

# Codes of Shape in _core/example.h.
_FIXED, _RAGGED, _RAW, _SPAN = range(4)
_BYTES = DTYPES.index("string")

_CoreSpec = tuple[bytes, int, int, int, bool, bytes, list[int]]


class RecordFailure(NamedTuple):
    """A record that does not hold what the schema asks for.

    Attributes:
        position: Of the record in the block.
        feature: Its name, or None if the record as a whole is bad.
        reason: What is wrong.
    """

    position: int
    feature: str | None
    reason: str


class ExampleParser:
    """Parses blocks of serialized ``tf.train.Example`` by a schema.

    What comes out for which bytes is written in docs/differences.md: legal protobuf is read as
    protobuf reads it, illegal bytes are refused, and the values are TensorFlow's.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        # Shapes of raw features that the user did not ask for are read all the same, then dropped.
        hidden = {
            feature.shape_key: VarLenFeature("int64")
            for feature in schema.values()
            if isinstance(feature, RawFeature)
            and feature.shape_key is not None
            and feature.shape_key not in schema
        }
        self._features: dict[str, Feature] = {**schema, **hidden}
        self._positions = {name: i for i, name in enumerate(self._features)}
        self._names = tuple(self._features)
        self._core = _core.ExampleParser([_core_spec(n, f) for n, f in self._features.items()])
        self._fixed_groups = _group_fixed(schema)
        self._sized = tuple(  # columns whose size depends on the data
            (i, name, feature)
            for i, (name, feature) in enumerate(self._features.items())
            if isinstance(feature, VarLenFeature)
            or (isinstance(feature, FixedLenFeature) and feature.dtype == "string")
        )
        self._images = _of_type(schema, ImageFeature)
        self._raws = _of_type(schema, RawFeature)
        self._fixed_layouts: dict[int, _FixedLayout] = {}

    def __reduce__(self) -> tuple[type[ExampleParser], tuple[Schema]]:
        return ExampleParser, (self.schema,)

    def locate(self, block: RecordBlock) -> LocatedBlock:
        """First pass; see :class:`LocatedBlock`."""
        return LocatedBlock(self, block)

    # ---- what LocatedBlock needs ----

    def _fixed_layout(self, rows: int) -> _FixedLayout:
        """Where columns of fixed shape lie in a batch of ``rows``: the same for each such batch."""
        layout = self._fixed_layouts.get(rows)
        if layout is None:
            room = Room()
            places = np.zeros((len(self._names), 3), np.uint64)
            columns: list[Column] = []
            for names, dtype, shape in self._fixed_groups:
                dense = room.take_dense(names, dtype, (rows, *shape))
                columns.append(dense)
                for number, name in enumerate(names):
                    places[self._positions[name], 2] = dense.at + number * dense.stride
            layout = _FixedLayout(tuple(columns), places, room.size)
            # Batches come in two sizes; do not keep what a caller's odd sizes leave behind.
            if len(self._fixed_layouts) > 8:
                self._fixed_layouts.clear()
            self._fixed_layouts[rows] = layout
        return layout

    def _failures(self, tuples: list[tuple[int, int, int, str]]) -> list[RecordFailure]:
        return [
            RecordFailure(record, None if feature < 0 else self._names[feature], reason)
            for record, feature, _, reason in tuples
        ]


class _FixedLayout(NamedTuple):
    columns: tuple[Column, ...]
    places: npt.NDArray[np.uint64]  # [features, 3]
    size: int


class LocatedBlock:
    """A block whose values are found but not yet decoded.

    Attributes:
        failures: Records that cannot be parsed. If there are any, the block must not be filled:
            take them out of it and locate the rest.
        arena_bytes: The size of the arena that :meth:`fill` needs.
    """

    def __init__(self, parser: ExampleParser, block: RecordBlock) -> None:
        self._parser = parser
        self._block = block
        self._located = parser._core.locate(block.buffer, block.starts, block.lengths)
        self.failures = parser._failures(self._located.failures)
        self.arena_bytes = 0
        if not self.failures:
            fixed = parser._fixed_layout(len(block))
            self._room = Room(fixed.size)
            self._places = fixed.places.copy()
            self._columns = [*fixed.columns, *self._lay_out_sized()]
            self._decoded = self._lay_out_decoded()
            self.arena_bytes = self._room.size

    def fill(self, arena: npt.NDArray[np.uint8]) -> tuple[tuple[Column, ...], list[RecordFailure]]:
        """Second pass: writes every column.

        Args:
            arena: uint8 ``[arena_bytes]``, 64-byte aligned, of any content.

        Returns:
            Where the columns lie, and the records that turned out bad; if there are any, the arena
            is of no use.
        """
        failures = self._parser._failures(
            self._parser._core.fill(self._block.buffer, self._located, self._places, arena)
        )
        if failures:
            return (), failures
        columns = list(self._columns)
        for pending in self._decoded:
            columns.append(pending.store(self, arena, failures))
        self._check_bools(arena, failures)
        return tuple(columns), failures

    def _check_bools(self, arena: npt.NDArray[np.uint8], failures: list[RecordFailure]) -> None:
        """Raw bool arrays are copied as they are; a byte other than 0 and 1 is no bool."""
        for name, feature in self._parser._raws:
            if feature.dtype != "bool" or feature.shape is None:
                continue
            at = int(self._places[self._parser._positions[name], 2])
            count = math.prod(feature.shape)
            rows = arena[at : at + len(self._block) * count].reshape(len(self._block), count)
            for position in np.flatnonzero((rows > 1).any(axis=1)).tolist():
                failures.append(RecordFailure(position, name, BAD_BOOL))

    # ---- laying out ----

    def _lay_out_sized(self) -> list[Column]:
        """Reserves room for columns that the core fills and whose size depends on the data."""
        if not self._parser._sized:
            return []
        rows = len(self._block)
        totals = self._located.totals().reshape(-1, 2).tolist()
        columns: list[Column] = []
        for position, name, feature in self._parser._sized:
            values, data_bytes = totals[position]
            column: Column
            if isinstance(feature, VarLenFeature):
                column = self._take_ragged(name, feature.dtype, rows, values, data_bytes)
            else:
                column = texts = self._room.take_bytes(name, (rows, *feature.shape), data_bytes)
                self._place(name, 0, texts.offsets_at, texts.data_at)
            if name in self._parser.schema:
                columns.append(column)
        return columns

    def _take_ragged(
        self, name: str, dtype: str, rows: int, values: int, data_bytes: int
    ) -> RaggedColumn | RaggedBytesColumn:
        if dtype == "string":
            texts = self._room.take_ragged_bytes(name, rows, values, data_bytes)
            self._place(name, texts.offsets_at, texts.values.offsets_at, texts.values.data_at)
            return texts
        numbers = self._room.take_ragged(name, dtype, rows, values)
        self._place(name, numbers.offsets_at, 0, numbers.values_at)
        return numbers

    def _place(self, name: str, rows: int = 0, values: int = 0, data: int = 0) -> None:
        self._places[self._parser._positions[name]] = (rows, values, data)

    def _lay_out_decoded(self) -> list[_Images | _RawArrays]:
        """Reserves room for what is decoded here, from where its bytes lie in the block."""
        pending: list[_Images | _RawArrays] = []
        for name, image in self._parser._images:
            pending.append(_Images(self, name, image))
        for name, raw in self._parser._raws:
            if raw.shape_key is not None:
                pending.append(_RawArrays(self, name, raw, raw.shape_key))
        return pending

    def _values(self, name: str) -> list[memoryview]:
        """The bytes value of a feature in each record, as it lies in the block."""
        buffer = self._block.buffer
        offsets, sizes = self._located.spans(buffer, self._parser._positions[name])
        view = buffer.data
        return [
            view[at : at + size] for at, size in zip(offsets.tolist(), sizes.tolist(), strict=True)
        ]


class _Images:
    """An image feature of a block.

    Images that are resized are decoded straight into their column. Others are decoded before the
    arena is sized, by what they turn out to be and not by what their headers claim.
    """

    def __init__(self, located: LocatedBlock, name: str, feature: ImageFeature) -> None:
        self.name = name
        self._feature = feature
        self._images: list[npt.NDArray[np.uint8]] = []
        values = located._values(name)
        if feature.size is not None:
            shape = (len(values), *feature.shape_of(*feature.size))
            self._column: DenseColumns | ListColumn = located._room.take_dense(
                (name,), feature.dtype, shape
            )
            return
        for position, value in enumerate(values):
            try:
                self._images.append(decode_image(value, feature))
            except BadValueError as error:
                located.failures.append(RecordFailure(position, name, str(error)))
        shapes = tuple(feature.shape_of(*image.shape[:2]) for image in self._images)
        self._column = located._room.take_list(name, feature.dtype, shapes)

    def store(
        self, located: LocatedBlock, arena: npt.NDArray[np.uint8], failures: list[RecordFailure]
    ) -> Column:
        if isinstance(self._column, ListColumn):
            for image, shape, at in zip(
                self._images, self._column.shapes, self._column.at, strict=True
            ):
                store_image(image, self._feature, _view(arena, self._column.dtype, shape, at))
            return self._column
        column = _view(arena, self._column.dtype, self._column.shape, self._column.at)
        for position, value in enumerate(located._values(self.name)):
            try:
                store_image(decode_image(value, self._feature), self._feature, column[position])
            except BadValueError as error:
                failures.append(RecordFailure(position, self.name, str(error)))
        return self._column


class _RawArrays:
    """A raw feature of a block whose shapes stand in another feature."""

    def __init__(
        self, located: LocatedBlock, name: str, feature: RawFeature, shape_key: str
    ) -> None:
        self.name = name
        self._feature = feature
        self._shape_key = shape_key
        self._at = [located._room.take(len(value)) for value in located._values(name)]

    def store(
        self, located: LocatedBlock, arena: npt.NDArray[np.uint8], failures: list[RecordFailure]
    ) -> Column:
        shapes: list[tuple[int, ...]] = []
        stored_shapes = self._stored_shapes(located, arena)
        for position, value in enumerate(located._values(self.name)):
            try:
                data = np.frombuffer(value, np.uint8)
                shapes.append(check_raw_shape(stored_shapes[position], len(value), self._feature))
                if self._feature.dtype == "bool":
                    check_raw_bool(data)
                arena[self._at[position] : self._at[position] + len(value)] = data
            except BadValueError as error:
                failures.append(RecordFailure(position, self.name, str(error)))
        return ListColumn(self.name, self._feature.dtype, tuple(shapes), tuple(self._at))

    def _stored_shapes(
        self, located: LocatedBlock, arena: npt.NDArray[np.uint8]
    ) -> list[list[int]]:
        """The shape feature's values, from the columns just filled."""
        feature = located._parser._features[self._shape_key]
        assert isinstance(feature, (FixedLenFeature, VarLenFeature))  # Schema saw to that
        rows = len(located._block)
        row_offsets_at, _, data_at = located._places[
            located._parser._positions[self._shape_key]
        ].tolist()
        if isinstance(feature, FixedLenFeature):
            fixed = _view(arena, feature.dtype, (rows, feature.count), data_at)
            return [row.tolist() for row in fixed]
        offsets = _view(arena, "int64", (rows + 1,), row_offsets_at).tolist()
        values = _view(arena, feature.dtype, (offsets[-1],), data_at).tolist()
        return [values[begin:end] for begin, end in itertools.pairwise(offsets)]


def _view(
    arena: npt.NDArray[np.uint8], dtype: str, shape: tuple[int, ...], at: int
) -> npt.NDArray[np.generic]:
    count = math.prod(shape)
    return np.frombuffer(arena, np.dtype(dtype), count, at).reshape(shape)


def _core_spec(name: str, feature: Feature) -> _CoreSpec:
    """A feature as the native parser takes it."""
    key = name.encode()
    if isinstance(feature, FixedLenFeature):
        return _fixed_spec(key, feature)
    if isinstance(feature, VarLenFeature):
        return key, DTYPES.index(feature.dtype), _RAGGED, 0, False, b"", []
    if isinstance(feature, RawFeature) and feature.shape is not None:
        size = math.prod(feature.shape) * item_bytes(feature.dtype)
        return key, _BYTES, _RAW, size, False, b"", []
    return key, _BYTES, _SPAN, 1, False, b"", []


def _fixed_spec(key: bytes, feature: FixedLenFeature) -> _CoreSpec:
    default = feature.default_value
    code = DTYPES.index(feature.dtype)
    if default is None:
        return key, code, _FIXED, feature.count, False, b"", []
    if feature.dtype == "string":
        sizes = [len(value) for value in default]
        return key, code, _FIXED, feature.count, True, b"".join(default), sizes
    data = numeric_bytes(default, feature.dtype)
    return key, code, _FIXED, feature.count, True, data, []


_F = TypeVar("_F", bound=Feature)


def _of_type(schema: Schema, kind: type[_F]) -> tuple[tuple[str, _F], ...]:
    return tuple((name, feature) for name, feature in schema.items() if isinstance(feature, kind))


def _group_fixed(schema: Schema) -> list[tuple[tuple[str, ...], str, tuple[int, ...]]]:
    """Numeric columns of fixed shape by dtype and shape: (names, dtype, shape)."""
    groups: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for name, feature in schema.items():
        if not isinstance(feature, (FixedLenFeature, RawFeature)) or feature.dtype == "string":
            continue
        if feature.shape is not None:
            groups.setdefault((feature.dtype, feature.shape), []).append(name)
    return [(tuple(names), dtype, shape) for (dtype, shape), names in groups.items()]
