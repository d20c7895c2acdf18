"""A warning about features of the schema that none of the first records has."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from .._order.orders import StreamOrder
from .._parsing.stored_names import feature_names
from .._parsing.wrapping import field_prefix
from .._records.record_block import RecordBlock
from .._schema.schema import Schema
from ..checks import counted, joined_names
from ..errors import TorchRecIOError
from .pipeline import IndexedPipeline, Pipeline
from .worker_state import Subject, WorkerState

logger = logging.getLogger("torchrec_io")

_MOST_RECORDS = 1000
# Bytes of the first records that are read. One record is read in any case.
_MOST_BYTES = 1 << 24


def warn_of_absent_features(pipeline: Pipeline, state: WorkerState) -> None:
    """Log the features that records may lack and that none of the first records has.

    Their names may be misspelt. The first records are read once for each dataset, and only as many
    of them as it takes to find each feature: most files have all in the first record.

    Args:
        pipeline: The parts of the dataset.
        state: State that is shared with the processes that read the same dataset.
    """
    if state.is_marked(Subject.features):
        return
    state.mark(Subject.features)
    parts: Sequence[Pipeline] = pipeline.loader.parts or [pipeline]
    for part in parts:
        _warn_of_one(part)


def _warn_of_one(pipeline: Pipeline) -> None:
    schema = pipeline.loader.parser.schema
    absent = _optional_names(pipeline)
    if not absent:
        return
    examined, size, record = 0, 0, b""
    errors = contextlib.suppress(TorchRecIOError, OSError)  # loading the records raises them
    with errors, contextlib.closing(_first_blocks(pipeline)) as blocks:
        for block in blocks:
            for position in range(len(block)):
                record = block[position]
                found = [name for name, field in absent.items() if field in record]
                if found and isinstance(schema, Schema):  # not only as a part of a value
                    context, lists = feature_names(record) or ([], [])
                    found = [*context, *(lists if schema.is_sequence else ())]
                absent = {name: field for name, field in absent.items() if name not in found}
                if not absent:
                    return
            examined += len(block)
            size += int(block.lengths.sum())
            if size > _MOST_BYTES:
                break
    if examined:
        logger.warning(_warning(schema, [*absent], examined, record))


def _optional_names(pipeline: Pipeline) -> dict[str, bytes]:
    """Return the stored features that records may lack: the field with each name, by the name."""
    parser = pipeline.loader.parser
    if not parser.has_stored_names:
        return {}
    keys = [key for name, spec in parser.schema.items() for key in spec.stored_keys(name)]
    return {each.key: _name_field(each.key) for each in keys if not each.is_required}


def _first_blocks(pipeline: Pipeline) -> Generator[RecordBlock]:
    """Yield the first records in their stored order, more and more at a time.

    A pipe has none, because it is read only once. A mixture of alike datasets is read in its
    order of epoch 0.
    """
    reader: Any = pipeline.loader.reader
    if isinstance(pipeline.order, StreamOrder):
        if not reader.has_pipe:
            plans = reader.chunks(0, 1, size=_MOST_RECORDS // 10)
            yield from (reader.fetch(plan)[0] for plan in plans)
        return
    if isinstance(pipeline, IndexedPipeline):
        reader, records = pipeline.records, pipeline.record_order.records
        numbers = records.numbers_at(np.arange(min(_MOST_RECORDS, len(records))))
    else:
        order = getattr(pipeline.order, "record_order", pipeline.order)
        units = np.arange(min(_MOST_RECORDS, order.count(0)))
        numbers = order.records_of(units, 0)[:_MOST_RECORDS]
    begin, end = 0, 1
    while begin < len(numbers):
        yield reader.fetch(reader.plan(numbers[begin:end]))[0]
        begin, end = end, 2 * end


def _name_field(name: str) -> bytes:
    """Return the serialized field that holds the name of a feature."""
    key = name.encode()
    return field_prefix(b"\x0a", len(key)) + key


def _warning(schema: Any, absent: list[str], examined: int, record: bytes) -> str:
    from ..inspection.hints import hint_at  # noqa: PLC0415  # only for this warning

    noun = "feature" if len(absent) == 1 else "features"
    hint = ""
    if isinstance(schema, Schema):
        reads = {key.key: name for name in schema for key in schema[name].stored_keys(name)}
        hint = hint_at(schema, record, reads[absent[0]], absent[0])
    records = counted(examined, "record")
    return f"none of the first {records} has the {noun} {joined_names(absent)} of the schema{hint}"
