"""The map-style dataset of TFRecord files: any record, at any time."""

from __future__ import annotations

import copy
import functools
import operator
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt
from torch.utils.data import Dataset, get_worker_info

from .._order.orders import RecordOrder
from .._order.selection import Numbers
from .._records.record_reader import RecordReader
from .._storage.local import StrPath
from .._storage.remote.options import StorageOptions
from .._storage.thread_pool import most_storage_threads
from .._tensors.block_parser import Columns, SchemaLike, parser_of_messages
from .._tensors.trainers import make_dicts, makes_dicts
from ..checks import counted
from .bad_records import ErrorHandler
from .base import Item_co
from .description import changed_options, describe_files, describe_records, describe_schema
from .feature_watch import FeatureWatch, first_blocks
from .lost_items import ReadRecord, report_lost_items
from .missing_methods import MissingMethods
from .options import MapOptions, MapSampleOptions, access_options, complete, takes_options
from .pipeline import DataFiles
from .record_loader import RecordLoader
from .selecting import SelectingDataset
from .statistics import IterationMeter, LoadingCounters, LoadingStats, StatsWindow
from .transform import Transform
from .where import SelectableRecords
from .worker_state import WorkerState

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

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
        files = DataFiles.open(
            paths,
            known["index"],
            storage_options=access_options(known),
            verify_crc=known["verify_crc"],
        )
        self._open(files, schema, known)

    def _open(self, files: DataFiles, schema: SchemaLike, known: dict[str, Any]) -> None:
        """Initialize the dataset from files whose indexes are open, and all options."""
        if files.errors:
            raise files.errors[0]
        self.paths: list[str] = list(files.paths)
        self.with_key: bool = bool(known["with_key"])
        self._reader = RecordReader(
            files.indexes,
            verify_crc=known["verify_crc"],
            max_record_bytes=known["max_record_bytes"],
            cache_bytes=known["cache_bytes"],
            cache=known["cache"],
        )
        self._loader = RecordLoader(self._reader, parser_of_messages(schema))
        self._given_schema = schema
        self._order = files.order(known["split"])
        self._options = known
        self._makes_dicts = False
        self._counters = LoadingCounters.shared()
        self._window = StatsWindow()
        self._state = WorkerState()
        self._watch: FeatureWatch | None = None
        self._watching_pid: int | None = None

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
        files = DataFiles(plan.paths, plan.indexes, (), plan.selection)
        dataset = cls.__new__(cls)
        options = {"verify_crc": verify_crc, "with_key": with_key}
        dataset._open(files, plan.schema, complete(MapOptions, options))  # noqa: SLF001  # own class
        return dataset

    def __getstate__(self) -> dict[str, Any]:
        # A spawned worker cannot ask the trainer; this process can.
        return {**self.__dict__, "_makes_dicts": makes_dicts()}

    @property
    def schema(self) -> Any:
        """The schema of the columns; None if records are not parsed into columns."""
        return self._loader.parser.schema

    def __repr__(self) -> str:
        parts = [
            describe_files(self.paths),
            describe_records(self._order),
            describe_schema(self.schema),
            *changed_options(self._options),
        ]
        return f"{type(self).__name__}({', '.join(parts)})"

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self._order)

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
        return [*self._counters.snapshot(), 0, 0]

    def stats(self) -> LoadingStats:
        """Return statistics of loading since the previous call.

        The first call counts from the start. Workers of a DataLoader are included. Records that are
        read together, as by DataLoader, are a batch.
        """
        return self._window.take(self._counted(), self._counters.began)

    def _load(self, indices: Sequence[int], batches: int) -> list[Any]:
        numbers = self._order.selection.numbers_at(self._positions(indices))
        if get_worker_info() is not None and len(numbers):
            read = ReadRecord(self._loader.reader, numbers[0])
            report_lost_items(latest=lambda: read)
            if self._makes_dicts:
                make_dicts()
        meter = IterationMeter(self._counters)
        meter.begin()
        try:
            plan = self._loader.reader.plan(numbers)
            samples = self._samples(plan, numbers)
            meter.stored_bytes = plan.stored_bytes(0, len(numbers))
            meter.pause(len(numbers), batches)
        finally:
            meter.end()
        return samples

    def _watch_of_process(self) -> FeatureWatch | None:
        """Return the watch for features that records may lack; None but in the first process."""
        if self._watching_pid != os.getpid():
            self._watching_pid = os.getpid()
            worker = get_worker_info()
            self._watch = None
            if worker is None or worker.id == 0:
                share = len(self) // (1 if worker is None else worker.num_workers)
                first = functools.partial(first_blocks, self._reader, self._order.selection)
                self._watch = FeatureWatch(self._loader.parser, self._state, share, first)
        return self._watch

    def _samples(self, plan: Any, numbers: Numbers) -> list[Any]:
        reader = self._loader.reader
        watch = self._watch_of_process()
        if watch is None or not watch.is_open:
            loaded = self._loader.load_one(plan)
        else:
            loaded = self._loader.load(plan)
            watch.examine(loaded.block)
        if loaded.errors:
            raise loaded.errors.pop(0)  # a frame of its traceback must not refer to it
        if len(loaded.failures):
            raise self._loader.error_of(loaded, 0)
        schema = self._loader.parser.stored_by
        samples = loaded.samples(schema=schema)
        transform = Transform.of(self._options, reader)
        if transform is not None:
            samples, error = transform.of_samples(loaded, samples)
            if error is not None:
                raise error
        if not self.with_key:
            return samples
        places = reader.locate(numbers)
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
    def _record_order(self) -> RecordOrder:
        """Internal interface: the order of the records."""
        return self._order

    @property
    def _record_reader(self) -> RecordReader:
        """Internal interface: the reader of the records."""
        return self._reader

    def _selectable(self) -> SelectableRecords:
        return SelectableRecords(
            self._reader.indexes,
            self._given_schema,
            self._order,
            self._loader,
            "raise",
            ErrorHandler("raise", WorkerState()),
            most_storage_threads(),
        )

    def _with_order(self, order: RecordOrder) -> Self:
        other = copy.copy(self)
        other._order = order  # noqa: SLF001  # of this class
        other._watching_pid = None  # noqa: SLF001  # of this class
        return other
