"""Several datasets mixed into one, by weight."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack, overload

import numpy as np

from .._order.mixture import MixedOrder, Stop
from .._records.record_reader import RecordReader
from .._schema.feature_mapping import FeatureMapping
from ..checks import counted
from .base import Item_co
from .indexed import CountedDataset, IndexedDataset
from .options import (
    MixOptions,
    MixSampleOptions,
    change_options,
    check_no_length_batches,
    defaults_of,
    has_length_batches,
    options_of,
    takes_options,
)
from .parts_loader import PartsLoader, has_own_transform
from .pipeline import IndexedPipeline, Pipeline

if TYPE_CHECKING:
    from .._tensors.batch import Batch
    from .._tensors.sample import Sample


_ADVICE = (
    "Give options to mix(). A transform of each dataset without batch_size, which is called with "
    "its samples, can bring them to one form"
)


class MixedDataset(CountedDataset[Item_co]):
    """Records of several datasets in one order; made by :func:`mix`."""


@overload
def mix(
    datasets: Iterable[IndexedDataset[Sample]],
    *,
    weights: Sequence[float],
    seed: int = 0,
    stop: Stop = "first_exhausted",
    source: str | None = None,
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
    source: str | None = None,
    **options: Unpack[MixSampleOptions],
) -> MixedDataset[Item_co]: ...
@overload
def mix(
    datasets: Iterable[IndexedDataset[Any]],
    *,
    weights: Sequence[float],
    seed: int = 0,
    stop: Stop = "first_exhausted",
    source: str | None = None,
    **options: Unpack[MixOptions],
) -> MixedDataset[Any]: ...
@takes_options(MixOptions, unchanged=True)
def mix(
    datasets: Iterable[IndexedDataset],
    *,
    weights: Sequence[float],
    seed: int = 0,
    stop: Stop = "first_exhausted",
    source: str | None = None,
    **options: Unpack[MixOptions],
) -> MixedDataset[Any]:
    """Mix several datasets by weight: ``mix([web, books], weights=[0.7, 0.3])``.

    Records of all datasets are mixed within each batch. The records of a dataset keep its own
    order: its shuffle, seed and split. The dataset chosen at each position is computed from the
    seed, so a mixture is assigned to ranks and workers, saved and resumed as any dataset is.

    Datasets may differ in files, formats, schemas and steps if their samples have one form: the
    same names, dtypes and shapes. A dataset without ``batch_size`` keeps its own ``transform``,
    which is called with each of its samples and can bring them to that form. Dicts that it returns
    are joined as by :func:`collate`.

    Args:
        datasets: The datasets. Those without a ``transform`` of samples must have the same schema,
            except ``key`` and ``normalize`` of features, and the same kind of steps. The options
            below must be equal in all datasets, or given.
        weights: Weight of each dataset; any positive numbers.
        seed: Seed of the choice between datasets. The choice is the same in every epoch; the
            shuffles of the datasets change.
        stop: ``"first_exhausted"`` ends an epoch when a dataset that is chosen has no record left.
            ``"all_exhausted"`` continues without exhausted datasets, so each record comes exactly
            once. ``"endless"`` restarts an exhausted dataset, in its next epoch's order.
        source: Name of an additional column with the number of each record's dataset, from 0:
            int64 ``[B]``. Default: there is none.
        options: Options of the mixture, in place of those of its datasets: ``batch_size``,
            ``drop_last``, ``pack``, ``epochs``, ``rank``, ``world_size``, ``mesh``, ``uneven``,
            ``transform``, ``with_key``, ``on_error``, ``num_threads``. A ``transform`` is called
            with what the transforms of samples returned. ``pack`` needs datasets that are read
            alike, without ``source``.

    Raises:
        ValueError: If weights do not match the datasets or are not positive, the datasets differ
            in an option or in form, ``source`` is a name of theirs, one has batches by length or
            lanes or is empty in an endless mixture, or another argument is invalid. Samples that
            transforms made, and that have no common form, raise a :class:`TransformError` when
            they are loaded.
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
    mixed = _mixed_options(parts, options)
    _check_forms([part for part in parts if not has_own_transform(part.options)], source)
    sizes = [part.record_order.selection.total for part in parts]
    bases = (np.cumsum(sizes) - sizes).tolist()
    orders = [part.record_order for part in parts]
    order = MixedOrder(orders, weights, seed, stop, bases=bases)
    paths = [path for part in parts for path in part.paths]
    schemas = [_schema_of(part) for part in parts]
    first = parts[0]
    if source is None and _are_read_alike(parts):
        indexes = [index for part in parts for index in part.records.indexes]
        reader, parser = RecordReader(indexes, **first.records.options), first.loader.parser
        pipeline = Pipeline.of_records(
            paths, first.schema, order, reader=reader, parser=parser, options=mixed
        )
        return MixedDataset(pipeline)
    check_no_length_batches(mixed, "a mixture with source, or of steps or datasets that differ,")
    schema = first.schema if _find_other(schemas) is None else schemas
    loader = PartsLoader(parts, order, source, mixed)
    return MixedDataset(Pipeline(paths, schema, order, loader, mixed))


