"""``torchrec-io merge``, ``split``, ``reshard``, ``shuffle``, ``subset`` and so on."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

import typer
from rich.filesize import decimal

from ..convert.outputs import Written
from ..convert.sizes import parse_size
from ..tools.rearrange import merge_files, reshard_files, split_files, subset_files
from ..tools.recompress import compress_files, decompress_files
from ..tools.shuffling import shuffle_files
from .report import DEFAULT_JOBS, Jobs, Paths, files_of, interruptible, jobs_option, printable
from .running import (
    Compression,
    CompressionOption,
    IndexOption,
    OnError,
    OnErrorOption,
    run,
    usage_errors,
)

JobsOption: TypeAlias = Annotated[int, jobs_option("Threads at work.")]
OutputOption: TypeAlias = Annotated[str, typer.Option("--output", "-o", help="The file written.")]
NameOption: TypeAlias = Annotated[
    str, typer.Option("--output", "-o", metavar="NAME", help="How the files written begin.")
]
FolderOption: TypeAlias = Annotated[
    str, typer.Option("--output", "-o", metavar="FOLDER", help="Where the files go.")
]
ShardsOption: TypeAlias = Annotated[
    int | None, typer.Option("--num-shards", min=1, help="Write so many files, by turns.")
]
MaxBytesOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--max-bytes", help="Write files of at most so many bytes: 100MB, 1GiB."),
]
SeedOption: TypeAlias = Annotated[int, typer.Option(help="Another one draws otherwise.")]


@interruptible
def merge(
    paths: Paths,
    output: OutputOption,
    *,
    compression: CompressionOption = None,
    index: IndexOption = True,
    on_error: OnErrorOption = OnError.fail,
    jobs: JobsOption = DEFAULT_JOBS,
) -> None:
    """Writes the records of all files into one, in the order of the files."""
    _do(merge_files, paths, output, compression, on_error, index=index, jobs=jobs)


@interruptible
def split(
    paths: Paths,
    output: NameOption,
    fractions: Annotated[
        str, typer.Option(metavar="A,B,...", help="Of each part, such as 0.8,0.1,0.1.")
    ],
    *,
    names: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="Of each part, such as train,validation,test."),
    ] = None,
    seed: SeedOption = 0,
    compression: CompressionOption = None,
    index: IndexOption = True,
    on_error: OnErrorOption = OnError.fail,
    jobs: JobsOption = DEFAULT_JOBS,
) -> None:
    """Writes disjoint parts drawn at random: NAME-train.tfrecord and so on.

    They are those of TFRecordDataset.split with the same fractions and seed.
    """
    with usage_errors():
        numbers = _numbers(fractions)
    work = functools.partial(
        split_files,
        fractions=numbers,
        names=None if names is None else names.split(","),
        seed=seed,
    )
    _do(work, paths, output, compression, on_error, index=index, jobs=jobs)


@interruptible
def reshard(
    paths: Paths,
    output: NameOption,
    *,
    num_shards: ShardsOption = None,
    max_bytes: MaxBytesOption = None,
    compression: CompressionOption = None,
    index: IndexOption = True,
    on_error: OnErrorOption = OnError.fail,
    jobs: JobsOption = DEFAULT_JOBS,
) -> None:
    """Writes the records of all files into shards: NAME-00000-of-00008 and so on."""
    with usage_errors():
        work = functools.partial(reshard_files, num_shards=num_shards, max_bytes=_size(max_bytes))
    _do(work, paths, output, compression, on_error, index=index, jobs=jobs)


@interruptible
def shuffle(
    paths: Paths,
    output: NameOption,
    *,
    num_shards: ShardsOption = None,
    max_bytes: MaxBytesOption = None,
    seed: SeedOption = 0,
    compression: CompressionOption = None,
    index: IndexOption = True,
    on_error: OnErrorOption = OnError.fail,
    jobs: JobsOption = DEFAULT_JOBS,
) -> None:
    """Writes the records of all files into shards, in a uniform random order.

    Needs room for the data once more beside the shards while it is at work.
    """
    with usage_errors():
        work = functools.partial(
            shuffle_files, num_shards=num_shards, max_bytes=_size(max_bytes), seed=seed
        )
    _do(work, paths, output, compression, on_error, index=index, jobs=jobs)


@interruptible
def subset(
    paths: Paths,
    output: OutputOption,
    *,
    records: Annotated[
        str | None, typer.Option(metavar="SLICE", help="Such as '[:1000]' or '[10%:20%]'.")
    ] = None,
    every: Annotated[
        int | None, typer.Option(min=1, help="Every so many-th record, from the first on.")
    ] = None,
    sample: Annotated[
        float | None, typer.Option(help="This fraction of the records, drawn at random.")
    ] = None,
    seed: SeedOption = 0,
    compression: CompressionOption = None,
    index: IndexOption = True,
    on_error: OnErrorOption = OnError.fail,
    jobs: JobsOption = DEFAULT_JOBS,
) -> None:
    """Writes some of the records of all files into one: --records, --every or --sample of them."""
    work = functools.partial(subset_files, records=records, every=every, sample=sample, seed=seed)
    _do(work, paths, output, compression, on_error, index=index, jobs=jobs)


@interruptible
def compress(
    paths: Paths,
    output: FolderOption,
    *,
    compression: Annotated[
        Compression, typer.Option(help="gzip: NAME.gz. zlib: NAME.zz.")
    ] = Compression.gzip,
    index: IndexOption = True,
    on_error: OnErrorOption = OnError.fail,
    jobs: Jobs = DEFAULT_JOBS,
) -> None:
    """Writes each file compressed, into a folder."""
    _do(compress_files, paths, output, compression, on_error, index=index, jobs=jobs)


@interruptible
def decompress(
    paths: Paths,
    output: FolderOption,
    *,
    index: IndexOption = True,
    on_error: OnErrorOption = OnError.fail,
    jobs: Jobs = DEFAULT_JOBS,
) -> None:
    """Writes each file uncompressed, into a folder."""
    _do(decompress_files, paths, output, None, on_error, index=index, jobs=jobs)


COMMANDS: tuple[Callable[..., None], ...] = (
    merge,
    split,
    reshard,
    shuffle,
    subset,
    compress,
    decompress,
)


def _do(
    work: Callable[..., Written],
    paths: list[str],
    output: str,
    compression: Compression | None,
    on_error: OnError,
    **options: Any,
) -> None:
    if compression is not None:
        options["compression"] = compression.value
    files = files_of(paths)
    print_written(run(functools.partial(work, files, output, on_error=on_error.value, **options)))


def print_written(done: Written) -> None:
    """Says what was written: each file where they are few, and all in one line."""
    if 1 < len(done.counts) <= 16:
        for path, count in zip(done.paths, done.counts, strict=True):
            typer.echo(printable(f"{path}: {count:,} records"))
    files = f"{len(done.paths):,} files"
    if len(done.paths) == 1:
        files = "1 folder" if os.path.isdir(done.paths[0]) else "1 file"
    typer.echo(
        f"{done.records:,} records in {files}, {decimal(done.file_bytes)}, "
        f"{done.skipped:,} skipped, {done.seconds:.2f} s"
    )


def _numbers(text: str) -> list[float]:
    try:
        return [float(number) for number in text.split(",")]
    except ValueError:
        raise ValueError(f"fractions must be numbers, such as 0.8,0.1,0.1, not {text!r}") from None


def _size(text: str | None) -> int | None:
    return None if text is None else parse_size(text)
