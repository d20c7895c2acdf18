"""Interface of all readers of records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import numpy.typing as npt
from typing_extensions import Self

from ..errors import TorchRecIOError
from ..storage.compression import Compression
from ..storage.file_limit import is_out_of_files
from .formats import Fault
from .native_frames import Frames
from .record_block import RecordBlock


class RecordLocation(NamedTuple):
    """The place where a record is stored.

    Attributes:
        path: File.
        record: Number of the record in the file, from 0.
        offset: Offset of the record's frame in the file, or in its decompressed stream.
    """

    path: str
    record: int
    offset: int


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

    def continues(self, other: Self) -> bool:
        """Return whether nothing needs to be announced if ``other`` was read just before."""


class Lookahead(NamedTuple):
    """How far ahead records are read by :meth:`Reader.read_ahead`.

    Attributes:
        most_bytes: Largest number of bytes that are read ahead and not used yet.
        first_bytes: Number of bytes to read ahead at first: few, if that delays a batch.
    """

    most_bytes: int
    first_bytes: int


class Reader(ABC):
    """Base class of readers: they plan which parts of files to read, and fetch records.

    Readers can be pickled and forked. Each process opens its own files.

    Attributes:
        verify_crc: Whether checksums are compared, those of lengths and of data.
        max_record_bytes: Largest size of a record in bytes.
        compressions: How files are compressed, as far as that is known before they are read.
    """

    verify_crc: bool
    max_record_bytes: int
    compressions: frozenset[Compression] = frozenset()

    @abstractmethod
    def begin_epoch(self) -> None:
        """Check each file again for changes before it is read next."""

    @abstractmethod
    def end_epoch(self) -> None:
        """Check that no file was changed after it was read in this epoch.

        Raises:
            StaleIndexError: If a file was changed in place.
            TruncatedFileError: If a file was truncated.
        """

    @abstractmethod
    def plan(self, records: Any) -> Any:
        """Plan how to read some records, without reading them.

        Args:
            records: Records in any order: int64 ``[n]`` of their numbers, where the reader knows
                records by number.

        Returns:
            A :class:`Plan` for this reader.

        Raises:
            IndexError: If a number is out of range.
            StaleIndexError: If a data file or its index file was replaced or changed.
            TruncatedFileError: If a data file has become shorter since it was indexed.
            FileNotFoundError: If a data file was removed.
        """

    def will_need(self, plan: Any) -> None:
        """Announce a plan that is fetched soon, so that the system can read ahead."""
        del plan

    @property
    def lookahead(self) -> Lookahead | None:
        """How far ahead :meth:`read_ahead` is worth calling; None for local files.

        The system reads local files ahead by itself, so :meth:`will_need` is enough for them.
        """
        return None

    def read_ahead(self, plans: Sequence[Any]) -> None:
        """Start to read plans that are fetched later, in their order."""
        del plans

    def will_not_need(self, plans: Sequence[Any]) -> None:
        """Take back plans of :meth:`read_ahead` that are not fetched."""
        del plans

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
    def location(self, number: Any) -> RecordLocation:
        """Return where a record is stored."""

    @abstractmethod
    def files_of(self, numbers: Any) -> npt.NDArray[Any]:
        """Return the number of the file of each record; ``[n]``."""

    @abstractmethod
    def keys(self, numbers: Any) -> list[str]:
        """Return the permanent name of each record: ``path:offset`` for TFRecord files."""

    def drop_damaged(
        self, block: RecordBlock, faults: Sequence[Fault]
    ) -> tuple[RecordBlock, list[TorchRecIOError]]:
        """Return a block without its damaged records, and an error for each of them.

        Args:
            block: Records.
            faults: Position, error class and reason of each damaged record.
        """
        errors = [
            error_class(reason, **self.location(block.numbers[position])._asdict())
            for position, error_class, reason in faults
        ]
        return block.without([position for position, _, _ in faults]), errors

    @property
    def is_native(self) -> bool:
        """True if the native core loads small batches together; see :meth:`open_frames`."""
        return False

    def open_frames(self, plan: Any) -> Frames | None:
        """Return the frames of a plan, for the native core to check and parse.

        The core reads frames from files and blocks. Others are read here.

        Returns:
            None if the core cannot check the frames of this plan.

        Raises:
            TorchRecIOError, OSError: If a file is not what was indexed, or cannot be read.
        """
        del plan
        return None

    @contextmanager
    def open_run(self, plans: Sequence[Any]) -> Iterator[list[Frames]]:
        """Provide the frames of several plans, up to the first that the core cannot load.

        The frames must be loaded inside of the context.

        Raises:
            OSError: If the frames of the first plan cannot be read.
        """
        opened: list[Frames] = []
        for plan in plans:
            try:
                frames = self.open_frames(plan)
            except TorchRecIOError:
                break
            except OSError as error:
                if opened or is_out_of_files(error):
                    break
                raise  # a request that failed many times is not made again
            if frames is None:
                break
            opened.append(frames)
        yield opened

    def note_ranks(self, num_ranks: int) -> None:
        """Take note of the number of ranks that read the records in this epoch."""
        del num_ranks

    def note_waits(self, waits: int) -> None:
        """Take note of how often the system had to wait for storage during a read."""
        del waits
