"""Arguments, options and exits that the commands share."""

from __future__ import annotations

import copy
import functools
import inspect
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, ParamSpec, get_args, get_type_hints

import typer
from typer import Argument, BadParameter, Option

from .._storage.location import Location
from .._storage.paths import expand_paths
from ..errors import TorchRecIOError
from .interrupt import MESSAGE, STATUS, raised_at_interrupt
from .parsers import parse_size
from .text import printable

P = ParamSpec("P")

DEFAULT_JOBS = min(8, os.cpu_count() or 1)

# Flags, limits and names of values of the options that several commands have, by parameter.
_SHARED: dict[str, Any] = {
    "paths": Argument(metavar="PATH", help="Files, glob patterns, directories or URLs."),
    "allow_missing": Option(help="Read the files that exist, even if shards of their set do not."),
    "jobs": Option("--jobs", "-j", min=1, show_default="number of CPUs, at most 8"),
    "compression": Option(help="Compress the output files."),
    "num_shards": Option(min=1),
    "max_bytes": Option(metavar="SIZE", parser=parse_size),
    "ray": Option(
        metavar="[ADDRESS]",
        help="Do the work on a Ray cluster: its address, auto or nothing for the cluster of this "
        "machine, or local to start one here.",
    ),
    "as_json": Option("--json"),
}


def command(
    signature: inspect.Signature | None = None,
    calls: Callable[..., None] | None = None,
    **own: Any,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a command of a function, which has an option for each parameter.

    The help is the docstring up to its section "Options" or "Args", which has the help of options.

    Args:
        signature: Names, types and defaults of the parameters, if they are not the function's own.
        calls: Function that the command calls with all options, if it is another one.
        own: The arguments of the command, and options with facts that signatures do not have.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        found = signature or inspect.signature(function, eval_str=True)
        text, *sections = _SECTION.split(inspect.cleandoc(function.__doc__ or ""))
        # Where several entries have the same name, the first one counts.
        helps = dict(reversed(_ENTRY.findall("".join(sections))))
        names = {f"``{name}``": option_name(name) for name in found.parameters}
        made: Any = functools.wraps(function)(_interruptible(calls or function))
        made.__doc__ = _plain(text, names)
        made.__signature__ = found.replace(
            parameters=[
                each.replace(annotation=Annotated[each.annotation, option])
                for each in found.parameters.values()
                for option in [_option_of(each, own, _plain(helps.get(each.name, ""), names))]
            ]
        )
        # Typer prefers these annotations to those of the signature.
        made.__annotations__ = {}
        return made  # type: ignore[no-any-return]

    return decorate


# The sections of a docstring that describe parameters, and all others; and an entry in them.
_SECTION = re.compile(r"\n\n(?:Options|Args|Returns|Raises):\n")
_ENTRY = re.compile(r"^    (\w+): (.*(?:\n {5,}.*)*)", re.MULTILINE)


def _option_of(parameter: inspect.Parameter, own: Mapping[str, Any], text: str) -> Any:
    """Return the option of a parameter. One that is False by default has no ``--no-`` form."""
    option = copy.copy(own.get(parameter.name) or _SHARED.get(parameter.name) or Option())
    option.help = option.help or re.sub(r"\s*\n\s*", " ", text)
    if parameter.default is False and option.default is ...:  # it would be the first flag
        option.param_decls = (option_name(parameter.name),)
    return option


def _plain(text: str, names: Mapping[str, str]) -> str:
    """Return the text of a docstring without markup. Parameters are named as options."""
    for name, option in names.items():
        text = text.replace(name, option)
    return text.replace('``"', "").replace('"``', "").replace("``", "")


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
    check_options(function, options, "--ray")
    for each in inspect.signature(function).parameters.values():
        is_required = each.kind is each.KEYWORD_ONLY and each.default is each.empty
        if is_required and each.name not in options:
            raise BadParameter(f"--ray needs {option_name(each.name)}")
    return function


def check_options(function: Callable[..., Any], options: Iterable[str], choice: str) -> None:
    """Refuse options that are not arguments of a function, which an option has chosen."""
    parameters = inspect.signature(function, eval_str=True).parameters
    allowed = {*parameters}
    for each in parameters.values():
        if each.kind is each.VAR_KEYWORD:
            [kind] = get_args(each.annotation)
            allowed |= get_type_hints(kind).keys()
    for name in options:
        if name not in allowed:
            raise BadParameter(f"{option_name(name)} cannot be used with {choice}")


@contextmanager
def usage_errors() -> Iterator[None]:
    """Report a ValueError as an invalid argument, with status 2."""
    try:
        yield
    except ValueError as error:
        raise BadParameter(printable(str(error))) from None


def files_of(
    paths: Sequence[str], *, allow_missing: bool = False, one_set: bool = True
) -> list[Location]:
    """Return the data files that arguments match, each once.

    The credentials of remote objects are those of the environment.

    Exit with status 2 without a match, or if shards of a set are missing that may not be.
    """
    try:
        files = expand_paths(paths, allow_missing=allow_missing, one_set=one_set)
    except (OSError, ValueError, ImportError, TorchRecIOError) as error:
        typer.echo(f"error: {printable(str(error))}", err=True)
        raise typer.Exit(2) from None
    # A shell's `*` also matches the indexes of the files.
    indexes = {file.name + suffix for file in files for suffix in (".tfidx", ".idx")}
    return [file for file in dict.fromkeys(files) if file.name not in indexes]


def given_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given, as keyword arguments."""
    return {name: value for name, value in options.items() if value is not None and value != []}
