"""Evaluation of predicates: which records of a dataset they choose."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch

from .._order.orders import RecordOrder
from .._order.selection import Mask, SubsetBuilder
from .._records.index import RecordIndex
from .._schema.feature_mapping import FeatureMapping
from .._storage.digest import digest_text
from .._storage.thread_pool import map_in_threads
from .._tensors.batch import Batch
from .._tensors.block_parser import BlockParser
from ..checks import counted
from ..errors import SchemaError
from .bad_records import ErrorHandler
from .pass_progress import PassProgress
from .record_loader import Loaded, RecordLoader
from .record_scan import load_all
from .selection_cache import PassIdentity, Picked, cached_pick

# Takes a Batch, or a list of items of a schema without columns; returns a bool for each record.
Predicate: TypeAlias = Callable[[Any], Any]


class SelectableRecords(NamedTuple):
    """The parts of a dataset whose records can be selected.

    Attributes:
        indexes: Index of each data file.
        schema: The schema as the user gave it.
        order: Order of the records.
        loader: Reads and parses records, in their stored order.
        on_error: Action for records that cannot be loaded.
        errors: Handles the errors of these.
        threads: Number of threads that read and parse.
    """

    indexes: Sequence[RecordIndex]
    schema: Any
    order: RecordOrder
    loader: RecordLoader
    on_error: Any
    errors: ErrorHandler
    threads: int


def pick_where(
    records: SelectableRecords,
    predicate: Predicate,
    features: Sequence[str] | None,
    cache_key: str | None,
) -> Picked:
    """Return the records that a predicate chooses; see :meth:`TFRecordDataset.where`.

    Raises:
        TypeError, ValueError: If an argument, or what the predicate returns, is invalid.
    """
    if not callable(predicate):
        raise TypeError(f"predicate must be a function of a Batch, got {predicate!r}")
    if cache_key is not None and not (isinstance(cache_key, str) and cache_key):
        raise ValueError(f"cache_key must be a non-empty str or None, got {cache_key!r}")
    parser = records.loader.parser
    names = None if features is None else _checked_names(features, parser)
    loader = RecordLoader(
        records.loader.reader, parser if names is None else parser.of_features(names)
    )

    def evaluate() -> Picked:
        return _evaluate(records, loader, predicate)

    if cache_key is None:
        return evaluate()
    identity = _identity_of(records, names)
    total = len(records.order.selection)
    allow_lost = records.on_error != "raise"
    return cached_pick(cache_key, identity, total, evaluate, allow_lost=allow_lost)


def _checked_names(features: Any, parser: BlockParser) -> list[str]:
    names = [features] if isinstance(features, str) else list(features)
    if isinstance(features, str) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"features must be a list of names, got {features!r}")
    if parser.schema is None:
        raise ValueError("features must be None for a dataset without a schema of features")
    if not names:
        raise ValueError("features must have at least one name, got none")
    for name in names:
        if not parser.schema.names_of(name):
            raise ValueError(f"features must be names of the schema, got {name!r}")
    return names


def _evaluate(records: SelectableRecords, loader: RecordLoader, predicate: Predicate) -> Picked:
    selection = records.order.selection
    total = len(selection)
    builder = SubsetBuilder(total)
    lost = 0
    pieces = load_all(loader, selection, records.errors, records.threads)
    with closing(pieces), PassProgress("where", total) as progress:
        for piece in pieces:
            count = len(piece.loaded.numbers)
            chosen = np.zeros(len(piece.numbers), np.bool_)
            if count:
                answer = _answer(predicate, _items_of(piece.loaded, loader), records.loader)
                chosen[piece.loaded.positions_in(piece.numbers)] = _mask_of(answer, count)
            builder.append(chosen)
            lost += len(chosen) - count
            progress.advance(len(chosen))
    return Picked(builder.finish(), lost)


def _items_of(loaded: Loaded, loader: RecordLoader) -> Any:
    """Return the loaded records as a batch without other rows."""
    items = loaded.items if loaded.rows is None else loader.join([loaded]).items
    return items.with_views() if isinstance(items, Batch) else items


def _answer(predicate: Predicate, items: Any, whole: RecordLoader) -> Any:
    try:
        return predicate(items)
    except KeyError as error:
        [name] = error.args[:1] or [None]
        schema = whole.parser.schema
        if schema is None or not isinstance(name, str) or name in items:
            raise
        if not schema.names_of(name):
            raise
        raise KeyError(f"the predicate uses {name!r}, which features does not name") from error


def _mask_of(answer: Any, count: int) -> Mask:
    """Return the result of a predicate as a mask: bool ``[count]``."""
    wanted = f"the predicate must return one bool for each of {counted(count, 'record')}"
    if isinstance(answer, (list, tuple)):
        others = [each for each in answer if not isinstance(each, (bool, np.bool_))]
        if others:
            raise TypeError(f"{wanted}, got {others[0]!r} in a {type(answer).__name__}")
        answer = np.array(answer, np.bool_)
    if not isinstance(answer, (torch.Tensor, np.ndarray)):
        raise TypeError(f"{wanted}: a bool Tensor, a bool array or a list, got {answer!r}")
    got = f"got {str(answer.dtype).removeprefix('torch.')} {list(answer.shape)}"
    if str(answer.dtype) not in {"torch.bool", "bool"}:
        raise TypeError(f"{wanted}, {got}")
    if tuple(answer.shape) != (count,):
        raise ValueError(f"{wanted}, {got}")
    mask: Mask = answer.cpu().numpy() if isinstance(answer, torch.Tensor) else answer
    return mask


def _identity_of(records: SelectableRecords, names: Sequence[str] | None) -> PassIdentity:
    described = records.order.describe()
    files = described.pop("files")
    # The fingerprint of a file does not show every change of its data; the time does.
    times = map_in_threads(RecordIndex.find_change_time, records.indexes)
    chosen = {name: described[name] for name in described if name not in {"shuffle", "seed"}}
    parser = records.loader.parser
    reading = [
        _schema_text(records.schema if parser.schema is None else parser.schema),
        parser.sample_kind,
        names,
        records.loader.reader.verify_crc,
        records.loader.reader.max_record_bytes,
    ]
    return PassIdentity(
        files=f"{files} {digest_text(repr(times))}",
        schema=json.dumps(reading),
        records=json.dumps(chosen, sort_keys=True),
    )


def _schema_text(schema: Any) -> str:
    """Return a text that is equal for equal schemas; functions in it are not compared."""
    if isinstance(schema, FeatureMapping):
        try:
            return schema.to_json()
        except SchemaError:  # a spec has a function
            return repr([*schema])
    return "function" if callable(schema) else repr(schema)
