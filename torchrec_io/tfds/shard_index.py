"""Indexes of shards whose number of records is known from dataset_info.json."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..checks import counted
from ..errors import StaleIndexError, WrongShardError
from ..records.formats import TFRECORD
from ..records.index import RecordIndex
from ..records.index_cache import find_or_build
from ..schema.inspect import feature_names
from ..storage.local import LocalFile
from .feature_choice import StoredKeys
from .info import INFO_FILE

# Attributes of a RecordIndex that are set on first use.
_FOUND_ATTRIBUTES = ("data_stamp", "_file")


class ShardIndex(RecordIndex):
    """The :class:`RecordIndex` of a shard, which is found or built on first use.

    Until then, only the facts of dataset_info.json are known, so thousands of shards open at once.
    On first use in each process, the shard is compared with these facts.

    Args:
        data_path: Path of the shard, which is not compressed.
        records: Number of records, as dataset_info.json says.
        size: Size in bytes.
        keys: Stored features that the first record must have.
        found: The index, if it is known already.

    Raises:
        WrongShardError: On first use, if the shard has another number of records, or if its first
            record lacks a feature.
        StaleIndexError: On first use, if the size has changed.
        CorruptRecordError: On first use, if the shard is damaged.
        TruncatedFileError: On first use, if the shard is truncated.
    """

    def __init__(
        self,
        data_path: str,
        records: int,
        size: int,
        keys: StoredKeys,
        found: RecordIndex | None = None,
    ) -> None:
        # RecordIndex.__init__ is not called: it needs the content of an index.
        self.data_path = data_path
        self.format = TFRECORD
        self.remote = None
        self._records = records
        self._size = size
        self._keys = keys
        if found is not None:
            self._take(found)

    def __getattr__(self, name: str) -> Any:
        # Only called for attributes that are not set yet.
        if name not in _FOUND_ATTRIBUTES:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        found, error = find_or_build(self.data_path, None)
        if error is not None:
            raise error
        self._take(found)
        return self.__dict__[name]

    def __len__(self) -> int:
        return self._records

    @property
    def compression(self) -> None:
        """Always None: shards are not compressed."""
        return

    @property
    def is_loaded(self) -> bool:
        """True once the index was found or built."""
        return "_file" in self.__dict__

    @property
    def identity(self) -> tuple[int, int, int]:
        """Identity of the file, without a fingerprint, which is not known before first use."""
        return self._records, self._size, 0

    def __reduce__(self) -> tuple[Any, ...]:
        # Unlike other indexes, a shard's may have no file yet. Reading it reports its errors.
        return object.__new__, (ShardIndex,), self.__dict__

    def _take(self, found: RecordIndex) -> None:
        """Compare an index with the facts, and take its attributes."""
        data_bytes = found.identity[1]
        if data_bytes != self._size:
            raise StaleIndexError(
                f"the shard had {counted(self._size, 'byte')} when the dataset was opened, but has "
                f"{data_bytes:,} now",
                path=self.data_path,
            )
        if len(found) != self._records:
            raise WrongShardError(
                f"the shard has {counted(len(found), 'record')}, but {INFO_FILE} says "
                f"{self._records:,}",
                path=self.data_path,
            )
        self._check_first_record(found)
        self.__dict__.update({name: getattr(found, name) for name in _FOUND_ATTRIBUTES})

    def _check_first_record(self, found: RecordIndex) -> None:
        if not self._records or not any(self._keys):
            return
        (start,), (end,) = (place.tolist() for place in found.locate(np.array([0])))
        frame = LocalFile(self.data_path).read(start, end - start)
        place, size = np.array([0]), np.array([end - start])
        if TFRECORD.extract(np.frombuffer(frame, np.uint8), place, size, verify_crc=True).faults:
            return  # damaged: reading the record reports it, or skips it
        names = feature_names(frame[TFRECORD.header_bytes : len(frame) - TFRECORD.footer_bytes])
        if names is None:
            return  # not an Example: as above
        if missing := self._keys.missing_in(names):
            raise WrongShardError(
                f"records of the dataset have {', '.join(map(repr, missing[:3]))}, but the first "
                f"record of this file has {', '.join(map(repr, names[:5])) or 'no features'}: the "
                "file may be a shard of another dataset",
                path=self.data_path,
                record=0,
                offset=start,
                feature=missing[0],
            )


def check_shard(path: str, records: int | None, keys: StoredKeys) -> int:
    """Find or build the index of a shard, and compare it with dataset_info.json.

    Args:
        path: Path of the shard.
        records: Number of records, if dataset_info.json says it.
        keys: Stored features that the first record must have.

    Returns:
        The number of records.

    Raises:
        WrongShardError: If the shard does not match.
        CorruptRecordError: If the shard is damaged.
        TruncatedFileError: If the shard is truncated.
        FileNotFoundError: If the shard is missing.
    """
    found, error = find_or_build(path, None)
    if error is not None:
        raise error
    expected = len(found) if records is None else records
    return len(ShardIndex(path, expected, found.identity[1], keys, found))
