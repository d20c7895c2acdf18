"""Statistics of the features of a dataset, found in one pass."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .._schema.feature_statistics import FeatureStatistics, Floats
from .._schema.statistics_file import Statistics
from .._storage.digest import digest_text
from .._tensors.batch import Batch
from .._tensors.ragged import BytesArray
from ..checks import counted, joined_names
from .pass_cache import cached_pass
from .pass_progress import shown_progress
from .pipeline import IndexedPipeline
from .record_loader import RecordLoader
from .record_scan import load_all
from .selecting import SelectingDataset
from .where import allows_lost, checked_names, identity_of, items_of, pass_loader
from .worker_state import WorkerState

# The extreme values of this many elements and of a long dataset fit in memory.
_MOST_ELEMENTS = 1 << 16
_TAIL = 0.01
_BUFFERED = 1 << 13
_NOT_FINITE = (
    "to have statistics, the feature {!r} must have finite values, which {} does not have: leave "
    "such samples out with where(), or with a valid_range in its spec and on_error='skip'"
)


def statistics(dataset: SelectingDataset, names: str | Sequence[str]) -> Statistics:
    """Return statistics of each element of some features, over the samples of a dataset.

    For an action of shape ``[7]``, ``stats["steps/action"].mean`` is float64 ``[7]``. One pass over
    the dataset parses these features alone; images, for example, are not decoded. Quantiles are
    exact; memory holds 2 to 4 % of the values. The result is kept in the user's cache directory
    and computed again if the files, their selection or the schema changed.

    Statistics are of the stored values: the ``transform`` of the dataset is not called.

    Args:
        dataset: A dataset of indexed files with a schema. Of a dataset of steps, each sample is its
            own step, whatever the offsets.
        names: Flat names of features with the same number of values in every sample, of any dtype
            of numbers or bool; or names of dicts, which stand for all features in them.

    Raises:
        TypeError: If the dataset is not one of indexed files, or names are not str.
        ValueError: If a name is unknown; a feature has strings, or samples of different shapes, or
            more than 65,536 elements, or a value that is not finite, or is normalized already; or
            there are no samples.
        TorchRecIOError, OSError: If a record cannot be read or parsed and ``on_error`` is
            ``"raise"``. Otherwise such records do not count.
    """
    if not isinstance(dataset, SelectingDataset):
        raise TypeError(
            f"dataset must be a dataset of indexed files, got {type(dataset).__name__}; for a "
            "mixture, call statistics() for each of its datasets"
        )
    pipeline = dataset._pipeline  # noqa: SLF001  # of this room
    schema = pipeline.loader.parser.schema
    if schema is None:
        raise ValueError("statistics need a dataset with a schema of features")
    listed = checked_names("names", [names] if isinstance(names, str) else names, schema)
    flat = [*dict.fromkeys(each for name in listed for each in schema.names_of(name))]
    specs = getattr(schema, "columns", schema)
    for name in flat:
        if specs[name].normalize is not None:
            raise ValueError(f"the feature {name!r} must not be normalized already")
    loader = pass_loader(pipeline, pipeline.loader.parser.of_own_steps().of_features(flat))
    items = loader.empty_items()
    for name in flat:
        _values_of(items, name)

    def evaluate() -> tuple[Statistics, int]:
        state = dataset._worker_state()  # noqa: SLF001
        return _evaluate(pipeline, loader, state, flat)

    identity = identity_of(pipeline, flat)
    # Each schema, selection and list of names has a result of its own. Changed files replace it.
    key = json.dumps({**identity, "the files": list(pipeline.paths)})
    found, _ = cached_pass(
        f"statistics {digest_text(key)}",
        f"the pass for statistics of {joined_names(flat)}",
        identity,
        evaluate,
        encode=Statistics.to_bytes,
        decode=Statistics.of_bytes,
        allow_lost=allows_lost(pipeline),
    )
    return found


def _evaluate(
    pipeline: IndexedPipeline, loader: RecordLoader, state: WorkerState, names: Sequence[str]
) -> tuple[Statistics, int]:
    """Return the statistics, and the number of records that could not be read or parsed."""
    selection = pipeline.record_order.selection
    total = len(selection)
    summaries = {name: _Summary(total) for name in names}
    lost = 0
    pieces = load_all(loader, selection, pipeline.options, state)
    with closing(pieces), shown_progress("statistics", total) as advance:
        for numbers, loaded in pieces:
            if len(loaded.numbers):
                items = items_of(loaded, loader)
                for name, summary in summaries.items():
                    values = _values_of(items, name)
                    is_bad = ~np.isfinite(values).reshape(len(values), -1).all(axis=1)
                    if is_bad.any():
                        [place] = loader.reader.locate(loaded.numbers[is_bad][:1])
                        raise ValueError(_NOT_FINITE.format(name, place.key))
                    summary.add(values)
            lost += len(numbers) - len(loaded.numbers)
            advance(len(numbers))
    if lost == total:
        raise ValueError(f"statistics need samples, got none of {counted(total, 'sample')}")
    return Statistics({name: summary.finish() for name, summary in summaries.items()}), lost


def _values_of(items: Any, name: str) -> Floats:
    """Return the values of a feature; float64 ``[B, *shape]``.

    Raises:
        ValueError: If they have no statistics.
    """
    assert isinstance(items, Batch)
    column = items.columns.flat()[name]
    if isinstance(column, BytesArray):
        fault = "must have numbers, not strings"
    elif not isinstance(column, Tensor) or name in items.columns.form.padded:
        fault = "must have one shape in every sample: for steps of episodes use dataset.steps()"
    elif column.is_complex() or math.prod(column.shape[1:]) > _MOST_ELEMENTS:
        shape = f"{str(column.dtype).removeprefix('torch.')} {list(column.shape[1:])}"
        fault = f"must have at most {_MOST_ELEMENTS:,} real numbers in a sample, got {shape}"
    else:
        return column.to(torch.float64).numpy()
    raise ValueError(f"to have statistics, the feature {name!r} {fault}")


class _Summary:
    """Statistics of the samples of one feature so far.

    Args:
        total: Largest possible number of samples.
    """

    def __init__(self, total: int) -> None:
        self._kept = int(_TAIL * (total - 1)) + 2  # the quantile lies between the last two
        self._count = 0
        self._shape: tuple[int, ...] = ()
        self._mean: Any = 0.0
        self._squares: Any = 0.0  # sum of squared differences from the mean
        # The values of each element, then the negated ones; of both, the smallest are kept.
        self._tails: list[Floats] = []  # [2 * elements, n] each

    def add(self, values: Floats) -> None:
        """Add samples; float64 ``[n, *shape]``."""
        rows = values.reshape(len(values), -1)
        self._shape = values.shape[1:]
        # Chan, Golub and LeVeque: Algorithms for computing the sample variance (1983).
        before, self._count = self._count, self._count + len(rows)
        mean = rows.mean(axis=0)
        step = mean - self._mean
        self._mean = self._mean + step * (len(rows) / self._count)
        self._squares = self._squares + ((rows - mean) ** 2).sum(axis=0)
        self._squares += step**2 * (before * len(rows) / self._count)
        self._tails.append(np.concatenate([rows.T, -rows.T]))
        if sum(part.shape[1] for part in self._tails) > 2 * self._kept + _BUFFERED:
            self._tails = [self._smallest()]

    def _smallest(self) -> Floats:
        joined = np.concatenate(self._tails, axis=1)
        if joined.shape[1] > self._kept:
            joined.partition(self._kept - 1, axis=1)
        return joined[:, : self._kept].copy()

    def finish(self) -> FeatureStatistics:
        """Return the statistics of all samples."""
        lowest, negated = np.split(np.sort(self._smallest(), axis=1), 2)
        highest, last = -negated, self._count - 1

        def quantile(position: float, value_at: Callable[[int], Floats]) -> Floats:
            """Interpolate as numpy.quantile does."""
            below = int(position)
            low, high, share = value_at(below), value_at(min(below + 1, last)), position - below
            step = high - low
            return low + step * share if share < 0.5 else high - step * (1 - share)

        arrays = {
            "mean": self._mean,
            "std": np.sqrt(self._squares / self._count),
            "min": lowest[:, 0],
            "max": highest[:, 0],
            "q01": quantile(_TAIL * last, lambda number: lowest[:, number]),
            "q99": quantile((1 - _TAIL) * last, lambda number: highest[:, last - number]),
        }
        shaped: dict[str, Any] = {name: each.reshape(self._shape) for name, each in arrays.items()}
        return FeatureStatistics(**shaped, count=self._count)
