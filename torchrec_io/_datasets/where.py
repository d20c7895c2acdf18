"""Evaluation of predicates: which records of a dataset they choose."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from .._order.selection import Mask, Selection, Subset, SubsetBuilder
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


class Picked(NamedTuple):
    """The result of a predicate.

    Attributes:
        positions: Positions of the chosen records, among those to choose from.
        lost: Number of records that could not be read or parsed, and so are not chosen.
    """

    positions: Subset
    lost: int


def pick_where(
    pipeline: IndexedPipeline,
    state: WorkerState,
    predicate: Predicate,
    features: Sequence[str] | None,
    cache_key: str | None,
) -> Picked:
    """Return the records that a predicate chooses; see :meth:`TFRecordDataset.where`.

    Args:
        pipeline: The parts of the dataset.
        state: Counts the errors that are skipped.
        predicate: Returns a bool for each record.
        features: Names of the features that it uses; None for all.
        cache_key: Name of the result in the cache; None to keep it nowhere.

    Raises:
        TypeError, ValueError: If an argument, or what the predicate returns, is invalid.
    """
    if not callable(predicate):
        raise TypeError(f"predicate must be a function of a Batch, got {predicate!r}")
    total = len(pipeline.record_order.selection)

    def decode(bits: bytes) -> Subset:
        return Subset(total, np.frombuffer(bits, "<u8").astype(np.uint64))

    result = pass_over(
        pipeline,
        "the predicate",
        lambda loader: _evaluate(pipeline, loader, state, predicate),
        features=features,
        cache_key=cache_key,
        encode=lambda positions: positions.words.astype("<u8", copy=False).tobytes(),
        decode=decode,
    )
    return Picked(*result)


def pass_over(
    pipeline: IndexedPipeline,
    what: str,
    evaluate: Callable[[RecordLoader], tuple[_Result, int]],
    *,
    features: Sequence[str] | None,
    cache_key: str | None,
    encode: Callable[[_Result], bytes],
    decode: Callable[[bytes], _Result],
) -> tuple[_Result, int]:
    """Return the result of a pass over some features of all selected records.

    Args:
        pipeline: The parts of the dataset.
        what: Name of the function that is evaluated, in messages.
        evaluate: Makes the pass with a loader of the features; see :func:`cached_pass`.
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
    if cache_key is None:
        return evaluate(loader)
    return cached_pass(
        cache_key,
        f"{what} of {cache_key!r}",
        identity_of(pipeline, names),
        lambda: evaluate(loader),
        encode=encode,
        decode=decode,
        allow_lost=allows_lost(pipeline),
    )


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


def _evaluate(
    pipeline: IndexedPipeline, loader: RecordLoader, state: WorkerState, predicate: Predicate
) -> Picked:
    selection = pipeline.record_order.selection
    builder = SubsetBuilder(len(selection))
    lost = 0
    schema = pipeline.loader.parser.schema

    def answer(items: Any, count: int) -> Mask:
        return _mask_of(answer_of(predicate, "predicate", items, schema), count)

    options = pipeline.options
    for chosen, missing in answers_of(
        loader, selection, options, state, answer, what="where", dtype=np.bool_
    ):
        builder.append(chosen)
        lost += missing
    return Picked(builder.finish(), lost)


def answers_of(
    loader: RecordLoader,
    selection: Selection,
    options: Mapping[str, Any],
    state: WorkerState,
    answer: Callable[[Any, int], npt.NDArray[Any]],
    *,
    what: str,
    dtype: Any,
) -> Iterator[tuple[npt.NDArray[Any], int]]:
    """Call a function with all selected records, some consecutive ones at a time.

    Args:
        loader: Reads and parses the records.
        selection: The records.
        options: See :func:`load_all`.
        state: Counts the errors that are skipped.
        answer: Called with items and their number; returns a value for each.
        what: Name of the pass, which is shown if it takes long.
        dtype: Dtype of the values.

    Yields:
        Values of some records, ``[n]``, 0 for lost ones; and the number of the lost ones.
    """
    pieces = load_all(loader, selection, options, state)
    with closing(pieces), shown_progress(what, len(selection)) as advance:
        for numbers, loaded in pieces:
            count = len(loaded.numbers)
            values = np.zeros(len(numbers), dtype)
            if count:
                values[loaded.positions_in(numbers)] = answer(items_of(loaded, loader), count)
            yield values, len(numbers) - count
            advance(len(numbers))


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
