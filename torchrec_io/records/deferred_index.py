"""Indexes that are found on first use, because what a dataset needs to open is known without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..errors import StaleIndexError
from ..storage.byte_source import Stamp
from ..storage.compression import Compression
from ..storage.location import Location
from .formats import TFRECORD, RecordFormat
from .index import RecordIndex


class IndexFacts(NamedTuple):
    """Facts about an index that is not loaded yet.

    Attributes:
        records: Number of records.
        data_bytes: Size of the data file in bytes.
        fingerprint: Fingerprint of the data file; 0 if it is not known.
        compression: Compression of the data file.
    """

    records: int
    data_bytes: int
    fingerprint: int = 0
    compression: Compression | None = None


class DeferredIndex(RecordIndex):
    """A :class:`RecordIndex` whose content is found on first use, in each process.

    Until then, only some facts are known, so thousands of files open at once.

    Args:
        location: Location of the data file.
        facts: Facts about the index.
        find: Function that returns the index. It is pickled with this one. The index that it
            returns is compared with the facts.
        stamp: Stamp of the data file, if the facts are known to be of exactly this version.
        record_format: Record format of the data file.
    """

    def __init__(
        self,
        location: Location,
        facts: IndexFacts,
        find: Callable[[], RecordIndex],
        *,
        stamp: Stamp | None = None,
        record_format: RecordFormat = TFRECORD,
    ) -> None:
        # RecordIndex.__init__ is not called: it needs the content of an index.
        self.location = location
        self.format = record_format
        self._facts = facts
        self._find = find
        if stamp is not None:
            self.data_stamp = stamp

    def __getattr__(self, name: str) -> Any:
        # Only called for attributes that are not set yet.
        if name not in ("data_stamp", "_file"):
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        self._take(self._find())
        return self.__dict__[name]

    def __len__(self) -> int:
        return self._facts.records

    @property
    def compression(self) -> Compression | None:
        """Compression of the data file: None, ``"gzip"``, ``"zlib"`` or ``"zstd"``."""
        return self._facts.compression

    @property
    def is_loaded(self) -> bool:
        """True once the index was found."""
        return "_file" in self.__dict__

    @property
    def identity(self) -> tuple[int, int, int]:
        """Identity of the data file, wherever it is; without a fingerprint if it is not known."""
        return self._facts[:3]

    def __reduce__(self) -> tuple[Any, ...]:
        # Unlike other indexes, this one may have no file yet. Reading it reports its errors.
        return object.__new__, (type(self),), self.__dict__

    def _take(self, found: RecordIndex) -> None:
        """Compare an index with the facts, and take its content."""
        self._compare(found)
        self.data_stamp = found.data_stamp
        self._file = found.file

    def _compare(self, found: RecordIndex) -> None:
        """Raise an error unless an index has the facts.

        Raises:
            StaleIndexError: If it has others.
        """
        if found.identity != self.identity:
            raise StaleIndexError(
                "the manifest of the folder does not match the object; write it again: "
                "torchrec-io index --upload --force",
                path=self.data_path,
            )
