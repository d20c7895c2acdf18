"""Datasets of steps, made from datasets of whole episodes."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import numpy as np

from .._datasets.options import check_no_length_batches
from .._datasets.pipeline import IndexedPipeline
from .._parsing.lengths import find_lengths
from .._schema.schema import Schema
from ..checks import check_integer
from ..errors import SchemaError
from .order import StepOrder
from .parser import StepParser
from .reader import StepNumbers
from .step_counts import StepCounter

logger: logging.Logger = logging.getLogger("torchrec_io")


def step_pipeline(pipeline: IndexedPipeline, group: str, window: int | None) -> IndexedPipeline:
    """Return the parts of a dataset of steps; see :meth:`torchrec_io.TFRecordDataset.steps`."""
    if pipeline.loader.parser.sample_kind != "records":
        raise ValueError("the samples are already steps: call steps() on the dataset of records")
    check_no_length_batches(pipeline.options, "a dataset of steps")
    if window is not None:
        window = check_integer("window", window, 1)
    counter = StepCounter.of(_checked(pipeline.schema), group)
    counts = find_lengths(pipeline.records, counter.measure)
    numbers = StepNumbers(counts, window)
    short = int(np.count_nonzero(numbers.starts[1:] == numbers.starts[:-1]))
    if short:
        logger.info("%d of %d records have fewer than %d steps", short, len(counts), window or 1)
    return pipeline.rebuild(
        record_order=StepOrder.from_records(pipeline.record_order, numbers),
        make_parser=partial(_make_parser, group, numbers),
    )


def _make_parser(group: str, numbers: StepNumbers, schema: Any) -> StepParser:
    return StepParser(_checked(schema), group, numbers)


def _checked(schema: Any) -> Schema:
    try:
        return Schema.of(schema)
    except SchemaError:
        raise SchemaError(f"steps need a schema of features, got {schema!r}") from None
