"""Datasets of steps, made from datasets of whole episodes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor

from .._datasets.options import check_no_length_batches
from .._datasets.pipeline import IndexedPipeline, MakeParser
from .._datasets.selecting import narrowed
from .._datasets.where import pick_where
from .._datasets.worker_state import WorkerState
from .._order.selection import Subset
from .._parsing.lengths import find_lengths
from .._schema.nesting import VALID
from .._schema.schema import Schema
from .._tensors.block_parser import BlockParser
from ..checks import check_integer, counted
from ..errors import SchemaError
from .offsets import Offsets, Outside, StepOffsets
from .order import StepOrder, select_samples
from .parser import Episodes, StepParser
from .pieces import PieceTable
from .reader import StepNumbers
from .slim_records import PieceKeys
from .step_counts import StepCounter, step_features

logger: logging.Logger = logging.getLogger("torchrec_io")


def step_pipeline(
    pipeline: IndexedPipeline,
    offsets: Offsets,
    *,
    group: str,
    outside: Outside,
    stride: int,
) -> IndexedPipeline:
    """Return the parts of a dataset of steps; see :meth:`torchrec_io.TFRecordDataset.steps`.

    Args:
        pipeline: The parts of a dataset of episodes.
        offsets: Steps that a sample takes, counted from its own: of all features, or by name within
            the group. A sequence adds an axis ``[B, offsets, ...]``; an integer or a
            :class:`LaterStep` does not.
        group: Name of the features that have steps. SequenceExamples have feature lists instead.
        outside: Handling of steps before the first and after the last one. Unless it is "drop",
            ``batch.valid[name]`` says which steps exist: bool ``[B]`` or ``[B, offsets]``.
        stride: Distance from the step of one sample to that of the next.

    Raises:
        SchemaError: If the group does not exist, or one of its features has no steps.
        KeyError: If a name of ``offsets`` is not one of the group's.
        TypeError, ValueError: If an argument is invalid.
    """
    parser = pipeline.loader.parser
    if parser.sample_kind != "records":
        raise ValueError("the samples are already steps: call steps() on the dataset of records")
    check_no_length_batches(pipeline.options, "a dataset of steps")
    schema = _checked(pipeline.schema)
    of_group = None if schema.is_sequence else group
    counter = StepCounter.of(schema, of_group)
    specs = step_features(schema, of_group)
    chosen = StepOffsets.of(offsets, specs, of_group, outside)
    if (
        chosen.by_name
        and outside != "drop"
        and any(f"{name}/".startswith(f"{VALID}/") for name in schema)
    ):
        raise SchemaError(
            f"batches have a dict {VALID!r} that says which steps exist: give the feature of that "
            "name another one, with key=",
            feature=VALID,
        )
    keys = PieceKeys.of(schema, specs)
    table = None
    if keys.steps and pipeline.records.is_native:
        counts, table = PieceTable.build(pipeline.records, counter.measure, keys)
    else:
        counts = find_lengths(pipeline.records, counter.measure)
    margins = chosen.margins
    numbers = StepNumbers(counts, margins, check_integer("stride", stride, 1), chosen.describe())
    short = int(np.count_nonzero(numbers.starts[1:] == numbers.starts[:-1]))
    if short:
        fewest = counted(1 + sum(margins), "step")
        logger.info("%d of %d records have fewer than %s", short, len(counts), fewest)
    episodes = Episodes(of_group, numbers, counter, table)
    return pipeline.rebuild(
        record_order=StepOrder.from_records(pipeline.record_order, numbers),
        make_parser=partial(_make_parser, episodes, chosen),
    )


def keep_steps(
    pipeline: IndexedPipeline,
    state: WorkerState,
    keep: Any,
    *,
    features: Sequence[str] | None,
    cache_key: str | None,
) -> IndexedPipeline:
    """Return the samples whose own steps are kept; see :meth:`torchrec_io.TFRecordDataset.steps`.

    Args:
        pipeline: The parts of a dataset of steps.
        state: Counts the errors that are skipped.
        keep: A mask of the steps of all episodes, or a function of a batch of single steps.
        features: Names of the features that the function needs; None for all.
        cache_key: Name of the function's result in the cache; None to keep it nowhere.

    Raises:
        TypeError, ValueError: If an argument, or what the function returns, is invalid.
    """
    if callable(keep):
        picked = pick_where(own_steps(pipeline), state, keep, features, cache_key)
        return narrowed(pipeline, picked)
    order = pipeline.record_order
    assert isinstance(order, StepOrder)
    singles = StepNumbers(order.numbers.counts)
    all_steps = select_samples(order.records, singles)
    mask = keep.cpu().numpy() if isinstance(keep, Tensor) else np.asarray(keep)
    if mask.dtype != np.bool_ or mask.shape != (len(all_steps),):
        raise ValueError(
            "keep must be a function, or have one bool for each of the "
            f"{counted(len(all_steps), 'step')}, got {mask.dtype} {list(mask.shape)}"
        )
    samples = order.numbers.locate(order.selection.numbers_at(np.arange(len(order.selection))))
    steps = singles.starts[samples.records] + np.where(samples.counts < 0, 0, samples.steps)
    return narrowed(pipeline, Subset.from_mask(mask[all_steps.positions_of(steps)]))


def own_steps(pipeline: IndexedPipeline) -> IndexedPipeline:
    """Return the parts of a dataset of the same samples, without offsets: their own steps alone."""
    return pipeline.rebuild(make_parser=partial(_own_parser, pipeline.make_parser))


def _own_parser(make_parser: MakeParser, schema: Any) -> BlockParser:
    return make_parser(schema).of_own_steps()


def _make_parser(episodes: Episodes, offsets: StepOffsets, schema: Any) -> StepParser:
    return StepParser(_checked(schema), episodes, offsets)


def _checked(schema: Any) -> Schema:
    try:
        return Schema.of(schema)
    except SchemaError:
        raise SchemaError(f"steps need a schema of features, got {schema!r}") from None
