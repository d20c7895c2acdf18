"""Records to columns: a block of records and a Schema become columns in one arena, in two passes.

The first pass locates every value and so says how large the arena must be; the caller allocates it;
the second pass fills it. Both run in the native core for a whole batch at once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import _core
from ..records.reader import RecordBlock, RecordList
from .columns import Padded, maker_of
from .layout import Column, Numbers, Room, Texts, Values
from .maker import Arena, ColumnMaker, Ints, view_of
from .schema import Schema

# A byte of a record makes 8 of a column of int64, unless records lack features with defaults.
_PLAUSIBLE_GROWTH = 8
_PLAUSIBLE_BYTES = 1 << 20


class RecordFailure(NamedTuple):
    """A record that does not hold what the schema asks for.

    Attributes:
        position: Of the record in the block.
        feature: Its name, or None if the record as a whole is bad.
        offset: Of the trouble, in bytes from the start of the record; None if it is nowhere.
        reason: What is wrong.
    """

    position: int
    feature: str | None
    offset: int | None
    reason: str


class ColumnSizes(NamedTuple):
    """How much room a column needs; see ColumnSize in _core/example.h."""

    values: int
    bytes: int
    steps: int
    longest: int


class ExampleParser:
    """Parses blocks of serialized ``tf.train.Example`` or ``SequenceExample`` by a schema.

    What comes out for which bytes is written in docs/differences.md: legal protobuf is read as
    protobuf reads it, illegal bytes are refused, and the values are TensorFlow's.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._makers = [
            *(maker_of(name, spec, in_lists=False) for name, spec in schema.context.items()),
            *(
                maker_of(name, spec, in_lists=True)
                for name, spec in (schema.sequence or {}).items()
            ),
        ]
        # Which column each native spec is for, and which stored feature it reads.
        self._owners: list[tuple[str, str]] = []
        specs: list[_core.FeatureSpec] = []
        for maker in self._makers:
            maker.first = len(specs)
            specs += maker.specs
            self._owners += [(maker.name, spec.key.decode()) for spec in maker.specs]
        self._core = _core.ExampleParser(specs, schema.is_sequence)
        self._sized = [maker for maker in self._makers if maker.dense is None]
        self._dense_groups = _group_dense(self._makers)
        self._dense_layouts: dict[int, _DenseLayout] = {}
        self.names = tuple(schema)
        self.padded = {m.name: m.padding for m in self._makers if isinstance(m, Padded)}

    @classmethod
    def of(cls, schema: Schema) -> ExampleParser:
        """The parser of a schema, which keeps it: making one costs more than a small batch."""
        if schema._parser is None:
            schema._parser = cls(schema)
        parser: ExampleParser = schema._parser
        return parser

    def __reduce__(self) -> tuple[type[ExampleParser], tuple[Schema]]:
        return ExampleParser, (self.schema,)

    def locate(self, block: RecordBlock | RecordList) -> LocatedBlock:
        """First pass; see :class:`LocatedBlock`."""
        return LocatedBlock(self, block)

    # ---- what LocatedBlock needs ----

    def _dense_layout(self, rows: int) -> _DenseLayout:
        """Where columns of fixed shape lie in a batch of ``rows``: the same for each such batch."""
        layout = self._dense_layouts.get(rows)
        if layout is None:
            room = Room()
            places = np.zeros((len(self._owners), 4), np.uint64)
            columns: list[Column] = []
            for makers, dtype, shape in self._dense_groups:
                names = tuple(maker.name for maker in makers)
                dense = room.take_dense(names, dtype, (rows, *shape))
                columns.append(dense)
                for number, maker in enumerate(makers):
                    places[maker.first, 3] = dense.at + number * dense.stride
            layout = _DenseLayout(tuple(columns), places, room.size)
            # Batches come in two sizes; do not keep what a caller's odd sizes leave behind.
            if len(self._dense_layouts) > 8:
                self._dense_layouts.clear()
            self._dense_layouts[rows] = layout
        return layout

    def failures(self, tuples: list[tuple[int, int, int, str]]) -> list[RecordFailure]:
        """Failures as the core tells them."""
        return [
            self.failure(record, feature, None if offset < 0 else offset, reason)
            for record, feature, offset, reason in tuples
        ]

    def failure(self, record: int, feature: int, offset: int | None, reason: str) -> RecordFailure:
        """A failure of a native spec, or of none (-1)."""
        if feature < 0:
            return RecordFailure(record, None, offset, reason)
        name, key = self._owners[feature]
        if key != name:
            reason = f"{reason}, in the stored feature {key!r}"
        return RecordFailure(record, name, offset, reason)


class _DenseLayout(NamedTuple):
    columns: tuple[Column, ...]
    places: npt.NDArray[np.uint64]  # [specs, 4]
    size: int


