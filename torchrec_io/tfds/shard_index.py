"""Indexes of shards whose number of records is known from dataset_info.json."""

from __future__ import annotations

import functools

import numpy as np

from ..checks import counted
from ..errors import StaleIndexError, WrongShardError
from ..records.deferred_index import DeferredIndex, IndexFacts
from ..records.index import RecordIndex
from ..records.index_cache import find_or_build
from ..records.record_reader import RecordReader
from ..schema.inspect import feature_names
from ..storage.byte_source import Stamp
from ..storage.compression import CompressionChoice
from ..storage.location import Location
from .feature_choice import StoredKeys
from .info import INFO_FILE


class ShardIndex(DeferredIndex):
    """The :class:`RecordIndex` of a shard, which is found or built on first use.

    Until then, only the facts of dataset_info.json are known. On first use in each process, the
    shard is compared with these facts.

    Args:
        location: Location of the shard. It is compressed only if its index is known already.
        records: Number of records, as dataset_info.json says.
        stamp: Stamp of the shard.
        keys: Stored features that the first record must have.
        found: The index, if it is known already.
        verify_crc: See :meth:`RecordIndex.build_partial`.

    Raises:
        WrongShardError: On first use, if the shard has another number of records, or if its first
            record lacks a feature.
        StaleIndexError: On first use, if the size has changed.
        CorruptRecordError: On first use, if the shard is damaged.
        TruncatedFileError: On first use, if the shard is truncated.
    """

    def __init__(
        self,
        location: Location,
        records: int,
        stamp: Stamp,
        keys: StoredKeys,
        *,
        found: RecordIndex | None = None,
        verify_crc: bool = True,
    ) -> None:
        find = functools.partial(_find_or_raise, location, stamp, None, verify_crc)
        compression = None if found is None else found.compression
        # A local file may be touched, or replaced by a copy, before it is used.
        seen = stamp if location.local_path is None else None
        facts = IndexFacts(records, stamp.size, compression=compression)
        super().__init__(location, facts, find, stamp=seen)
        self._keys = keys
        if found is not None:
            self._take(found)

    def _compare(self, found: RecordIndex) -> None:
        facts = self._facts
        data_bytes = found.identity[1]
        if data_bytes != facts.data_bytes:
            raise StaleIndexError(
                f"the shard had {counted(facts.data_bytes, 'byte')} when the dataset was opened, "
                f"but has {data_bytes:,} now",
                path=self.data_path,
            )
        if len(found) != facts.records:
            raise WrongShardError(
                f"the shard has {counted(len(found), 'record')}, but {INFO_FILE} says "
                f"{facts.records:,}",
                path=self.data_path,
            )
        self._check_first_record(found)

    def _check_first_record(self, found: RecordIndex) -> None:
        if not len(found) or not any(self._keys):
            return
        reader = RecordReader([found])
        block, errors = reader.fetch(reader.plan(np.array([0])))
        if errors:
            return  # damaged: reading the record reports it, or skips it
        names = feature_names(block[0])
        if names is None:
            return  # not an Example: as above
        if missing := self._keys.missing_in(names):
            raise WrongShardError(
                f"records of the dataset have {', '.join(map(repr, missing[:3]))}, but the first "
                f"record of this file has {', '.join(map(repr, names[:5])) or 'no features'}: the "
                "file may be a shard of another dataset",
                path=self.data_path,
                record=0,
                offset=reader.location(0).offset,
                feature=missing[0],
            )


def _find_or_raise(
    location: Location, stamp: Stamp, compression: CompressionChoice, verify_crc: bool = True
) -> RecordIndex:
    """Return the index of a shard, maybe in another process than the one that found its stamp."""
    location.see(location.seen_stamp or stamp)
    found, error = find_or_build(location, compression, verify_crc=verify_crc)
    if error is not None:
        raise error
    return found


def check_shard(location: Location, records: int | None, keys: StoredKeys) -> int:
    """Find or build the index of a shard, and compare it with dataset_info.json.

    Args:
        location: Location of the shard.
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
    stamp = location.stamp()
    found = _find_or_raise(location, stamp, "auto")
    expected = len(found) if records is None else records
    return len(ShardIndex(location, expected, stamp, keys, found=found))
