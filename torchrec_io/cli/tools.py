"""The commands ``merge``, ``split``, ``reshard``, ``shuffle``, ``subset`` and so on."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

import typer

from .. import tools
from ..tools import Result
from .options import (
    DEFAULT_JOBS,
    Compression,
    CompressionOption,
    FileJobs,
    IndexOption,
    MaxBytesOption,
    OnError,
    OnErrorOption,
    Paths,
    ShardsOption,
    files_of,
    interruptible,
    jobs_option,
    parse_size,
    usage_errors,
)
from .progress import print_result, run_job

Jobs: TypeAlias = Annotated[int, jobs_option("Number of threads.")]
OutputFile: TypeAlias = Annotated[str, typer.Option("--output", "-o", help="Output file.")]
OutputName: TypeAlias = Annotated[
    str, typer.Option("--output", "-o", metavar="NAME", help="Common start of the output paths.")
]
OutputFolder: TypeAlias = Annotated[
    str, typer.Option("--output", "-o", metavar="FOLDER", help="Output folder.")
]
SeedOption: TypeAlias = Annotated[int, typer.Option(help="Seed of the random choice.")]


@interruptible
def merge(
    paths: Paths,
    output: OutputFile,
    *,
    compression: CompressionOption = None,
    index: IndexOption = True,
    on_error: OnErrorOption = OnError.fail,
    jobs: Jobs = DEFAULT_JOBS,
) -> None:
    """Write the records of all files to one file, in the order of the files."""
    _run(tools.merge, paths, output, compression, on_error, index=index, jobs=jobs)


@interruptible
def split(
    paths: Paths,
    output: OutputName,
    fractions: Annotated[
        str, typer.Option(metavar="A,B,...", help="Fraction of each part, such as 0.8,0.1,0.1.")
    ],
    *,
    names: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="Name of each part, such as train,validation,test."),
    ] = None,
    seed: SeedOption = 0,
    compression: CompressionOption = None,
    index: IndexOption = True,
    on_error: OnErrorOption = OnError.fail,
    jobs: Jobs = DEFAULT_JOBS,
) -> None:
    """Write disjoint random parts: NAME-train.tfrecord and so on.

    The parts are those of TFRecordDataset.split with the same fractions and seed.
    """
    with usage_errors():
        numbers = _parse_numbers(fractions)
    work = functools.partial(
        tools.split,
        fractions=numbers,
        names=None if names is None else names.split(","),
        seed=seed,
    )
    _run(work, paths, output, compression, on_error, index=index, jobs=jobs)


@interruptible
def reshard(
    paths: Paths,
    output: OutputName,
    *,
    num_shards: ShardsOption = None,
    max_bytes: MaxBytesOption = None,
    compression: CompressionOption = None,
    index: IndexOption = True,
    on_error: OnErrorOption = OnError.fail,
    jobs: Jobs = DEFAULT_JOBS,
) -> None:
    """Write the records of all files to shards: NAME-00000-of-00008 and so on."""
    with usage_errors():
        work = functools.partial(
            tools.reshard, num_shards=num_shards, max_bytes=_parse_size(max_bytes)
        )
    _run(work, paths, output, compression, on_error, index=index, jobs=jobs)


@interruptible
def shuffle(
    paths: Paths,
    output: OutputName,
    *,
    num_shards: ShardsOption = None,
    max_bytes: MaxBytesOption = None,
    seed: SeedOption = 0,
    compression: CompressionOption = None,
    index: IndexOption = True,
    on_error: OnErrorOption = OnError.fail,
    jobs: Jobs = DEFAULT_JOBS,
) -> None:
    """Write the records of all files to shards, in a uniform random order.

    It needs disk space for a copy of the data beside the shards while it runs.
    """
    with usage_errors():
        work = functools.partial(
            tools.shuffle,
            num_shards=num_shards,
            max_bytes=_parse_size(max_bytes),
            seed=seed,
        )
    _run(work, paths, output, compression, on_error, index=index, jobs=jobs)


@interruptible
def subset(
    paths: Paths,
    output: OutputFile,
    *,
    records: Annotated[
        str | None,
        typer.Option(metavar="SLICE", help="Slice of the records: '[:1000]', '[10%:20%]'."),
    ] = None,
    every: Annotated[
        int | None, typer.Option(min=1, help="Step between records, from the first record on.")
    ] = None,
    sample: Annotated[
        float | None, typer.Option(help="Fraction of the records, selected at random.")
    ] = None,
    seed: SeedOption = 0,
    compression: CompressionOption = None,
    index: IndexOption = True,
    on_error: OnErrorOption = OnError.fail,
    jobs: Jobs = DEFAULT_JOBS,
) -> None:
    """Write some of the records of all files to one file: --records, --every or --sample."""
    work = functools.partial(tools.subset, records=records, every=every, sample=sample, seed=seed)
    _run(work, paths, output, compression, on_error, index=index, jobs=jobs)


@interruptible
def compress(
    paths: Paths,
    output: OutputFolder,
    *,
    compression: Annotated[
        Compression, typer.Option(help="gzip writes NAME.gz, zlib writes NAME.zz.")
    ] = Compression.gzip,
    index: IndexOption = True,
    on_error: OnErrorOption = OnError.fail,
    jobs: FileJobs = DEFAULT_JOBS,
) -> None:
    """Write each file compressed to a folder."""
    _run(tools.compress, paths, output, compression, on_error, index=index, jobs=jobs)


@interruptible
def decompress(
    paths: Paths,
    output: OutputFolder,
    *,
    index: IndexOption = True,
    on_error: OnErrorOption = OnError.fail,
    jobs: FileJobs = DEFAULT_JOBS,
) -> None:
    """Write each file uncompressed to a folder."""
    _run(tools.decompress, paths, output, None, on_error, index=index, jobs=jobs)


COMMANDS: tuple[Callable[..., None], ...] = (
    merge,
    split,
    reshard,
    shuffle,
    subset,
    compress,
    decompress,
)


def _run(
    tool: Callable[..., Result],
    paths: list[str],
    output: str,
    compression: Compression | None,
    on_error: OnError,
    **options: Any,
) -> None:
    if compression is not None:
        options["compression"] = compression.value
    options["on_error"] = on_error.value
    print_result(run_job(functools.partial(tool, files_of(paths), output, **options)))


def _parse_numbers(text: str) -> list[float]:
    try:
        return [float(number) for number in text.split(",")]
    except ValueError:
        raise ValueError(f"fractions must be numbers, such as 0.8,0.1,0.1, got {text!r}") from None


def _parse_size(text: str | None) -> int | None:
    return None if text is None else parse_size(text)