class LocatedBlock:
    """A block whose values are found but not yet decoded.

    Attributes:
        failures: Records that cannot be parsed. If there are any, the block must not be filled:
            take them out of it and locate the rest.
        arena_bytes: The size of the arena that :meth:`fill` needs.
        room: Where makers reserve their places.
    """

    def __init__(self, parser: ExampleParser, block: RecordBlock | RecordList) -> None:
        self._parser = parser
        self._block = block
        self._rows = len(block)
        self._records = block.native()
        self._kept: dict[int, Any] = {}
        self._placed: dict[int, Values] = {}
        self._writes: list[tuple[Numbers, Ints]] = []
        dense = parser._dense_layout(self._rows)
        self.room = Room(dense.size)
        self._columns = dense.columns
        self._places = dense.places
        self.failures: list[RecordFailure] = []
        # Where nothing depends on the data, both passes are one; unless a schema asks for so much
        # more than the records can hold that it must be wrong about them.
        likely = _PLAUSIBLE_BYTES + _PLAUSIBLE_GROWTH * self._records.bytes
        self._at_once = parser._core.is_fixed and dense.size <= likely
        if not self._at_once:
            self._locate()
        self.arena_bytes = self.room.size

    def _locate(self) -> None:
        self._located = self._parser._core.locate(self._records)
        self.failures += self._parser.failures(self._located.failures)
        if self.failures or not self._parser._sized:
            return
        self._places = self._places.copy()
        self._sizes = self._located.sizes().reshape(-1, 4).tolist()
        columns: list[Column] = []
        for maker in self._parser._sized:
            columns += maker.lay_out(self)
        self._columns += tuple(columns)

    def __len__(self) -> int:
        return self._rows

    def fill(self, arena: Arena) -> tuple[tuple[Column, ...], list[RecordFailure]]:
        """Second pass: writes every column.

        Args:
            arena: uint8 ``[arena_bytes]``, 64-byte aligned, of any content.

        Returns:
            Where the columns lie, and the records that turned out bad; if there are any, the arena
            is of no use.
        """
        core = self._parser._core
        if self._at_once:
            found = core.parse_fixed(self._records, self._places, arena)
        else:
            found = core.fill(self._located, self._places, arena)
        self.failures = self._parser.failures(found)
        if not self.failures and not self._at_once:
            for numbers, values in self._writes:
                view_of(arena, numbers)[...] = values
            for maker in self._parser._makers:
                maker.finish(self, arena)
        return self._columns, self.failures

    # ---- what makers ask for ----

    def sizes(self, position: int) -> ColumnSizes:
        """How much room the column of a native spec needs."""
        return ColumnSizes(*self._sizes[position])

    def counts(self, position: int) -> tuple[Ints, Ints]:
        """How many values there are, as offsets of units; and each record's units, as offsets."""
        return self._parser._core.counts(self._located, position)

    def integers(self, position: int) -> tuple[Ints, Ints, Ints]:
        """Stored integers, and as :meth:`counts`."""
        values, offsets, rows, failures = self._parser._core.integers(self._located, position)
        self.failures += self._parser.failures(failures)
        return values, offsets, rows

    def tensors(self, position: int, tensor_type: int) -> _core.Tensors:
        """The serialized tensors of a feature."""
        tensors = self._parser._core.tensors(self._located, position, tensor_type)
        self.failures += self._parser.failures(tensors.failures)
        return tensors

    def values(self, position: int) -> list[memoryview]:
        """The bytes value of each record, as it lies in the block."""
        offsets, sizes = self._parser._core.spans(self._located, position)
        places = zip(offsets.tolist(), sizes.tolist(), strict=True)
        return [
            self._block.view(record)[at : at + size] for record, (at, size) in enumerate(places)
        ]

    def place(self, position: int, values: Values, rows: int = 0, steps: int = 0) -> None:
        """Tells the native parser where to write."""
        self._placed[position] = values
        if isinstance(values, Texts):
            self._places[position] = (rows, steps, values.offsets_at, values.data_at)
        else:
            self._places[position] = (rows, steps, 0, values.at)

    def placed(self, position: int) -> Values:
        """Where it was told to write."""
        return self._placed[position]

    def data_at(self, position: int) -> int:
        """Where the data of a dense column starts."""
        return int(self._places[position, 3])

    def write(self, numbers: Numbers, values: Ints) -> None:
        """Has numbers written into the arena once there is one."""
        self._writes.append((numbers, values))

    def keep(self, maker: ColumnMaker, value: Any) -> None:
        """Keeps what a maker needs again when it finishes."""
        self._kept[maker.first] = value

    def kept(self, maker: ColumnMaker) -> Any:
        """What it kept."""
        return self._kept.get(maker.first)

    def fail(self, record: int, position: int, reason: str) -> None:
        """Notes that a record cannot be parsed."""
        self.failures.append(self._parser.failure(record, position, None, reason))


def _group_dense(
    makers: list[ColumnMaker],
) -> list[tuple[list[ColumnMaker], str, tuple[int, ...]]]:
    """Columns of one dtype and shape, which are laid out and viewed together."""
    groups: dict[tuple[str, tuple[int, ...]], list[ColumnMaker]] = {}
    for maker in makers:
        if maker.dense is not None:
            groups.setdefault(maker.dense, []).append(maker)
    return [(group, dtype, shape) for (dtype, shape), group in groups.items()]
