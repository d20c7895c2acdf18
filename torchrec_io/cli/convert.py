"""The command ``convert``: other formats to TFRecord, and TFRecord to other formats."""

from __future__ import annotations

import functools
import glob
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import typer
from typer import Argument, Option

from .. import convert as conversions
from .._schema.schema import Schema
from .._storage.compression import Compression
from .._storage.location import Location
from ..errors import SchemaError
from ..tools.report import OnError, Result, Watcher
from .options import DEFAULT_JOBS, check_options, command, files_of, given_options
from .parsers import parse_image_size, parse_list, parse_pairs
from .progress import run_job
from .results import print_result, summary_of
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
    for name in {"types", "extensions"} & set(given):
        given[name] = parse_pairs(given[name])
    if target != "tfrecord":
        function = getattr(conversions, f"to_{target}")
        check_options(function, given | given_options({"from": kind}), f"--to {target}")
        if target == "files" and "feature" not in given:
            raise typer.BadParameter("--to files needs --feature")
        files = files_of(sources, allow_missing=allow_missing)
        result = run_job(functools.partial(_export, function, files, destination, given))
        print_result(result, as_json=as_json)
        return
    kind = kind or _kind_of(sources[0])
    if kind == "images" and len(sources) > 1:
        raise typer.BadParameter("--from images takes a single folder")
    function = getattr(conversions, f"from_{kind}")
    check_options(function, given, f"--from {kind}")
    given["allow_missing"] = allow_missing
    source = sources[0] if kind == "images" else sources
    result = run_job(functools.partial(function, source, destination, **given))
    if as_json:
        print_result(result, as_json=True)
    else:
        _print_code(result, destination)


@command(
    calls=_convert,
    sources=Argument(metavar="SOURCE"),
    destination=Argument(),
    target=Option("--to"),
    kind=Option("--from"),
    index=Option("--index/--no-index"),
    force=Option("--force"),
    resize=Option(metavar="WxH|SHORT", parser=parse_image_size),
    quality=Option(min=1, max=100),
    shuffle=Option(metavar="SEED"),
    columns=Option(metavar="A,B,...", parser=parse_list),
    include=Option(metavar="A,B,...", parser=parse_list),
    exclude=Option(metavar="A,B,...", parser=parse_list),
    types=Option(metavar="NAME=TYPE,..."),
    schema=Option(metavar="FILE"),
    extensions=Option(metavar="FEATURE=EXT,..."),
)
def convert(
    sources: list[str],
    destination: str,
    *,
    target: Target = "tfrecord",
    kind: SourceKind | None = None,
    num_shards: int | None = None,
    max_bytes: int | None = None,
    compression: Compression | None = None,
    index: bool | None = None,
    force: bool | None = None,
    jobs: int = DEFAULT_JOBS,
    on_error: OnError = "raise",
    allow_missing: bool = False,
    as_json: bool = False,
    label_pattern: str | None = None,
    labels: str | None = None,
    resize: Any = None,
    encode: Literal["jpeg", "png"] | None = None,
    quality: int | None = None,
    shuffle: int | None = None,
    columns: Any = None,
    include: Any = None,
    exclude: Any = None,
    types: list[str] | None = None,
    schema: str | None = None,
    key: str | None = None,
    extensions: list[str] | None = None,
    feature: str | None = None,
    name_from: str | None = None,
    by_class: str | None = None,
) -> None:
    """Convert images, .npz, CSV, Parquet or JSON lines to TFRecord, or TFRecord to others (--to).

    A conversion to TFRecord prints Python code that reads the output to stdout, and a summary to
    stderr. If something cannot be converted, nothing is written and the exit status is 1.

    Options:
        sources: A folder of images, or files of one other format; with --to, TFRecord files.
        destination: Output file, common start of the paths of several, or new folder (--to files).
        target: Output format. files: a folder with a file per record.
        kind: Format of SOURCE. Default: detected from the name.
        num_shards: Number of output files.
        max_bytes: Largest size of an output file: 100MB, 1GiB.
        compression: Compress the output files.
        index: Write an index FILE.tfidx beside each file.  [default: index]
        force: Replace outputs that exist. By default they are refused.
        jobs: Number of processes, or threads for images and --to.
        on_error: raise: stop at data that cannot be converted; skip: skip and report it.
        label_pattern: Images: regular expression for file names, with a group for the label.
        labels: Images: CSV file with the columns name and label.
        resize: Images: size, or length of the shorter side.
        encode: Images: format to encode them to.
        quality: Images: quality of JPEG.  [default: 90]
        shuffle: Images: seed of a random order.
        columns: CSV without a header: names of the columns.
        include: Tables: names of the columns to convert.
        exclude: Tables: names of columns to leave out.
        types: CSV, JSON lines, Parquet: dtypes to cast to: int64, float32 or string.
        schema: To tables, WebDataset: schema, printed by 'schema --format json'.
        key: To WebDataset: feature with the keys of samples.
        extensions: To WebDataset: file extensions.
        feature: To files: feature with the content.
        name_from: To files: feature with the file names.
        by_class: To files: feature with the folders.
        as_json: Print the result as a JSON object.
    """


def _kind_of(source: str) -> SourceKind:
    suffix = os.path.splitext(source)[1].lower()
    if suffix in _KINDS:
        return _KINDS[suffix]
    path = Location.of(source).local_path
    if source.endswith("/") if path is None else os.path.isdir(path):
        return "images"
    if path is not None and not os.path.exists(path):
        typer.echo(f"error: no such file: {printable(repr(source))}", err=True)
        raise typer.Exit(2)
    kinds = ", ".join(get_args(SourceKind))
    raise typer.BadParameter(f"use --from to give the format of {source!r}: {kinds}")


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
