"""The command line: ``torchrec-io convert``, ``index``, ``head`` and others. Holds no logic."""

from __future__ import annotations

import io
import signal
import sys
from importlib.metadata import version as installed_version
from typing import Annotated

import typer

from .convert import convert
from .head import show_head
from .index import make_indexes
from .rearrange import COMMANDS
from .schema import print_schema
from .tfds import show_tfds
from .verify import verify_files

app = typer.Typer(
    name="torchrec-io",
    help="Makes, converts, rearranges, indexes, shows and checks TFRecord files.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("convert")(convert)
app.command("index")(make_indexes)
app.command("head")(show_head)
app.command("schema")(print_schema)
app.command("tfds")(show_tfds)
app.command("verify")(verify_files)
for command in COMMANDS:
    app.command()(command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"torchrec-io {installed_version('torchrec-io')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Makes, converts, rearranges, indexes, shows and checks TFRecord files."""


def _end(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def main() -> None:
    """Runs the command line. ``kill`` ends it as Ctrl-C does: what is half done is cleared away."""
    signal.signal(signal.SIGTERM, _end)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Names and data may hold what the terminal cannot show; that must not end the run.
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="torchrec-io")
