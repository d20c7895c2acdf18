"""Results of repairing as text and JSON."""

from __future__ import annotations

import typer
from rich.filesize import decimal

from ..checks import counted
from ..tools.repairing import Loss, RepairReport
from .text import damage_bar, members_of, printable, to_json

_MAX_PRINTED = 20


def print_repair(report: RepairReport, *, as_json: bool) -> None:
    """Print what was lost, and a summary."""
    if as_json:
        typer.echo(to_json({"ok": report.ok, **members_of(report)}, indent=2))
        return
    lines = list(map(_line, report.losses[:_MAX_PRINTED]))
    rest = len(report.losses) - _MAX_PRINTED + report.unlisted_losses
    if len(report.losses) > _MAX_PRINTED:
        lines.append(f"{counted(rest, 'more lost part')} (--json lists them)")
    if not report.ok:
        lines.append(damage_bar(report.damage_map))
    for line in lines:
        typer.echo(printable(f"{report.path}: {line}"))
    typer.echo(printable(_summary(report)))


def _line(loss: Loss) -> str:
    where = f"at offset {loss.offset:,}" + " of the decompressed content" * loss.is_decompressed
    lost = f"{counted(loss.size, 'byte')}, about {counted(loss.records, 'record')}"
    return f"{where}: {loss.reason} ({lost} lost)"


def _summary(report: RepairReport) -> str:
    done = "would be written" if report.output is None else f"written to {report.output}"
    lost = f"about {counted(report.lost_records, 'record')} lost, "
    lost += f"{decimal(report.lost_bytes)} of the file"
    if report.compression is not None:
        lost += f" and {decimal(report.lost_decompressed_bytes)} of its decompressed content"
    what = "nothing lost" if report.ok else f"{lost} lost"
    return f"{counted(report.records, 'valid record')} {done}, {what}, {report.seconds:.2f} s"
