"""Progress and errors of the commands."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import typer
from rich.console import Console
from rich.filesize import decimal
from rich.progress import Progress as Bar

from .._records.formats import Progress
from .._storage.location import Location
from .._storage.ordered_pool import OrderedPool
from ..checks import counted
from ..errors import TorchRecIOError
from ..tools.report import Watcher
from .options import usage_errors
from .text import error_line, printable, to_json

T = TypeVar("T")

# Errors of reading a file. Any other exception is a bug and shows its traceback.
_FILE_ERRORS = (TorchRecIOError, OSError, ValueError, MemoryError)


class Meter(Watcher):
    """A counter of bytes and records, with a progress bar if both outputs are terminals.

    It is also the watcher of a tool or conversion.
    """

    def __init__(self) -> None:
        console = Console(stderr=True)
        self.records: int = 0
        self.bytes: int = 0
        self.has_bar: bool = sys.stdout.isatty() and console.is_interactive
        self._lock = threading.Lock()
        self._began = time.perf_counter()
        self._bar = Bar(console=console, transient=True, disable=not self.has_bar)
        self._task = self._bar.add_task("", total=None)

    def __enter__(self) -> Meter:  # noqa: PYI034  # it has no subclasses
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.update(self._task, completed=self._bar.tasks[0].total)
        self._bar.stop()

    def started(self, total: int) -> None:
        """Set the total number of bytes."""
        self._bar.update(self._task, total=total)

    def advanced(self, size: int, records: int) -> None:
        """Count the bytes and records since the last call. Threads may call it."""
        with self._lock:
            self.bytes += size
            self.records += records
        self._bar.advance(self._task, size)

    def skipped(self, error: TorchRecIOError) -> None:
        """Print why something was skipped."""
        print_error("skipped", error)

    def summary(self) -> str:
        """Return the total numbers and the speed."""
        seconds = max(time.perf_counter() - self._began, 1e-9)
        rates = f"{self.records / seconds:,.0f} records/s, {decimal(int(self.bytes / seconds))}/s"
        done = f"{counted(self.records, 'record')}, {decimal(self.bytes)}"
        return f"{done} in {seconds:.2f} s ({rates})"


def print_error(path: str, error: BaseException) -> None:
    """Print an error as a line."""
    typer.echo(error_line(path, error), err=True)


# ---- commands that process each file ----


@dataclass(frozen=True)
class FileOutcome(Generic[T]):
    """The outcome of processing a file: a value or an error.

    The duration is not known if a cluster has processed the file.
    """

    file: Location
    file_bytes: int
    seconds: float | None
    value: T | None
    error: Exception | None

    def as_text(self, found: str) -> str:
        """Return a line with the file, its findings, and its size."""
        duration = "" if self.seconds is None else f", {self.seconds:.3f} s"
        size = counted(self.file_bytes, "byte")
        return printable(f"{self.file}: {found}, {size}{duration}")

    def as_json(self, found: Mapping[str, Any]) -> str:
        """Return a JSON object with the file, its findings, and the error."""
        error = {} if self.error is None else {"error": self.error}
        sizes = {"file_bytes": self.file_bytes, "seconds": self.seconds}
        return to_json({"file": self.file.name, **found, **sizes, **error})


class _Cancelled(Exception):  # noqa: N818  # not an error: it ends threads after Ctrl-C
    pass


def for_each_file(
    files: Sequence[Location],
    jobs: int,
    work: Callable[[Location, Progress], T],
    done: Callable[[FileOutcome[T]], None],
    meter: Meter,
) -> None:
    """Process files in threads, print their errors, and report the outcomes in order.

    Args:
        files: The files.
        jobs: Number of files that are processed at the same time.
        work: Function that processes a file, called in a thread with the file and a function that
            receives the progress.
        done: Function that is called in this thread with the outcome of each file.
        meter: Counter of the progress.
    """

    def run(file: Location) -> FileOutcome[T]:
        seen = (0, 0)

        def progress(file_bytes: int, records: int) -> None:
            nonlocal seen
            if pool.is_stopped:
                raise _Cancelled
            meter.advanced(file_bytes - seen[0], records - seen[1])
            seen = (file_bytes, records)

        began = time.perf_counter()
        value, error = None, None
        try:
            value = work(file, progress)
        except _FILE_ERRORS as raised:
            error = raised
        size = _size(file)
        meter.advanced(size - seen[0], 0)  # of which nothing had to be read
        return FileOutcome(file, size, time.perf_counter() - began, value, error)

    meter.started(sum(map(_size, files)))
    # All files may wait in the pool, so that no thread is idle while a large file is processed.
    with meter, OrderedPool(run, jobs, max_items=len(files)) as pool:
        for outcome in pool.map(files):
            if outcome.error is not None:
                print_error(outcome.file.name, outcome.error)
            done(outcome)


def _size(file: Location) -> int:
    try:
        return file.stamp().size
    except OSError:
        return 0


# ---- commands that call a tool or conversion ----


def run_job(job: Callable[..., T], meter: Meter | None = None, *, ray: str | None = None) -> T:
    """Call a function that takes a ``watcher``, and show its progress and errors.

    An error exits with status 1; an invalid argument or a missing file with status 2.

    Args:
        job: The function.
        meter: Counter of the progress, if it is needed afterwards.
        ray: Address of a Ray cluster, for functions that use one.
    """
    meter = meter or Meter()
    with nullcontext() if ray is None else _connected(ray):
        try:
            with usage_errors(), meter:
                return job(watcher=meter)
        except (TorchRecIOError, ImportError, OSError, MemoryError, RuntimeError) as error:
            print_error(getattr(error, "filename", None) or "error", error)
            raise typer.Exit(2 if isinstance(error, FileNotFoundError) else 1) from None


@contextmanager
def _connected(address: str) -> Iterator[None]:
    """Connect to a Ray cluster; exit with status 2 if that is not possible.

    An error of Ray, such as tasks that are killed again and again, exits with status 1. Threads of
    Ray print news of the cluster, such as a lost node. It goes to the standard error, so that it
    does not end up in the result of a command, which programs read.
    """
    from ..cluster.tasks import connect  # noqa: PLC0415  # rarely needed

    # Repeated messages would be held back, and printed at the end.
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")
    try:
        connect(address)
    except (ConnectionError, ImportError, ValueError) as error:
        print_error("error", error)
        raise typer.Exit(2) from None
    try:
        with redirect_stdout(sys.stderr):
            yield
    except Exception as error:
        ray = sys.modules.get("ray")
        if ray is None or not isinstance(error, ray.exceptions.RayError):
            raise
        reason = str(error).strip().partition("\n")[0]
        typer.echo(printable(f"error: Ray: {reason or type(error).__name__}"), err=True)
        raise typer.Exit(1) from None
