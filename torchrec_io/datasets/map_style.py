"""TFRecord files as a sequence: any record, at any time."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from torch.utils.data import Dataset

from ..csv.schema import Schema as CsvSchema
from ..order.selection import Selection, Span
from ..order.split import parse_slice
from ..ranking.schema import Schema as ListSchema
from ..records.index_cache import IndexChoice, open_indexes
from ..records.reader import RecordReader
from ..schema.schema import Schema
from ..storage.compressed import CompressionChoice
from ..storage.local import StrPath
from ..storage.paths import expand_paths
from ..tfds.directory import Directory
from ..tfds.feature_choice import FeatureChoice
from ..tfds.splits import Split
from .record_loader import RecordSource, SchemaLike

if TYPE_CHECKING:
    from typing_extensions import Self


class TFRecordMapDataset(Dataset[Any]):
    """Records of TFRecord files by number, for PyTorch's samplers, ``Subset`` and ``random_split``.

    ``ds[i]`` is a sample: a dict with a schema, bytes without. ``ds[i:j]`` is a list of samples.
    DataLoader asks for a batch at once (``__getitems__``): it is read in as few reads as its
    records allow and parsed together. Collate what is not of one shape, such as strings and ragged
    values, with ``collate_fn=tio.collate``.

    For training over whole epochs :class:`TFRecordDataset` with ``shuffle=True`` is faster and can
    be resumed.

    Args:
        paths: As for :class:`TFRecordDataset`.
        schema: As for :class:`TFRecordDataset`.
        split: A slice of the records, as ``"[:80%]"``.
        index: ``"auto"``, a path or a list of paths.
        compression: ``"auto"`` (by content), ``None``, ``"gzip"`` or ``"zlib"``. A compressed file
            is decompressed into a temporary file when it is first read out of order.
        verify_crc: Check the data of each record. Lengths are always checked.
        with_key: Give ``(key, sample)``; a key is ``"path:offset"``.

    Raises:
        TorchRecIOError, FileNotFoundError, ValueError: as for :class:`TFRecordDataset`.
    """

    def __init__(
        self,
        paths: StrPath | Iterable[StrPath],
        schema: SchemaLike = None,
        *,
        split: str | None = None,
        index: IndexChoice = "auto",
        compression: CompressionChoice = "auto",
        verify_crc: bool = True,
        with_key: bool = False,
    ) -> None:
        super().__init__()
        self.paths = expand_paths(paths)
        self.with_key = with_key
        indexes, errors = open_indexes(self.paths, index, compression)
        if errors:
            raise errors[0]
        reader = RecordReader(indexes, verify_crc=verify_crc)
        self._source = RecordSource(reader, schema)
        whole = Span(0, len(reader), len(reader))
        self._selection: Selection = whole if split is None else parse_slice(split, len(reader))

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
    ) -> Self:
        """Records of a directory that TensorFlow Datasets (TFDS) wrote, without TensorFlow.

        Args:
            directory: As of :meth:`TFRecordDataset.from_tfds`, and so are those that follow.
            split: See there.
            config: See there.
            version: See there.
            features: See there.
            verify_crc: As of the constructor.
            with_key: As of the constructor.

        Raises:
            TorchRecIOError, OSError, ValueError: as there.
        """
        plan = Directory(directory, config, version).open(split, features)
        dataset = cls.__new__(cls)
        Dataset.__init__(dataset)
        dataset.paths = plan.paths
        dataset.with_key = with_key
        reader = RecordReader(plan.indexes, verify_crc=verify_crc)
        dataset._source = RecordSource(reader, plan.schema)  # noqa: SLF001  # of this class
        dataset._selection = plan.selection  # noqa: SLF001  # of this class
        return dataset

    @property
    def schema(self) -> Schema | ListSchema | None:
        """The schema records are parsed by, if there is one."""
        schema = self._source.schema
        assert not isinstance(schema, CsvSchema)  # it is of TFRecord files
        return schema

    def __len__(self) -> int:
        """Records that can be asked for."""
        return len(self._selection)

    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    @overload
    def __getitem__(self, index: int) -> Any: ...
    def __getitem__(self, index: int | slice) -> Any:
        """One sample, or those of a slice. Negative numbers count from the end.

        Raises:
            IndexError: there is no such record.
            CorruptRecordError, TruncatedFileError, StaleIndexError: the file is damaged there, or
                is not what was indexed.
            DecodeError: the schema does not fit the record.
        """
        if isinstance(index, slice):
            return self.__getitems__(range(*index.indices(len(self))))
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """Several samples, read and parsed together; what DataLoader asks for.

        Raises:
            IndexError, CorruptRecordError, TruncatedFileError, StaleIndexError, DecodeError: as
                for one of them.
        """
        reader = self._source.reader
        numbers = self._selection.numbers_at(np.array([*map(self._position, indices)], np.int64))
        loaded = self._source.read(reader.plan(numbers))
        if loaded.errors:
            raise loaded.errors.pop(0)  # and not kept in a frame that its traceback leads to
        samples = loaded.samples()
        if not self.with_key:
            return list(samples)
        return list(zip(reader.keys(numbers), samples, strict=True))

    def _position(self, index: int) -> int:
        position = operator.index(index)
        if position < 0:
            position += len(self)
        if not 0 <= position < len(self):
            raise IndexError(f"record {index} of {len(self)}")
        return position
