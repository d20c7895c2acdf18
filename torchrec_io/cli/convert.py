"""``torchrec-io convert``: images, arrays, CSV, Parquet and JSON lines to TFRecord, and back."""

from __future__ import annotations

import functools
import glob
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum
from typing import Annotated, Any, TypeAlias

import typer
from rich.filesize import decimal

from ..convert.sizes import parse_size
from ..convert.target import Conversion, Options
from .export import OPTIONS, Target, export_records
from .report import DEFAULT_JOBS, interruptible, jobs_option, printable
from .running import Compression, OnError, run, usage_errors


class SourceKind(str, Enum):
    """What is converted."""

    images = "images"
    npz = "npz"
    csv = "csv"
    parquet = "parquet"
    jsonl = "jsonl"


class Encoding(str, Enum):
    """What images are encoded as."""

    jpeg = "jpeg"
    png = "png"


_KINDS = {
    ".npz": SourceKind.npz,
    ".csv": SourceKind.csv,
    ".tsv": SourceKind.csv,
    ".parquet": SourceKind.parquet,
    ".pq": SourceKind.parquet,
    ".jsonl": SourceKind.jsonl,
    ".ndjson": SourceKind.jsonl,
}
# Options that are not for every kind of source.
_OWN = {
    SourceKind.images: {"label_pattern", "labels", "resize", "encode", "quality", "shuffle"},
    SourceKind.csv: {"columns", "types"},
    SourceKind.jsonl: {"types"},
}
Form: TypeAlias = "Callable[[str], Any]"


@interruptible
def convert(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE",
            help="A folder of images, or files of one other kind; with --to, TFRecord files.",
        ),
    ],
    destination: Annotated[
        str,
        typer.Argument(
            help="Name of the file, or of the shards without their numbers; or the new folder."
        ),
    ],
    *,
    target: Annotated[
        Target, typer.Option("--to", help="What to write; files: a folder of plain ones.")
    ] = Target.tfrecord,
    kind: Annotated[
        SourceKind | None,
        typer.Option("--from", help="What SOURCE is, if its name does not tell."),
    ] = None,
    num_shards: Annotated[
        int | None, typer.Option("--num-shards", min=1, help="Write so many files.")
    ] = None,
    max_bytes: Annotated[
        str | None,
        typer.Option("--max-bytes", help="Write files of at most so many bytes: 100MB, 1GiB."),
    ] = None,
    compression: Annotated[Compression | None, typer.Option(help="Compress the files.")] = None,
    index: Annotated[
        bool | None,
        typer.Option(
            "--index/--no-index", help="Write FILE.tfidx beside each file.  [default: index]"
        ),
    ] = None,
    jobs: Annotated[int, jobs_option("Processes (images: threads) at work.")] = DEFAULT_JOBS,
    on_error: Annotated[
        OnError,
        typer.Option(help="skip: leave out what cannot be converted, and name it."),
    ] = OnError.fail,
    label_pattern: Annotated[
        str | None,
        typer.Option(help="Images: regular expression for file names; its group is the label."),
    ] = None,
    labels: Annotated[
        str | None, typer.Option(help="Images: CSV file with the columns name and label.")
    ] = None,
    resize: Annotated[
        str | None,
        typer.Option(metavar="WxH|SHORT", help="Images: new size, or length of the shorter side."),
    ] = None,
    encode: Annotated[
        Encoding | None, typer.Option(help="Images: encode them anew, as this.")
    ] = None,
    quality: Annotated[
        int | None, typer.Option(min=1, max=100, help="Images: quality of JPEG.  [default: 90]")
    ] = None,
    shuffle: Annotated[
        int | None, typer.Option(metavar="SEED", help="Images: put them in a random order.")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="CSV without a header: names of the columns."),
    ] = None,
    types: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=TYPE,...",
            help="CSV, JSON lines: dtype of some columns: int64, float32 or string.",
        ),
    ] = None,
    schema: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="To Parquet, WebDataset: what to read, as 'schema --format json' prints it.",
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(metavar="FEATURE", help="To WebDataset: what samples are called by."),
    ] = None,
    extensions: Annotated[
        list[str] | None,
        typer.Option(metavar="FEATURE=EXT,...", help="To WebDataset: what files end in."),
    ] = None,
    feature: Annotated[
        str | None, typer.Option(metavar="FEATURE", help="To files: what is in them.")
    ] = None,
    name_from: Annotated[
        str | None, typer.Option(metavar="FEATURE", help="To files: what they are called by.")
    ] = None,
    by_class: Annotated[
        str | None, typer.Option(metavar="FEATURE", help="To files: folders they are put in.")
    ] = None,
) -> None:
    """Converts to TFRecord: a folder of images, .npz, CSV, Parquet or JSON lines; and back, --to.

    To TFRecord, stdout has the Python that reads what was written, and stderr what was done. Status
    1 if something cannot be converted: then nothing is written.
    """
    own: dict[str, tuple[Any, Form]] = {
        "label_pattern": (label_pattern, str),
        "labels": (labels, str),
        "resize": (resize, _parse_resize),
        "encode": (encode and encode.value, str),
        "quality": (quality, int),
        "shuffle": (shuffle, int),
        "columns": (columns, lambda text: text.split(",")),
        "types": (types, _parse_pairs),
        "schema": (schema, str),
        "key": (key, str),
        "extensions": (extensions, _parse_pairs),
        "feature": (feature, str),
        "name_from": (name_from, str),
        "by_class": (by_class, str),
    }
    if target is not Target.tfrecord:
        own["from"] = (kind and kind.value, str)
        own["num_shards"] = (num_shards, int)
        own["max_bytes"] = (max_bytes, parse_size)
        own["compression"] = (compression and compression.value, str)
        own["index"] = (index, bool)
        with usage_errors():
            arguments = _arguments_of(own, OPTIONS[target], f"--to {target.value}")
            if target is Target.files and feature is None:
                raise ValueError("--to files needs --feature: what is in them")
        export_records(sources, destination, target, arguments, on_error=on_error, jobs=jobs)
        return
    kind = kind or _kind_of(sources[0])
    with usage_errors():
        arguments = _arguments_of(own, _OWN.get(kind, set()), f"--from {kind.value}")
        shared = Options(
            num_shards=num_shards,
            max_bytes=None if max_bytes is None else parse_size(max_bytes),
            compression=compression and compression.value,
            index=index is not False,
            jobs=jobs,
            on_error="raise" if on_error is OnError.fail else "skip",
        )
    work = functools.partial(_converter(kind, sources), destination, **arguments, **shared)
    _report(run(work), destination)


