"""Loading of the records of several datasets, each with its own reader, parser and transform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._order.mixture import MixedOrder
from .._order.selection import Numbers
from .._parsing.failures import Ints
from .._parsing.record_random import DEFAULT_RANDOM, RecordRandom
from .._records.native_frames import Frames
from .._records.reader import PrefetchLimits, Reader, RecordLocation
from .._records.record_block import RecordBlock
from .._tensors.batch import Batch
from .._tensors.block_parser import BlockParser
from .._tensors.building import with_column
from .._tensors.collate import collate
from .._tensors.gather import find_difference
from .._tensors.loaded import Loaded
from .._tensors.sample import Sample
from .._tensors.views import describe, list_rows
from ..display import brief_line
from ..errors import TorchRecIOError, TransformError
from .options import makes_batches
from .pipeline import IndexedPipeline
from .record_loader import RecordLoader
from .transform import Transform


class PartPlan(NamedTuple):
    """Plan of the records of one part.

    Attributes:
        part: Number of the part.
        positions: Positions of the records in the whole plan, ascending; int64 ``[n]``.
        plan: Plan of the part's reader.
    """

    part: int
    positions: Ints
    plan: Any


@dataclass(slots=True)
class PartsPlan:
    """Plan of how to read records of several parts.

    Attributes:
        numbers: Numbers of the records; int64 ``[n]``.
        parts: Plans of the parts that have some of them.
    """

    numbers: Ints
    parts: Sequence[PartPlan]

    @property
    def buffer_bytes(self) -> int:
        """Approximate number of bytes to read."""
        return sum(each.plan.buffer_bytes for each in self.parts)

    def stored_bytes(self, begin: int, end: int) -> int:
        """Return the number of bytes of the records from ``begin`` to ``end``, as stored."""
        bounds = [np.searchsorted(each.positions, (begin, end)).tolist() for each in self.parts]
        return sum(
            each.plan.stored_bytes(*inside) for each, inside in zip(self.parts, bounds, strict=True)
        )


class PartsReader(Reader):
    """Plans and locates the records of several parts. Their own loaders read them.

    Args:
        readers: Reader of each part.
        order: Order that numbers the records of all parts.
    """

    def __init__(self, readers: Sequence[Reader], order: MixedOrder) -> None:
        self.verify_crc: bool = all(reader.verify_crc for reader in readers)
        self.max_record_bytes: int = max(reader.max_record_bytes for reader in readers)
        limits = filter(None, (reader.prefetch_limits for reader in readers))
        self.prefetch_limits: PrefetchLimits | None = min(limits, default=None)
        self._readers = readers
        self._order = order

    def begin_epoch(self, num_ranks: int = 1) -> None:
        for reader in self._readers:
            reader.begin_epoch(num_ranks)

    def end_epoch(self) -> None:
        for reader in self._readers:
            reader.end_epoch()

    def plan(self, records: Numbers) -> PartsPlan:
        return self.plan_with(records, DEFAULT_RANDOM)

    def plan_with(self, records: Numbers, random: RecordRandom) -> PartsPlan:
        bases = self._order.bases
        parts = [
            PartPlan(
                part,
                positions,
                self._readers[part].plan_with(own, random._replace(base=bases[part])),
            )
            for part, positions, own in self._order.by_part(records)
        ]
        return PartsPlan(records, parts)

    def prefetch(self, plans: Sequence[PartsPlan]) -> None:
        by_part: dict[int, list[Any]] = {}
        for part, _, plan in (each for whole in plans for each in whole.parts):
            by_part.setdefault(part, []).append(plan)
        for part, own in by_part.items():
            if self._readers[part].prefetch_limits is not None:
                self._readers[part].prefetch(own)

    def open_run(self, plans: Sequence[PartsPlan]) -> list[Frames]:
        del plans
        return []

    def fetch(self, plan: PartsPlan) -> tuple[RecordBlock, list[TorchRecIOError]]:
        raise NotImplementedError("the loaders of the parts read their records")

    def locate(self, numbers: Numbers | Sequence[int]) -> list[RecordLocation]:
        places: dict[int, RecordLocation] = {}
        for part, positions, own in self._order.by_part(np.asarray(numbers, np.int64)):
            found = self._readers[part].locate(own)
            places.update(zip(positions.tolist(), found, strict=True))
        return [places[position] for position in range(len(places))]


def has_own_transform(options: Mapping[str, Any]) -> bool:
    """Return whether a dataset in a mixture has a transform that is called with its own samples."""
    return options["transform"] is not None and options["batch_size"] is None


class PartsLoader(RecordLoader):
    """A loader of a mixture whose parts load their own records.

    If a part has a transform of its own, what that returns is collated if the mixture has batches.
    Batches of parts are joined if their columns have one form.

    Args:
        parts: The parts.
        order: Order that numbers the records of all parts.
        source: Name of the column with the number of the part; None for no such column.
        options: Options of the mixture.

    Attributes:
        parts: The parts.
    """

    def __init__(
        self,
        parts: Sequence[IndexedPipeline],
        order: MixedOrder,
        source: str | None,
        options: Mapping[str, Any],
    ) -> None:
        self._order = order
        self._source = source
        self._transforms = [
            Transform.of(part.options, part.loader.reader)
            if has_own_transform(part.options)
            else None
            for part in parts
        ]
        self._in_batches = makes_batches(options)
        loaders = [part.loader for part in parts]
        parser = BlockParser() if any(self._transforms) else loaders[0].parser
        super().__init__(PartsReader([loader.reader for loader in loaders], order), parser, parts)

    def for_options(self, options: Mapping[str, Any]) -> PartsLoader:
        return PartsLoader(self.parts, self._order, self._source, options)

    @property
    def is_native(self) -> bool:
        return False

    def other_columns(self) -> list[str]:
        if any(self._transforms):
            return []  # not known
        return self.parts[0].loader.other_columns()

    def load_run(self, plans: Sequence[Any], randoms: Sequence[RecordRandom]) -> list[Loaded]:
        del plans, randoms
        return []

    def load(self, plan: PartsPlan, random: RecordRandom = DEFAULT_RANDOM) -> Loaded:
        errors: list[TorchRecIOError] = []
        parts: list[Loaded] = []
        positions = [np.empty(0, np.int64)]
        for each in plan.parts:
            base = self._order.bases[each.part]
            loaded = self._load_part(each, random._replace(base=base))
            loader = self.parts[each.part].loader
            failed = [loader.error_of(loaded, index) for index in range(len(loaded.failed))]
            errors += [*loaded.errors, *failed]
            positions.append(each.positions[loaded.positions_in(each.plan.numbers)])
            parts.append(Loaded(loaded.items, loaded.numbers + base, [], rows=loaded.rows))
        order = np.argsort(np.concatenate(positions))
        if not len(order):
            return Loaded([], order, errors)
        joined = self.join(parts, order if len(parts) > 1 else None)
        return self._with_source(joined)._replace(errors=errors)

    def join(self, parts: Sequence[Loaded], order: Ints | None = None) -> Loaded:
        parts = [part for part in parts if len(part.numbers)]
        if any(self._transforms):
            for part in parts[1:]:
                self._check_form(parts[0], part)
        return super().join(parts, order)

    # ---- one part ----

    def _load_part(self, each: PartPlan, random: RecordRandom) -> Loaded:
        """Load the records of a part, with its own numbers, and transform them."""
        loader, transform = self.parts[each.part].loader, self._transforms[each.part]
        loaded = loader.load_one(each.plan, random)
        # Samples are joined with what transforms return, which may be anything.
        is_ready = transform is None and (self._in_batches or not any(self._transforms))
        if is_ready or not len(loaded.numbers):
            return loaded
        items = loaded.samples(random, schema=loader.parser.stored_by)
        if transform is not None:
            found = transform.of_samples(loaded, items)
            if found.error is not None:
                raise found.error
            items = found.results
        if self._in_batches and all(isinstance(item, Mapping) for item in items):
            try:
                items = collate(items)
            except (TypeError, ValueError) as error:
                [place] = loader.reader.locate(loaded.numbers[:1])
                reason = f"what transform returned cannot be joined to a batch: {error}"
                raise TransformError(reason, **place.where) from error
        return loaded._replace(items=items, rows=None)

    # ---- all parts ----

    def _check_form(self, first: Loaded, other: Loaded) -> None:
        """Raise TransformError if batches of two parts cannot be joined."""
        name, found = None, [type(each.items).__name__ for each in (first, other)]
        if isinstance(first.items, Batch) and isinstance(other.items, Batch):
            name = find_difference(first.items.columns, other.items.columns)
            if name is None:
                return
            found = [_describe(each.items, name) for each in (first, other)]
        elif type(first.items) is type(other.items):
            return
        numbers = np.concatenate((first.numbers[:1], other.numbers[:1]))
        parts = self._order.part_of(numbers).tolist()
        places = self.reader.locate(numbers)
        raise TransformError(
            f"the samples of the mixed datasets must have one form, got {found[1]} of dataset "
            f"{parts[1]} and {found[0]} of dataset {parts[0]} ({places[0].path}). The transform of "
            "a dataset can bring its samples to the form of the others",
            **places[1].where,
            feature=name,
        )

    def _with_source(self, loaded: Loaded) -> Loaded:
        """Add the column with the number of the part."""
        if self._source is None:
            return loaded
        name, sources = self._source, self._order.part_of(loaded.numbers)
        if isinstance(loaded.items, Batch):
            self._check_source(loaded.items, loaded.numbers[:1])
            columns = with_column(loaded.items.columns, name, sources)
            return loaded._replace(items=Batch(columns, has_views=False))
        items: list[Any] = []
        for position, item in enumerate(loaded.items):
            self._check_source(item, loaded.numbers[position : position + 1])
            values = {**item, name: int(sources[position])}
            items.append(item.with_values(values) if isinstance(item, Sample) else values)
        return loaded._replace(items=items)

    def _check_source(self, item: Any, number: Numbers) -> None:
        if not isinstance(item, (Batch, Mapping)) or self._source in item:
            [place] = self.reader.locate(number)
            raise TransformError(
                f"source={self._source!r} needs samples that are dicts without this name, "
                f"got {brief_line(item)}",
                **place.where,
            )


def _describe(batch: Batch, name: str) -> str:
    """Return the dtype and shape of the first value of a column."""
    column = batch.columns.flat().get(name)
    return "no such value" if column is None else describe(list_rows(column)[0])
