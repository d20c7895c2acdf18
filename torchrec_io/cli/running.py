"""What the commands that write data share: options, progress, and how they end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Annotated, TypeAlias, TypeVar

import typer

from ..convert.jobs import Watcher
from ..errors import TorchRecIOError
from .report import Meter, printable, reason_of

T = TypeVar("T")


class Compression(str, Enum):
    """How files are compressed."""

    gzip = "gzip"
    zlib = "zlib"


class OnError(str, Enum):
    """What becomes of what cannot be read or converted."""

    fail = "raise"
    skip = "skip"


CompressionOption: TypeAlias = Annotated[
    Compression | None, typer.Option("--compression", help="Compress the files.")
]
IndexOption: TypeAlias = Annotated[
    bool, typer.Option("--index/--no-index", help="Write FILE.tfidx beside each file.")
]
OnErrorOption: TypeAlias = Annotated[
    OnError, typer.Option("--on-error", help="skip: leave out what is damaged, and name it.")
]


@contextmanager
def usage_errors() -> Iterator[None]:
    """Shows a bad argument as a command line does: status 2."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(printable(str(error))) from None


class _Shown(Watcher):
    """Shows on a meter how it gets on."""

    def __init__(self, meter: Meter) -> None:
        self._meter = meter

    def started(self, total: int) -> None:
        self._meter.expect(total)

    def advanced(self, size: int, records: int) -> None:
        self._meter.add(size, records)

    def skipped(self, error: TorchRecIOError) -> None:
        self._meter.error("skipped", error)


def run(work: Callable[..., T]) -> T:
    """Does the work of a command, which takes a ``watcher``; shows how it gets on, and errors.

    Status 1 if it fails, 2 for a bad argument or a file that is not there.
    """
    try:
        with usage_errors(), Meter([]) as meter:
            return work(watcher=_Shown(meter))
    except (TorchRecIOError, ImportError, MemoryError, RuntimeError) as error:
        typer.echo(reason_of("error", error), err=True)
    except OSError as error:
        typer.echo(reason_of(error.filename or "error", error), err=True)
        if isinstance(error, FileNotFoundError):
            raise typer.Exit(2) from None
    raise typer.Exit(1)
