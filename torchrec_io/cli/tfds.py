"""The command ``tfds``."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import typer
from rich.filesize import decimal

from ..checks import counted
from ..errors import TorchRecIOError
from ..records.formats import Progress
from ..tfds.connectors import Audio, BBox, ClassLabel, Connector, Image, Tensor, TfdsShape, Unknown
from ..tfds.directory import Directory, Outline
from ..tfds.shard_index import check_shard
from ..tfds.versions import find_configs
from .options import DEFAULT_JOBS, FileJobs, interruptible, usage_errors
from .progress import FileOutcome, Meter, for_each_file
from .text import error_line, printable, shorten

_MAX_SHOWN_NAMES = 8


@interruptible
def show_tfds(
    directory: Annotated[
        str, typer.Argument(metavar="DIR", help="Directory of a dataset, config or version.")
    ],
    config: Annotated[
        str | None, typer.Option("--config", help="Config to show, if there are several.")
    ] = None,
    version: Annotated[
        str | None, typer.Option("--version", help="Version to show. By default the newest.")
    ] = None,
    jobs: FileJobs = DEFAULT_JOBS,
) -> None:
    """Show and check a directory of TensorFlow Datasets: splits, shards, features and class names.

    The records of every shard are counted and compared with dataset_info.json, and the features of
    its first record with features.json. The exit status is 1 if anything is wrong. If there are
    several configs, they are listed.
    """
    configs = find_configs(directory)
    if config is None and len(configs) > 1 and "" not in configs:
        _list_configs(configs)
        return
    try:
        with usage_errors():
            found = Directory(directory, config, version)
            outline = found.outline()
            files = _shards(found)
    except (TorchRecIOError, OSError, MemoryError) as error:
        typer.echo(error_line(getattr(error, "filename", None) or "error", error), err=True)
        raise typer.Exit(1) from None
    _show_names(found, configs)
    _show_features(outline)
    _check(found, files, outline, jobs)


def _list_configs(configs: dict[str, list[str]]) -> None:
    for name, versions in configs.items():
        typer.echo(printable(f"config {name}: {', '.join(versions)}"))
    typer.echo(f"{counted(len(configs), 'config')}; use --config to show one")


def _show_names(found: Directory, configs: dict[str, list[str]]) -> None:
    name = " ".join(filter(None, (found.name or "?", found.config, found.version)))
    typer.echo(printable(f"{name}: {found.path}"))
    for config, versions in configs.items():
        is_shown = config in ("", found.config)
        others = ", ".join(one for one in versions if not is_shown or one != found.version)
        if others:
            which = "other versions" if is_shown else f"config {config}"
            typer.echo(printable(f"  {which}: {others}"))
    if found.supervised_keys is not None:
        typer.echo(printable(f"  supervised keys: {found.supervised_keys}"))


# ---- features ----


def _show_features(outline: Outline) -> None:
    for name, around, feature in outline.leaves:
        reason = f" CANNOT BE READ: {outline.unread[name]}" if name in outline.unread else ""
        lengths = tuple(one.length for one in around)
        sequence = f"sequence {_shape(lengths)} of " if lengths else ""
        typer.echo(printable(f"feature {name}: {sequence}{_described(feature)}{reason}"))
    if not outline.leaves:
        typer.echo("there is no features.json; the schema is inferred from the records")


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
    more = ", ..." if len(names) > _MAX_SHOWN_NAMES else ""
    noun = "class" if len(names) == 1 else "classes"
    return f"{len(names)} {noun}: {shorten(', '.join(names[:_MAX_SHOWN_NAMES]) + more)}"


# ---- splits ----


def _shards(found: Directory) -> dict[str, tuple[str, int | None]]:
    """Return the split and expected number of records of each shard, by path."""
    shards: dict[str, tuple[str, int | None]] = {}
    for name, info in found.splits.items():
        lengths = info.shard_lengths or [None] * len(info.paths)
        for path, length in zip(info.paths, lengths, strict=True):
            if length != 0:  # TFDS may omit the file of an empty shard
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

    def done(meter: Meter, outcome: FileOutcome[int]) -> None:
        split = shards[outcome.path][0]
        counts[split, "records"] += outcome.value or 0
        counts[split, "bytes"] += outcome.file_bytes
        if outcome.error is not None:
            is_missing = isinstance(outcome.error, FileNotFoundError)
            counts[split, "missing" if is_missing else "invalid"] += 1
            meter.error(outcome.path, outcome.error)

    for_each_file(list(shards), jobs, work, done)
    has_errors = False
    for name, info in found.splits.items():
        records = counts[name, "records"]
        expected = records if info.num_examples is None else info.num_examples
        total = counted(expected, "record")
        size = decimal(counts[name, "bytes"])
        states = [
            f"{counts[name, state]:,} {state}"
            for state in ("missing", "invalid")
            if counts[name, state]
        ]
        has_errors = has_errors or records != expected or bool(states)
        if info.num_examples == records and not states:
            states = ["as in dataset_info.json"]
        found_text = total if records == expected else f"{records:,} of {total}"
        line = f"split {name}: {found_text} in {counted(len(info.paths), 'shard')}"
        typer.echo(printable(", ".join([line, size, *states])))
    if has_errors:
        raise typer.Exit(1)
