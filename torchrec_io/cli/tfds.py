"""``torchrec-io tfds``: shows a TFDS directory, and holds its shards against what it says."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import typer
from rich.filesize import decimal

from ..errors import TorchRecIOError
from ..records.formats import Progress
from ..tfds.connectors import Audio, BBox, ClassLabel, Connector, Image, Tensor, TfdsShape, Unknown
from ..tfds.directory import Directory, Outline
from ..tfds.shard_index import check_shard
from ..tfds.versions import find_configs
from .report import (
    DEFAULT_JOBS,
    Jobs,
    Meter,
    Result,
    for_each_file,
    interruptible,
    printable,
    reason_of,
)
from .values import shorten

_SHOWN_NAMES = 8


@interruptible
def show_tfds(
    directory: Annotated[
        str, typer.Argument(metavar="DIR", help="Of a dataset, a config of it, or a version.")
    ],
    config: Annotated[
        str | None, typer.Option("--config", help="Which config, if there are several.")
    ] = None,
    version: Annotated[
        str | None, typer.Option("--version", help="By default the greatest there is.")
    ] = None,
    jobs: Jobs = DEFAULT_JOBS,
) -> None:
    """Shows what TensorFlow Datasets wrote: splits, shards, features, names of classes.

    Every shard is indexed, its records are counted and compared with dataset_info.json, and the
    first one must have the features that features.json says. Status 1 if anything is wrong.
    Of several configs, all are listed.
    """
    configs = find_configs(directory)
    if config is None and len(configs) > 1 and "" not in configs:
        _list_configs(configs)
        return
    try:
        found = Directory(directory, config, version)
        outline = found.outline()
        files = _shards(found)
    except ValueError as error:
        raise typer.BadParameter(printable(str(error))) from None
    except (TorchRecIOError, OSError, MemoryError) as error:
        typer.echo(reason_of(getattr(error, "filename", None) or "error", error), err=True)
        raise typer.Exit(1) from None
    _show_names(found, configs)
    _show_features(outline)
    _check(found, files, outline, jobs)


def _list_configs(configs: dict[str, list[str]]) -> None:
    for name, versions in configs.items():
        typer.echo(printable(f"config {name}: {', '.join(versions)}"))
    typer.echo(f"{len(configs)} configs; --config shows one")


def _show_names(found: Directory, configs: dict[str, list[str]]) -> None:
    name = " ".join(filter(None, (found.name or "?", found.config, found.version)))
    typer.echo(printable(f"{name}: {found.path}"))
    for config, versions in configs.items():
        own = config in ("", found.config)
        others = ", ".join(one for one in versions if not own or one != found.version)
        if others:
            which = "other versions" if own else f"config {config}"
            typer.echo(printable(f"  {which}: {others}"))
    if found.supervised_keys is not None:
        typer.echo(printable(f"  supervised keys: {found.supervised_keys}"))


# ---- features ----


def _show_features(outline: Outline) -> None:
    for name, around, feature in outline.leaves:
        reason = f" CANNOT BE READ: {outline.unread[name]}" if name in outline.unread else ""
        several = "".join(f"{_count(one.length)} of " for one in around[:-1])
        several += f"{_count(around[-1].length)} " if around else ""
        typer.echo(printable(f"feature {name}: {several}{_described(feature)}{reason}"))
    if not outline.leaves:
        typer.echo("no features.json: the schema is inferred from the records")


def _count(length: int | None) -> str:
    return "several" if length is None else str(length)


def _described(feature: Connector) -> str:
    if isinstance(feature, Unknown):
        return feature.class_name
    words = [type(feature).__name__]
    if isinstance(feature, (Image, Tensor)):
        words += [_shape(feature.shape), feature.dtype]
    if isinstance(feature, Image):
        words += [feature.encoding_format or ""]
    if isinstance(feature, Tensor):
        words += ["" if feature.encoding == "none" else feature.encoding]
        words += ["optional" if feature.optional else ""]
    if isinstance(feature, BBox):
        words += [feature.bbox_format or ""]
    if isinstance(feature, Audio):
        words += [f"{feature.sample_rate} Hz" if feature.sample_rate else ""]
        words += [feature.file_format or ""]
    described = " ".join(filter(None, words))
    if isinstance(feature, (ClassLabel, Image)) and feature.names is not None:
        described += f", {_names(feature.names)}"
    return described


def _shape(shape: TfdsShape) -> str:
    sizes = ", ".join("?" if size is None else str(size) for size in shape)
    return f"[{sizes}]" if shape else ""


def _names(names: tuple[str, ...]) -> str:
    more = ", ..." if len(names) > _SHOWN_NAMES else ""
    return f"{len(names)} classes: {shorten(', '.join(names[:_SHOWN_NAMES]) + more)}"


# ---- splits ----


def _shards(found: Directory) -> dict[str, tuple[str, int | None]]:
    """Split and stated number of records of each shard, by its path."""
    shards: dict[str, tuple[str, int | None]] = {}
    for name, info in found.splits.items():
        lengths = info.shard_lengths or [None] * len(info.paths)
        for path, length in zip(info.paths, lengths, strict=True):
            if length != 0:  # TFDS need not write a file for no records
                shards[path] = name, length
    return shards


def _check(
    found: Directory, shards: dict[str, tuple[str, int | None]], outline: Outline, jobs: int
) -> None:
    counts: Counter[tuple[str, str]] = Counter()

    def work(path: str, progress: Progress) -> int:
        records = check_shard(path, shards[path][1], outline.keys)
        progress(0, records)
        return records

    def done(meter: Meter, result: Result[int]) -> None:
        split = shards[result.path][0]
        counts[split, "records"] += result.value or 0
        counts[split, "bytes"] += result.file_bytes
        if result.error is not None:
            counts[split, "bad"] += 1
            counts["", "bad"] += 1
            meter.error(result.path, result.error)

    for_each_file(list(shards), jobs, work, done)
    for name, info in found.splits.items():
        total, bad = counts[name, "records"], counts[name, "bad"]
        wrong = info.num_examples not in (None, total)
        said = f" of {info.num_examples:,}" if wrong else ""
        shown = f"{len(info.paths)} shard{'' if len(info.paths) == 1 else 's'}"
        state = ", as said" if info.num_examples is not None and not wrong else ""
        state = f", {bad} of them bad" if bad else state
        size = decimal(counts[name, "bytes"])
        typer.echo(printable(f"split {name}: {total:,}{said} records in {shown}, {size}{state}"))
        counts["", "bad"] += wrong
    if counts["", "bad"]:
        raise typer.Exit(1)
