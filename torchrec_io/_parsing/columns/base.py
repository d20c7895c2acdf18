"""Base of column builders, the located block that they work on, and shared functions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ... import _core
from ..._records.record_block import RecordBlock, RecordList
from ..._schema.dtypes import numeric_bytes
from ..._schema.stored_keys import StoredKey
from ..._schema.valid_range import Limits
from ..arrays import Arena, Ints, view_of
from ..failures import Failures, RecordFailure
from ..layout import ArenaLayout, Column, Numbers, Padding, Values
from ..ranges import first_outside
from ..record_random import DEFAULT_RANDOM, RecordRandom
from ..threads import default_threads

if TYPE_CHECKING:
    from ..parser import ExampleParser

# A byte of a record becomes at most 8 bytes of a column, except for defaults of missing features.
_PLAUSIBLE_GROWTH = 8
_PLAUSIBLE_BYTES = 1 << 20
# No arena is larger, so the offsets of columns beyond do not matter.
MAX_ARENA_BYTES = 1 << 62


class ColumnBuilder:
    """Builds the column of one feature for every block of records.

    :meth:`native_specs` lists what the native parser reads. Once the values of a block are located,
    :meth:`lay_out` reserves the memory of the column. After the native parser has filled it,
    :meth:`finish` does the rest. Builders keep nothing of a block in themselves: several blocks
    are parsed at the same time.

    Args:
        name: Flat name of the feature.
        feature: Spec of the feature.
        in_lists: Whether the feature is a feature list of a SequenceExample.

    Attributes:
        specs: Specs for the native parser; the first one reads the values.
        first_spec: Position of the first of these among the native specs of all builders.
        dense: Dtype and shape of a record's value, for columns that the native parser fills alone
            and whose size does not depend on the records. They are laid out together, before the
            values are located; their builders need no :meth:`lay_out`.
        needs_finish: Whether :meth:`finish` does something.
        padding: Padding of the column; None if it is not padded.
        limits: Limits of valid values; None if they are not checked.
        takes_selection: Whether the builder can decode only the selected elements of records.
    """

    dense: tuple[str, tuple[int, ...]] | None = None
    needs_finish = True
    padding: Padding | None = None
    takes_selection = False

    def __init__(self, name: str, feature: Any, *, in_lists: bool = False) -> None:
        self.name = name
        self.feature = feature
        self.in_lists = in_lists
        self.specs = self.native_specs()
        self.first_spec = 0
        self.limits = Limits.of(feature.valid_range, feature.column_dtype)

    def native_specs(self) -> list[_core.FeatureSpec]:
        """Return the specs for the native parser; the first one reads the values."""
        values, *others = self.feature.stored_keys(self.name)
        return [self.value_spec(values), *map(self._on_request, others)]

    def value_spec(self, stored: StoredKey) -> _core.FeatureSpec:
        """Return the native spec of the stored values; by default Python asks for them."""
        return self._on_request(stored)

    def _on_request(self, stored: StoredKey) -> _core.FeatureSpec:
        return native_spec(
            stored.key, stored.dtype, _core.ColumnType.on_request, in_lists=self.in_lists
        )

    def lay_out(self, block: LocatedBlock) -> list[Column]:
        """Reserve memory in ``block.layout`` and return the columns in it.

        Calls ``block.fail`` for records that cannot be parsed. The columns are not used then.
        """
        raise NotImplementedError

    def finish(self, block: LocatedBlock, arena: Arena) -> None:
        """Complete the column after the native parser has filled the arena."""


class DeferredBuilder(ColumnBuilder):
    """Builder of no column: the values are located, and decoded by others.

    Args:
        builder: Builder of the column that the feature would have, a list of numbers.
    """

    def __init__(self, builder: ColumnBuilder) -> None:
        self._builder = builder
        super().__init__(builder.name, builder.feature, in_lists=builder.in_lists)
        self.limits = None  # there are no values to check

    def native_specs(self) -> list[_core.FeatureSpec]:
        return [spec.without_column() for spec in self._builder.specs]


class ElementSelection(NamedTuple):
    """Some elements of each record's sequences.

    Attributes:
        names: Names of the features: SequenceFeatures without partitions.
        elements: Numbers of the elements in their record, one record after another; int64 ``[n]``.
        starts: Position of each record's first number, and the end; int64 ``[B + 1]``.
    """

    names: Collection[str]
    elements: Ints
    starts: Ints


class LocatedBlock:
    """A block of records whose values are located but not decoded yet.

    Args:
        parser: Parser of the schema.
        block: The records.
        random: Source of random numbers.
        threads: Number of threads that decode images; by default that of the CPUs.
        selection: Elements of sequences to decode; None for all.

    Attributes:
        parser: Parser of the schema.
        failures: Records that cannot be parsed. If there are any, the block must not be filled:
            remove them from it and locate the others.
        refusals: Records with values out of range. The other rows of the arena are valid.
        is_sized: Whether the layout depends on the number of records alone.
        is_fixed: Whether nothing depends on the records, so that both passes are one.
        block: The records.
        selection: Elements of sequences to decode; None for all.
        records: The records in the native core.
        located: Positions of the values, in the native core; only if the block is not fixed.
        targets: Offsets in the arena that the native core writes to.
        columns: Columns in the arena.
        layout: Layout of the arena, in which builders reserve memory.
    """

    def __init__(
        self,
        parser: ExampleParser,
        block: RecordBlock | RecordList,
        random: RecordRandom = DEFAULT_RANDOM,
        threads: int | None = None,
        selection: ElementSelection | None = None,
    ) -> None:
        self.selection = selection
        self.parser = parser
        self.block = block
        self._random = random
        self._threads = threads
        self._rows = len(block)
        self.records = block.native()
        self._saved: dict[int, Any] = {}
        self._target_of: dict[int, Values] = {}
        self._writes: list[tuple[Numbers, Ints]] = []
        dense = parser.dense_layout(self._rows)
        self.layout = ArenaLayout(dense.size)
        self.columns = dense.columns
        self.targets = dense.targets
        self.failures: list[RecordFailure] = []
        self.refusals: list[Failures] = []
        # If columns are much larger than the records, the schema must be wrong: locate the values
        # before the memory is allocated.
        likely = _PLAUSIBLE_BYTES + _PLAUSIBLE_GROWTH * self.records.total_bytes
        self.is_sized = not parser.located_builders and dense.size <= likely
        self.is_fixed = parser.is_fixed and dense.size <= likely

    @property
    def arena_bytes(self) -> int:
        """Size of the arena that :meth:`fill` needs, in bytes."""
        return self.layout.size

    def lay_out(self, located: _core.LocatedBatch) -> None:
        """Reserve memory for the values that were located."""
        self.located = located
        self.failures += self.parser.failures(located.failures, self.block)
        if self.failures or not self.parser.located_builders:
            return
        self.targets = self.targets.copy()
        columns: list[Column] = []
        for builder in self.parser.located_builders:
            columns += builder.lay_out(self)
        self.columns += tuple(columns)

    def __len__(self) -> int:
        return self._rows

    def fill(self, arena: Arena) -> tuple[tuple[Column, ...], list[RecordFailure]]:
        """Write every column: the second pass.

        Args:
            arena: Arena; uint8 ``[arena_bytes]``, 64-byte aligned, of any content.

        Returns:
            The columns, and the records that cannot be decoded or have values out of range. If
            there are any, the content of the arena is not valid.
        """
        columns, failures = self.fill_rows(arena)
        if self.refusals and not failures:
            refused = Failures.joined(self.refusals)
            failures = [refused[index] for index in range(len(refused))]
        return columns, failures

    def fill_rows(self, arena: Arena) -> tuple[tuple[Column, ...], list[RecordFailure]]:
        """Write every column like :meth:`fill`, and leave refused records in ``refusals``."""
        if self.is_fixed:
            found = self.parser.native.parse_fixed(self.records, self.targets, arena)
        else:
            found = self.located.fill(self.targets, arena)
        self.failures = self.parser.failures(found, self.block)
        if not self.failures:
            if self.is_fixed:
                self.check_ranges(arena)
            else:
                self.finish(arena)
        return self.columns, self.failures

    def finish(self, arena: Arena) -> None:
        """Complete the columns after the native core has filled the arena."""
        for numbers, values in self._writes:
            view_of(arena, numbers)[...] = values
        for builder in self.parser.builders:
            builder.finish(self, arena)
        self.check_ranges(arena)

    def check_ranges(self, arena: Arena) -> None:
        """Refuse the records whose finished columns have values out of range."""
        for builder in self.parser.checked_builders:
            self._check_range(builder, arena)

    def _check_range(self, builder: ColumnBuilder, arena: Arena) -> None:
        limits, parser = builder.limits, self.parser
        assert limits is not None
        lengths = None if builder.padding is None else builder.padding.lengths
        records, values = first_outside(arena, self.columns, builder.name, limits, lengths)

        def failure_of(index: int) -> RecordFailure:
            reason = limits.reason(values[index])
            return parser.failure(int(records[index]), builder.first_spec, None, reason)

        if len(records):
            self.refusals.append(Failures(records, failure_of))

    # ---- for column builders; ``spec`` is the position of a native spec ----

    @property
    def builders(self) -> Sequence[ColumnBuilder]:
        """Builders of all columns, in the order of the schema."""
        return self.parser.builders

    @property
    def threads(self) -> int:
        """Number of threads that decode images."""
        return self._threads or default_threads()

    def counts(self, spec: int) -> tuple[Ints, Ints]:
        """Return the offsets of each unit's values, and the offsets of each record's units.

        A unit is a record, or a step of a feature list.
        """
        units = self.located.units(spec)
        return units.values, units.records

    def integers(self, spec: int) -> tuple[Ints, Ints, Ints]:
        """Return stored integers, and their offsets as for :meth:`counts`."""
        ints = self.located.ints(spec)
        self.failures += self.parser.failures(ints.failures, self.block)
        return ints.values, ints.units.values, ints.units.records

    def tensors(self, spec: int, tensor_type: _core.TensorType) -> _core.TensorBatch:
        """Return the serialized tensors of a native spec."""
        tensors = self.located.tensors(spec, tensor_type)
        self.failures += self.parser.failures(tensors.failures, self.block)
        return tensors

    def fill_tensors(
        self, tensors: _core.TensorBatch, targets: Sequence[tuple[int, int]], arena: Arena
    ) -> None:
        """Write tensors into the arena, and add the failures of their records.

        Args:
            tensors: Serialized tensors of a native spec.
            targets: Offset of the offsets (0 for numbers) and of the data of each tensor.
            arena: Arena of the block.
        """
        offsets, data = np.array(targets, np.uint64).reshape(-1, 2).T.copy()
        found = tensors.fill(offsets, data, arena)
        self.failures += self.parser.failures(found, self.block)

    def spans(self, spec: int) -> tuple[Ints, Ints, Ints, Ints]:
        """Return the offset of each bytes value in its record, its size, and :meth:`counts`."""
        spans = self.located.spans(spec)
        return spans.offsets, spans.sizes, spans.units.values, spans.units.records

    def record_bytes(self, record: int) -> memoryview:
        """Return the bytes of a record, in the memory of the block."""
        return self.block.view(record)

    def random_key(self, record: int, feature: str) -> bytes:
        """Return the key of the random numbers of a record's feature; 16 bytes."""
        return self._random.key(self.block.numbers[record], feature)

    def random_keys(self, records: Ints, feature: str) -> bytes:
        """Return the keys of the random numbers of several records' feature; 16 bytes each."""
        return self._random.keys(self.block.numbers[records], feature)

    def set_target(self, spec: int, values: Values, rows: int = 0, steps: int = 0) -> None:
        """Set the memory that the native core writes to.

        Args:
            spec: Position of the native spec.
            values: Memory of the values.
            rows: Offset of the row splits, or of the lengths of records, in the arena.
            steps: Offset of the step splits in the arena.
        """
        self._target_of[spec] = values
        if self.layout.size <= MAX_ARENA_BYTES:
            offsets, data = values.target
            self.targets.set(spec, rows=rows, steps=steps, values=offsets, data=data)

    def target(self, spec: int) -> Values:
        """Return the memory of the values that was set."""
        return self._target_of[spec]

    def write_later(self, numbers: Numbers, values: Ints) -> None:
        """Write values to an array of the arena once it is allocated."""
        self._writes.append((numbers, values))

    def reserve_splits(self, levels: Sequence[Ints], dtype: str) -> tuple[Numbers, ...]:
        """Reserve memory for row splits, and write them once the arena is allocated."""
        splits = self.layout.reserve_splits([len(level) - 1 for level in levels], dtype)
        self._writes += zip(splits, levels, strict=True)
        return splits

    def save(self, builder: ColumnBuilder, value: Any) -> None:
        """Save a value that a builder needs when it finishes its column."""
        self._saved[builder.first_spec] = value

    def saved(self, builder: ColumnBuilder) -> Any:
        """Return the saved value of a builder, or None."""
        return self._saved.get(builder.first_spec)

    def fail(self, record: int, spec: int, reason: str) -> None:
        """Add a failure of a record."""
        self.failures.append(self.parser.failure(record, spec, None, reason, self.block))


