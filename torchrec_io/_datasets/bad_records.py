"""Bad records: they are raised, or counted and reported, as ``on_error`` specifies."""

from __future__ import annotations

import logging
import re
import sys
from typing import Any

from .._tensors.loaded import Loaded
from ..checks import counted
from ..errors import CorruptRecordError, StaleIndexError, TorchRecIOError, TruncatedFileError
from .record_loader import RecordLoader
from .statistics import LoadingCounters

logger = logging.getLogger("torchrec_io")

# Damage of the records of a file, for which the message has no other remedy.
_DAMAGE = re.compile(
    "(checksum|past the end of the file|file ends inside [^;]*|stream is damaged[^;]*)$"
)
_REMEDY = (
    'on_error="skip" reads the records that can be found, and torchrec-io repair copies the intact '
    "ones of a TFRecord file"
)


class ErrorHandler:
    """Raises, counts or passes on the errors of bad records of one process.

    With ``on_error="skip"``, errors are only counted. :meth:`report` logs one line for each file.

    Args:
        on_error: See :class:`torchrec_io.TFRecordDataset`.
        counters: Counts the errors that are skipped, and the records that are repeated.
    """

    def __init__(self, on_error: Any, counters: LoadingCounters) -> None:
        self._on_error = on_error
        self._counters = counters
        self._epoch: int | None = None
        # Number of errors skipped in each file since the last report, and the text of the first.
        self._skipped: dict[str | None, int] = {}
        self._first: dict[str | None, str] = {}
        self._repeated = 0

    def begin_epoch(self, epoch: int) -> None:
        """Report the epoch before, if there was one."""
        if epoch != self._epoch:
            self.report()
            self._epoch = epoch

    def handle(self, errors: list[TorchRecIOError]) -> None:
        """Handle each error, in order. The list is empty afterwards."""
        while errors:
            error = errors.pop(0)
            if self._is_fatal(error):
                is_damage = isinstance(error, (CorruptRecordError, TruncatedFileError))
                if is_damage and _DAMAGE.search(error.reason):
                    error.reason += f"; {_REMEDY}"
                try:
                    raise error
                finally:
                    # Its traceback refers to this frame. A reference back would keep files open
                    # until the garbage collector runs.
                    del error
            self._counters.add("skipped", 1)
            if callable(self._on_error):
                self._on_error(error)
            else:
                self._first.setdefault(error.path, str(error))
                self._skipped[error.path] = self._skipped.get(error.path, 0) + 1

    def handle_loaded(self, loaded: Loaded, loader: RecordLoader) -> None:
        """Handle the errors of all records of a batch that could not be loaded."""
        self.handle(loaded.errors)
        if self._on_error != "skip":
            for index in range(len(loaded.failed)):
                self.handle([loader.error_of(loaded, index)])
        elif len(loaded.failed):
            self._counters.add("skipped", len(loaded.failed))
            for index, place in enumerate(loader.reader.locate(loaded.failed)):
                if place.path not in self._first:
                    self._first[place.path] = str(loader.error_of(loaded, index))
                self._skipped[place.path] = self._skipped.get(place.path, 0) + 1

    def will_raise(self, loaded: Loaded) -> bool:
        """Return whether :meth:`handle_loaded` would raise an error."""
        is_fatal = self._on_error == "raise" and len(loaded.failures) > 0
        return is_fatal or any(map(self._is_fatal, loaded.errors))

    def count_repeated(self, count: int) -> None:
        """Count records that are repeated in place of lost ones."""
        if count:
            self._repeated += count
            self._counters.add("repeated", count)

    def report(self) -> None:
        """Log the numbers of errors skipped and records repeated since the last report."""
        skipped, first, repeated = self._skipped, self._first, self._repeated
        self._skipped, self._first, self._repeated = {}, {}, 0
        if sys.is_finalizing():  # the log may be closed
            return
        epoch = "" if self._epoch is None else f" in epoch {self._epoch}"
        for path, count in skipped.items():
            which = ":" if count == 1 else ", the first one:"
            logger.warning("skipped %s%s%s %s", counted(count, "error"), epoch, which, first[path])
        if repeated:
            logger.warning(
                "repeated %s%s in place of lost ones, so that the number of steps stays as planned",
                counted(repeated, "record"),
                epoch,
            )

    def _is_fatal(self, error: TorchRecIOError) -> bool:
        # A stale index is not a bad record: skipping would lose all records, one by one.
        return self._on_error == "raise" or isinstance(error, StaleIndexError)
