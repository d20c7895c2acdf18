"""Arguments, options and exits that the commands share."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, ParamSpec, TypeAlias

import typer

from .._storage.compression import Compression
from .._storage.location import Location
from .._storage.paths import expand_paths, expand_sets
from ..errors import TorchRecIOError
from ..tools.report import OnError
from .interrupt import MESSAGE, STATUS, raised_at_interrupt
from .text import printable

P = ParamSpec("P")

DEFAULT_JOBS = min(8, os.cpu_count() or 1)


def jobs_option(text: str) -> Any:
    """Return the option ``--jobs`` with a help text. Its default is :data:`DEFAULT_JOBS`."""
    default = "number of CPUs, at most 8"
    return typer.Option("--jobs", "-j", min=1, help=text, show_default=default)


Paths: TypeAlias = Annotated[
    list[str], typer.Argument(metavar="PATH", help="Files, glob patterns, directories or URLs.")
]
AllowMissingOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--allow-missing", help="Read the files that exist, even if shards of their set do not."
    ),
]
FileJobs: TypeAlias = Annotated[int, jobs_option("Number of files processed at the same time.")]
CompressionOption: TypeAlias = Annotated[
    Compression | None, typer.Option("--compression", help="Compress the output files.")
]
IndexOption: TypeAlias = Annotated[
    bool, typer.Option("--index/--no-index", help="Write an index FILE.tfidx beside each file.")
]
ForceOption: TypeAlias = Annotated[
    bool, typer.Option("--force", help="Replace outputs that exist. By default they are refused.")
]
JsonOption: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print the result as a JSON object.")
]
JsonLinesOption: TypeAlias = Annotated[
    bool, typer.Option("--json", help="Print a JSON object for each file, one a line.")
]
OnErrorOption: TypeAlias = Annotated[
    OnError,
    typer.Option("--on-error", help="raise: stop at a damaged record; skip: skip and report it."),
]
ShardsOption: TypeAlias = Annotated[
    int | None, typer.Option("--num-shards", min=1, help="Number of output files.")
]
MaxBytesOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--max-bytes", help="Largest size of an output file: 100MB, 1GiB."),
]
RayOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="[ADDRESS]",
        help="Do the work on a Ray cluster: its address, auto or nothing for the cluster of this "
        "machine, or local to start one here.",
    ),
]


def interruptible(command: Callable[P, None]) -> Callable[P, None]:
    """Make Ctrl-C end a command with status 130 and no traceback."""

    @functools.wraps(command)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            with raised_at_interrupt():
                command(*args, **kwargs)
        except KeyboardInterrupt:
            typer.echo(MESSAGE, err=True)
            raise typer.Exit(STATUS) from None

    return wrapper


def calls(function: Callable[..., None]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command call a function with the values of its options."""
    return lambda command: interruptible(functools.wraps(command)(functools.partial(function)))


@contextmanager
def usage_errors() -> Iterator[None]:
    """Report a ValueError as an invalid argument, with status 2."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(printable(str(error))) from None


def files_of(paths: Sequence[str], *, allow_missing: bool = False) -> list[Location]:
    """Return the data files that arguments match, each once.

    The credentials of remote objects are those of the environment.

    Exit with status 2 without a match, or if shards of a set are missing that may not be.
    """
    return _expanded(lambda: [expand_paths(paths, allow_missing=allow_missing)])[0]


def sets_of(paths: Sequence[str], *, allow_missing: bool) -> list[list[Location]]:
    """Return the files of :func:`files_of` by sets, where a directory may have several."""
    return _expanded(lambda: expand_sets(paths, allow_missing=allow_missing))


def _expanded(expand: Callable[[], list[list[Location]]]) -> list[list[Location]]:
    try:
        sets = expand()
    except (OSError, ValueError, ImportError, TorchRecIOError) as error:
        typer.echo(f"error: {printable(str(error))}", err=True)
        raise typer.Exit(2) from None
    # A shell's `*` also matches the indexes of the files.
    names = [file.name for files in sets for file in files]
    indexes = {name + suffix for name in names for suffix in (".tfidx", ".idx")}
    return [[file for file in dict.fromkeys(files) if file.name not in indexes] for files in sets]


def given_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given, parsed, as keyword arguments."""
    with usage_errors():
        return {
            name: _PARSERS[name](value) if name in _PARSERS else value
            for name, value in options.items()
            if value is not None and value != []
        }


_UNITS = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4}
_BINARY_UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE = re.compile(r"(\d{1,18}(?:\.\d{1,18})?)\s*(?:([KMGT]?)B?|([KMGT])iB)", re.IGNORECASE)


def parse_size(text: str) -> int:
    """Return the number of bytes in a text such as "100MB", "1.5G", "64 MiB" or "4096".

    Raises:
        ValueError: If the text is not a size of at least 1 byte.
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"a size must look like 100MB, 1.5GB, 64MiB or 4096, got {text!r}")
    number, unit, binary = found.groups()
    factor = _BINARY_UNITS[binary.upper()] if binary else _UNITS[unit.upper()]
    size = round(float(number) * factor)
    if size < 1:
        raise ValueError(f"a size must be at least 1 byte, got {text!r}")
    return size


def parse_range(option: str, text: str) -> tuple[int, int]:
    """Return the first number and the end of a range such as "5", which is "0:5", or "10:15".

    Raises:
        ValueError: If the text is not a range of at least 1 number.
    """
    found = re.fullmatch(r"(?:(\d{1,18}):)?(\d{1,18})", text.strip())
    start, stop = (int(found[1] or 0), int(found[2])) if found else (0, 0)
    if start >= stop:
        raise ValueError(f"{option} must be N or START:STOP with START < STOP, got {text!r}")
    return start, stop


def _parse_fractions(text: str) -> list[float]:
    """Return the numbers of "0.8,0.2", "80,20", "80 20" or "80%, 20%"."""
    parts = re.split(r"\s*,\s*|\s+", text.strip())
    is_percent = all(part.endswith("%") for part in parts)
    try:
        numbers = [float(part.removesuffix("%") if is_percent else part) for part in parts]
    except ValueError:
        raise ValueError(
            f"fractions must be numbers, such as 0.8,0.1,0.1 or 80,10,10, got {text!r}"
        ) from None
    return [number / 100 for number in numbers] if is_percent else numbers


def _parse_image_size(text: str) -> tuple[int, int] | int:
    found = re.fullmatch(r"(\d{1,6})(?:[xX](\d{1,6}))?", text)
    if found is None:
        raise ValueError(f"--resize must be WIDTHxHEIGHT or one number, got {text!r}")
    return int(found[1]) if found[2] is None else (int(found[1]), int(found[2]))


def _parse_pairs(texts: Iterable[str]) -> dict[str, str]:
    pairs = {}
    for item in ",".join(texts).split(","):
        name, equals, value = item.rpartition("=")
        if not equals:
            raise ValueError(f"--types and --extensions must be NAME=VALUE,..., got {item!r}")
        pairs[name] = value
    return pairs


_PARSERS: dict[str, Callable[[Any], Any]] = {
    "columns": lambda text: text.split(","),
    "exclude": lambda text: text.split(","),
    "extensions": _parse_pairs,
    "fractions": _parse_fractions,
    "include": lambda text: text.split(","),
    "max_bytes": parse_size,
    "names": lambda text: text.split(","),
    "resize": _parse_image_size,
    "types": _parse_pairs,
}
