"""Datasets of selected records: by a predicate, by numbers, or the first ones."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np
import torch

from .._order.selection import Numbers, Selection, Span, select_positions, select_within
from ..checks import check_integer, counted
from .pipeline import IndexedPipeline, Pipeline
from .where import Predicate, pick_where
from .worker_state import WorkerState

logger = logging.getLogger("torchrec_io")


class SelectingDataset:
    """Base of datasets whose records have numbers, so that some of them can be selected."""

    @property
    def _pipeline(self) -> IndexedPipeline:
        """Internal interface: the parts of the dataset."""
        raise NotImplementedError

    def _worker_state(self) -> WorkerState:
        """Return the state that counts skipped errors."""
        raise NotImplementedError

    def _derive(self, pipeline: Pipeline) -> Self:
        """Return the same dataset with other parts."""
        raise NotImplementedError

    def where(
        self,
        predicate: Predicate,
        *,
        features: Sequence[str] | None = None,
        cache_key: str | None = None,
    ) -> Self:
        """Return a dataset of the records that a predicate chooses. See docs/selecting.md."""
        state = self._worker_state()
        picked = pick_where(self._pipeline, state, predicate, features, cache_key)
        if len(picked) == 0:
            logger.warning("where() chose none of %s", counted(picked.total, "record"))
        return self._narrowed(picked)

    def select(self, numbers: Iterable[int]) -> Self:
        """Return a dataset of the records with some numbers. See docs/selecting.md."""
        total = len(self._pipeline.record_order.selection)
        return self._narrowed(select_positions(_check_numbers(numbers, total), total))

    def take(self, n: int) -> Self:
        """Return a dataset of the first records in the stored order. See docs/selecting.md."""
        total = len(self._pipeline.record_order.selection)
        return self._narrowed(Span(0, min(check_integer("n", n), total), total))

    def _narrowed(self, picked: Selection) -> Self:
        return self._derive(narrowed(self._pipeline, picked))


def narrowed(pipeline: IndexedPipeline, picked: Selection) -> IndexedPipeline:
    """Return the parts of a dataset of some of the selected records."""
    order = pipeline.record_order
    chosen = order.with_selection(select_within(order.selection, picked))
    return pipeline.rebuild(record_order=chosen)


def _check_numbers(numbers: Any, total: int) -> Numbers:
    """Return numbers of records as distinct positions in ascending order."""
    given = _as_array(numbers)
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise TypeError(
            "numbers must be integers, one for each record to select, got "
            f"{given.dtype} {list(given.shape)}"
        )
    is_outside = (given >= total) | (given < -total if given.dtype.kind == "i" else False)
    if is_outside.any():
        number = given[np.argmax(is_outside)]
        raise IndexError(f"record {number} is out of range for {counted(total, 'record')}")
    positions = np.sort(given.astype(np.int64) % max(1, total))
    repeats = positions[1:][positions[1:] == positions[:-1]]
    if len(repeats):
        raise ValueError(f"numbers must name each record once, got record {repeats[0]} twice")
    return positions


def _as_array(numbers: Any) -> np.ndarray[Any, np.dtype[Any]]:
    if isinstance(numbers, torch.Tensor):
        return numbers.cpu().numpy()
    if isinstance(numbers, Iterable) and not isinstance(numbers, (np.ndarray, range)):
        numbers = list(numbers)
    array = np.asarray(numbers)
    return array if array.size else array.astype(np.int64)
