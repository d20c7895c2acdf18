"""The command ``repair``."""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
from typing import Annotated, Literal, TypeAlias

import typer
from rich.filesize import decimal

from .._records.record_size import MAX_RECORD_BYTES
from .._storage.compression import CompressionChoice
from ..checks import counted
from ..tools.repairing import Loss, OutputCompression, RepairReport, repair
from .options import IndexOption, interruptible, parse_size, usage_errors
from .progress import run_job
from .text import damage_bar, printable

OutputChoice: TypeAlias = Literal["same", "none", "gzip", "zlib", "zstd"]
InputChoice: TypeAlias = Literal["auto", "none", "gzip", "zlib", "zstd"]

_MAX_PRINTED = 20


@interruptible
def repair_file(
    path: Annotated[str, typer.Argument(metavar="IN", help="Damaged file.")],
    output: Annotated[
        str | None, typer.Argument(metavar="OUT", help="New file. Optional with --dry-run.")
    ] = None,
    *,
    compression: Annotated[
        OutputChoice, typer.Option(help="Compression of OUT. By default that of IN.")
    ] = "same",
    input_compression: Annotated[
        InputChoice,
        typer.Option(help="Compression of IN. Set it if the start of the file is lost."),
    ] = "auto",
    index: IndexOption = True,
    force: Annotated[bool, typer.Option("--force", help="Replace OUT if it exists.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only report what would be lost; write nothing.")
    ] = False,
    max_record_bytes: Annotated[
        str, typer.Option(help="Size of a record above which it counts as damaged: 100MB, 1GiB.")
    ] = f"{MAX_RECORD_BYTES >> 30}GiB",
    as_json: Annotated[bool, typer.Option("--json", help="Print the report in JSON.")] = False,
) -> None:
    """Write every valid record of a damaged file to a new file, in order, and report the rest.

    Damaged data loses one record. After damaged lengths, lost bytes and damaged compressed data,
    the next valid record is searched. IN is never changed, and OUT is complete or absent. The exit
    status is 0 if OUT was written, even if records were lost.
    """
    with usage_errors():
        limit = parse_size(max_record_bytes)
    stored: CompressionChoice = None if input_compression == "none" else input_compression
    written: OutputCompression = None if compression == "none" else compression
    report = run_job(
        functools.partial(
            repair,
            path,
            output,
            compression=written,
            input_compression=stored,
            index=index,
            force=force,
            dry_run=dry_run,
            max_record_bytes=limit,
        )
    )
    if as_json:
        typer.echo(json.dumps(_as_json(report), indent=2))
    else:
        _print(report)


def _as_json(report: RepairReport) -> dict[str, object]:
    values = {f.name: getattr(report, f.name) for f in dataclasses.fields(report)}
    del values["damage_map"]
    losses = [dataclasses.asdict(loss) for loss in report.losses]
    return {"ok": report.ok, **values, "losses": losses}


def _print(report: RepairReport) -> None:
    for loss in report.losses[:_MAX_PRINTED]:
        typer.echo(printable(f"{report.path}: {_line(loss)}"))
    rest = len(report.losses) - _MAX_PRINTED + report.unlisted_losses
    if len(report.losses) > _MAX_PRINTED:
        typer.echo(
            printable(f"{report.path}: {counted(rest, 'more lost part')} (--json lists them)")
        )
    if not report.ok:
        bar = damage_bar(report.damage_map, sys.stdout.encoding)
        typer.echo(printable(f"{report.path}: {bar} damaged parts"))
    done = "would be written" if report.output is None else f"written to {report.output}"
    lost = f"about {counted(report.lost_records, 'record')} lost"
    size = f"{decimal(report.lost_bytes)} of the file"
    if report.compression is not None:
        size += f" and {decimal(report.lost_decompressed_bytes)} of its decompressed content"
    seconds = f"{report.seconds:.2f} s"
    parts = [f"{counted(report.records, 'valid record')} {done}"]
    parts += ["nothing lost"] if report.ok else [lost, f"{size} lost"]
    typer.echo(printable(", ".join([*parts, seconds])))


def _line(loss: Loss) -> str:
    where = f"at offset {loss.offset:,}" + " of the decompressed content" * loss.is_decompressed
    lost = f"{counted(loss.size, 'byte')}, about {counted(loss.records, 'record')}"
    return f"{where}: {loss.reason} ({lost} lost)"
