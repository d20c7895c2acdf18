"""Progress and results of jobs that write files."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from .._storage.location import Location
from .._storage.thread_pool import map_in_threads
from ..checks import check_choice
from ..errors import TorchRecIOError

if TYPE_CHECKING:
    from .._schema.schema import Schema

OnError: TypeAlias = Literal["raise", "skip"]

MOST_KEPT_ERRORS = 1000


class Watcher:
    """A receiver of progress messages. Its methods do nothing; a subclass overrides them.

    The methods are called in the thread that called the tool or conversion. While a report indexes
    files, its threads call :meth:`advanced`, one at a time.
    """

    def started(self, total: int) -> None:
        """Receive the number of bytes that will be read, at the start.

        A report calls it again after it has indexed the files: then it knows what else it reads.
        """

    def advanced(self, size: int, records: int) -> None:
        """Receive the number of bytes read and of records written since the last call."""

    def skipped(self, error: TorchRecIOError) -> None:
        """Receive the reason why something was skipped, because of ``on_error="skip"``."""


@dataclass(frozen=True)
class Result:
    """The result of a tool or conversion.

    Attributes:
        paths: Paths of the files that were written, in order. For a folder of files, its path.
        counts: Number of records in each of the ``paths``.
        skipped: Number of records and files that were skipped, because of ``on_error="skip"``.
        errors: Reasons of the first 1,000 of those.
        ignored: Number of files in the source folder that are not images, by suffix or kind.
        file_bytes: Size of all files in bytes.
        seconds: Duration in seconds.
        schema: Schema that reads the records of a conversion to TFRecord. None if the records have
            no features, and for everything else.
        left_out: Number of records that have values of each feature that the schema of a conversion
            from TFRecord does not read, by name.
    """

    paths: tuple[str, ...]
    counts: tuple[int, ...]
    skipped: int
    errors: tuple[TorchRecIOError, ...]
    ignored: dict[str, int]
    file_bytes: int
    seconds: float
    schema: Schema | None = None
    left_out: dict[str, int] = field(default_factory=dict)

    @property
    def records(self) -> int:
        """Number of records in all files."""
        return sum(self.counts)


class JobReport:
    """The counts and errors of a job. It applies ``on_error``.

    Args:
        on_error: ``"raise"``, or ``"skip"`` to count errors and report them to the watcher.
        watcher: Receiver of progress messages.

    Attributes:
        records: Number of records written so far.
        skipped: Number of records and files skipped so far.
        errors: Reasons of the first 1,000 of those.
        ignored: Number of ignored files by kind.
        watcher: Receiver of progress messages.
        on_error: ``"raise"`` or ``"skip"``.

    Raises:
        ValueError: If ``on_error`` is invalid.
    """

    def __init__(self, on_error: OnError = "raise", watcher: Watcher | None = None) -> None:
        check_choice("on_error", on_error, ("raise", "skip"))
        self.records: int = 0
        self.skipped: int = 0
        self.errors: list[TorchRecIOError] = []
        self.ignored: Counter[str] = Counter()
        self.watcher: Watcher = watcher or Watcher()
        self.on_error: OnError = on_error
        self._began = time.perf_counter()

    def add(self, records: int, size: int, errors: Sequence[TorchRecIOError] = ()) -> None:
        """Count a piece of work.

        Args:
            records: Number of records written.
            size: Number of bytes read.
            errors: Reasons why other records were not written.

        Raises:
            TorchRecIOError: The first error, if errors are raised.
        """
        for error in errors:
            self.skip(error)
        self.records += records
        self.watcher.advanced(size, records)

    def skip(self, error: TorchRecIOError) -> None:
        """Count a skipped record or file; raise the error instead if ``on_error`` is "raise"."""
        if self.on_error == "raise":
            raise error
        self.skipped += 1
        if len(self.errors) < MOST_KEPT_ERRORS:
            self.errors.append(error)
        self.watcher.skipped(error)

    def result(self, outputs: Sequence[Location], counts: Sequence[int]) -> Result:
        """Return the result of the job.

        Args:
            outputs: Files that were written.
            counts: Number of records in each of them.
        """
        # Not the stamps that were found before the files were written.
        sizes = map_in_threads(lambda each: each.stamp_now().size, outputs)
        return Result(
            tuple(each.name for each in outputs),
            tuple(counts),
            self.skipped,
            tuple(self.errors),
            dict(self.ignored),
            sum(sizes),
            time.perf_counter() - self._began,
        )