def _kind_of(source: str) -> SourceKind:
    suffix = os.path.splitext(source)[1].lower()
    if suffix in _KINDS:
        return _KINDS[suffix]
    if os.path.isdir(source):
        return SourceKind.images
    if not os.path.exists(source):
        typer.echo(f"error: no such file: {printable(repr(source))}", err=True)
        raise typer.Exit(2)
    kinds = ", ".join(kind.value for kind in SourceKind)
    raise typer.BadParameter(f"say what {source!r} is with --from: {kinds}")


def _arguments_of(
    own: Mapping[str, tuple[Any, Form]], allowed: Collection[str], choice: str
) -> dict[str, Any]:
    """The options that were given, as the function for this choice takes them."""
    arguments = {name: form(value) for name, (value, form) in own.items() if value}
    arguments |= {name: value for name, (value, _) in own.items() if value == 0}  # --shuffle 0
    for name in arguments:
        if name not in allowed:
            raise ValueError(f"--{name.replace('_', '-')} is not for {choice}")
    return arguments


def _parse_resize(text: str) -> tuple[int, int] | int:
    found = re.fullmatch(r"(\d{1,6})(?:[xX](\d{1,6}))?", text)
    if found is None:
        raise ValueError(f"--resize must be WIDTHxHEIGHT, or one number, not {text!r}")
    return int(found[1]) if found[2] is None else (int(found[1]), int(found[2]))


def _parse_pairs(texts: Iterable[str]) -> dict[str, str]:
    pairs = {}
    for item in ",".join(texts).split(","):
        name, equals, value = item.rpartition("=")
        if not equals:
            raise ValueError(f"--types and --extensions must be NAME=VALUE,..., not {item!r}")
        pairs[name] = value
    return pairs


def _converter(kind: SourceKind, sources: list[str]) -> Callable[..., Conversion]:
    # Each needs packages that take a while to import.
    if kind is SourceKind.images:
        from ..convert.images import convert_images  # noqa: PLC0415

        if len(sources) > 1:
            raise typer.BadParameter("images are converted of one folder")
        return functools.partial(convert_images, sources[0])
    if kind is SourceKind.npz:
        from ..convert.npz import convert_npz as convert  # noqa: PLC0415
    elif kind is SourceKind.csv:
        from ..convert.csv import convert_csv as convert  # noqa: PLC0415
    elif kind is SourceKind.parquet:
        from ..convert.parquet import convert_parquet as convert  # noqa: PLC0415
    else:
        from ..convert.jsonl import convert_jsonl as convert  # noqa: PLC0415
    return functools.partial(convert, sources)


def _report(done: Conversion, destination: str) -> None:
    if done.schema is not None:
        source = f"dataset = tio.TFRecordDataset({_paths_of(done, destination)!r}, schema)"
        typer.echo(f"{done.schema.to_python()}{source}")
    ignored = [f"{count:,} {kind}" for kind, count in sorted(done.ignored.items())]
    files = "1 file" if len(done.paths) == 1 else f"{len(done.paths):,} files"
    parts = [
        f"{done.records:,} records in {files}",
        decimal(done.file_bytes),
        f"{done.skipped:,} skipped",
        *(["ignored " + ", ".join(ignored)] if ignored else []),
        f"{done.seconds:.2f} s",
    ]
    typer.echo(printable(", ".join(parts)), err=True)


def _paths_of(done: Conversion, destination: str) -> str:
    """All files in one word that a dataset takes."""
    if len(done.paths) == 1:
        return done.paths[0]
    return f"{glob.escape(destination)}-*-of-{len(done.paths):05d}"
