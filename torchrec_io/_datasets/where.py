"""Evaluation of predicates: which records of a dataset they choose."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from .._order.selection import Mask, Subset, SubsetBuilder
from .._records.index import RecordIndex
from .._schema.feature_mapping import FeatureMapping
from .._storage.digest import digest_text
from .._storage.thread_pool import map_in_threads
from .._tensors.batch import Batch
from .._tensors.block_parser import BlockParser
from .._tensors.loaded import Loaded
from ..checks import counted, suggest_names
from ..errors import SchemaError
from .pass_cache import Identity, cached_pass
from .pass_progress import shown_progress
from .record_loader import RecordLoader
from .record_scan import load_all
from .worker_state import WorkerState

if TYPE_CHECKING:
    from .pipeline import IndexedPipeline

# Takes a Batch, or a list of items of a schema without columns; returns a bool for each record.
Predicate: TypeAlias = Callable[[Any], Any]

_Result = TypeVar("_Result")


def pick_where(
    pipeline: IndexedPipeline,
    state: WorkerState,
    predicate: Predicate,
    features: Sequence[str] | None,
    cache_key: str | None,
) -> Subset:
    """Return the records that a predicate chooses; see :meth:`TFRecordDataset.where`.

    Records that cannot be read or parsed are not chosen.

    Args:
        pipeline: The parts of the dataset.
        state: Counts the errors that are skipped.
        predicate: Returns a bool for each record.
        features: Names of the features that it uses; None for all.
        cache_key: Name of the result in the cache; None to keep it nowhere.

    Returns:
        Positions of the chosen records, among those to choose from.

    Raises:
        TypeError, ValueError: If an argument, or what the predicate returns, is invalid.
    """
    if not callable(predicate):
        raise TypeError(f"predicate must be a function of a Batch, got {predicate!r}")
    total = len(pipeline.record_order.selection)
    schema = pipeline.loader.parser.schema
    builder = SubsetBuilder(total)

    def answer(items: Any, count: int) -> Mask:
        return _mask_of(answer_of(predicate, "predicate", items, schema), count)

    return pass_over(
        pipeline,
        state,
        answer,
        what="the predicate",
        label="where",
        dtype=np.bool_,
        append=builder.append,
        finish=builder.finish,
        features=features,
        cache_key=cache_key,
        encode=lambda positions: positions.words.astype("<u8", copy=False).tobytes(),
        decode=lambda bits: Subset(total, np.frombuffer(bits, "<u8").astype(np.uint64)),
    )


def pass_over(
    pipeline: IndexedPipeline,
    state: WorkerState,
    answer: Callable[[Any, int], npt.NDArray[Any]],
    *,
    what: str,
    label: str,
    dtype: Any,
    append: Callable[[npt.NDArray[Any]], None],
    finish: Callable[[], _Result],
    features: Sequence[str] | None,
    cache_key: str | None,
    encode: Callable[[_Result], bytes],
    decode: Callable[[bytes], _Result],
) -> _Result:
    """Call a function with some features of all selected records, and return the joined result.

    Args:
        pipeline: The parts of the dataset.
        state: Counts the errors that are skipped.
        answer: Called with the items of some consecutive records and their number; returns a value
            for each.
        what: Name of the function in messages.
        label: Name of the pass, which is shown if it takes long.
        dtype: Dtype of the values.
        append: Called with the values of some consecutive records, 0 for lost ones: ``[n]``.
        finish: Returns the result of all values that were appended.
        features: Names of the features; None for all.
        cache_key: Name of the result in the cache; None to keep it nowhere.
        encode: Returns the result as bytes.
        decode: Returns the result of such bytes.

    Raises:
        TypeError, ValueError: If ``features`` or ``cache_key`` is invalid.
    """
    if cache_key is not None and not (isinstance(cache_key, str) and cache_key):
        raise ValueError(f"cache_key must be a non-empty str or None, got {cache_key!r}")
    names = None
    if features is not None:
        if pipeline.loader.parser.schema is None:
            raise ValueError("features must be None for a dataset without a schema of features")
        names = checked_names("features", features, pipeline.loader.parser.schema)
    parser = pipeline.loader.parser
    loader = pass_loader(pipeline, parser if names is None else parser.of_features(names))

    def evaluate() -> tuple[_Result, int]:
        selection, lost = pipeline.record_order.selection, 0
        pieces = load_all(loader, selection, pipeline.options, state)
        with closing(pieces), shown_progress(label, len(selection)) as advance:
            for numbers, loaded in pieces:
                count = len(loaded.numbers)
                values = np.zeros(len(numbers), dtype)
                if count:
                    values[loaded.positions_in(numbers)] = answer(items_of(loaded, loader), count)
                append(values)
                lost += len(numbers) - count
                advance(len(numbers))
        return finish(), lost

    if cache_key is None:
        return evaluate()[0]
    result, _ = cached_pass(
        cache_key,
        f"{what} of {cache_key!r}",
        identity_of(pipeline, names),
        evaluate,
        encode=encode,
        decode=decode,
        allow_lost=allows_lost(pipeline),
    )
    return result


def checked_names(argument: str, names: Any, schema: Any) -> list[str]:
    """Return the names of an argument as a list.

    Args:
        argument: Name of the argument.
        names: Its value.
        schema: Schema that has the features.

    Raises:
        TypeError, ValueError: If these are not names of features or of dicts of the schema.
    """
    listed = [names] if isinstance(names, str) else list(names)
    if isinstance(names, str) or not all(isinstance(name, str) for name in listed):
        raise TypeError(f"{argument} must be a list of names, got {names!r}")
    if not listed:
        raise ValueError(f"{argument} must have at least one name, got none")
    for name in listed:
        if not schema.names_of(name):
            known = list(getattr(schema, "columns", schema))
            hint = suggest_names(name, known, "the schema has")
            raise ValueError(f"{argument} must be names of the schema, got {name!r}: {hint}")
    return listed


def pass_loader(pipeline: IndexedPipeline, parser: BlockParser) -> RecordLoader:
    """Return a loader for a pass over the records in their stored order."""
    # The reader of single records: blocks of a shuffle do not help.
    order = dataclasses.replace(pipeline.record_order, shuffle=False)
    return RecordLoader(order.fit_reader(pipeline.records, 1), parser)


def allows_lost(pipeline: IndexedPipeline) -> bool:
    """Return whether records with errors are left out."""
    return bool(pipeline.options.get("on_error", "raise") != "raise")


def items_of(loaded: Loaded, loader: RecordLoader) -> Any:
    """Return the loaded records as a batch without other rows."""
    items = loaded.items if loaded.rows is None else loader.join([loaded]).items
    return items.with_views() if isinstance(items, Batch) else items


def answer_of(predicate: Predicate, what: str, items: Any, schema: Any) -> Any:
    """Return the result of a function, which ``what`` names in errors, for some records."""
    try:
        return predicate(items)
    except KeyError as error:
        [name] = error.args[:1] or [None]
        if schema is None or not isinstance(name, str) or name in items:
            raise
        if not schema.names_of(name):
            raise
        raise KeyError(f"the {what} uses {name!r}, which features does not name") from error


def _mask_of(answer: Any, count: int) -> Mask:
    """Return the result of a predicate as a mask: bool ``[count]``."""
    wanted = f"the predicate must return one bool for each of {counted(count, 'record')}"
    if isinstance(answer, (list, tuple)):
        answer = np.array(answer)
    if not isinstance(answer, (torch.Tensor, np.ndarray)):
        raise TypeError(f"{wanted}: a bool Tensor, a bool array or a list, got {answer!r}")
    got = f"got {str(answer.dtype).removeprefix('torch.')} {list(answer.shape)}"
    if str(answer.dtype) not in {"torch.bool", "bool"}:
        raise TypeError(f"{wanted}, {got}")
    if tuple(answer.shape) != (count,):
        raise ValueError(f"{wanted}, {got}")
    mask: Mask = answer.cpu().numpy() if isinstance(answer, torch.Tensor) else answer
    return mask


def identity_of(pipeline: IndexedPipeline, names: Sequence[str] | None) -> Identity:
    """Return everything that a pass over some features of a dataset depends on."""
    described = dataclasses.replace(pipeline.record_order, shuffle=False).describe()
    files = described.pop("files")
    # The fingerprint of a file does not show every change of its data; the time does.
    times = map_in_threads(RecordIndex.find_change_time, pipeline.records.indexes)
    chosen = {name: described[name] for name in described if name not in {"shuffle", "seed"}}
    parser = pipeline.loader.parser
    reading = [
        _schema_text(pipeline.schema if parser.schema is None else parser.schema),
        parser.sample_kind,
        names,
        pipeline.records.verify_crc,
        pipeline.records.max_record_bytes,
    ]
    return {
        "the files": f"{files} {digest_text(repr(times))}",
        "the schema": digest_text(json.dumps(reading)),
        "the records to choose from": json.dumps(chosen, sort_keys=True),
    }


def _schema_text(schema: Any) -> str:
    """Return a text that is equal for equal schemas; functions in it are not compared."""
    if isinstance(schema, FeatureMapping):
        try:
            return schema.to_json()
        except SchemaError:  # a spec has a function
            return repr([*schema])
    return "function" if callable(schema) else repr(schema)
