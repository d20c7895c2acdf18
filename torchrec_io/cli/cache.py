"""The command ``cache``."""

from __future__ import annotations

import json
import os
import time
from typing import Annotated

import typer
from rich.filesize import decimal

from .._storage.cache.folder import CacheFolder, CacheSummary
from ..checks import counted
from .options import JsonOption, interruptible
from .text import error_line, printable


@interruptible
def show_cache(
    directory: Annotated[str, typer.Argument(metavar="DIR", help="Directory of a BlockCache.")],
    clear: Annotated[
        bool, typer.Option("--clear", help="Remove all blocks that no process is writing.")
    ] = False,
    *,
    as_json: JsonOption = False,
) -> None:
    """Show or clear a cache of remote objects, the cache= of datasets.

    Sizes are as the file system counts them. The bound is the one of the process that used the
    cache last. Programs may use the cache meanwhile. The exit status is 2 if the directory has no
    cache, or cannot be read or cleared.
    """
    cache = CacheFolder(os.path.abspath(directory), 0)
    try:
        summary = cache.summary()
        if summary.max_bytes is None and not summary.blocks:
            _fail(f"{directory}: the directory has no cache")
        if clear:
            cache.clear()
            before, summary = summary, cache.summary()
            removed = {
                "removed_blocks": before.blocks - summary.blocks,
                "removed_bytes": before.size - summary.size,
            }
    except OSError as error:
        _fail(error_line(directory, error))
    if as_json:
        typer.echo(json.dumps({**summary._asdict(), **(removed if clear else {})}))
    elif clear:
        blocks = counted(removed["removed_blocks"], "block")
        typer.echo(f"{blocks} removed, {decimal(removed['removed_bytes'])}")
    else:
        for line in _lines(summary):
            typer.echo(printable(line))


def _fail(message: str) -> None:
    typer.echo(f"error: {printable(message)}", err=True)
    raise typer.Exit(2)


def _lines(summary: CacheSummary) -> list[str]:
    bound = "" if summary.max_bytes is None else f" of at most {decimal(summary.max_bytes)}"
    lines = [
        summary.directory,
        f"  size      {decimal(summary.size)}{bound}",
        f"  blocks    {summary.blocks:,}, of {counted(summary.objects, 'object')}",
    ]
    if summary.oldest is not None:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(summary.oldest))
        lines.append(f"  last use  {when} for the block that was not used for longest")
    return lines
