"""Several datasets mixed into one, by weight."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import numpy as np

from .._order.mixture import MixedRecords, MixedRows, Stop, Weights
from .._order.orders import ENDLESS, Order
from .._order.ramp import Ramp
from .._records.record_reader import RecordReader
from .._schema.feature_mapping import FeatureMapping
from ..checks import check_integer, counted
from .base import Item_co
from .epochs import NewWeights
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
from .record_loader import RecordLoader

if TYPE_CHECKING:
    from .._tensors.batch import Batch
    from .._tensors.sample import Sample


_ADVICE = (
    "Give options to mix(). A transform of each dataset without batch_size, which is called with "
    "its samples, can bring them to one form"
)


@dataclass(frozen=True)
class MixedPipeline(Pipeline):
    """The parts of a mixture.

    Attributes:
        sources: The datasets that are read, those of a mixture in a mixture in its place.
        source: Name of the column with the number of the source; None for no such column.
    """

    sources: Sequence[IndexedPipeline] = field(kw_only=True)
    source: str | None = field(kw_only=True)


class MixedDataset(CountedDataset[Item_co]):
    """Records of several datasets in one order; made by :func:`mix`."""

    def load_state_dict(
        self, state: Mapping[str, Any], *, weights: NewWeights | None = None
    ) -> None:
        """Start the next iteration at a saved position. See docs/resuming.md.

        Args:
            state: A result of :meth:`state_dict`.
            weights: ``"new"`` takes a state of a mixture with other weights or datasets. Each
                dataset continues where it was, and one that the state does not have starts at its
                start.

        Raises:
            StateMismatchError: If the state does not match, or with ``weights="new"``, if it does
                not tell where each dataset is.
        """
        self._session.load(state, weights)


class _MixSampleArguments(MixSampleOptions, total=False):
    """Arguments of :func:`mix` that do not change the items."""

    weights: Weights | Literal["records"] | None
    repeat: Sequence[int] | None
    seed: int
    stop: Stop | None
    source: str | None


class _MixArguments(_MixSampleArguments, MixOptions, total=False):
    """Arguments of :func:`mix`."""


@overload
def mix(
    datasets: Iterable[IndexedDataset[Sample] | MixedDataset[Sample]],
    *,
    batch_size: int | Ramp,
    **options: Unpack[_MixSampleArguments],
) -> MixedDataset[Batch]: ...
@overload
def mix(
    datasets: Iterable[IndexedDataset[Item_co] | MixedDataset[Item_co]],
    **options: Unpack[_MixSampleArguments],
) -> MixedDataset[Item_co]: ...
@overload
def mix(
    datasets: Iterable[IndexedDataset[Any] | MixedDataset[Any]],
    **options: Unpack[_MixArguments],
) -> MixedDataset[Any]: ...
@takes_options(MixOptions, unchanged=True)
def mix(
    datasets: Iterable[IndexedDataset | MixedDataset],
    *,
    weights: Weights | Literal["records"] | None = None,
    repeat: Sequence[int] | None = None,
    seed: int = 0,
    stop: Stop | None = None,
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
        datasets: The datasets, mixtures among them. Those without a ``transform`` of samples must
            have the same schema, except ``key`` and ``normalize`` of features, and the same kind of
            steps. The options below must be equal in all datasets, or given.
        weights: Weight of each dataset; any positive numbers. ``"records"`` takes their numbers of
            records, or of packed rows. A mapping ``{0: [9, 1], 50_000: [5, 5]}`` changes the
            weights during an epoch: its keys count the records of the epoch before that, of all
            ranks. Such a weight may be 0.
        repeat: In place of ``weights``: each record of dataset i comes exactly ``repeat[i]`` times
            in an epoch, which ends then.
        seed: Seed of the choice between datasets. The choice is the same in every epoch; the
            shuffles of the datasets change.
        stop: ``"first_exhausted"`` (the default) ends an epoch when a dataset that is chosen has no
            record left. ``"all_exhausted"`` restarts an exhausted dataset, and ends when each was
            exhausted once, as in Hugging Face Datasets. ``"each_once"`` continues without exhausted
            datasets, so each record comes exactly once. ``"endless"`` restarts an exhausted
            dataset, in its next epoch's order.
        source: Name of an additional column with the number of each record's dataset, from 0:
            int64 ``[B]``. The datasets of a mixture are counted in its place. Default: there is
            none.
        options: Options of the mixture, in place of those of its datasets: ``batch_size``,
            ``drop_last``, ``pack``, ``epochs``, ``steps_per_epoch``, ``rank``, ``world_size``,
            ``mesh``, ``uneven``, ``transform``, ``with_key``, ``on_error``, ``num_threads``. A
            ``transform`` is called with what the transforms of samples returned. Datasets that all
            have a ``pack`` are mixed row by row; a ``pack`` given here packs documents after they
            are mixed. Both need datasets that are read alike, without ``source``.

    Raises:
        ValueError: If weights do not match the datasets or are not positive, the datasets differ
            in an option or in form, ``source`` is a name of theirs, one has batches by length or
            lanes, is empty but would restart, or is endless but would have to end, or another
            argument is invalid. Samples that transforms made, and that have no common form, raise a
            :class:`TransformError` when they are loaded.
        TypeError: If an option is unknown, something other than datasets is given, or not exactly
            one of ``weights`` and ``repeat``.
    """
    parts = [_checked(dataset) for dataset in _as_list(datasets)]
    if not parts:
        raise ValueError("datasets must hold at least one dataset, got none")
    mixed = _mixed_options(parts, options)
    has_rows = mixed["pack"] is not None and "pack" not in options
    if has_rows and isinstance(mixed["pack"].length, Ramp):
        raise ValueError("rows whose length changes cannot be mixed: give pack to mix()")
    orders = [part.order if has_rows else _order_of_records(part) for part in parts]
    if (weights is None) == (repeat is None):
        raise TypeError("mix() takes either weights or repeat: mix([a, b], weights=[0.7, 0.3])")
    if repeat is not None:
        weights, stop = _weights_of_repeat(repeat, orders, stop), "each_once"
    elif isinstance(weights, str):
        weights = _weights_of_records(weights, orders)
    sources = [source for part in parts for source in _sources_of(part)]
    _check_forms([each for each in sources if not has_own_transform(each.options)], source)
    sizes = [_num_stored(part) for part in parts]
    bases = (np.cumsum(sizes) - sizes).tolist()
    stop = stop or "first_exhausted"
    made = MixedRows if has_rows else MixedRecords
    order = made(orders, weights or (), seed, stop, bases=bases, repeat=repeat)
    paths = [path for part in sources for path in part.paths]
    schemas = [_schema_of(part) for part in sources]
    first = sources[0]
    attributes: dict[str, Any] = {"sources": sources, "source": source}
    if source is None and _are_read_alike(sources):
        indexes = [index for part in sources for index in part.records.indexes]
        reader = RecordReader(indexes, **first.records.options)
        stored = RecordLoader(reader, first.loader.parser)
        records = MixedPipeline(paths, first.schema, order, stored, mixed, **attributes)
        return MixedDataset(records.in_units(reader))
    check_no_length_batches(mixed, "a mixture with source, or of steps or datasets that differ,")
    schema = first.schema if _find_other(schemas) is None else schemas
    loader = PartsLoader(sources, order, source, mixed)
    return MixedDataset(MixedPipeline(paths, schema, order, loader, mixed, **attributes))


