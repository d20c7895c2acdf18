"""The index of a file whose records have been counted by somebody else: looked for on first use."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import StaleIndexError, WrongShardError
from ..records.formats import TFRECORD
from ..records.index import RecordIndex
from ..records.index_cache import find_or_build
from ..schema.inspect import feature_names
from ..storage.local import LocalFile
from .info import INFO_FILE
from .selection import StoredKeys

# What a RecordIndex has of its file: nothing may ask for these before there is one.
_FOUND_ATTRIBUTES = (
    "data_stamp",
    "_file",
)


class PromisedIndex(RecordIndex):
    """A :class:`RecordIndex` of a shard, found or built when it is first used.

    Until then only what it was promised is known: so thousands of shards are opened at once. On
    first use in each process the shard is held against the promise.

    Args:
        data_path: The shard, which is not compressed.
        records: How many it has, as its dataset says.
        size: Its bytes.
        keys: What its first record must have.
        found: Its index, where that is known already.

    Raises:
        WrongShardError: on first use: it has another number of records, or its first record lacks
            a feature.
        StaleIndexError: on first use: it has another size by now.
        CorruptRecordError, TruncatedFileError: on first use: it is damaged.
    """

    def __init__(
        self,
        data_path: str,
        records: int,
        size: int,
        keys: StoredKeys,
        found: RecordIndex | None = None,
    ) -> None:
        # Not that of the base, which wants an index.
        self.data_path = data_path
        self.format = TFRECORD
        self._records = records
        self._size = size
        self._keys = keys
        if found is not None:
            self._check(found)
            self._take(found)

    def __getattr__(self, name: str) -> Any:
        # Only called for what is not there yet.
        if name not in _FOUND_ATTRIBUTES:
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        found, error = find_or_build(self.data_path, None)
        if error is not None:
            raise error
        self._check(found)
        self._take(found)
        return self.__dict__[name]

    def __len__(self) -> int:
        return self._records

    @property
    def compression(self) -> None:
        """As of the base: shards are not compressed."""
        return

    @property
    def is_loaded(self) -> bool:
        """As of the base."""
        return "_file" in self.__dict__

    @property
    def identity(self) -> tuple[int, int, int]:
        """As of the base, but without a fingerprint, which nobody could know before first use."""
        return self._records, self._size, 0

    def __reduce__(self) -> tuple[Any, ...]:
        promise = (self.data_path, self._records, self._size, self._keys)
        found = super().__reduce__() if self.is_loaded else None
        return _rebuild, (promise, found)

    def _take(self, found: RecordIndex) -> None:
        """Becomes an index."""
        self.__dict__.update({name: getattr(found, name) for name in _FOUND_ATTRIBUTES})

    def _check(self, found: RecordIndex) -> None:
        """Holds an index against what was promised."""
        data_bytes = found.identity[1]
        if data_bytes != self._size:
            raise StaleIndexError(
                f"the shard had {self._size} bytes when the dataset was opened, now {data_bytes}",
                path=self.data_path,
            )
        if len(found) != self._records:
            raise WrongShardError(
                f"the shard has {len(found)} records, {INFO_FILE} says {self._records}",
                path=self.data_path,
            )
        self._check_first_record(found)

    def _check_first_record(self, found: RecordIndex) -> None:
        if not self._records or not any(self._keys):
            return
        (start,), (end,) = (place.tolist() for place in found.locate(np.array([0])))
        frame = LocalFile(self.data_path).read(start, end - start)
        place, size = np.array([0]), np.array([end - start])
        if TFRECORD.extract(np.frombuffer(frame, np.uint8), place, size, verify_crc=True).faults:
            return  # damaged: who reads it says so, if it is not left out
        names = feature_names(frame[TFRECORD.header_bytes : len(frame) - TFRECORD.footer_bytes])
        if names is None:
            return  # no Example: as above
        if missing := self._keys.missing_in(names):
            raise WrongShardError(
                f"the dataset's records have {', '.join(map(repr, missing[:3]))}, the first one of "
                f"this file has {', '.join(map(repr, names[:5])) or 'no features'}: is it a shard "
                "of another dataset?",
                path=self.data_path,
                record=0,
                offset=start,
                feature=missing[0],
            )


def check_shard(path: str, records: int | None, keys: StoredKeys) -> int:
    """Finds or builds the index of a shard, and holds it against what is said.

    Args:
        path: The shard.
        records: How many it should have, if that is said.
        keys: What its first record must have.

    Returns:
        How many records it has.

    Raises:
        WrongShardError: it is not as is said.
        CorruptRecordError, TruncatedFileError: it is damaged.
        FileNotFoundError: it is missing.
    """
    found, error = find_or_build(path, None)
    if error is not None:
        raise error
    return len(
        PromisedIndex(
            path, len(found) if records is None else records, found.identity[1], keys, found
        )
    )


def _rebuild(promise: tuple[Any, ...], found: tuple[Any, ...] | None) -> PromisedIndex:
    index = PromisedIndex(*promise)
    if found is not None:
        make, arguments, state = found
        known = make(*arguments)
        known.data_stamp = state["data_stamp"]
        index._take(known)  # noqa: SLF001  # what is wrong with the shard is told when it is read
    return index
