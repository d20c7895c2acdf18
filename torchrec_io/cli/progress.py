"""Progress of the commands: a bar or lines, errors and summaries."""

from __future__ import annotations

import functools
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TextIO, TypeVar, cast

import typer
from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.text import Text

from .._records.formats import Progress
from .._storage.location import Location
from .._storage.ordered_pool import OrderedPool
from .._storage.thread_pool import map_in_threads
from ..checks import counted
from ..errors import TorchRecIOError
from ..tools.report import Result, Watcher
from .options import usage_errors
from .text import error_line, error_members, printable, shorten

T = TypeVar("T")

# Features that a summary names.
_MOST_NAMED = 10

# Errors of reading a file. Any other exception is a bug and shows its traceback.
_FILE_ERRORS = (TorchRecIOError, OSError, ValueError, MemoryError)


class Meter(Watcher):
    """A counter of bytes and records, with a progress bar if both outputs are terminals.

    It is also the watcher of a tool or conversion.
    """

    def __init__(self, files: Sequence[Location]) -> None:
        self.records: int = 0
        self.bytes: int = 0
        self.has_bar: bool = False
        self._console = Console()
        self._total = sum(map(_size, files))
        self._lock = threading.Lock()
        self._began = time.perf_counter()

    def __enter__(self) -> Meter:  # noqa: PYI034  # it has no subclasses
        self.has_bar = sys.stdout.isatty() and sys.stderr.isatty() and self._console.is_interactive
        self._bar = Bar(
            BarColumn(),
            TextColumn("{task.percentage:3.0f}%"),
            TextColumn("{task.description}"),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
            disable=not self.has_bar,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._task = self._bar.add_task(self.rates(), total=self._total)
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.update(self._task, description=self.rates(), completed=self._total)
        self._bar.stop()

    def started(self, total: int) -> None:
        """Set the total number of bytes, if it is not the size of the files."""
        self._total = total
        self._bar.update(self._task, total=total)

    def advanced(self, size: int, records: int) -> None:
        """Count the bytes and records since the last call. Threads may call it."""
        with self._lock:
            self.bytes += size
            self.records += records
        self._bar.update(self._task, advance=size, description=self.rates())

    def skipped(self, error: TorchRecIOError) -> None:
        """Print why something was skipped."""
        self.error("skipped", error)

    def advance_bar(self, file_bytes: int) -> None:
        """Advance the bar past bytes that need not be read."""
        self._bar.update(self._task, advance=file_bytes)

    def rates(self) -> str:
        """Return the records and bytes per second so far."""
        seconds = max(time.perf_counter() - self._began, 1e-9)
        return f"{self.records / seconds:,.0f} records/s, {decimal(int(self.bytes / seconds))}/s"

    def summary(self) -> str:
        """Return the total numbers and the speed."""
        seconds = time.perf_counter() - self._began
        done = f"{counted(self.records, 'record')}, {decimal(self.bytes)}"
        return f"{done} in {seconds:.2f} s ({self.rates()})"

    def line(self, text: str) -> None:
        """Print a line, above the bar if there is one."""
        if self.has_bar:
            self._console.print(Text(printable(text)), soft_wrap=True)
        else:
            typer.echo(printable(text))

    def error(self, path: str, error: BaseException) -> None:
        """Print an error as a line."""
        if self.has_bar:
            self.line(error_line(path, error))
        else:
            typer.echo(error_line(path, error), err=True)


def _size(file: Location) -> int:
    try:
        return file.stamp().size
    except OSError:
        return 0


# ---- commands that process each file ----


@dataclass(frozen=True)
class FileOutcome(Generic[T]):
    """The outcome of processing a file: a value or an error.

    The duration is not known if several tasks of a cluster have read the file.
    """

    file: Location
    file_bytes: int
    seconds: float | None
    value: T | None
    error: Exception | None

    @property
    def path(self) -> str:
        """Name of the file."""
        return self.file.name

    def as_json(self, found: Mapping[str, Any]) -> str:
        """Return a JSON object with the file, its findings, and the error."""
        error = {} if self.error is None else {"error": error_members(self.error)}
        sizes = {"file_bytes": self.file_bytes, "seconds": self.seconds}
        return json.dumps({"file": self.path, **found, **sizes, **error})


class _Cancelled(Exception):  # noqa: N818  # not an error: it ends threads after Ctrl-C
    pass


def for_each_file(
    files: Sequence[Location],
    jobs: int,
    work: Callable[[Location, Progress], T],
    done: Callable[[Meter, FileOutcome[T]], None],
    *,
    ray: str | None = None,
) -> Meter:
    """Process files in threads, or on a cluster, and report the outcomes in order.

    Args:
        files: The files.
        jobs: Number of files that are processed at the same time.
        work: Function that processes a file, called in a thread with the file and a function that
            receives the progress. It must be possible to pickle it for a cluster.
        done: Function that is called in the main thread with the outcome of each file.
        ray: Address of a Ray cluster that does the work; None for this process.
    """
    if ray is not None:
        return _for_each_file_on_ray(files, work, done, address=ray)

    def run(file: Location) -> FileOutcome[T]:
        seen = (0, 0)

        def progress(file_bytes: int, records: int) -> None:
            nonlocal seen
            if pool.is_stopped:
                raise _Cancelled
            meter.advanced(file_bytes - seen[0], records - seen[1])
            seen = (file_bytes, records)

        outcome = _outcome(file, work, progress)
        meter.advance_bar(outcome.file_bytes - seen[0])
        return outcome

    # All files may wait in the pool, so that no thread is idle while a large file is processed.
    with Meter(files) as meter, OrderedPool(run, jobs, max_items=len(files)) as pool:
        for outcome in pool.map(files):
            done(meter, outcome)
    return meter


def _outcome(
    file: Location, work: Callable[[Location, Progress], T], progress: Progress
) -> FileOutcome[T]:
    began = time.perf_counter()
    value, error = None, None
    try:
        value = work(file, progress)
    except _FILE_ERRORS as raised:
        error = raised
    return FileOutcome(file, _size(file), time.perf_counter() - began, value, error)


def _for_each_file_on_ray(
    files: Sequence[Location],
    work: Callable[[Location, Progress], T],
    done: Callable[[Meter, FileOutcome[T]], None],
    *,
    address: str,
) -> Meter:
    from ..cluster.tasks import run_tasks  # noqa: PLC0415  # rarely needed

    connect_to_ray(address)
    run = functools.partial(_outcome, work=work, progress=_no_progress)
    files = [file.absolute() for file in files]
    sizes = map_in_threads(_size, files)
    results = run_tasks(run, files, sizes)
    with Meter([]) as meter, ray_errors(), closing(results):
        meter.started(sum(sizes))
        for outcome, size in results:
            meter.advanced(size, getattr(outcome.value, "records", 0))
            done(meter, outcome)
    return meter


def connect_to_ray(address: str) -> None:
    """Connect to a Ray cluster; exit with status 2 if that is not possible.

    From then on only this thread prints to the standard output.
    """
    from ..cluster.tasks import connect  # noqa: PLC0415  # rarely needed

    # Repeated messages would be held back, and printed by this thread at its end.
    os.environ.setdefault("RAY_DEDUP_LOGS", "0")
    try:
        connect(address)
    except (ConnectionError, ImportError, ValueError) as error:
        typer.echo(error_line("error", error), err=True)
        raise typer.Exit(2) from None
    sys.stdout = cast("TextIO", _OutputOfOneThread(sys.stdout, sys.stderr))


class _OutputOfOneThread:
    """A standard output of the current thread; output of other threads goes to the standard error.

    A thread of Ray prints news of the cluster, such as a lost node, to ``sys.stdout``. It must not
    end up in the result of a command, which programs read.
    """

    def __init__(self, output: TextIO, errors: TextIO) -> None:
        self._output = output
        self._errors = errors
        self._owner = threading.get_ident()

    def write(self, text: str) -> int:
        return self._stream().write(text)

    def flush(self) -> None:
        self._stream().flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._output, name)

    def _stream(self) -> TextIO:
        return self._output if threading.get_ident() == self._owner else self._errors


