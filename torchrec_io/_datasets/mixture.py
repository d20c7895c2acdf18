"""Several datasets mixed into one, by weight."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack, overload

import numpy as np

from .._order.mixture import MixedOrder, Stop
from .._records.record_reader import RecordReader
from ..checks import counted
from .base import Item_co
from .indexed import CountedDataset, IndexedDataset
from .options import (
    MixOptions,
    MixSampleOptions,
    change_options,
    check_no_length_batches,
    has_length_batches,
    options_of,
    takes_options,
)
from .pipeline import IndexedPipeline, Pipeline

if TYPE_CHECKING:
    from .._tensors.batch import Batch
    from .._tensors.sample import Sample


class MixedDataset(CountedDataset[Item_co]):
    """Records of several datasets in one order; made by :func:`mix`."""


@overload
def mix(
    datasets: Iterable[IndexedDataset[Sample]],
    *,
    weights: Sequence[float],
    seed: int = 0,
    stop: Stop = "first_exhausted",
    batch_size: int,
    **options: Unpack[MixSampleOptions],
) -> MixedDataset[Batch]: ...
@overload
def mix(
    datasets: Iterable[IndexedDataset[Item_co]],
    *,
    weights: Sequence[float],
    seed: int = 0,
    stop: Stop = "first_exhausted",
    **options: Unpack[MixSampleOptions],
) -> MixedDataset[Item_co]: ...
@overload
def mix(
    datasets: Iterable[IndexedDataset[Any]],
    *,
    weights: Sequence[float],
    seed: int = 0,
    stop: Stop = "first_exhausted",
    **options: Unpack[MixOptions],
) -> MixedDataset[Any]: ...
@takes_options(MixOptions, unchanged=True)
def mix(
    datasets: Iterable[IndexedDataset],
    *,
    weights: Sequence[float],
    seed: int = 0,
    stop: Stop = "first_exhausted",
    **options: Unpack[MixOptions],
) -> MixedDataset[Any]:
    """Mix several datasets by weight: ``mix([web, books], weights=[0.7, 0.3])``.

    Records of all datasets are mixed within each batch. The records of a dataset keep its own
    order: its shuffle, seed and split. The dataset chosen at each position is computed from the
    seed, so a mixture is assigned to ranks and workers, saved and resumed as any dataset is.

    Args:
        datasets: The datasets. They must have the same record format, schema and options, except
            files, split, shuffle and seed.
        weights: Weight of each dataset; any positive numbers.
        seed: Seed of the choice between datasets. The choice is the same in every epoch; the
            shuffles of the datasets change.
        stop: ``"first_exhausted"`` ends an epoch when a dataset that is chosen has no record left.
            ``"all_exhausted"`` continues without exhausted datasets, so each record comes exactly
            once. ``"endless"`` restarts an exhausted dataset, in its next epoch's order.
        options: Options of the mixture, in place of those of its datasets: ``batch_size``,
            ``drop_last``, ``pack``, ``epochs``, ``rank``, ``world_size``, ``uneven``,
            ``transform``, ``with_key``, ``on_error``, ``num_threads``.

    Raises:
        ValueError: If weights do not match the datasets or are not positive, the datasets differ,
            one has batches by length or lanes or is empty in an endless mixture, or another
            argument is invalid.
        TypeError: If an option is unknown, or something other than datasets is given.
    """
    parts = [_checked(dataset) for dataset in _as_list(datasets)]
    if not parts:
        raise ValueError("datasets must hold at least one dataset, got none")
    weights = list(weights)
    if len(weights) != len(parts):
        raise ValueError(
            f"weights must have one number for each of {counted(len(parts), 'dataset')}, "
            f"got {len(weights)}"
        )
    changes: dict[str, Any] = dict(options)
    first = parts[0]
    _check_alike("record format", [part.records.format.name for part in parts])
    _check_schemas([part.loader.parser.schema or part.schema for part in parts])
    _check_alike("samples", [part.loader.parser.sample_kind for part in parts])
    names = {*options_of(MixOptions), "verify_crc", "max_record_bytes"} - {"seed", *changes}
    for name in sorted(names & first.options.keys()):
        _check_alike(name, [part.options[name] for part in parts])
    sizes = [part.record_order.selection.total for part in parts]
    bases = (np.cumsum(sizes) - sizes).tolist()
    orders = [part.record_order for part in parts]
    order = MixedOrder(orders, weights, seed, stop, bases=bases)
    indexes = [index for part in parts for index in part.records.indexes]
    records = RecordReader(
        indexes,
        verify_crc=first.records.verify_crc,
        max_record_bytes=first.records.max_record_bytes,
        cache_bytes=max(part.records.cache_bytes for part in parts),
        cache=next((part.records.cache for part in parts if part.records.cache), None),
    )
    parser = first.loader.parser.for_mixture([part.loader.parser for part in parts])
    mixed = change_options(MixOptions, first.options, changes)
    if not orders[0].can_batch_by_length:
        check_no_length_batches(mixed, "a dataset of steps")
    paths = [path for part in parts for path in part.paths]
    pipeline = Pipeline.of_records(
        paths, first.schema, order, reader=records, parser=parser, options=mixed
    )
    return MixedDataset(pipeline)


def _as_list(datasets: Any) -> list[Any]:
    if isinstance(datasets, (list, tuple)):
        return list(datasets)
    raise TypeError(f"datasets must be a list: mix([a, b], weights=[0.7, 0.3]), got {datasets!r}")


def _checked(dataset: Any) -> IndexedPipeline:
    if not isinstance(dataset, IndexedDataset):
        raise TypeError(
            f"datasets must be datasets of indexed files, such as TFRecordDataset, got {dataset!r}"
        )
    if has_length_batches(dataset._pipeline.options):
        raise ValueError("a dataset with batches by length cannot be mixed")
    if dataset._pipeline.options.get("pack") is not None:
        raise ValueError("a dataset with packed rows cannot be mixed: give pack to mix()")
    if dataset._record_order.lanes is not None:
        raise ValueError(
            "a dataset with lanes cannot be mixed, because the ranks of a mixture read all of its "
            "lanes: use Shuffle(block=..., window=...) without lanes"
        )
    return dataset._pipeline


def _check_schemas(schemas: list[Any]) -> None:
    first, *others = schemas
    for other in others:
        if isinstance(other, Mapping) and isinstance(first, Mapping) and [*other] == [*first]:
            for name in other:
                _check_alike(f"the spec of {name!r}", [first[name], other[name]])
    _check_alike("schema", schemas)


def _check_alike(name: str, values: list[Any]) -> None:
    for value in values[1:]:
        if value is not values[0] and value != values[0]:
            raise ValueError(f"datasets differ in {name}: {values[0]!r} and {value!r}")