def _mixed_options(parts: Sequence[IndexedPipeline], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a mixture: those given, and those that are equal in all datasets."""
    names = options_of(MixOptions).keys()
    each = [{**defaults_of(names), **part.options} for part in parts]  # other formats have fewer
    for options in filter(has_own_transform, each):
        options["transform"] = None
    ranks = {"rank", "world_size", "mesh"}
    given = changes.keys() if ranks.isdisjoint(changes) else changes.keys() | ranks
    for name in sorted(names - given):
        _check_alike(name, [options[name] for options in each])
    return change_options(MixOptions, each[0], changes)


def _check_forms(parts: Sequence[IndexedPipeline], source: str | None) -> None:
    """Check datasets whose samples are joined as they are: without transforms of their own."""
    _check_alike("samples", [part.loader.parser.sample_kind for part in parts])
    schemas = [_schema_of(part) for part in parts]
    for pair in itertools.pairwise(schemas):
        has_names = all(isinstance(each, FeatureMapping) for each in pair)
        if has_names and pair[0].keys() == pair[1].keys() and pair[0].paths == pair[1].paths:
            for name in pair[0]:
                _check_alike(f"the spec of {name!r}", [_form_of(each[name]) for each in pair])
        else:
            _check_alike("schema", pair)
    if source is not None and not (isinstance(source, str) and source):
        raise ValueError(f"source must be the name of a column, or None, got {source!r}")
    for schema in schemas:
        if source is not None and isinstance(schema, FeatureMapping) and schema.names_of(source):
            raise ValueError(f"source must be a new name, but a dataset has a feature {source!r}")


def _form_of(spec: Any) -> Any:
    """Return a spec without the arguments that do not change the form of values."""
    given = [name for name in ("key", "normalize") if getattr(spec, name) is not None]
    return dataclasses.replace(spec, **dict.fromkeys(given)) if given else spec


def _are_read_alike(parts: Sequence[IndexedPipeline]) -> bool:
    """Return whether the records of all datasets can be read as those of one."""
    ways = [(part.records.format.name, part.records.options, _schema_of(part)) for part in parts]
    return _find_other(ways) is None and not any(
        has_own_transform(part.options) or part.loader.parser.sample_kind != "records"
        for part in parts
    )


def _schema_of(part: IndexedPipeline) -> Any:
    return part.loader.parser.schema or part.schema


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


def _check_alike(name: str, values: Sequence[Any]) -> None:
    other = _find_other(values)
    if other is not None:
        shown = f"{values[0]!r} and {values[other]!r}"
        raise ValueError(f"datasets differ in {name}: {shown}. {_ADVICE}")


def _find_other(values: Sequence[Any]) -> int | None:
    """Return the position of the first value that differs from the first; None if all are equal."""
    others = enumerate(values)
    return next((i for i, each in others if each is not values[0] and each != values[0]), None)