def _weights_of_repeat(
    repeat: Sequence[int], orders: Sequence[Order], stop: Stop | None
) -> list[float]:
    """Return the weights with which repeated datasets are exhausted at about the same time."""
    if stop is not None:
        raise ValueError(f"stop must not be given with repeat, which ends an epoch, got {stop!r}")
    if len(repeat) != len(orders):
        raise ValueError(
            f"repeat must have one number for each of {counted(len(orders), 'dataset')}, "
            f"got {len(repeat)}"
        )
    times = [check_integer(f"repeat[{number}]", each, 1) for number, each in enumerate(repeat)]
    return [float(each * max(1, order.count(0))) for each, order in zip(times, orders, strict=True)]


def _weights_of_records(name: str, orders: Sequence[Order]) -> list[float]:
    """Return the number of records, or packed rows, of each dataset."""
    if name != "records":
        raise ValueError(f"weights must be numbers or 'records', got {name!r}")
    sizes = [order.count(0) for order in orders]
    if ENDLESS in sizes or not any(sizes):
        reason = "none has any" if not any(sizes) else "one is endless"
        raise ValueError(f"weights='records' needs datasets with numbers of records, but {reason}")
    return [float(size) for size in sizes]


def _order_of_records(part: IndexedPipeline | MixedPipeline) -> Order:
    """Return the order of the records of a dataset or mixture."""
    order: Order = part.record_order if isinstance(part, IndexedPipeline) else part.order
    if order.has_rows:
        raise ValueError(
            "packed rows can be mixed with rows of the same pack only, without another pack "
            "in mix()"
        )
    return order


def _sources_of(part: IndexedPipeline | MixedPipeline) -> Sequence[IndexedPipeline]:
    """Return the datasets of a mixture, or the only one of a dataset."""
    return [part] if isinstance(part, IndexedPipeline) else part.sources


def _num_stored(part: IndexedPipeline | MixedPipeline) -> int:
    """Return the number of records that are numbered, whether an epoch has them or not."""
    return sum(source.record_order.selection.total for source in _sources_of(part))


def _mixed_options(parts: Sequence[Pipeline], changes: Mapping[str, Any]) -> dict[str, Any]:
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


def _checked(dataset: Any) -> IndexedPipeline | MixedPipeline:
    if not isinstance(dataset, (IndexedDataset, MixedDataset)):
        raise TypeError(
            f"datasets must be datasets of indexed files, such as TFRecordDataset, got {dataset!r}"
        )
    pipeline = dataset._session.pipeline
    assert isinstance(pipeline, (IndexedPipeline, MixedPipeline))
    if has_length_batches(pipeline.options):
        raise ValueError("a dataset with batches by length cannot be mixed")
    if isinstance(pipeline, MixedPipeline):
        if pipeline.source is not None:
            raise ValueError(
                "a mixture with source cannot be mixed: give source to the outer mix()"
            )
        if has_own_transform(pipeline.options):
            raise ValueError(
                "a mixture of samples with a transform cannot be mixed: give the transform to each "
                "of its datasets"
            )
    elif pipeline.record_order.lanes is not None:
        raise ValueError(
            "a dataset with lanes cannot be mixed, because the ranks of a mixture read all of its "
            "lanes: use Shuffle(block=..., window=...) without lanes"
        )
    return pipeline


def _check_alike(name: str, values: Sequence[Any]) -> None:
    other = _find_other(values)
    if other is not None:
        shown = f"{values[0]!r} and {values[other]!r}"
        raise ValueError(f"datasets differ in {name}: {shown}. {_ADVICE}")


def _find_other(values: Sequence[Any]) -> int | None:
    """Return the position of the first value that differs from the first; None if all are equal."""
    others = enumerate(values)
    return next((i for i, each in others if each is not values[0] and each != values[0]), None)