@contextmanager
def ray_errors() -> Iterator[None]:
    """Report an error of Ray, such as tasks that are killed again and again, with status 1."""
    try:
        yield
    except Exception as error:
        ray = sys.modules.get("ray")
        if ray is None or not isinstance(error, ray.exceptions.RayError):
            raise
        reason = str(error).strip().partition("\n")[0]
        typer.echo(printable(f"error: Ray: {reason or type(error).__name__}"), err=True)
        raise typer.Exit(1) from None


def _no_progress(file_bytes: int, records: int) -> None:
    """Receive the progress of a file on another machine, which is counted at its end."""


# ---- commands that call a tool or conversion ----


def run_job(job: Callable[..., T], meter: Meter | None = None) -> T:
    """Call a function that takes a ``watcher``, and show its progress and errors.

    An error exits with status 1; an invalid argument or a missing file with status 2.

    Args:
        job: The function.
        meter: Counter of the progress, if it is needed afterwards.
    """
    try:
        with usage_errors(), ray_errors(), meter or Meter([]) as watcher:
            return job(watcher=watcher)
    except (TorchRecIOError, ImportError, OSError, MemoryError, RuntimeError) as error:
        typer.echo(error_line(getattr(error, "filename", None) or "error", error), err=True)
        raise typer.Exit(2 if isinstance(error, FileNotFoundError) else 1) from None


