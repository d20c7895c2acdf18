"""Weights of records that are found in the records: values of a feature, or of a function."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from .._order.shuffle import Shuffle
from .._order.weighted import Classes, Floats, Weights
from ..checks import counted
from ..errors import TorchRecIOError
from .where import answer_of, checked_names, pass_over
from .worker_state import WorkerState

if TYPE_CHECKING:
    from .pipeline import IndexedPipeline


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
    schema = pipeline.loader.parser.schema
    option = "weights" if shuffle.balance is None else "balance"
    source = shuffle.weights or shuffle.balance
    features = shuffle.features
    subject = "the weights function must return"
    if not callable(source):
        if schema is None:
            raise ValueError(f"{option}={source!r} needs a schema of features")
        features = checked_names(option, [source], schema)
        subject = f"the feature {source!r} of {option} must have"
    classes: dict[Any, int] = {}

    def weigh(items: Any, count: int) -> Floats:
        if callable(source):
            return _numbers(answer_of(source, "weights function", items, schema), count, subject)
        if shuffle.balance is None:
            return _numbers(items[source], count, subject)
        return _class_numbers(items[source], count, subject, classes)

    errors: list[TorchRecIOError] = []
    if pipeline.options["on_error"] != "raise":  # the dataset handles them once it exists
        options = {**pipeline.options, "on_error": errors.append}
        pipeline = dataclasses.replace(pipeline, options=options)
    selection, key = pipeline.record_order.selection, shuffle.cache_key
    parts: list[Floats] = [np.zeros(0)]
    found = pass_over(
        pipeline,
        WorkerState(),
        weigh,
        what="the pass",
        label=option,
        dtype=np.float64,
        append=parts.append,
        finish=lambda: np.concatenate(parts),
        features=features,
        # Apart from results of other functions under the same name.
        cache_key=f"{option} {key}" if isinstance(key, str) and key else key,
        encode=lambda values: values.astype("<f8").tobytes(),
        decode=lambda data: np.frombuffer(data, "<f8"),
    )
    values = np.zeros(selection.total)
    values[selection.numbers_at(np.arange(len(selection)))] = found
    weights = Weights(values) if shuffle.balance is None else Classes(values)
    known = dataclasses.replace(
        shuffle, weights=weights, balance=None, features=None, cache_key=None
    )
    return known, errors


def _numbers(answer: Any, count: int, subject: str) -> Floats:
    """Return the weights of some records: float64 ``[count]``."""
    is_known = isinstance(answer, (torch.Tensor, np.ndarray, list))
    values = answer.detach().cpu().double() if isinstance(answer, torch.Tensor) else answer
    array = np.asarray(values if is_known else None)
    if array.dtype.kind not in "iufb" or array.shape != (count,):
        raise ValueError(
            f"{subject} one number for each of {counted(count, 'record')}, got {_shown(answer)}"
        )
    return array.astype(np.float64)


def _class_numbers(column: Any, count: int, subject: str, known: dict[Any, int]) -> Floats:
    """Return the classes of some records, numbered from 1 as they occur."""
    labels = column.tolist() if hasattr(column, "tolist") else column
    is_flat = isinstance(labels, list) and len(labels) == count
    if not is_flat or not all(isinstance(label, (int, bytes)) for label in labels):
        raise ValueError(f"{subject} one integer or string in each record, got {_shown(column)}")
    return np.array([known.setdefault(label, len(known) + 1) for label in labels], np.float64)


def _shown(value: Any) -> str:
    """Return the dtype and shape of an array, or the type of another value."""
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    return type(value).__name__
