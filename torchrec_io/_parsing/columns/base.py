"""Base of column builders, the located block that they work on, and shared functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ... import _core
from ..._records.record_block import RecordBlock, RecordList
from ..._schema.dtypes import numeric_bytes
from ..._schema.stored_keys import StoredKey
from ..._schema.valid_range import Limits
from ..arrays import Arena, Ints, view_of
from ..failures import NO_FAILURES, Failures, RecordFailure
from ..layout import ArenaLayout, Column, Numbers, Padding, Values
from ..record_random import RecordRandom
from ..threads import default_threads

if TYPE_CHECKING:
    from ..._images.views import Views
    from .image import ImageJob

# No arena is larger, so the offsets of columns beyond do not matter.
MAX_ARENA_BYTES = 1 << 62
# A byte of a record becomes at most 8 bytes of a column, except for defaults of missing features.
_PLAUSIBLE_GROWTH = 8
_PLAUSIBLE_BYTES = 1 << 20


class ColumnBuilder:
    """Builds the column of one feature for every block of records.

    :meth:`native_specs` lists what the native parser reads. Once the values of a block are located,
    :meth:`lay_out` reserves the memory of the column. Builders keep nothing of a block in
    themselves: several blocks are parsed at the same time.

    Args:
        name: Flat name of the feature.
        feature: Spec of the feature.
        in_lists: Whether the feature is a feature list of a SequenceExample.

    Attributes:
        specs: Specs for the native parser; the first one reads the values.
        first_spec: Position of the first of these among the native specs of all builders.
        dense: Dtype and shape of a record's value, for columns that the native parser fills alone
            and whose size does not depend on the records. They are laid out together, before the
            values are located.
        has_layout: Whether :meth:`lay_out` does something; False for most dense columns.
        padding: Padding of the column; None if it is not padded.
        mask: Flat name of the column that says which values are valid; None if there is none.
        limits: Limits of valid values; None if they are not checked.
        image: Spec, without ``augment`` and ``crop``, of images that are decoded when a batch is
            moved to a device; None for other columns.
    """

    image: Any = None
    dense: tuple[str, tuple[int, ...]] | None = None
    padding: Padding | None = None
    mask: str | None = None
    has_layout = True

    def __init__(self, name: str, feature: Any, *, in_lists: bool = False) -> None:
        self.name = name
        self.feature = feature
        self.in_lists = in_lists
        self.specs = self.native_specs()
        self.first_spec = 0
        self.limits: Limits | None = None
        if feature.valid_range is not None:
            self.limits = Limits.of(feature.valid_range, feature.column_dtype)

    def native_specs(self) -> list[_core.FeatureSpec]:
        """Return the specs for the native parser; the first one reads the values."""
        values, *others = self.feature.stored_keys(self.name)
        return [self.value_spec(values), *map(self.native_spec, others)]

    def value_spec(self, stored: StoredKey) -> _core.FeatureSpec:
        """Return the native spec of the stored values; by default Python asks for them."""
        return self.native_spec(stored)

    def native_spec(
        self,
        stored: StoredKey,
        column_type: _core.ColumnType = _core.ColumnType.on_request,
        dtype: str | None = None,
        *,
        count: int = 0,
        default: tuple[Any, ...] | None = None,
        bitcast: bool = False,
    ) -> _core.FeatureSpec:
        """Return a spec for the native parser.

        Args:
            stored: The stored feature.
            column_type: Type of the column; by default Python asks for the values.
            dtype: Dtype of the column; by default the stored one.
            count: Number of values, for types with a fixed number.
            default: Values of records without the feature, or the padding value.
            bitcast: Whether values are uint64 that are stored by their bits as int64.
        """
        dtype = dtype or stored.dtype
        data, sizes = b"", []
        if default is not None:
            is_text = dtype == "string"
            data = b"".join(default) if is_text else numeric_bytes(default, dtype)
            sizes = [len(value) for value in default] if is_text else []
        return _core.FeatureSpec(
            stored.key.encode(),
            _core.Dtype["int64" if bitcast else dtype],
            column_type,
            count=count,
            in_lists=self.in_lists,
            is_optional=not stored.is_required,
            int32_splits=stored.splits_dtype == "int32",
            default_data=data,
            default_sizes=sizes,
        )

    def lay_out(self, block: LocatedBlock) -> list[Column]:
        """Reserve memory in ``block.layout`` and return the columns in it.

        Calls ``block.fail`` for records that cannot be parsed. The columns are not used then. What
        is left to do once the native parser has filled the arena is added to ``block.finishers``.
        """
        raise NotImplementedError


class ElementSelection(NamedTuple):
    """Some elements of each record's sequence.

    Attributes:
        elements: Numbers of the elements in their record, one record after another; int64 ``[n]``.
        starts: Position of each record's first number, and the end; int64 ``[B + 1]``.
    """

    elements: Ints
    starts: Ints


# The elements to decode of SequenceFeatures without partitions, by flat name.
ElementSelections: TypeAlias = Mapping[str, ElementSelection]


class DenseLayout(NamedTuple):
    """Layout of the dense columns of a block.

    Attributes:
        columns: The columns.
        targets: Offsets that the native core writes to.
        size: Size of the columns in the arena, in bytes.
    """

    columns: tuple[Column, ...]
    targets: _core.ColumnTargets
    size: int


class LocatedBlock:
    """A block of records whose values are located but not decoded yet.

    Args:
        block: The records.
        dense: Layout of the dense columns, which the arena begins with.
        builders: Builders of all columns, in the order of the schema.
        failure_of: Function that returns the failure of a record of the block by its position, the
            native spec (None: the record as a whole), the offset of the fault in bytes, and the
            reason.
        random: Source of random numbers.
        threads: Number of threads that decode images; by default that of the CPUs.

    Attributes:
        block: The records.
        records: The records in the native core.
        builders: Builders of all columns.
        selections: Elements of sequences to decode, if these are not all.
        failures: Records that cannot be parsed. If there are any, the block must not be filled:
            remove them from it and locate the others.
        refused: Records with values out of range. The other rows of the arena are valid.
        is_plausible: Whether the dense columns are not much larger than the records. If they are,
            the schema must be wrong: locate the values before the memory is allocated.
        reads: Reads of the records, whose values are located as the arena is filled, because no
            size depends on them; None if they are located already.
        verify_crc: Whether these reads check the CRCs of lengths and data.
        located: Positions of the values, in the native core; only if they are located.
        layout: Layout of the arena, in which builders reserve memory.
        columns: Columns in the arena.
        targets: Offsets in the arena that the native core writes to.
        image_views: Views of the images of native specs that are known so far, and the numbers of
            these images; see :mod:`torchrec_io._images.views`.
        image_jobs: Images that are decoded together once the arena is allocated.
        finishers: Functions of the block and its arena that complete columns, once the native
            parser has filled the arena. They must not hold the block.
    """

    located: _core.LocatedBatch
    reads: _core.BatchReads | None = None
    verify_crc = False
    selections: ElementSelections = MappingProxyType({})
    refused: Failures = NO_FAILURES

    def __init__(
        self,
        block: RecordBlock | RecordList,
        dense: DenseLayout,
        *,
        builders: Sequence[ColumnBuilder],
        failure_of: Callable[
            [RecordBlock | RecordList, int, int | None, int | None, str], RecordFailure
        ],
        random: RecordRandom,
        threads: int | None,
    ) -> None:
        self.block = block
        self.records = block.native()
        self.builders = builders
        self.failures: list[RecordFailure] = []
        most_bytes = _PLAUSIBLE_BYTES + _PLAUSIBLE_GROWTH * self.records.total_bytes
        self.is_plausible = dense.size <= most_bytes
        self.layout = ArenaLayout(dense.size)
        self.columns = dense.columns
        self.targets = dense.targets
        self.image_views: dict[int, tuple[Ints, Views]] = {}
        self.image_jobs: list[ImageJob] = []
        self.finishers: list[Callable[[LocatedBlock, Arena], None]] = []
        self._random = random
        self._threads = threads
        self._failure_of = failure_of

    def __len__(self) -> int:
        return len(self.block)

    @property
    def threads(self) -> int:
        """Number of threads that decode images."""
        return self._threads or default_threads()

    def add_failures(self, found: Sequence[_core.Failure]) -> None:
        """Add failures of the native core."""
        for each in found:
            failure = self._failure_of(
                self.block, each.record, each.feature, each.offset, each.reason
            )
            self.failures.append(failure)

    # ---- for column builders; ``spec`` is the position of a native spec ----

    def integers(self, spec: int) -> tuple[Ints, Ints, Ints]:
        """Return stored integers, the offsets of each unit's, and those of each record's units.

        A unit is a record, or a step of a feature list.
        """
        ints = self.located.ints(spec)
        self.add_failures(ints.failures)
        return ints.values, ints.units.values, ints.units.records

    def random_key(self, record: int, feature: str) -> bytes:
        """Return the key of the random numbers of a record's feature; 16 bytes."""
        return self._random.key(self.block.numbers[record], feature)

    def set_target(self, spec: int, values: Values, rows: int = 0, steps: int = 0) -> None:
        """Set the memory that the native core writes to.

        Args:
            spec: Position of the native spec.
            values: Memory of the values.
            rows: Offset of the row splits, or of the lengths of records, in the arena.
            steps: Offset of the step splits in the arena.
        """
        if self.layout.size <= MAX_ARENA_BYTES:
            offsets, data = values.target
            self.targets.set(spec, rows=rows, steps=steps, values=offsets, data=data)

    def write_later(self, numbers: Numbers, values: Ints) -> None:
        """Write values to an array of the arena once it is allocated."""

        def write(_: LocatedBlock, arena: Arena) -> None:
            view_of(arena, numbers)[...] = values

        self.finishers.append(write)

    def reserve_splits(self, levels: Sequence[Ints], dtype: str) -> tuple[Numbers, ...]:
        """Reserve memory for row splits, and write them once the arena is allocated."""
        splits = tuple(self.layout.reserve_numbers(dtype, level.shape) for level in levels)
        for numbers, level in zip(splits, levels, strict=True):
            self.write_later(numbers, level)
        return splits

    def fail(self, record: int, spec: int, reason: str) -> None:
        """Add a failure of a record."""
        self.failures.append(self._failure_of(self.block, record, spec, None, reason))
