"""Datasets of indexed files: their length, splits, other options, resuming by count."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Mapping
from contextlib import closing
from typing import Any, ClassVar, Self, Unpack, overload

import numpy as np
import torch

from .._order.orders import ENDLESS
from .._order.selection import Selection
from .._order.split import split_groups, split_indexed
from ..checks import counted
from .base import Item_co, RecordDataset
from .options import (
    OrderReplaceOptions,
    ReplaceOptions,
    change_options,
    takes_options,
)
from .partition import EpochPartition, RecordPartition
from .pipeline import IndexedPipeline
from .record_loader import RecordLoader
from .record_scan import load_all
from .selecting import SelectingDataset
from .worker_state import WorkerState

logger = logging.getLogger("torchrec_io")


class CountedDataset(RecordDataset[Item_co]):
    """Base of datasets whose number of records is known."""

    _partition_class: ClassVar[type[RecordPartition]] = EpochPartition

    @property
    def _partition(self) -> EpochPartition:
        partition = self._session.partition
        assert isinstance(partition, EpochPartition)
        return partition

    @property
    def num_records(self) -> int:
        """Number of records in an epoch of all ranks; of mixed packed datasets, rows of epoch 0."""
        return len(self._session.pipeline.order)

    def __len__(self) -> int:
        """Return the number of batches, or samples, of this rank's iteration. See docs/order.md."""
        partition = self._partition
        epochs = partition.options["epochs"]
        if epochs is None or len(partition.order) == ENDLESS:
            raise TypeError("an endless dataset has no length")
        if partition.has_equal_epochs:
            return int(partition.num_steps(0) * epochs)
        first = self._session.state.clock.epoch
        return sum(partition.num_steps(epoch) for epoch in range(first, first + epochs))

    def resume(self, *, epoch: int, batches: int) -> None:
        """Start the next iteration after a number of batches of an epoch. See docs/resuming.md."""
        self._session.resume(self._partition.place_after(epoch, batches))


class IndexedDataset(CountedDataset[Item_co], SelectingDataset):
    """Base of datasets of indexed files."""

    @property
    def _pipeline(self) -> IndexedPipeline:
        """Internal interface: the parts of the dataset."""
        pipeline = self._session.pipeline
        assert isinstance(pipeline, IndexedPipeline)
        return pipeline

    def _worker_state(self) -> WorkerState:
        return self._session.state

    @overload
    def replace(self, **options: Unpack[OrderReplaceOptions]) -> Self: ...
    @overload
    def replace(self, **options: Unpack[ReplaceOptions]) -> IndexedDataset[Any]: ...
    @takes_options(ReplaceOptions, unchanged=True)
    def replace(self, **options: Unpack[ReplaceOptions]) -> IndexedDataset[Any]:
        """Return a dataset with another schema or options, at its start. See docs/order.md."""
        return self._replaced(ReplaceOptions, options)

    def _replaced(self, kind: Any, options: Mapping[str, Any]) -> Self:
        changes = dict(options)
        schema = changes.pop("schema", self._pipeline.schema)
        changed = change_options(kind, self._pipeline.options, changes)
        return self._derive(self._pipeline.rebuild(schema=schema, options=changed))

    def split(
        self,
        *fractions: float,
        seed: int = 0,
        group_by: Callable[[Any], Hashable] | None = None,
    ) -> list[Self]:
        """Split the dataset at random into disjoint parts. See docs/order.md."""
        order, records = self._pipeline.record_order, self._pipeline.records
        selection = order.records
        if group_by is None:
            parts = split_indexed(records.indexes, selection, fractions, seed)
        else:
            keys = self._group_keys(group_by, selection)
            parts = split_groups(keys, selection, len(records), fractions, seed)
        for fraction, part in zip(fractions, parts, strict=True):
            if len(part) == 0:
                records_text = counted(len(selection), "record")
                logger.warning("the part %s of a split of %s is empty", fraction, records_text)
        return [
            self._derive(self._pipeline.rebuild(record_order=order.with_records(part)))
            for part in parts
        ]

    def _group_keys(
        self, group_by: Callable[[Any], Hashable], selection: Selection
    ) -> list[bytes | None]:
        keys: list[bytes | None] = [None] * len(selection)
        parser = self._pipeline.loader.parser.of_whole_records()
        loader = RecordLoader(self._pipeline.records, parser)
        options, state = self._pipeline.options, self._session.state
        with closing(load_all(loader, selection, options, state)) as pieces:
            for _, loaded in pieces:
                positions = selection.positions_of(loaded.numbers).tolist()
                for position, sample in zip(positions, loaded.samples(), strict=True):
                    keys[position] = _key_bytes(group_by(sample))
        return keys


def _key_bytes(key: Any) -> bytes:
    """Return the key of a group as bytes that are the same in every process."""
    if isinstance(key, (torch.Tensor, np.generic, np.ndarray)):
        key = key.tolist()
    if isinstance(key, tuple):
        return b"(" + b",".join(_key_bytes(part) for part in key) + b")"
    if isinstance(key, (int, float)) and key == key // 1:
        key = int(key)  # Python treats 1, 1.0 and True as one key
    if not isinstance(key, (bytes, str, int, float)):
        raise TypeError(
            "the key of a group must be bytes, a string, a number, a scalar tensor or a tuple of "
            f"those, got {key!r}"
        )
    return repr(key).encode()
