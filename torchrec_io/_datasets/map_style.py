"""The map-style dataset of TFRecord files: any record, at any time."""

from __future__ import annotations

import copy
import operator
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self, Unpack, overload

import numpy as np
import numpy.typing as npt
import torch
from torch.utils.data import Dataset, get_worker_info

from .._order.selection import Numbers
from .._parsing.record_random import RecordRandom
from .._records.repetitions import repeated
from .._storage.local import StrPath
from .._storage.remote.options import StorageOptions
from .._tensors.block_parser import Columns, SchemaLike
from .._tensors.trainers import make_dicts, makes_dicts
from ..checks import counted
from .absent_features import warn_of_absent_features
from .base import Item_co
from .description import describe_in_html, describe_parts
from .lost_items import report_lost_items
from .missing_methods import MissingMethods
from .options import MapOptions, MapSampleOptions, complete, takes_options
from .pipeline import IndexedPipeline, Pipeline
from .selecting import SelectingDataset
from .statistics import IterationMeter, LoadingStats, StatsWindow
from .transform import Transform
from .worker_state import WorkerState

if TYPE_CHECKING:
    from .._tensors.sample import Sample
    from ..tfds.feature_choice import FeatureChoice
    from ..tfds.splits import Split


@takes_options(MapOptions)
class TFRecordMapDataset(SelectingDataset, MissingMethods, Dataset[Item_co]):
    """Records of TFRecord files by number, for PyTorch's samplers, ``Subset`` and ``random_split``.

    ``ds[i]`` is a :class:`Sample` with a schema, bytes without. ``ds[i:j]`` is a list of samples.
    DataLoader asks for a whole batch (``__getitems__``), which is read in few reads and parsed
    together, and collates its samples into a :class:`Batch`.

    For training over whole epochs, :class:`TFRecordDataset` with ``shuffle=True`` is faster and can
    be resumed.

    A record has another random crop, and other colors, each time that it is loaded. They depend on
    ``torch.manual_seed`` and on what was loaded before.

    Args:
        paths: A file, glob pattern or directory, or several; see :class:`TFRecordDataset`.
        schema: See :class:`TFRecordDataset`.

    Attributes:
        paths: The data files.
        with_key: True if samples are returned as ``(key, sample)``.

    Raises:
        TorchRecIOError, FileNotFoundError, ValueError: As :class:`TFRecordDataset` does.
    """

    @overload
    def __init__(
        self: TFRecordMapDataset[Sample],
        paths: StrPath | Iterable[StrPath],
        schema: Columns,
        **options: Unpack[MapSampleOptions],
    ) -> None: ...
    @overload
    def __init__(
        self: TFRecordMapDataset[Any],
        paths: StrPath | Iterable[StrPath],
        schema: SchemaLike = None,
        **options: Unpack[MapOptions],
    ) -> None: ...
    def __init__(
        self,
        paths: StrPath | Iterable[StrPath],
        schema: SchemaLike = None,
        **options: Unpack[MapOptions],
    ) -> None:
        known = complete(MapOptions, options)
        self._open(IndexedPipeline.open(paths, schema, known))

    def _open(self, pipeline: IndexedPipeline) -> None:
        """Initialize the dataset from its parts."""
        if pipeline.errors:
            raise pipeline.errors[0]
        self._parts = pipeline
        self.paths: list[str] = list(pipeline.paths)
        self.with_key: bool = bool(pipeline.options["with_key"])
        self._makes_dicts = False
        self._window = StatsWindow()
        self._state = WorkerState()
        self._times_loaded = 0  # in this process and the one that started it

    @classmethod
    def from_tfds(
        cls,
        directory: StrPath,
        split: str | Split,
        *,
        config: str | None = None,
        version: str | None = None,
        features: FeatureChoice | None = None,
        verify_crc: bool = True,
        with_key: bool = False,
        storage_options: StorageOptions = None,
    ) -> TFRecordMapDataset[Any]:
        """Open a directory that TensorFlow Datasets (TFDS) wrote, without TensorFlow.

        Args:
            directory: Directory of the dataset; see :meth:`TFRecordDataset.from_tfds`.
            split: Split of the dataset, such as ``"train[:80%]"``.
            config: Name of the config, if the directory has several.
            version: Version; by default the greatest.
            features: Features to read, or specs in place of the dataset's own.
            verify_crc: As for :class:`TFRecordDataset`.
            with_key: Return ``(key, sample)``.
            storage_options: Options of remote objects, as for :class:`TFRecordDataset`.

        Raises:
            TorchRecIOError, OSError, ValueError: As :meth:`TFRecordDataset.from_tfds` does.
        """
        from ..tfds.directory import Directory  # noqa: PLC0415  # an optional room

        found = Directory(directory, config, version, storage_options=storage_options)
        plan = found.open(split, features, verify_crc=verify_crc)
        options = complete(MapOptions, {"verify_crc": verify_crc, "with_key": with_key})
        dataset = cls.__new__(cls)
        pipeline = IndexedPipeline.of_indexes(
            plan.paths, plan.indexes, plan.schema, options, selection=plan.selection
        )
        dataset._open(pipeline)  # noqa: SLF001  # of this class
        return dataset

    def __getstate__(self) -> dict[str, Any]:
        # A spawned worker cannot ask the trainer; this process can.
        return {**self.__dict__, "_makes_dicts": makes_dicts()}

    @property
    def schema(self) -> Any:
        """The schema of the columns; None if records are not parsed into columns."""
        return self._parts.loader.parser.schema

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(describe_parts(self._parts))})"

    def _repr_html_(self) -> str:
        return describe_in_html(repr(self), self.schema)

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self._parts.record_order)

    @overload
    def __getitem__(self, index: slice) -> list[Item_co]: ...
    @overload
    def __getitem__(self, index: int) -> Item_co: ...
    def __getitem__(self, index: int | slice) -> Any:
        """Return one sample, or the samples of a slice. Negative numbers count from the end.

        Raises:
            IndexError: If the number is out of range.
            CorruptRecordError, TruncatedFileError, StaleIndexError: If the file is damaged there,
                or changed since it was indexed.
            DecodeError: If the record does not match the schema.
        """
        if isinstance(index, slice):
            return self.__getitems__(range(*index.indices(len(self))))
        return self._load([index], batches=0)[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Item_co]:
        """Return several samples, read and parsed together, as DataLoader asks for them.

        Raises:
            IndexError, CorruptRecordError, TruncatedFileError, StaleIndexError, DecodeError: As for
                a single sample.
        """
        return self._load(indices, batches=1)

    def _counted(self) -> list[int]:
        """Internal interface for loaders: the numbers of a :class:`StatsWindow` so far."""
        return self._state.counters.snapshot()

    def stats(self) -> LoadingStats:
        """Return statistics of loading since the previous call.

        The first call counts from the start. Workers of a DataLoader are included. Records that are
        read together, as by DataLoader, are a batch.
        """
        return self._window.take(self._counted(), self._state.counters.began)

    def _load(self, indices: Sequence[int], batches: int) -> list[Any]:
        loader = self._parts.loader
        numbers = self._parts.record_order.selection.numbers_at(self._positions(indices))
        worker = get_worker_info()
        if self._times_loaded == 0 and (worker is None or worker.id == 0):
            warn_of_absent_features(self._parts, self._state)
        # In each epoch, a DataLoader gives its workers other seeds.
        random = RecordRandom(torch.initial_seed(), self._times_loaded)
        self._times_loaded += 1
        if worker is not None:
            report_lost_items()
            if self._makes_dicts:
                make_dicts()
        meter = IterationMeter(self._state.counters)
        meter.begin()
        try:
            plan = loader.reader.plan(repeated(numbers, np.arange(len(numbers))))
            samples = self._samples(plan, numbers, random)
            meter.stored_bytes = plan.stored_bytes(0, len(numbers))
            meter.pause(len(numbers), batches)
        finally:
            meter.end()
        return samples

    def _samples(self, plan: Any, numbers: Numbers, random: RecordRandom) -> list[Any]:
        loader = self._parts.loader
        loaded = loader.load_one(plan, random)
        if loaded.errors:
            raise loaded.errors.pop(0)  # a frame of its traceback must not refer to it
        if len(loaded.failures):
            raise loader.error_of(loaded, 0)
        samples = loaded.samples(schema=loader.parser.stored_by)
        transform = Transform.of(self._parts.options, loader.reader)
        if transform is not None:
            samples, error = transform.of_samples(loaded, samples)
            if error is not None:
                raise error
        if not self.with_key:
            return samples
        places = loader.reader.locate(numbers)
        return [(place.key, sample) for place, sample in zip(places, samples, strict=True)]

    def _positions(self, indices: Sequence[int]) -> npt.NDArray[np.int64]:
        """Return record numbers that count from the start; int64 ``[n]``."""
        count = len(self)
        given = [*map(operator.index, indices)]
        if given and (min(given) < -count or max(given) >= count):
            outside = next(index for index in given if not -count <= index < count)
            raise IndexError(f"record {outside} is out of range for {counted(count, 'record')}")
        positions = np.array(given, np.int64)
        return np.where(positions < 0, positions + count, positions)

    @property
    def _pipeline(self) -> IndexedPipeline:
        return self._parts

    def _worker_state(self) -> WorkerState:
        return self._state

    def _derive(self, pipeline: Pipeline) -> Self:
        assert isinstance(pipeline, IndexedPipeline)
        other = copy.copy(self)
        other._parts = pipeline  # noqa: SLF001  # of this class
        return other
