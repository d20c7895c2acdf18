"""The command ``tfds``."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.filesize import decimal

from .._records.formats import Progress
from .._storage.folders import folder_of
from .._storage.location import Location
from ..checks import counted
from ..errors import TorchRecIOError
from ..tfds.connectors import (
    Audio,
    BBox,
    ClassLabel,
    Connector,
    Image,
    Leaf,
    Tensor,
    TfdsShape,
    Unknown,
)
from ..tfds.directory import Directory, Outline
from ..tfds.shard_index import check_shard
from ..tfds.versions import find_configs
from .options import DEFAULT_JOBS, FileJobs, JsonOption, interruptible, usage_errors
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
    *,
    as_json: JsonOption = False,
) -> None:
    """Show and check a directory of TensorFlow Datasets: splits, shards, features and class names.

    The records of every shard are counted and compared with dataset_info.json, and the features of
    its first record with features.json. The exit status is 1 if anything is wrong. If there are
    several configs, they are listed.
    """
    folder = folder_of(directory)
    configs = find_configs(folder)
    if config is None and len(configs) > 1 and "" not in configs:
        _list_configs(configs, as_json=as_json)
        return
    try:
        with usage_errors():
            found = Directory(folder, config, version)
            outline = found.outline()
            files = _shards(found)
    except (TorchRecIOError, OSError, MemoryError) as error:
        typer.echo(error_line(getattr(error, "filename", None) or "error", error), err=True)
        raise typer.Exit(1) from None
    if not as_json:
        _show_names(found, configs)
        _show_features(outline)
    splits = _check(found, files, outline, jobs)
    if as_json:
        typer.echo(json.dumps(_members(found, configs, outline, splits)))
    else:
        for split in splits:
            typer.echo(printable(split.line()))
    if not all(split.ok for split in splits):
        raise typer.Exit(1)


def _list_configs(configs: dict[str, list[str]], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"configs": configs}))
        return
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


def _shards(found: Directory) -> dict[Location, tuple[str, int | None]]:
    """Return the split and expected number of records of each shard."""
    shards: dict[Location, tuple[str, int | None]] = {}
    for name, info in found.splits.items():
        lengths = info.shard_lengths or [None] * len(info.files)
        for file, length in zip(info.files, lengths, strict=True):
            if length != 0:  # TFDS may omit the file of an empty shard
                shards[file] = name, length
    return shards


@dataclass(frozen=True)
class _CheckedSplit:
    """A split, as it was found.

    Attributes:
        name: Name of the split.
        shards: Number of shards.
        records: Number of records found.
        expected: Number of records in dataset_info.json, if it has one.
        file_bytes: Size of the shards found, in bytes.
        missing: Number of missing shards.
        invalid: Number of shards with errors.
    """

    name: str
    shards: int
    records: int
    expected: int | None
    file_bytes: int
    missing: int
    invalid: int

    @property
    def ok(self) -> bool:
        """True if the split is as dataset_info.json says."""
        return self.expected in (None, self.records) and not (self.missing or self.invalid)

    def line(self) -> str:
        """Return the split in one line."""
        total = counted(self.records if self.expected is None else self.expected, "record")
        is_complete = self.expected in (None, self.records)
        found = total if is_complete else f"{self.records:,} of {total}"
        parts = [f"split {self.name}: {found} in {counted(self.shards, 'shard')}"]
        parts += [decimal(self.file_bytes)]
        parts += [f"{self.missing:,} missing"] if self.missing else []
        parts += [f"{self.invalid:,} invalid"] if self.invalid else []
        parts += ["as in dataset_info.json"] if self.ok and self.expected is not None else []
        return ", ".join(parts)


def _check(
    found: Directory, shards: dict[Location, tuple[str, int | None]], outline: Outline, jobs: int
) -> list[_CheckedSplit]:
    """Read all shards, print their errors, and return the result for each split."""
    counts: Counter[tuple[str, str]] = Counter()

    def work(file: Location, progress: Progress) -> int:
        records = check_shard(file, shards[file][1], outline.keys)
        progress(0, records)
        return records

    def done(meter: Meter, outcome: FileOutcome[int]) -> None:
        split = shards[outcome.file][0]
        counts[split, "records"] += outcome.value or 0
        counts[split, "bytes"] += outcome.file_bytes
        if outcome.error is not None:
            is_missing = isinstance(outcome.error, FileNotFoundError)
            counts[split, "missing" if is_missing else "invalid"] += 1
            meter.error(outcome.path, outcome.error)

    for_each_file(list(shards), jobs, work, done)
    return [
        _CheckedSplit(
            name,
            len(info.files),
            counts[name, "records"],
            info.num_examples,
            counts[name, "bytes"],
            counts[name, "missing"],
            counts[name, "invalid"],
        )
        for name, info in found.splits.items()
    ]


def _members(
    found: Directory,
    configs: dict[str, list[str]],
    outline: Outline,
    splits: Sequence[_CheckedSplit],
) -> dict[str, Any]:
    return {
        "name": found.name,
        "config": found.config,
        "version": found.version,
        "path": found.path,
        "configs": configs,
        "supervised_keys": found.supervised_keys,
        "features": [_feature_members(leaf, outline.unread) for leaf in outline.leaves],
        "splits": [{**dataclasses.asdict(split), "ok": split.ok} for split in splits],
        "ok": all(split.ok for split in splits),
    }


def _feature_members(leaf: Leaf, unread: Mapping[str, str]) -> dict[str, Any]:
    feature = leaf.feature
    members = {
        "name": leaf.name,
        "type": feature.class_name if isinstance(feature, Unknown) else type(feature).__name__,
        "sequence_lengths": [around.length for around in leaf.around],
        "error": unread.get(leaf.name),
    }
    facts = {name: getattr(feature, name, None) for name in ("shape", "dtype", "names")}
    return members | {name: fact for name, fact in facts.items() if fact is not None}
