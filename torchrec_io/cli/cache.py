"""The command ``cache``."""

from __future__ import annotations

import os
import time

import typer
from rich.filesize import decimal
from typer import Argument

from .._storage.cache.folder import CacheFolder
from ..checks import counted
from .options import command
from .text import error_line, printable, to_json


@command(directory=Argument(metavar="DIR"))
def show_cache(directory: str, clear: bool = False, *, as_json: bool = False) -> None:
    """Show or clear a cache of remote objects, the cache= of datasets.

    Sizes are as the file system counts them. The bound is the one of the process that used the
    cache last. Programs may use the cache meanwhile. The exit status is 2 if the directory has no
    cache, or cannot be read or cleared.

    Options:
        directory: Directory of a BlockCache.
        clear: Remove all blocks that no process is writing.
        as_json: Print the result as a JSON object.
    """
    cache = CacheFolder(os.path.abspath(directory), 0)
    removed: dict[str, int] = {}
    try:
        summary = cache.summary()
        if summary.max_bytes is None and not summary.blocks:
            raise FileNotFoundError(None, "the directory has no cache")
        if clear:
            cache.clear()
            before, summary = summary, cache.summary()
            removed["removed_blocks"] = before.blocks - summary.blocks
            removed["removed_bytes"] = before.size - summary.size
    except OSError as error:
        typer.echo(f"error: {error_line(directory, error)}", err=True)
        raise typer.Exit(2) from None
    if as_json:
        typer.echo(to_json({**summary._asdict(), **removed}))
    elif removed:
        blocks = counted(removed["removed_blocks"], "block")
        typer.echo(f"{blocks} removed, {decimal(removed['removed_bytes'])}")
    else:
        bound = "" if summary.max_bytes is None else f" of at most {decimal(summary.max_bytes)}"
        typer.echo(printable(summary.directory))
        typer.echo(f"  size      {decimal(summary.size)}{bound}")
        typer.echo(f"  blocks    {summary.blocks:,}, of {counted(summary.objects, 'object')}")
        if summary.oldest is not None:
            when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(summary.oldest))
            typer.echo(f"  last use  {when} for the block that was not used for longest")