def native_spec(
    key: str,
    dtype: str,
    column_type: _core.ColumnType,
    *,
    count: int = 0,
    in_lists: bool = False,
    optional: bool = False,
    narrow_splits: bool = False,
    default: tuple[Any, ...] | None = None,
    bitcast: bool = False,
) -> _core.FeatureSpec:
    """Return a spec for the native parser.

    Args:
        key: Name of the stored feature.
        dtype: Dtype of the column.
        column_type: Type of the column.
        count: Number of values, for types with a fixed number.
        in_lists: Whether the stored feature is a feature list.
        optional: Whether a record may lack the feature.
        narrow_splits: Whether row splits are int32.
        default: Values of records without the feature, or the padding value.
        bitcast: Whether values are uint64 that are stored by their bits as int64.
    """
    data, sizes = b"", []
    if default is not None:
        is_text = dtype == "string"
        data = b"".join(default) if is_text else numeric_bytes(default, dtype)
        sizes = [len(value) for value in default] if is_text else []
    return _core.FeatureSpec(
        key.encode(),
        _core.Dtype["int64" if bitcast else dtype],
        column_type,
        count=count,
        in_lists=in_lists,
        is_optional=optional,
        int32_splits=narrow_splits,
        default_data=data,
        default_sizes=sizes,
    )
