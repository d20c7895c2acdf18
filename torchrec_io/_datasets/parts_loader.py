"""Loading of the records of several datasets, each with its own reader, parser and transform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from .._order.mixture import MixedOrder
from .._order.selection import Numbers
from .._parsing.failures import Ints
from .._parsing.record_random import DEFAULT_RANDOM, RecordRandom
from .._records.reader import PrefetchLimits, Reader, RecordLocation
from .._records.record_block import RecordBlock
from .._tensors.batch import Batch
from .._tensors.block_parser import BlockParser
from .._tensors.building import in_arena
from .._tensors.collate import collate
from .._tensors.columns import Columns
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


@dataclass(slots=True)
class PartsPlan:
    """Plan of how to read records of several parts.

    Attributes:
        numbers: Numbers of the records; int64 ``[n]``.
        parts: Each part that has some of them, their positions in ``numbers``, ascending, and the
            plan of the part's reader.
    """

    numbers: Ints
    parts: Sequence[tuple[int, Ints, Any]]

    @property
    def buffer_bytes(self) -> int:
        """Approximate number of bytes to read."""
        return sum(plan.buffer_bytes for _, _, plan in self.parts)

    def stored_bytes(self, begin: int, end: int) -> int:
        """Return the number of bytes of the records from ``begin`` to ``end``, as stored."""
        return sum(
            plan.stored_bytes(*np.searchsorted(positions, (begin, end)).tolist())
            for _, positions, plan in self.parts
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
        bases = self._order.source_bases
        parts = [
            (part, at, self._readers[part].plan_with(own, random._replace(base=bases[part])))
            for part, at, own in self._order.by_source(records)
        ]
        return PartsPlan(records, parts)

    def prefetch(self, plans: Sequence[PartsPlan]) -> None:
        by_part: dict[int, list[Any]] = {}
        for part, _, plan in (each for whole in plans for each in whole.parts):
            by_part.setdefault(part, []).append(plan)
        for part, own in by_part.items():
            if self._readers[part].prefetch_limits is not None:
                self._readers[part].prefetch(own)

    def fetch(self, plan: PartsPlan) -> tuple[RecordBlock, list[TorchRecIOError]]:
        raise NotImplementedError("the loaders of the parts read their records")

    def locate(self, numbers: Numbers | Sequence[int]) -> list[RecordLocation]:
        places: dict[int, RecordLocation] = {}
        for part, positions, own in self._order.by_source(np.asarray(numbers, np.int64)):
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

    def other_columns(self) -> list[str]:
        if any(self._transforms):
            return []  # not known
        return self.parts[0].loader.other_columns()

    def load(self, plan: PartsPlan, random: RecordRandom = DEFAULT_RANDOM) -> Loaded:
        errors: list[TorchRecIOError] = []
        parts: list[Loaded] = []
        positions = [np.empty(0, np.int64)]
        for part, at, own in plan.parts:
            loader, base = self.parts[part].loader, self._order.source_bases[part]
            loaded = self._load_part(part, own, random._replace(base=base))
            errors += loaded.errors
            errors += [loader.error_of(loaded, index) for index in range(len(loaded.failed))]
            positions.append(at[loaded.positions_in(own.numbers)])
            parts.append(Loaded(loaded.items, loaded.numbers + base, [], rows=loaded.rows))
        order = np.argsort(np.concatenate(positions))
        if not len(order):
            return Loaded([], order, errors)
        joined = self.join(parts, order if len(parts) > 1 else None)
        return joined._replace(items=self._with_source(joined), errors=errors)

    def join(self, parts: Sequence[Loaded], order: Ints | None = None) -> Loaded:
        parts = [part for part in parts if len(part.numbers)]
        if any(self._transforms) and self._in_batches:
            for part in parts[1:]:
                self._check_form(parts[0], part)
        return super().join(parts, order)

    def _load_part(self, part: int, plan: Any, random: RecordRandom) -> Loaded:
        """Load the records of a part, with its own numbers, and transform them."""
        loader, transform = self.parts[part].loader, self._transforms[part]
        loaded = loader.load_one(plan, random)
        # With transforms, samples are joined with anything, and batches with batches.
        is_batch = self._in_batches and isinstance(loaded.items, Batch)
        is_ready = transform is None and (is_batch or not any(self._transforms))
        if is_ready or not len(loaded.numbers):
            return loaded
        items = loaded.samples(random, schema=loader.parser.stored_by)
        if transform is not None:
            found = transform.of_samples(loaded, items)
            if found.error is not None:
                raise found.error
            items = found.results
        if self._in_batches:
            try:
                items = collate(items)
            except (TypeError, ValueError) as error:
                [place] = loader.reader.locate(loaded.numbers[:1])
                reason = f"the samples of a dataset cannot be joined to a batch: {error}"
                raise TransformError(reason, **place.where) from error
        return loaded._replace(items=items, rows=None)

    def _check_form(self, first: Loaded, other: Loaded) -> None:
        """Raise TransformError if batches of two parts cannot be joined."""
        columns = [each.items.columns for each in (first, other)]
        name = find_difference(*columns)
        if name is None:
            return
        numbers = np.concatenate((first.numbers[:1], other.numbers[:1]))
        found = [
            f"{_describe(each, name)} of dataset {part}"
            for each, part in zip(columns, self._order.source_of(numbers), strict=True)
        ]
        places = self.reader.locate(numbers)
        raise TransformError(
            f"the samples of the mixed datasets must have one form, got {found[1]} and {found[0]} "
            f"({places[0].path}). The transform of a dataset can bring its samples to the form of "
            "the others",
            **places[1].where,
            feature=name,
        )

    def _with_source(self, loaded: Loaded) -> Any:
        """Return the items with the number of the part of each."""
        name, items, sources = self._source, loaded.items, self._order.source_of(loaded.numbers)
        if name is None:
            return items
        first = items if isinstance(items, Batch) else items[0]
        if not isinstance(first, (Batch, Mapping)) or name in first:
            [place] = self.reader.locate(loaded.numbers[:1])
            raise TransformError(
                f"source={name!r} needs samples that are dicts without this name, "
                f"got {brief_line(first)}",
                **place.where,
            )
        if isinstance(items, Batch):
            values = {**items.columns.views(), name: torch.from_numpy(sources)}
            form = items.columns.form._replace(names=(*items.columns.form.names, name))
            made = in_arena(Columns.of_values(values, form), self.parser.allocate)
            return Batch(made, has_views=False)
        pairs = [
            (item, {**item, name: int(part)}) for item, part in zip(items, sources, strict=True)
        ]
        return [item.with_values(new) if isinstance(item, Sample) else new for item, new in pairs]


def _describe(columns: Columns, name: str) -> str:
    """Return the dtype and shape of the first value of a column."""
    column = columns.flat().get(name)
    return "no such value" if column is None else describe(list_rows(column)[0])
