"""Several datasets as one, by weight."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..episodes.stepping import Stepping
from ..order.length_batches import BatchedOrder
from ..order.mixture import MixedOrder, Stop
from ..order.orders import RecordOrder, StreamedOrder
from ..records.record_reader import RecordReader
from ..schema.schema import Schema
from .base import RecordDataset
from .indexed import IndexedDataset
from .length_batching import check_unbatched
from .options import LoadOptions


class MixedDataset(RecordDataset):
    """Records of several datasets in one order; made by :func:`mix`."""


def mix(
    datasets: Mapping[IndexedDataset, float],
    *,
    seed: int = 0,
    stop: Stop = "first_exhausted",
    **options: Any,
) -> MixedDataset:
    """One dataset of several, whose records come by weight: ``mix({web: 0.7, books: 0.3})``.

    The datasets' records are mixed within each batch. Every dataset's own records keep its own
    order: its shuffle, seed and split. What comes at each place is computed from the seed, so the
    mix is dealt to ranks and workers, saved and resumed as any dataset is.

    Args:
        datasets: Each dataset and its weight; any positive numbers. They must be of one record
            format and have the same schema and the same options but for files, split, shuffle and
            seed.
        seed: Of the choice between datasets. It is the same in every epoch; the datasets' own
            shuffles change.
        stop: ``"first_exhausted"``: an epoch ends where a dataset has no record left that would
            come next. ``"all_exhausted"``: a dataset that is used up drops out and the others go
            on, so each record comes exactly once. ``"endless"``: a dataset that is used up begins
            again, in its next epoch's order; there is no end.
        options: In place of the datasets': ``batch_size``, ``epochs`` and so on, see
            :class:`TFRecordDataset`.

    Raises:
        ValueError: a weight is not positive, the datasets do not fit together, one is read without
            an index, has batches by length, or is empty in an endless mix; or ``stop`` is none of
            the choices.
        TypeError: there is no such option, or something else than a dataset is to be mixed.
    """
    if not isinstance(datasets, Mapping):
        raise TypeError(f"mix takes a dict of datasets and their weights, not {datasets!r}")
    parts = list(datasets)
    if not parts:
        raise ValueError("there is nothing to mix: give at least one dataset")
    orders = [_order_of(part) for part in parts]
    _check_alike("record format", [part._records.format.name for part in parts])
    _check_schemas([part.schema or part._source.given_schema for part in parts])
    steps = [part._steps for part in parts]
    _check_alike("steps", [None if each is None else each.described for each in steps])
    _check_alike("verify_crc", [part._records.verify_crc for part in parts])
    common = parts[0]._shares.options
    check_unbatched(common.replace(**options), None, "a mix")
    for field in dataclasses.fields(LoadOptions):
        if field.name not in options:
            _check_alike(field.name, [getattr(part._shares.options, field.name) for part in parts])
    sizes = [order.selection.total for order in orders]
    bases = (np.cumsum(sizes) - sizes).tolist()
    order = MixedOrder(orders, list(datasets.values()), seed, stop, bases=bases)
    indexes = [index for part in parts for index in part._records.indexes]
    reader = RecordReader(indexes, verify_crc=parts[0]._records.verify_crc)
    schema = parts[0]._source.given_schema
    if known := [each for each in steps if each is not None]:
        source = Stepping.joined(known).source(reader, schema)
    else:
        source = parts[0]._source_of(reader, schema)
    return MixedDataset(source, order, common.replace(**options))


def _order_of(part: IndexedDataset) -> RecordOrder:
    if not isinstance(part, IndexedDataset):
        raise TypeError(f"only a TFRecordDataset or one like it can be mixed, not {part!r}")
    if isinstance(part._shares.order, BatchedOrder):
        raise ValueError("a dataset with batches by length cannot be mixed")  # noqa: TRY004
    order = part._own_order
    if isinstance(order, StreamedOrder):
        raise ValueError("a dataset without an index cannot be mixed")  # noqa: TRY004  # it is one
    return order


def _check_schemas(schemas: list[Any]) -> None:
    for other in schemas[1:]:
        if isinstance(other, Schema) and repr(other) == repr(schemas[0]):  # it shows no names
            for name, spec in other.items():
                if spec != schemas[0][name]:
                    raise ValueError(
                        f"datasets to be mixed have other names for the classes of {name!r}; give "
                        "both the same spec of it, or one without names"
                    )
    _check_alike("schema", schemas)


def _check_alike(name: str, values: list[Any]) -> None:
    for value in values[1:]:
        if value is not values[0] and value != values[0]:
            raise ValueError(f"datasets to be mixed differ in {name}: {values[0]!r} and {value!r}")
