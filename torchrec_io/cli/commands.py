"""The commands of ``torchrec-io``."""

from __future__ import annotations

import io
import signal
import sys
from importlib.metadata import version as installed_version
from itertools import pairwise
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from .cache import show_cache
from .convert import convert
from .head import show_head
from .index import make_indexes
from .report import write_report
from .schema import print_schema
from .tfds import show_tfds
from .tools import COMMANDS
from .verify import verify_files


class _Commands(TyperGroup):
    """The commands. ``--ray`` without an address means ``--ray auto``, which Typer cannot say.

    ``info`` is another name of ``head``.
    """

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return super().get_command(ctx, "head" if cmd_name == "info" else cmd_name)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        filled: list[str] = []
        for arg, following in pairwise([*args, "--"]):
            filled.append(arg)
            if arg == "--ray" and following.startswith("-"):
                filled.append("auto")
        return super().parse_args(ctx, filled)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = error.message.removeprefix("Value error, ")  # of Pydantic
            raise


app: typer.Typer = typer.Typer(
    name="torchrec-io",
    cls=_Commands,
    help="Convert, rearrange, index, show, verify and repair TFRecord files.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for name, command in {
    "convert": convert,
    "index": make_indexes,
    "head": show_head,
    "schema": print_schema,
    "report": write_report,
    "tfds": show_tfds,
    "verify": verify_files,
    "cache": show_cache,
    **COMMANDS,
}.items():
    app.command(name)(command)


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
    """Convert, rearrange, index, show, verify and repair TFRecord files."""


def run() -> None:
    """Run the command that the arguments of the process name."""
    signal.signal(signal.SIGTERM, _end)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Names and data may contain characters that the terminal cannot show.
            stream.reconfigure(errors="backslashreplace")
    app(prog_name="torchrec-io")


def _end(number: int, _: object) -> None:
    raise SystemExit(128 + number)
