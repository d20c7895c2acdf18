"""Indexes of shards whose number of records is known from dataset_info.json."""

from __future__ import annotations

import functools

import numpy as np

from .._records.index import RecordIndex
from .._records.index_cache import IndexSearch
from .._records.index_file import IndexFacts
from .._records.record_reader import RecordReader
from .._schema.stored_names import feature_names
from .._storage.location import Location
from .._storage.stamp import Stamp
from ..checks import counted
from ..errors import StaleIndexError, WrongShardError
from .feature_choice import StoredKeys
from .info import INFO_FILE


def shard_index(
    location: Location,
    records: int,
    stamp: Stamp,
    keys: StoredKeys,
    *,
    found: RecordIndex | None = None,
    verify_crc: bool = True,
) -> RecordIndex:
    """Return the index of a shard, which is found or built on first use.

    Until then, only the facts of dataset_info.json are known. On first use in each process, the
    shard is compared with these facts. An index that is known already is compared here.

    Args:
        location: Location of the shard. It is compressed only if its index is known already.
        records: Number of records, as dataset_info.json says.
        stamp: Stamp of the shard.
        keys: Stored features that the first record must have.
        found: The index, if it is known already.
        verify_crc: See :meth:`RecordIndex.build`.

    Raises:
        WrongShardError: If the shard has another number of records, or if its first record lacks a
            feature.
        StaleIndexError: If the size has changed.
        CorruptRecordError, TruncatedFileError: If the shard is damaged.
    """
    facts = IndexFacts(records, stamp.size)
    if found is not None:
        file = _checked(found, facts, keys).file
        facts = facts._replace(compression=found.compression)
        return RecordIndex(location, file, facts=facts, stamp=found.data_stamp)
    # A local file may be touched, or replaced by a copy, before it is used.
    seen = stamp if location.local_path is None else None
    find = functools.partial(_find_shard, location, facts, stamp, keys, verify_crc)
    return RecordIndex(location, find, facts=facts, stamp=seen)


def _find_shard(
    location: Location, facts: IndexFacts, stamp: Stamp, keys: StoredKeys, verify_crc: bool
) -> RecordIndex:
    search = IndexSearch(location, None, verify_crc=verify_crc)
    return _checked(_find(search, stamp), facts, keys)


def _find(search: IndexSearch, stamp: Stamp) -> RecordIndex:
    """Find or build an index, maybe in another process than the one that listed the shard."""
    search.file.see(search.file.seen_stamp or stamp)
    found = search.find_or_build()
    if found.damage is not None:
        raise found.damage
    return found


def _checked(found: RecordIndex, facts: IndexFacts, keys: StoredKeys) -> RecordIndex:
    """Return an index that has the facts of its shard."""
    data_bytes = found.identity[1]
    if data_bytes != facts.data_bytes:
        raise StaleIndexError(
            f"the shard had {counted(facts.data_bytes, 'byte')} when the dataset was opened, "
            f"but has {data_bytes:,} now",
            path=found.data_path,
        )
    if len(found) != facts.records:
        raise WrongShardError(
            f"the shard has {counted(len(found), 'record')}, but {INFO_FILE} says "
            f"{facts.records:,}",
            path=found.data_path,
        )
    _check_first_record(found, keys)
    return found


def _check_first_record(found: RecordIndex, keys: StoredKeys) -> None:
    if not len(found) or not any(keys):
        return
    reader = RecordReader([found])
    block, errors = reader.fetch(reader.plan(np.array([0])))
    if errors:
        return  # damaged: reading the record reports it, or skips it
    found_names = feature_names(block[0])
    if found_names is None:
        return  # not an Example: as above
    names, _ = found_names
    if missing := keys.missing_in(names):
        raise WrongShardError(
            f"records of the dataset have {', '.join(map(repr, missing[:3]))}, but the first "
            f"record of this file has {', '.join(map(repr, names[:5])) or 'no features'}: the "
            "file may be a shard of another dataset",
            path=found.data_path,
            record=0,
            offset=reader.locate([0])[0].offset,
            feature=missing[0],
        )


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
    found = _find(IndexSearch(location), stamp)
    expected = len(found) if records is None else records
    return len(_checked(found, IndexFacts(expected, stamp.size), keys))
