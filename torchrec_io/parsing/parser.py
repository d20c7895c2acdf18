"""Records to columns: a block of records and a Schema become columns in one arena, in two passes.

The first pass locates every value and so says how large the arena must be; the caller allocates it;
the second pass fills it. Both run in the native core for a whole batch at once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import _core
from ..records.reader import NativeReads, RecordBlock, RecordList
from ..schema.schema import Schema
from .columns.base import Arena, ColumnMaker, Ints, view_of
from .columns.plain import maker_of
from .layout import Column, Numbers, Room, Texts, Values
from .record_random import NO_EPOCH, Draws
from .threads import default_threads

# A byte of a record makes 8 of a column of int64, unless records lack features with defaults.
_PLAUSIBLE_GROWTH = 8
_PLAUSIBLE_BYTES = 1 << 20
# There is no larger arena: where its columns would lie need not be known.
_MOST_BYTES = 1 << 62


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


class Picks(NamedTuple):
    """Some elements of each record, of some features.

    Attributes:
        names: Of the features: SequenceFeatures without partitions.
        elements: Which, counted from 0 in their record; int64 ``[n]``, record by record.
        starts: Where those of each record start, and how many there are; int64 ``[B + 1]``.
    """

    names: Collection[str]
    elements: Ints
    starts: Ints


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
        self._checked = [maker for maker in self._makers if maker.limits is not None]
        self._dense_groups = _group_dense(self._makers)
        self._dense_layouts: dict[int, _DenseLayout] = {}
        self.names = tuple(schema)
        self.paths = dict(schema.paths)
        self.padded = {m.name: m.padding for m in self._makers if m.padding is not None}

    @classmethod
    def of(cls, schema: Schema) -> ExampleParser:
        """The parser of a schema, which keeps it: making one costs more than a small batch."""
        if schema._parser is None:
            schema._parser = cls(schema)
        parser: ExampleParser = schema._parser
        return parser

    def __reduce__(self) -> tuple[type[ExampleParser], tuple[Schema]]:
        return ExampleParser, (self.schema,)

    def locate(
        self,
        block: RecordBlock | RecordList,
        draws: Draws = NO_EPOCH,
        threads: int | None = None,
        picks: Picks | None = None,
    ) -> LocatedBlock:
        """First pass; see :class:`LocatedBlock`.

        Args:
            block: The records.
            draws: What random numbers depend on.
            threads: How many decode images at a time; by default as many as there are CPUs.
            picks: Which elements of sequences are decoded; by default all. A sequence with a length
                is then a Ragged as those without are.
        """
        located = LocatedBlock(self, block, draws, threads, picks)
        if not located.is_fixed:
            located.lay_out(self._core.locate(located.records))
        return located

    @property
    def is_fixed(self) -> bool:
        """Whether all columns are numbers, of a size that does not depend on the data.

        And nothing is left to do when they are parsed: where values have to lie in a range, there
        is.
        """
        return self._core.is_fixed and not self._checked

    def load(
        self,
        reads: Sequence[NativeReads],
        draws: Sequence[Draws],
        threads: int | None,
        *,
        verify_crc: bool,
    ) -> tuple[list[LocatedBlock], int]:
        """Reads blocks, checks their records and locates them, until anything is wrong.

        Args:
            reads: Of each block.
            draws: As for :meth:`locate`, of each block.
            threads: As for :meth:`locate`.
            verify_crc: Whether data is checked.

        Returns:
            Those that are sound, and how often the system had to wait.
        """
        located = [
            LocatedBlock(self, read.block, draw, threads)
            for read, draw in zip(reads, draws, strict=True)
        ]
        found = _core.load_batches(self._core, _batch_reads(reads, located), verify_crc)
        batches = found.located
        for number, batch in enumerate(batches):
            located[number].lay_out(batch)
            if located[number].failures:
                return located[:number], found.waits
        return located[: len(batches)], found.waits

    def fill(self, located: Sequence[LocatedBlock], arenas: Sequence[Arena]) -> int:
        """Fills arenas with located blocks, until anything is wrong; returns how many went well."""
        targets = [block._targets for block in located]
        done = _core.fill_batches([block._located for block in located], targets, arenas)
        for number, (block, arena) in enumerate(zip(located[:done], arenas, strict=False)):
            block.finish(arena)
            if block.failures:
                return number
        return done

    def load_fixed(
        self,
        reads: Sequence[NativeReads],
        located: Sequence[LocatedBlock],
        arenas: Sequence[Arena],
        *,
        verify_crc: bool,
    ) -> tuple[int, int]:
        """All of this at once for blocks that are fixed, which may then share a buffer.

        Returns:
            How many went well, and how often the system had to wait.
        """
        batches = _batch_reads(reads, located)
        targets = [block._targets for block in located]
        found = _core.load_fixed_batches(self._core, batches, targets, arenas, verify_crc)
        return found.loaded, found.waits

    # ---- what LocatedBlock needs ----

    def _dense_layout(self, rows: int) -> _DenseLayout:
        """Where columns of fixed shape lie in a batch of ``rows``: the same for each such batch."""
        layout = self._dense_layouts.get(rows)
        if layout is None:
            room = Room()
            targets = _core.ColumnTargets(len(self._owners))
            columns: list[Column] = []
            for makers, dtype, shape in self._dense_groups:
                names = tuple(maker.name for maker in makers)
                dense = room.take_dense(names, dtype, (rows, *shape))
                columns.append(dense)
                if room.size > _MOST_BYTES:
                    continue
                for number, maker in enumerate(makers):
                    targets.set(maker.first, data=dense.at + number * dense.stride)
            layout = _DenseLayout(tuple(columns), targets, room.size)
            # Batches come in two sizes; do not keep what a caller's odd sizes leave behind.
            if len(self._dense_layouts) > 8:
                self._dense_layouts.clear()
            self._dense_layouts[rows] = layout
        return layout

    def failures(self, found: list[_core.Failure]) -> list[RecordFailure]:
        """Return failures of native specs as failures of features."""
        return [self.failure(each.record, each.feature, each.offset, each.reason) for each in found]

    def failure(
        self, record: int, feature: int | None, offset: int | None, reason: str
    ) -> RecordFailure:
        """Return a failure of a native spec, or of the record as a whole (None)."""
        if feature is None:
            return RecordFailure(record, None, offset, reason)
        name, key = self._owners[feature]
        if key != name:
            reason = f"{reason}, in the stored feature {key!r}"
        return RecordFailure(record, name, offset, reason)


class _DenseLayout(NamedTuple):
    columns: tuple[Column, ...]
    targets: _core.ColumnTargets
    size: int


class LocatedBlock:
    """A block whose values are found but not yet decoded.

    Attributes:
        failures: Records that cannot be parsed. If there are any, the block must not be filled:
            take them out of it and locate the rest.
        is_fixed: Whether nothing depends on the data, so that both passes are one.
        picks: Which elements of sequences are decoded; None: all.
        records: The records, as the core has them.
        columns: Where the columns will lie.
        room: Where makers reserve their places.
    """

    def __init__(
        self,
        parser: ExampleParser,
        block: RecordBlock | RecordList,
        draws: Draws = NO_EPOCH,
        threads: int | None = None,
        picks: Picks | None = None,
    ) -> None:
        self.picks = picks
        self._parser = parser
        self._block = block
        self._draws = draws
        self._threads = threads
        self._rows = len(block)
        self.records = block.native()
        self._kept: dict[int, Any] = {}
        self._placed: dict[int, Values] = {}
        self._writes: list[tuple[Numbers, Ints]] = []
        dense = parser._dense_layout(self._rows)
        self.room = Room(dense.size)
        self.columns = dense.columns
        self._targets = dense.targets
        self.failures: list[RecordFailure] = []
        # Unless a schema asks for so much more than the records can hold that it must be wrong
        # about them.
        likely = _PLAUSIBLE_BYTES + _PLAUSIBLE_GROWTH * self.records.total_bytes
        self.is_fixed = parser.is_fixed and dense.size <= likely

    @property
    def arena_bytes(self) -> int:
        """The size of the arena that :meth:`fill` needs."""
        return self.room.size

    def lay_out(self, located: _core.LocatedBatch) -> None:
        """Reserves room for what was located."""
        self._located = located
        self.failures += self._parser.failures(located.failures)
        if self.failures or not self._parser._sized:
            return
        self._targets = self._targets.copy()
        columns: list[Column] = []
        for maker in self._parser._sized:
            columns += maker.lay_out(self)
        self.columns += tuple(columns)

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
        if self.is_fixed:
            found = self._parser._core.parse_fixed(self.records, self._targets, arena)
        else:
            found = self._located.fill(self._targets, arena)
        self.failures = self._parser.failures(found)
        if not self.failures and not self.is_fixed:
            self.finish(arena)
        return self.columns, self.failures

    def finish(self, arena: Arena) -> None:
        """Does what is left once the native parser has filled the arena."""
        for numbers, values in self._writes:
            view_of(arena, numbers)[...] = values
        for maker in self._parser._makers:
            maker.finish(self, arena)
        for maker in self._parser._checked:
            maker.check_range(self, arena)

    # ---- what makers ask for ----

    @property
    def threads(self) -> int:
        """How many may decode images at a time."""
        return self._threads or default_threads()

    def sizes(self, position: int) -> _core.ColumnSize:
        """Return the room that the column of a native spec needs."""
        return self._located.size(position)

    def counts(self, position: int) -> tuple[Ints, Ints]:
        """How many values there are, as offsets of units; and each record's units, as offsets."""
        units = self._located.units(position)
        return units.values, units.records

    def integers(self, position: int) -> tuple[Ints, Ints, Ints]:
        """Stored integers, and as :meth:`counts`."""
        ints = self._located.ints(position)
        self.failures += self._parser.failures(ints.failures)
        return ints.values, ints.units.values, ints.units.records

    def tensors(self, position: int, tensor_type: _core.TensorType) -> _core.TensorBatch:
        """Return the serialized tensors of a feature."""
        tensors = self._located.tensors(position, tensor_type)
        self.failures += self._parser.failures(tensors.failures)
        return tensors

    def fill_tensors(
        self, tensors: _core.TensorBatch, offsets: list[int], data: list[int], arena: Arena
    ) -> None:
        """Write tensors into the arena.

        Args:
            tensors: Tensors of a feature.
            offsets: Where the offsets of each tensor of strings go; 0 for numbers.
            data: Where the data of each tensor goes.
            arena: Arena of the batch.
        """
        failures = tensors.fill(np.array(offsets, np.uint64), np.array(data, np.uint64), arena)
        self.failures += self._parser.failures(failures)

    def spans(self, position: int) -> tuple[Ints, Ints, Ints, Ints]:
        """Where in its record each bytes value starts, its size, and as :meth:`counts`."""
        spans = self._located.spans(position)
        return spans.offsets, spans.sizes, spans.units.values, spans.units.records

    def view(self, record: int) -> memoryview:
        """A record's bytes, as they lie in the block."""
        return self._block.view(record)

    def generator(self, record: int, feature: str) -> np.random.Generator:
        """Makes the random numbers of a feature of a record."""
        return self._draws.generator(self._block.numbers[record], feature)

    def place(self, position: int, values: Values, rows: int = 0, steps: int = 0) -> None:
        """Tells the native parser where to write."""
        self._placed[position] = values
        if self.room.size > _MOST_BYTES:
            return
        if isinstance(values, Texts):
            offsets, data = values.offsets_at, values.data_at
        else:
            offsets, data = 0, values.at
        self._targets.set(position, rows=rows, steps=steps, values=offsets, data=data)

    def placed(self, position: int) -> Values:
        """Where it was told to write."""
        return self._placed[position]

    def data_at(self, position: int) -> int:
        """Where the data of a dense column starts."""
        return self._targets.data_offset(position)

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


def _batch_reads(
    reads: Sequence[NativeReads], located: Sequence[LocatedBlock]
) -> list[_core.BatchReads]:
    return [read.for_core(block.records) for read, block in zip(reads, located, strict=True)]


def _group_dense(
    makers: list[ColumnMaker],
) -> list[tuple[list[ColumnMaker], str, tuple[int, ...]]]:
    """Columns of one dtype and shape, which are laid out and viewed together."""
    groups: dict[tuple[str, tuple[int, ...]], list[ColumnMaker]] = {}
    for maker in makers:
        if maker.dense is not None:
            groups.setdefault(maker.dense, []).append(maker)
    return [(group, dtype, shape) for (dtype, shape), group in groups.items()]
