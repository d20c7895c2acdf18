"""The command ``convert``: other formats to TFRecord, and TFRecord to other formats."""

from __future__ import annotations

import functools
import glob
import inspect
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args

import typer

from .. import convert as conversions
from .._schema.schema import Schema
from .._storage.location import Location
from ..errors import SchemaError
from ..tools.report import OnError, Result, Watcher
from .options import (
    DEFAULT_JOBS,
    AllowMissingOption,
    CompressionOption,
    JsonOption,
    MaxBytesOption,
    ShardsOption,
    calls,
    files_of,
    given_options,
    jobs_option,
)
from .progress import print_result, run_job, summary_of
from .text import printable

SourceKind: TypeAlias = Literal["images", "npz", "csv", "parquet", "jsonl"]
Target: TypeAlias = Literal["tfrecord", "parquet", "csv", "webdataset", "files"]

_KINDS: dict[str, SourceKind] = {
    ".npz": "npz",
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}


def _convert(
    sources: list[str],
    destination: str,
    *,
    target: Target,
    kind: SourceKind | None,
    allow_missing: bool,
    as_json: bool,
    **options: Any,
) -> None:
    given = given_options(options)
    if target != "tfrecord":
        if kind is not None:
            given["from"] = kind
        function = getattr(conversions, f"to_{target}")
        _check_allowed(given, function, f"--to {target}")
        if target == "files" and "feature" not in given:
            raise typer.BadParameter("--to files needs --feature")
        files = files_of(sources, allow_missing=allow_missing)
        result = run_job(functools.partial(_export, function, files, destination, given))
        print_result(result, as_json=as_json)
        return
    if allow_missing:
        raise typer.BadParameter("--allow-missing needs --to: it is about shards of TFRecord files")
    kind = kind or _kind_of(sources[0])
    if kind == "images" and len(sources) > 1:
        raise typer.BadParameter("--from images takes a single folder")
    function = getattr(conversions, f"from_{kind}")
    _check_allowed(given, function, f"--from {kind}")
    source = sources[0] if kind == "images" else sources
    result = run_job(functools.partial(function, source, destination, **given))
    if as_json:
        print_result(result, as_json=True)
    else:
        _print_code(result, destination)


