"""Parsing: a block of records and a Schema become columns in one arena, in two passes.

The first pass locates every value and so finds the size of the arena. The caller allocates it. The
second pass fills it. Both run in the native core for a whole block at once.
"""

from __future__ import annotations

import functools
import pkgutil
from collections.abc import Collection, Sequence
from typing import Any

from .. import _core
from .._records.native_frames import Frames
from .._records.record_block import RecordBlock, RecordList
from .._schema.nesting import VALID
from .._schema.schema import Schema
from .arrays import Arena
from .columns.base import (
    MAX_ARENA_BYTES,
    ColumnBuilder,
    DenseLayout,
    ElementSelections,
    LocatedBlock,
)
from .failures import Failures, RecordFailure
from .layout import ArenaLayout, Column
from .normalizing import normalize_column
from .ranges import first_outside
from .record_random import DEFAULT_RANDOM, RecordRandom


class ExampleParser:
    """Parses blocks of serialized ``tf.train.Example`` or ``SequenceExample`` messages.

    docs/differences.md lists the results for unusual bytes: valid protobuf is read as protobuf
    reads it, invalid bytes are refused, and the values are TensorFlow's.

    Args:
        schema: Schema of the records.
        deferred: Names of features that get no column, because others decode their values: lists of
            numbers. Whether these are in their range is not checked.

    Attributes:
        schema: Schema of the records.
        native: Parser of the native core.
        builders: Builder of each feature's column, in the order of the schema.
        is_fixed: Whether the native core alone makes all columns, and no size depends on the
            records. Values are then located as they are written, in one pass.
        names: Flat names of the columns: of the features that have one, then of their masks.
        paths: Paths of nested columns, by flat name.
        padded: Padding of the padded columns, by flat name.
        images: Spec of each column of images that a device decodes, by flat name.
    """

    def __init__(self, schema: Schema, deferred: Collection[str] = ()) -> None:
        self.schema = schema
        self._deferred = frozenset(deferred)
        features = [(name, spec, False) for name, spec in schema.context.items()]
        features += [(name, spec, True) for name, spec in (schema.sequence or {}).items()]
        self.builders: list[ColumnBuilder] = [
            _builder_class(spec.column)(name, spec, in_lists=in_lists)
            for name, spec, in_lists in features
        ]
        made = [builder for builder in self.builders if builder.name not in self._deferred]
        # Name of the feature and of the stored feature of each native spec.
        self._owners: list[tuple[str, str]] = []
        specs: list[_core.FeatureSpec] = []
        for builder in self.builders:
            builder.first_spec = len(specs)
            is_deferred = builder.name in self._deferred
            specs += [spec.without_column() if is_deferred else spec for spec in builder.specs]
            self._owners += [(builder.name, spec.key.decode()) for spec in builder.specs]
        self.native = _core.ExampleParser(specs, schema.is_sequence)
        self._laid_out = [builder for builder in made if builder.has_layout]
        self.is_fixed = self.native.is_fixed and not self._laid_out
        self._checked = [builder for builder in made if builder.limits is not None]
        self._normalized = [b for b in made if b.feature.normalize is not None]
        # Columns of one dtype and shape are laid out together.
        self._dense_groups: dict[tuple[str, tuple[int, ...]], list[ColumnBuilder]] = {}
        for builder in made:
            if builder.dense is not None:
                self._dense_groups.setdefault(builder.dense, []).append(builder)
        # Batches usually have two sizes; other sizes must not fill the memory.
        self._dense_layout = functools.lru_cache(maxsize=8)(self._make_dense_layout)
        masks = {builder.mask: builder.name for builder in made if builder.mask is not None}
        self.names = (*(name for name in schema if name not in self._deferred), *masks)
        self.paths = {**schema.paths, **{mask: (VALID, name) for mask, name in masks.items()}}
        self.padded = {b.name: b.padding for b in made if b.padding is not None}
        self.images = {b.name: b.image for b in made if b.image is not None}

    @classmethod
    def of(cls, schema: Schema) -> ExampleParser:
        """Return the parser of a schema, which is made once and kept in the schema."""
        if schema.parser is None:
            schema.parser = cls(schema)
        parser: ExampleParser = schema.parser
        return parser

    def __reduce__(self) -> tuple[Any, ...]:
        return ExampleParser, (self.schema, self._deferred)

    def builder(self, name: str) -> ColumnBuilder:
        """Return the builder of a feature's column, by its flat name."""
        return next(builder for builder in self.builders if builder.name == name)

    def locate(
        self,
        block: RecordBlock | RecordList,
        random: RecordRandom = DEFAULT_RANDOM,
        threads: int | None = None,
        selections: ElementSelections | None = None,
    ) -> LocatedBlock:
        """Locate the values of a block: the first pass.

        Args:
            block: The records.
            random: Source of random numbers.
            threads: Number of threads that decode images; by default that of the CPUs.
            selections: Elements of sequences to decode; by default all. With some, the column
                of a sequence with a length is a Ragged.
        """
        located = self._open(block, random, threads)
        located.selections = selections or {}
        if self.is_fixed and located.is_plausible:
            located.reads = _core.BatchReads.of_records(located.records)
        else:
            self._lay_out(located, self.native.locate(located.records))
        return located

    def load(
        self,
        reads: Sequence[Frames],
        randoms: Sequence[RecordRandom],
        threads: int | None,
        *,
        verify_crc: bool,
    ) -> list[LocatedBlock]:
        """Read blocks, check their records and locate the values, up to the first fault.

        If the parser is fixed, :meth:`fill` does this, and the blocks may share a buffer.

        Args:
            reads: Reads of each block.
            randoms: Source of random numbers of each block.
            threads: Number of threads that decode images; by default that of the CPUs.
            verify_crc: Whether to check the CRCs of lengths and data.

        Returns:
            The blocks before the first fault.
        """
        blocks = [
            self._open(read.records, random, threads)
            for read, random in zip(reads, randoms, strict=True)
        ]
        stored = [read.for_core(block.records) for read, block in zip(reads, blocks, strict=True)]
        if self.is_fixed:
            for number, block in enumerate(blocks):
                if not block.is_plausible:
                    return blocks[:number]
                block.reads, block.verify_crc = stored[number], verify_crc
            return blocks
        found = _core.load_batches(self.native, stored, verify_crc)
        for number, located in enumerate(found):
            self._lay_out(blocks[number], located)
            if blocks[number].failures:
                return blocks[:number]
        return blocks[: len(found)]

    def fill(self, blocks: Sequence[LocatedBlock], arenas: Sequence[Arena]) -> int:
        """Fill arenas with blocks, the second pass, up to the first fault.

        The first block with a fault has it in its failures, and its arena is not valid. Records
        with values out of range are no fault: they are the refused records of their block.

        Args:
            blocks: The blocks.
            arenas: Arena of each block; uint8 ``[layout.size]``, 64-byte aligned, of any content.

        Returns:
            The number of blocks before the first fault.
        """
        targets = [block.targets for block in blocks]
        reads = [block.reads for block in blocks if block.reads is not None]
        if reads:
            verify_crc = blocks[0].verify_crc
            done, found = _core.load_fixed_batches(self.native, reads, targets, arenas, verify_crc)
        else:
            located = [block.located for block in blocks]
            done, found = _core.fill_batches(located, targets, arenas)
        for number, (block, arena) in enumerate(zip(blocks[:done], arenas, strict=False)):
            for finish in block.finishers:
                finish(block, arena)
            if self._checked:
                block.refused = self._find_refused(block.columns, arena)
            if block.failures:
                return number
            for builder in self._normalized:
                normalize_column(arena, block.columns, builder)
        if done < len(blocks):
            blocks[done].add_failures(found)
        return done

    def _open(
        self,
        block: RecordBlock | RecordList,
        random: RecordRandom,
        threads: int | None,
    ) -> LocatedBlock:
        """Return a block whose values are not located yet."""
        return LocatedBlock(
            block,
            self._dense_layout(len(block)),
            builders=self.builders,
            failure_of=self._failure_of,
            random=random,
            threads=threads,
        )

    def _lay_out(self, block: LocatedBlock, located: _core.LocatedBatch) -> None:
        """Reserve memory for the values of a block, which were located."""
        block.located = located
        if failures := located.failures:
            block.add_failures(failures)
        if failures or not self._laid_out:
            return
        block.targets = block.targets.copy()
        for builder in self._laid_out:
            block.columns += tuple(builder.lay_out(block))

    def _find_refused(self, columns: Sequence[Column], arena: Arena) -> Failures:
        """Return the records that have a value out of range in a finished column."""
        found = [self._outside(builder, columns, arena) for builder in self._checked]
        return Failures.joined([each for each in found if len(each)])

    def _outside(self, builder: ColumnBuilder, columns: Sequence[Column], arena: Arena) -> Failures:
        limits, spec = builder.limits, builder.first_spec
        assert limits is not None
        records, values = first_outside(arena, columns, builder)

        def failure_of(index: int) -> RecordFailure:
            reason = limits.reason(values[index])
            return self._failure_of(None, int(records[index]), spec, None, reason)

        return Failures(records, failure_of)

    def _make_dense_layout(self, rows: int) -> DenseLayout:
        """Return the layout of the dense columns of a block of that many records."""
        arena = ArenaLayout()
        targets = _core.ColumnTargets(len(self._owners))
        columns: list[Column] = []
        for (dtype, shape), builders in self._dense_groups.items():
            names = tuple(builder.name for builder in builders)
            dense = arena.reserve_dense(names, dtype, (rows, *shape))
            columns.append(dense)
            if arena.size > MAX_ARENA_BYTES:
                continue
            for number, builder in enumerate(builders):
                targets.set(builder.first_spec, data=dense.at + number * dense.stride)
        return DenseLayout(tuple(columns), targets, arena.size)

    def _failure_of(
        self,
        block: RecordBlock | RecordList | None,
        record: int,
        spec: int | None,
        offset: int | None,
        reason: str,
    ) -> RecordFailure:
        """Return a failure of a native spec, with the name of its feature.

        Args:
            block: The records, if one of them may be of another kind than the schema.
            record: Position of the record.
            spec: Number of the native spec; None for the record as a whole.
            offset: Offset of the fault in the record, in bytes.
            reason: Reason of the failure.
        """
        name, key = (None, "") if spec is None else self._owners[spec]
        if name is not None and key != name:
            reason = f"{reason}, in the stored feature {key!r}"
        hint = None
        if block is not None:
            hint = functools.partial(_hint_at, self.schema, block, record, name, key)
        return RecordFailure(record, name, offset, reason, None, hint)


def _hint_at(
    schema: Schema, block: RecordBlock | RecordList, record: int, name: str | None, key: str
) -> str:
    from ..inspection.hints import hint_at  # noqa: PLC0415  # only for errors

    return hint_at(schema, bytes(block.view(record)), name, key)


@functools.cache
def _builder_class(path: str) -> type[ColumnBuilder]:
    """Return a class by its module and name. Modules are loaded with the first such feature."""
    found: type[ColumnBuilder] = pkgutil.resolve_name(path)
    return found
