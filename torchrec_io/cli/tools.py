"""Commands made of functions of ``tio.tools``, whose options, defaults and help they have."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, get_args, get_type_hints

from typer import Argument, Option

from .. import cluster, tools
from .._storage.compression import CompressionChoice
from .._storage.local import StrPath
from ..tools.options import DEFAULTS, CopyOptions, InputOptions, RewriteOptions
from ..tools.repairing import OutputCompression
from .options import DEFAULT_JOBS, cluster_function, command, files_of, given_options
from .parsers import parse_fractions, parse_list, parse_size
from .progress import run_job
from .repair import print_repair
from .results import print_result

_OPTIONS: dict[str, Any] = {
    "output": Option("--output", "-o"),
    "name": Option("--output", "-o", metavar="NAME"),
    "folder": Option("--output", "-o", metavar="FOLDER"),
    "fractions": Option(
        metavar="A,B,...",
        parser=parse_fractions,
        help="Size of each part: 0.8,0.1,0.1, or percentages 80,10,10.",
    ),
    "names": Option(metavar="A,B,...", parser=parse_list),
    "records": Option(metavar="SLICE"),
    "every": Option(min=1),
    "as_json": Option("--json", help="Print the result as a JSON object."),
}
_REPAIR_OPTIONS: dict[str, Any] = {
    **_OPTIONS,
    "path": Argument(metavar="IN"),
    "output": Argument(metavar="OUT", help="New file. Optional with --dry-run."),
    "compression": Option(help="Compression of OUT. By default that of IN."),
    "input_compression": Option(help="Compression of IN. Set it if the start of the file is lost."),
    "max_record_bytes": Option(metavar="SIZE", parser=parse_size, show_default="1GiB"),
}
# Types of parameters as options.
_KINDS: dict[Any, Any] = {
    StrPath: str,
    StrPath | None: str | None,
    StrPath | Iterable[StrPath]: list[str],
    Sequence[float]: str,
    Sequence[str] | None: str | None,
    OutputCompression: Literal["same", "none", "gzip", "zlib", "zstd"],
    CompressionChoice: Literal["auto", "none", "gzip", "zlib", "zstd"],
}
# Their docstrings describe the keyword options of tools.
_OPTION_KINDS = (InputOptions, RewriteOptions, CopyOptions)
_DEFAULTS: Mapping[str, Any] = {**DEFAULTS}
# Parameters that are for programs alone.
_NO_OPTIONS = ("watcher", "storage_options")


def _command_of(
    tool: Callable[..., Any],
    show: Callable[..., None] = print_result,
    options: Mapping[str, Any] = _OPTIONS,
) -> Callable[..., None]:
    """Return a command that calls a function with the options that are given.

    With ``--ray`` it is the function of the cluster.

    Args:
        tool: The function.
        show: Function that prints the result.
        options: Options that other commands do not have.
    """
    name = tool.__name__
    texts = (each.__doc__ for each in (tool, *_OPTION_KINDS))

    def call(*, as_json: bool = False, ray: str | None = None, **values: Any) -> None:
        given = given_options(values)
        for each in ("compression", "input_compression"):
            if given.get(each) == "none":
                given[each] = None
        function = tool if ray is None else cluster_function(name, given)
        if "paths" in given:
            given["paths"] = files_of(given["paths"], allow_missing=given.pop("allow_missing"))
        show(run_job(functools.partial(function, **given), ray=ray), as_json=as_json)

    taken = [
        each.replace(
            annotation=_KINDS.get(each.annotation, each.annotation),
            default=DEFAULT_JOBS if each.name == "jobs" else each.default,
            kind=each.KEYWORD_ONLY,
        )
        for each in _parameters_of(tool)
        if each.name not in _NO_OPTIONS
    ]
    added = inspect.signature(call, eval_str=True).parameters
    taken += [added["ray"]] if name in dir(cluster) else []
    taken += [added["as_json"]]
    call.__name__ = name
    call.__doc__ = "\n\n".join(inspect.cleandoc(text or "") for text in texts)
    return command(inspect.Signature(taken), **options)(call)


def _parameters_of(tool: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a function, with one for each of its keyword options."""
    parameters = []
    for each in inspect.signature(tool, eval_str=True).parameters.values():
        if each.kind is not each.VAR_KEYWORD:
            parameters.append(each)
            continue
        [options] = get_args(each.annotation)
        parameters += [
            each.replace(
                name=name, kind=each.KEYWORD_ONLY, annotation=kind, default=_DEFAULTS[name]
            )
            for name, kind in get_type_hints(options).items()
        ]
    return parameters


COMMANDS: dict[str, Callable[..., None]] = {
    "repair": _command_of(tools.repair, print_repair, _REPAIR_OPTIONS),
    "merge": _command_of(tools.merge),
    "split": _command_of(tools.split),
    "reshard": _command_of(tools.reshard),
    "shuffle": _command_of(tools.shuffle),
    "subset": _command_of(tools.subset),
    "compress": _command_of(tools.compress),
    "decompress": _command_of(tools.decompress),
}
