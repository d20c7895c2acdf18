"""The command ``tfds``."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any

import typer
from rich import box
from rich.table import Table
from rich.text import Text
from typer import Argument

from .._records.formats import Progress
from .._storage.folders import folder_of
from .._storage.location import Location
from ..checks import counted
from ..errors import TorchRecIOError
from ..tfds.connectors import Leaf, Unknown
from ..tfds.directory import Directory
from ..tfds.feature_choice import StoredKeys
from ..tfds.shard_index import check_shard
from ..tfds.versions import find_configs
from .options import DEFAULT_JOBS, command, usage_errors
from .progress import FileOutcome, Meter, for_each_file, print_error
from .text import console_of, printable, to_json

# Number of items of a list that are shown.
_MAX_SHOWN = 8
# What connectors say that is not about the values of a feature.
_NO_FACTS = ("description", "value_range", "class_name")


@command(directory=Argument(metavar="DIR"))
def show_tfds(
    directory: str,
    config: str | None = None,
    version: str | None = None,
    jobs: int = DEFAULT_JOBS,
    *,
    as_json: bool = False,
) -> None:
    """Show and check a directory of TensorFlow Datasets: splits, shards, features and class names.

    The records of every shard are counted and compared with dataset_info.json, and the features of
    its first record with features.json. The exit status is 1 if anything is wrong. If there are
    several configs, they are listed.

    Options:
        directory: Directory of a dataset, config or version.
        config: Config to show, if there are several.
        version: Version to show. By default the newest.
        jobs: Number of files processed at the same time.
        as_json: Print the result as a JSON object.
    """
    folder = folder_of(directory)
    configs = find_configs(folder)
    if config is None and len(configs) > 1 and "" not in configs:
        _list_configs(configs, as_json=as_json)
        return
    try:
        with usage_errors():
            found = Directory(folder, config, version)
            unread, keys = found.outline()
            shards = _shards(found)
    except (TorchRecIOError, OSError, MemoryError) as error:
        print_error(getattr(error, "filename", None) or "error", error)
        raise typer.Exit(1) from None
    leaves = found.features.leaves() if found.features is not None else ()
    features = [_feature_members(leaf, unread) for leaf in leaves]
    if not as_json:
        _show_names(found, configs)
        _show_table([{**each, "error": None} for each in features])
        for name, reason in unread.items():
            typer.echo(printable(f"feature {name} CANNOT BE READ: {reason}"))
        if not features:
            typer.echo("there is no features.json; the schema is inferred from the records")
    splits = _check(found, shards, keys, jobs)
    is_ok = all(split["ok"] for split in splits)
    if as_json:
        facts = ("name", "config", "version", "path", "supervised_keys")
        names = {fact: getattr(found, fact) for fact in facts}
        members = {"configs": configs, "features": features, "splits": splits, "ok": is_ok}
        typer.echo(to_json({**names, **members}))
    else:
        _show_table(splits)
    if not is_ok:
        raise typer.Exit(1)


def _list_configs(configs: dict[str, list[str]], *, as_json: bool) -> None:
    if as_json:
        typer.echo(to_json({"configs": configs}))
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


def _show_table(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print a table with a column for each member that has a value in any of the rows."""
    titles = dict.fromkeys(title for row in rows for title in row if _cell(row[title]))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for title in titles:
        table.add_column(title.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(row.get(title))) for title in titles))
    if titles:
        console_of(sys.stdout).print(table)


def _cell(value: Any) -> str:
    if not isinstance(value, (list, tuple)):
        return "" if value is None else printable(value)
    shown = ["?" if each is None else printable(each) for each in value[:_MAX_SHOWN]]
    more = f", … ({len(value):,})" if len(value) > _MAX_SHOWN else ""
    return f"[{', '.join(shown)}{more}]" if shown else ""


def _feature_members(leaf: Leaf, unread: Mapping[str, str]) -> dict[str, Any]:
    feature = leaf.feature
    facts = {name: fact for name, fact in vars(feature).items() if name not in _NO_FACTS}
    return {
        "name": leaf.name,
        "type": feature.class_name if isinstance(feature, Unknown) else type(feature).__name__,
        "sequence_lengths": [around.length for around in leaf.around],
        "error": unread.get(leaf.name),
        **{name: fact for name, fact in facts.items() if fact not in (None, "none", False)},
    }


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


def _check(
    found: Directory, shards: dict[Location, tuple[str, int | None]], keys: StoredKeys, jobs: int
) -> list[dict[str, Any]]:
    """Read all shards, print their errors, and return facts about each split."""
    splits: dict[str, dict[str, Any]] = {
        name: {
            "name": name,
            "shards": len(info.files),
            "records": 0,
            "expected": info.num_examples,
            "file_bytes": 0,
            "missing": 0,
            "invalid": 0,
        }
        for name, info in found.splits.items()
    }

    def work(file: Location, progress: Progress) -> int:
        records = check_shard(file, shards[file][1], keys)
        progress(0, records)
        return records

    def done(outcome: FileOutcome[int]) -> None:
        split = splits[shards[outcome.file][0]]
        split["records"] += outcome.value or 0
        split["file_bytes"] += outcome.file_bytes
        split["missing"] += isinstance(outcome.error, FileNotFoundError)
        split["invalid"] += not isinstance(outcome.error, (FileNotFoundError, NoneType))

    for_each_file(list(shards), jobs, work, done, Meter())
    for split in splits.values():
        is_complete = split["expected"] in (None, split["records"])
        split["ok"] = is_complete and not (split["missing"] or split["invalid"])
    return list(splits.values())
