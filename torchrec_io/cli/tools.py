"""Commands made of functions of ``tio.tools``, whose options, defaults and help they have."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

from typer import Argument, Option

from .. import cluster, tools
from .options import (
    DEFAULT_JOBS,
    cluster_function,
    command,
    files_of,
    given_options,
    jobs_option,
    option_name,
)
from .progress import run_job
from .repair import print_repair
from .results import print_result

_OPTIONS: dict[str, Any] = {
    "output": Option("--output", "-o", help="Output file."),
    "name": Option("--output", "-o", metavar="NAME", help="Common start of the output paths."),
    "folder": Option("--output", "-o", metavar="FOLDER", help="Output folder."),
    "fractions": Option(
        metavar="A,B,...", help="Size of each part: 0.8,0.1,0.1, or percentages 80,10,10."
    ),
    "names": Option(metavar="A,B,...", help="Name of each part, such as train,validation,test."),
    "records": Option(metavar="SLICE", help="Slice of the records: '[:1000]', '[10%:20%]'."),
    "every": Option(min=1, help="Step between records, from the first record on."),
    "sample": Option(help="Fraction of the records, selected at random."),
    "seed": Option(help="Seed of the random choice."),
    "jobs": jobs_option(),
}
_REPAIR_OPTIONS: dict[str, Any] = {
    "path": Argument(metavar="IN", help="Damaged file."),
    "output": Argument(metavar="OUT", help="New file. Optional with --dry-run."),
    "compression": Option(help="Compression of OUT. By default that of IN."),
    "input_compression": Option(help="Compression of IN. Set it if the start of the file is lost."),
    "dry_run": Option(help="Only report what would be lost; write nothing."),
    "max_record_bytes": Option(
        help="Size of a record above which it counts as damaged: 100MB, 1GiB."
    ),
}
# Types and defaults of options that are not those of the functions' parameters.
_KINDS: dict[str, Any] = {
    "paths": list[str],
    "path": str,
    "name": str,
    "folder": str,
    "fractions": str,
    "names": str | None,
    "max_bytes": str | None,
    "input_compression": Literal["auto", "none", "gzip", "zlib", "zstd"],
    "max_record_bytes": str,
}
_MERGE_KINDS = {**_KINDS, "output": str}
_REPAIR_KINDS = {
    **_KINDS,
    "output": str | None,
    "compression": Literal["same", "none", "gzip", "zlib", "zstd"],
}
_DEFAULTS = {"jobs": DEFAULT_JOBS, "max_record_bytes": "1GiB"}
# Parameters that are for programs alone.
_NO_OPTIONS = ("watcher", "storage_options")


def _command_of(
    tool: Callable[..., Any],
    show: Callable[..., None] = print_result,
    options: Mapping[str, Any] = _OPTIONS,
    kinds: Mapping[str, Any] = _MERGE_KINDS,
) -> Callable[..., None]:
    """Return a command that calls a function with the options that are given.

    With ``--ray`` it is the function of the cluster.

    Args:
        tool: The function.
        show: Function that prints the result.
        options: Options that other commands do not have.
        kinds: Types of options, where they are not those of the parameters.
    """
    name = tool.__name__
    parameters = inspect.signature(tool, eval_str=True).parameters

    def call(*, as_json: bool, ray: str | None = None, **values: Any) -> None:
        given = given_options(values)
        function = tool if ray is None else cluster_function(name, given)
        if "paths" in given:
            given["paths"] = files_of(given["paths"], allow_missing=given.pop("allow_missing"))
        show(run_job(functools.partial(function, **given), ray=ray), as_json=as_json)

    taken = [
        each.replace(
            annotation=kinds.get(each.name, each.annotation),
            default=_DEFAULTS.get(each.name, each.default),
            kind=each.KEYWORD_ONLY,
        )
        for each in parameters.values()
        if each.name not in _NO_OPTIONS
    ]
    if name in dir(cluster):
        taken.append(_parameter("ray", str | None, None))
    taken.append(_parameter("as_json", bool, False))
    call.__name__, call.__doc__ = name, _help_of(tool, parameters)
    return command(options, signature=inspect.Signature(taken))(call)


def _parameter(name: str, kind: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _help_of(tool: Callable[..., Any], parameters: Mapping[str, Any]) -> str:
    """Return the docstring of a function up to its arguments, which are named as options."""

    def plain(code: re.Match[str]) -> str:
        return option_name(code[1]) if code[1] in parameters else code[1]

    text = inspect.cleandoc(tool.__doc__ or "").partition("\n\nArgs:")[0]
    return re.sub("``(.*?)``", plain, text)


COMMANDS: dict[str, Callable[..., None]] = {
    "repair": _command_of(tools.repair, print_repair, _REPAIR_OPTIONS, _REPAIR_KINDS),
    "merge": _command_of(tools.merge),
    "split": _command_of(tools.split),
    "reshard": _command_of(tools.reshard),
    "shuffle": _command_of(tools.shuffle),
    "subset": _command_of(tools.subset),
    "compress": _command_of(tools.compress),
    "decompress": _command_of(tools.decompress),
}
