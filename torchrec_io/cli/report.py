"""What the commands share: from arguments to files, work on many files at once, lines and a bar."""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any, Generic, ParamSpec, TypeAlias, TypeVar

import typer
from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.text import Text

from ..errors import TorchRecIOError
from ..records.formats import Progress
from ..storage.paths import expand_paths

T = TypeVar("T")
P = ParamSpec("P")

Paths: TypeAlias = Annotated[
    list[str], typer.Argument(metavar="PATH", help="Files, glob patterns or directories.")
]
DEFAULT_JOBS = min(8, os.cpu_count() or 1)


def jobs_option(what: str) -> Any:
    """The option ``--jobs``, whose default is :data:`DEFAULT_JOBS`."""
    shown = "as many as CPUs, but 8 at most"
    return typer.Option("--jobs", "-j", min=1, help=what, show_default=shown)


Jobs: TypeAlias = Annotated[int, jobs_option("Files done at once.")]

# What reading a file may raise. Anything else is a bug and shows as one.
_TROUBLE = (TorchRecIOError, OSError, ValueError, MemoryError)


def interruptible(command: Callable[P, None]) -> Callable[P, None]:
    """Makes Ctrl-C end a command as shells expect: status 130, and no traceback."""

    @functools.wraps(command)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except KeyboardInterrupt:
            typer.echo("interrupted", err=True)
            raise typer.Exit(130) from None

    return wrapper


def files_of(paths: Sequence[str]) -> list[str]:
    """The data files that arguments stand for, each once; if one stands for none, exits."""
    try:
        files = dict.fromkeys(expand_paths(paths))
    except (OSError, ValueError) as error:
        typer.echo(f"error: {printable(str(error))}", err=True)
        raise typer.Exit(2) from None
    # A shell's `*` names a file's index along with the file.
    return [file for file in files if not _is_index_of_one(file, files)]


def _is_index_of_one(file: str, files: dict[str, None]) -> bool:
    stem, suffix = os.path.splitext(file)
    return suffix in (".tfidx", ".idx") and stem in files


def printable(text: str) -> str:
    """Text that leaves the terminal as it is: no control characters, on one line."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def reason_of(path: str, error: BaseException) -> str:
    """``path: reason`` in one line."""
    if isinstance(error, TorchRecIOError):
        return printable(str(error))
    reason = error.strerror if isinstance(error, OSError) else str(error)
    if isinstance(error, MemoryError):
        reason = "out of memory"
    return printable(f"{path}: {reason}")


@dataclass(frozen=True)
class Result(Generic[T]):
    """What came of one file: a value, or an error."""

    path: str
    file_bytes: int
    seconds: float
    value: T | None
    error: Exception | None


class Meter:
    """Adds up what threads have done; shows it as a bar while both outputs go to a terminal."""

    def __init__(self, files: Sequence[str]) -> None:
        self.records = 0
        self.bytes = 0
        self.has_bar = False
        self._console = Console()
        self._total = sum(map(_size, files))
        self._lock = threading.Lock()
        self._began = time.perf_counter()

    def __enter__(self) -> Meter:  # noqa: PYI034  # nobody derives from it
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

    def expect(self, file_bytes: int) -> None:
        """Says how many bytes there will be, where files do not tell."""
        self._total = file_bytes
        self._bar.update(self._task, total=file_bytes)

    def add(self, file_bytes: int, records: int) -> None:
        """Counts what was read since the last call."""
        with self._lock:
            self.bytes += file_bytes
            self.records += records
        self._bar.update(self._task, advance=file_bytes, description=self.rates())

    def skip(self, file_bytes: int) -> None:
        """Moves the bar over what did not have to be read."""
        self._bar.update(self._task, advance=file_bytes)

    def rates(self) -> str:
        """Records and bytes a second so far."""
        seconds = max(time.perf_counter() - self._began, 1e-9)
        return f"{self.records / seconds:,.0f} records/s, {decimal(int(self.bytes / seconds))}/s"

    def summary(self) -> str:
        """All that was read, and how fast."""
        seconds = time.perf_counter() - self._began
        done = f"{self.records:,} records, {decimal(self.bytes)}"
        return f"{done} in {seconds:.2f} s ({self.rates()})"

    def line(self, text: str) -> None:
        """Prints a line, above the bar where there is one."""
        if self.has_bar:
            self._console.print(Text(printable(text)), soft_wrap=True)
        else:
            typer.echo(printable(text))

    def error(self, path: str, error: BaseException) -> None:
        """Prints an error as a line."""
        if self.has_bar:
            self.line(reason_of(path, error))
        else:
            typer.echo(reason_of(path, error), err=True)


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


class _Cancelled(Exception):  # noqa: N818  # no error: it ends threads whose work nobody wants now
    pass


def for_each_file(
    files: Sequence[str],
    jobs: int,
    work: Callable[[str, Progress], T],
    done: Callable[[Meter, Result[T]], None],
) -> Meter:
    """Works on files in threads; tells of each one, in order, as soon as it is done.

    Args:
        files: The files.
        jobs: How many are worked on at once.
        work: Called in a thread, with the file and what to report progress to.
        done: Called in the main thread with what came of each file.
    """
    stop = threading.Event()
    with Meter(files) as meter, ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(_run, work, path, meter, stop) for path in files]
        try:
            for future in futures:
                done(meter, future.result())
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise
    return meter


def _run(
    work: Callable[[str, Progress], T], path: str, meter: Meter, stop: threading.Event
) -> Result[T]:
    began = time.perf_counter()
    seen = (0, 0)

    def progress(file_bytes: int, records: int) -> None:
        nonlocal seen
        if stop.is_set():
            raise _Cancelled
        meter.add(file_bytes - seen[0], records - seen[1])
        seen = (file_bytes, records)

    value, trouble = None, None
    try:
        value = work(path, progress)
    except _TROUBLE as error:
        trouble = error
    size = _size(path)
    meter.skip(size - seen[0])
    return Result(path, size, time.perf_counter() - began, value, trouble)