@calls(_convert)
def convert(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE",
            help="A folder of images, or files of one other format; with --to, TFRecord files.",
        ),
    ],
    destination: Annotated[
        str,
        typer.Argument(
            help="Output file, common start of the paths of several, or new folder (--to files)."
        ),
    ],
    *,
    target: Annotated[
        Target, typer.Option("--to", help="Output format. files: a folder with a file per record.")
    ] = "tfrecord",
    kind: Annotated[
        SourceKind | None,
        typer.Option("--from", help="Format of SOURCE. Default: detected from the name."),
    ] = None,
    num_shards: ShardsOption = None,
    max_bytes: MaxBytesOption = None,
    compression: CompressionOption = None,
    index: Annotated[
        bool | None,
        typer.Option(
            "--index/--no-index",
            help="Write an index FILE.tfidx beside each file.  [default: index]",
        ),
    ] = None,
    force: Annotated[
        bool | None,
        typer.Option("--force", help="Replace outputs that exist. By default they are refused."),
    ] = None,
    jobs: Annotated[
        int, jobs_option("Number of processes, or threads for images and --to.")
    ] = DEFAULT_JOBS,
    on_error: Annotated[
        OnError,
        typer.Option(
            help="raise: stop at data that cannot be converted; skip: skip and report it."
        ),
    ] = "raise",
    allow_missing: AllowMissingOption = False,
    as_json: JsonOption = False,
    label_pattern: Annotated[
        str | None,
        typer.Option(help="Images: regular expression for file names, with a group for the label."),
    ] = None,
    labels: Annotated[
        str | None, typer.Option(help="Images: CSV file with the columns name and label.")
    ] = None,
    resize: Annotated[
        str | None,
        typer.Option(metavar="WxH|SHORT", help="Images: size, or length of the shorter side."),
    ] = None,
    encode: Annotated[
        Literal["jpeg", "png"] | None, typer.Option(help="Images: format to encode them to.")
    ] = None,
    quality: Annotated[
        int | None, typer.Option(min=1, max=100, help="Images: quality of JPEG.  [default: 90]")
    ] = None,
    shuffle: Annotated[
        int | None, typer.Option(metavar="SEED", help="Images: seed of a random order.")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="CSV without a header: names of the columns."),
    ] = None,
    include: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="Tables: names of the columns to convert.")
    ] = None,
    exclude: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="Tables: names of columns to leave out.")
    ] = None,
    types: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=TYPE,...",
            help="CSV, JSON lines, Parquet: dtypes to cast to: int64, float32 or string.",
        ),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="To tables, WebDataset: schema, printed by 'schema --format json'.",
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(metavar="FEATURE", help="To WebDataset: feature with the keys of samples."),
    ] = None,
    extensions: Annotated[
        list[str] | None,
        typer.Option(metavar="FEATURE=EXT,...", help="To WebDataset: file extensions."),
    ] = None,
    feature: Annotated[
        str | None, typer.Option(metavar="FEATURE", help="To files: feature with the content.")
    ] = None,
    name_from: Annotated[
        str | None, typer.Option(metavar="FEATURE", help="To files: feature with the file names.")
    ] = None,
    by_class: Annotated[
        str | None, typer.Option(metavar="FEATURE", help="To files: feature with the folders.")
    ] = None,
) -> None:
    """Convert images, .npz, CSV, Parquet or JSON lines to TFRecord, or TFRecord to others (--to).

    A conversion to TFRecord prints Python code that reads the output to stdout, and a summary to
    stderr. If something cannot be converted, nothing is written and the exit status is 1.
    """


def _kind_of(source: str) -> SourceKind:
    suffix = os.path.splitext(source)[1].lower()
    if suffix in _KINDS:
        return _KINDS[suffix]
    path = Location.of(source).local_path
    if path is None:
        is_folder, is_there = source.endswith("/"), True
    else:
        is_folder, is_there = os.path.isdir(path), os.path.exists(path)
    if is_folder:
        return "images"
    if not is_there:
        typer.echo(f"error: no such file: {printable(repr(source))}", err=True)
        raise typer.Exit(2)
    kinds = ", ".join(get_args(SourceKind))
    raise typer.BadParameter(f"use --from to give the format of {source!r}: {kinds}")


def _check_allowed(given: Iterable[str], function: Callable[..., Result], choice: str) -> None:
    """Raise an error unless all options are arguments of the function that converts."""
    allowed = set(inspect.signature(function).parameters)
    if "options" in allowed:
        allowed |= set(conversions.Options.__annotations__)
    for name in given:
        if name not in allowed:
            option = f"--{name.replace('_', '-')}"
            raise typer.BadParameter(f"{option} cannot be used with {choice}")


def _export(
    function: Callable[..., Result],
    files: Sequence[Location],
    destination: str,
    options: dict[str, Any],
    watcher: Watcher,
) -> Result:
    path = options.get("schema")
    if path is not None:
        try:
            options["schema"] = Schema.from_json(Path(path).read_bytes())
        except SchemaError as error:
            raise SchemaError(error.reason, path=path, feature=error.feature) from None
    return function(files, destination, **options, watcher=watcher)


def _print_code(result: Result, destination: str) -> None:
    """Print code that reads the output to stdout, and a summary to stderr."""
    if result.schema is not None:
        paths = result.paths[0]
        if len(result.paths) > 1:
            paths = f"{glob.escape(destination)}-*-of-{len(result.paths):05d}"
        code = f"dataset = tio.TFRecordDataset({paths!r}, schema)"
        typer.echo(f"{result.schema.to_python()}{code}")
    typer.echo(summary_of(result), err=True)
