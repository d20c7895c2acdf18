"""Interface of all readers of records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy.typing as npt

from .._storage.compression import Compression
from ..errors import TorchRecIOError
from .formats import Fault
from .native_frames import Frames
from .record_block import RecordBlock


class RecordLocation(NamedTuple):
    """The place where a record is stored.

    Attributes:
        path: File.
        record: Number of the record in the file, from 0.
        offset: Offset of the record's frame in the file, or in its decompressed stream.
        key: Permanent name of the record: ``path:offset`` for TFRecord files.
    """

    path: str
    record: int
    offset: int
    key: str

    @property
    def where(self) -> dict[str, Any]:
        """The arguments of an error that name this place."""
        return {"path": self.path, "record": self.record, "offset": self.offset}


class Plan(Protocol):
    """A plan of how to read some records, made by :meth:`Reader.plan`."""

    @property
    def numbers(self) -> npt.NDArray[Any]:
        """Identity of each record, in the requested order; ``[n]``."""

    @property
    def buffer_bytes(self) -> int:
        """Approximate number of bytes to read."""

    def stored_bytes(self, begin: int, end: int) -> int:
        """Return the number of bytes of the records from ``begin`` to ``end``, as stored."""


class PrefetchLimits(NamedTuple):
    """Number of bytes that are worth prefetching by :meth:`Reader.prefetch`.

    Attributes:
        most_bytes: Largest number of bytes that are prefetched and not used yet.
        first_bytes: Number of bytes to prefetch at first: few, if that delays a batch.
    """

    most_bytes: int
    first_bytes: int


class Reader(ABC):
    """Base class of readers: they plan which parts of files to read, and fetch records.

    Readers can be pickled and forked. Each process opens its own files.

    Attributes:
        verify_crc: Whether checksums are compared, those of lengths and of data.
        max_record_bytes: Largest size of a record in bytes.
        compressions: Compressions of files, as far as they are known before files are read.
        prefetch_limits: Limits for calls of :meth:`prefetch`; None for local files, which the
            native code and the system prefetch.
        is_native: True if the native core loads small batches together; see :meth:`open_run`.
    """

    verify_crc: bool
    max_record_bytes: int
    compressions: frozenset[Compression] = frozenset()
    prefetch_limits: PrefetchLimits | None = None
    is_native: bool = False

    @abstractmethod
    def begin_epoch(self, num_ranks: int = 1) -> None:
        """Check each file again for changes before it is read next.

        Args:
            num_ranks: Number of ranks that read the records in this epoch.
        """

    @abstractmethod
    def end_epoch(self) -> None:
        """Check that the files read in this epoch were not changed since they were read.

        Raises:
            StaleIndexError: If a file was changed in place.
            TruncatedFileError: If a file was truncated.
        """

    @abstractmethod
    def plan(self, records: Any) -> Any:
        """Make a plan for reading some records, without reading them.

        Args:
            records: Records in any order: int64 ``[n]`` of their numbers, where the reader knows
                records by number. They may have :mod:`.repetitions`.

        Returns:
            A :class:`Plan` for this reader.

        Raises:
            IndexError: If a number is out of range.
            StaleIndexError: If a data file or its index file was replaced or changed.
            TruncatedFileError: If a data file has become shorter since it was indexed.
            FileNotFoundError: If a data file was removed.
        """

    def plan_with(self, records: Any, random: Any) -> Any:
        """Make a plan like :meth:`plan`, for samples some of which draw what they read.

        Args:
            records: Records in any order, as above.
            random: The :class:`RecordRandom` that they are parsed with.
        """
        del random
        return self.plan(records)

    def prefetch(self, plans: Sequence[Any]) -> None:
        """Start to read plans that are fetched later, in their order.

        There is nothing to cancel: dropping a plan drops or cancels its reads.
        """
        del plans

    def open_run(self, plans: Sequence[Any]) -> list[Frames]:
        """Return the frames of the first plans, for the native core to read, check and parse.

        By default, the core loads none.

        Returns:
            Fewer frames than plans if a file cannot be opened, or the core cannot check some
            records. None at all if that is so for the first plan.

        Raises:
            OSError: If the frames of the first plan cannot be read.
        """
        del plans
        return []

    @abstractmethod
    def fetch(self, plan: Any) -> tuple[RecordBlock, list[TorchRecIOError]]:
        """Read the records of a plan.

        Returns:
            The valid records, in the order of the plan, and an error for each damaged one.

        Raises:
            TruncatedFileError: If a file has become shorter since it was indexed.
            OSError: If reading fails.
        """

    @abstractmethod
    def locate(self, numbers: Any) -> list[RecordLocation]:
        """Return the file, offset and key of records.

        Args:
            numbers: Identities of records, as in :attr:`Plan.numbers`.
        """


def without_damaged(
    reader: Reader, block: RecordBlock, faults: Sequence[Fault]
) -> tuple[RecordBlock, list[TorchRecIOError]]:
    """Return a block without its damaged records, and an error for each of them.

    Args:
        reader: Reader of the records.
        block: Records.
        faults: Position, error class and reason of each damaged record.
    """
    positions = [position for position, _, _ in faults]
    places = reader.locate(block.numbers[positions]) if faults else []
    errors = [
        error_class(reason, **place.where)
        for place, (_, error_class, reason) in zip(places, faults, strict=True)
    ]
    return block.without(positions), errors
