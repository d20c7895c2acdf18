"""Arguments, options and exits that the commands share."""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, ParamSpec

import typer
from typer import Argument, Option

from .._storage.location import Location
from .._storage.paths import expand_paths, expand_sets
from ..errors import TorchRecIOError
from .interrupt import MESSAGE, STATUS, raised_at_interrupt
from .text import printable

P = ParamSpec("P")

DEFAULT_JOBS = min(8, os.cpu_count() or 1)

# The options and arguments that several commands have, by parameter.
_SHARED: dict[str, Any] = {
    "paths": Argument(metavar="PATH", help="Files, glob patterns, directories or URLs."),
    "num_shards": Option(min=1, help="Number of output files."),
    "max_bytes": Option(help="Largest size of an output file: 100MB, 1GiB."),
    "compression": Option(help="Compress the output files."),
    "index": Option(help="Write an index FILE.tfidx beside each file."),
    "force": Option(help="Replace outputs that exist. By default they are refused."),
    "on_error": Option(help="raise: stop at a damaged record; skip: skip and report it."),
    "allow_missing": Option(help="Read the files that exist, even if shards of their set do not."),
    "ray": Option(
        metavar="[ADDRESS]",
        help="Do the work on a Ray cluster: its address, auto or nothing for the cluster of this "
        "machine, or local to start one here.",
    ),
    "as_json": Option("--json", help="Print the result as a JSON object."),
}
JSON_LINES: Any = Option("--json", help="Print a JSON object for each file, one a line.")


def jobs_option(text: str = "Number of threads.") -> Any:
    """Return the option ``--jobs`` with a help text. Its default is :data:`DEFAULT_JOBS`."""
    default = "number of CPUs, at most 8"
    return Option("--jobs", "-j", min=1, help=text, show_default=default)


FILE_JOBS: Any = jobs_option("Number of files processed at the same time.")


def command(
    own: Mapping[str, Any],
    *,
    signature: inspect.Signature | None = None,
    calls: Callable[..., None] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command of a function: an option for each parameter, and the docstring as help.

    Args:
        own: The options and arguments that other commands do not have, by parameter.
        signature: Names, types and defaults of the parameters, if they are not the function's own.
        calls: Function that the command calls with all options, if it is another one.
    """
    known = {**_SHARED, **own}

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        found = signature or inspect.signature(function, eval_str=True)
        made: Any = functools.wraps(function)(_interruptible(calls or function))
        made.__signature__ = found.replace(
            parameters=[
                each.replace(annotation=Annotated[each.annotation, _with_flag(each, known)])
                for each in found.parameters.values()
            ]
        )
        # Typer prefers these annotations to those of the signature.
        made.__annotations__ = {}
        return made  # type: ignore[no-any-return]

    return decorate


def _with_flag(parameter: inspect.Parameter, known: Mapping[str, Any]) -> Any:
    """Return the option of a parameter. One that is False by default has no ``--no-`` form."""
    option = known[parameter.name]
    if parameter.default is False and option.default is ...:  # it would be the first flag
        option.param_decls = (option_name(parameter.name),)
    return option


def _interruptible(function: Callable[P, None]) -> Callable[P, None]:
    """Make Ctrl-C end a function with status 130 and no traceback."""

    def wrapper(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            with raised_at_interrupt():
                function(*args, **kwargs)
        except KeyboardInterrupt:
            typer.echo(MESSAGE, err=True)
            raise typer.Exit(STATUS) from None

    return wrapper


def option_name(parameter: str) -> str:
    """Return the option for a parameter of a function: ``--num-shards`` for ``num_shards``."""
    return f"--{parameter.replace('_', '-')}"


def cluster_function(name: str, options: dict[str, Any]) -> Callable[..., Any]:
    """Return a function of ``tio.cluster``, which must take the options that were given.

    The number of jobs is removed from them: the cluster determines it.
    """
    from .. import cluster  # noqa: PLC0415  # rarely needed

    function: Callable[..., Any] = getattr(cluster, name)
    options.pop("jobs", None)
    parameters = inspect.signature(function).parameters
    for option in options:
        if option not in parameters and "options" not in parameters:
            raise typer.BadParameter(f"{option_name(option)} cannot be used with --ray")
    for option, parameter in parameters.items():
        is_required = (
            parameter.default is parameter.empty and parameter.kind is parameter.KEYWORD_ONLY
        )
        if is_required and option not in options:
            raise typer.BadParameter(f"--ray needs {option_name(option)}")
    return function


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


def _parse_compression(text: str) -> str | None:
    return None if text == "none" else text


_PARSERS: dict[str, Callable[[Any], Any]] = {
    "columns": lambda text: text.split(","),
    "compression": _parse_compression,
    "extensions": _parse_pairs,
    "fractions": _parse_fractions,
    "input_compression": _parse_compression,
    "max_bytes": parse_size,
    "max_record_bytes": parse_size,
    "names": lambda text: text.split(","),
    "resize": _parse_image_size,
    "types": _parse_pairs,
}
