"""Weights of records that are found in the records: values of a feature, or of a function."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from .._order.shuffle import Shuffle
from .._order.weighted import Classes, Weights
from ..checks import counted
from ..errors import TorchRecIOError
from .pass_progress import shown_progress
from .pipeline import IndexedPipeline
from .record_loader import RecordLoader
from .record_scan import load_all
from .where import answer_of, checked_names, items_of, pass_over
from .worker_state import WorkerState


def find_weights(
    pipeline: IndexedPipeline, shuffle: Shuffle
) -> tuple[Shuffle, list[TorchRecIOError]]:
    """Return a shuffle with the weights, or classes, of the records of a dataset.

    Records that the dataset does not select, or that are lost, have weight 0 or no class.

    Args:
        pipeline: The parts of the dataset, in the stored order.
        shuffle: The shuffle, whose weights are not known yet.

    Returns:
        The shuffle, and the errors of the lost records.

    Raises:
        TorchRecIOError, OSError: If a record cannot be loaded and ``on_error`` is "raise".
        TypeError, ValueError: If an argument, or what a function returns, is invalid.
    """
    survey = _WeightSurvey(pipeline, shuffle)
    dtype = survey.values.dtype.newbyteorder("<")
    size = len(survey.values)

    def decode(data: bytes) -> npt.NDArray[Any]:
        values = np.frombuffer(data, dtype).astype(survey.values.dtype)
        if len(values) != size:
            raise ValueError("the number of values differs")
        return values

    found, _ = pass_over(
        pipeline,
        f"the {survey.option}",
        survey.run,
        features=survey.features,
        cache_key=shuffle.cache_key,
        encode=lambda values: values.astype(dtype).tobytes(),
        decode=decode,
    )
    selection = pipeline.record_order.selection
    values = np.full(selection.total, survey.nothing, found.dtype)
    values[selection.numbers_at(np.arange(len(selection)))] = found
    name = survey.name
    weights = Weights(values, name) if shuffle.balance is None else Classes(values, shuffle.balance)
    return shuffle.with_weights(weights), survey.errors


class _WeightSurvey:
    """A pass that finds the weight or class of each selected record.

    Args:
        pipeline: The parts of the dataset, in the stored order.
        shuffle: The shuffle, whose weights are not known yet.

    Attributes:
        option: Name of the option that defines the values.
        name: Name of the feature that has the values; None with a function.
        features: Names of the features that are loaded; None for all.
        nothing: Value of a record that cannot be drawn.
        values: The values so far: float64 ``[n]`` of weights or int32 ``[n]`` of classes.
        errors: Errors of the records that were lost.
    """

    def __init__(self, pipeline: IndexedPipeline, shuffle: Shuffle) -> None:
        self._pipeline = pipeline
        self._function: Any = shuffle.weights
        self.option = "weights" if shuffle.balance is None else "balance"
        self.name: str | None = None
        self.features: Any = shuffle.features
        self._schema = pipeline.loader.parser.schema
        if not callable(self._function):
            self.name = shuffle.weights or shuffle.balance
            if self._schema is None:
                raise ValueError(f"{self.option}={self.name!r} needs a schema of features")
            self.features = checked_names(self.option, [self.name], self._schema)
        is_balance = shuffle.balance is not None
        self.nothing: float | int = -1 if is_balance else 0.0
        size = len(pipeline.record_order.selection)
        self.values = np.full(size, self.nothing, np.int32 if is_balance else np.float64)
        self.errors: list[TorchRecIOError] = []
        self._classes: dict[Any, int] = {}

    def run(self, loader: RecordLoader) -> tuple[npt.NDArray[Any], int]:
        """Return the values of all selected records, and the number of lost ones."""
        pipeline = self._pipeline
        selection = pipeline.record_order.selection
        options = dict(pipeline.options)
        if options["on_error"] != "raise":  # the dataset handles them once it exists
            options["on_error"] = self.errors.append
        begin = lost = 0
        pieces = load_all(loader, selection, options, WorkerState())
        with closing(pieces), shown_progress(self.option, len(selection)) as advance:
            for numbers, loaded in pieces:
                count = len(loaded.numbers)
                if count:
                    found = self._values_of(items_of(loaded, loader), count)
                    self.values[begin + loaded.positions_in(numbers)] = found
                begin += len(numbers)
                lost += len(numbers) - count
                advance(len(numbers))
        return self.values, lost

    def _values_of(self, items: Any, count: int) -> npt.NDArray[Any]:
        """Return the weights or classes of some records."""
        if self.name is None:
            answer = answer_of(self._function, "weights function", items, self._schema)
            return _numbers(answer, count, "the weights function must return")
        column = items[self.name]
        if self.option == "balance":
            return self._classes_of(column, count)
        return _numbers(column, count, f"the feature {self.name!r} of weights must have")

    def _classes_of(self, column: Any, count: int) -> npt.NDArray[Any]:
        """Return the numbers of classes, which are counted as they occur."""
        labels = column.tolist() if hasattr(column, "tolist") else column
        is_flat = isinstance(labels, list) and len(labels) == count
        if not is_flat or not all(isinstance(label, (int, bytes, str)) for label in labels):
            raise ValueError(
                f"the feature {self.name!r} of balance must have one integer or string in each "
                f"record, got {_shown(column)}"
            )
        known = self._classes
        return np.array([known.setdefault(label, len(known)) for label in labels], np.int32)


def _numbers(answer: Any, count: int, subject: str) -> npt.NDArray[Any]:
    """Return the weights of some records: float64 ``[count]``."""
    values = answer.detach().cpu().double() if isinstance(answer, torch.Tensor) else answer
    array = np.asarray(values) if isinstance(values, (torch.Tensor, np.ndarray, list)) else None
    if array is None or array.dtype.kind not in "iufb" or array.shape != (count,):
        raise ValueError(
            f"{subject} one number for each of {counted(count, 'record')}, got {_shown(answer)}"
        )
    return array


def _shown(value: Any) -> str:
    """Return the dtype and shape of an array, or the type of another value."""
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    return type(value).__name__