def summary_of(result: Result) -> str:
    """Summarize a result in one line."""
    noun = "folder" if os.path.isdir(result.paths[0]) else "file"
    ignored = ", ".join(f"{count:,} {kind}" for kind, count in sorted(result.ignored.items()))
    parts = [
        f"{counted(result.records, 'record')} in {counted(len(result.paths), noun)}",
        decimal(result.file_bytes),
        f"{result.skipped:,} skipped",
        f"ignored {ignored}" if ignored else "",
        left_out_text(result.left_out),
        f"{result.seconds:.2f} s",
    ]
    return printable(", ".join(filter(None, parts)))


def left_out_text(left_out: Mapping[str, int]) -> str:
    """Name the features that a schema leaves out, and the numbers of records that have them."""
    if not left_out:
        return ""
    named = [
        f"{shorten(repr(name))} (in {counted(count, 'record')})" for name, count in left_out.items()
    ]
    more = f" and {len(named) - _MOST_NAMED:,} more" if len(named) > _MOST_NAMED else ""
    noun = "feature" if len(named) == 1 else "features"
    return f"left out {noun} {', '.join(named[:_MOST_NAMED])}{more}"


def print_result(result: Result, *, as_json: bool = False) -> None:
    """Print a line for each file, if there are only a few, and a summary."""
    if as_json:
        typer.echo(result_json(result))
        return
    if 1 < len(result.paths) <= 16:
        for path, count in zip(result.paths, result.counts, strict=True):
            typer.echo(printable(f"{path}: {counted(count, 'record')}"))
    typer.echo(summary_of(result))


def result_json(result: Result) -> str:
    """Return a result as a JSON object."""
    files = [
        {"file": path, "records": count}
        for path, count in zip(result.paths, result.counts, strict=True)
    ]
    return json.dumps(
        {
            "files": files,
            "records": result.records,
            "file_bytes": result.file_bytes,
            "skipped": result.skipped,
            "errors": [error_members(error) for error in result.errors],
            "ignored": result.ignored,
            "left_out": dict(result.left_out),
            "schema": None if result.schema is None else json.loads(result.schema.to_json()),
            "seconds": result.seconds,
        }
    )
