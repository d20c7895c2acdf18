"""The commands ``merge``, ``split``, ``reshard``, ``shuffle``, ``subset`` and so on."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Annotated, Any, TypeAlias

import typer

from .. import tools
from .._storage.compression import Compression
from .options import (
    DEFAULT_JOBS,
    AllowMissingOption,
    CompressionOption,
    FileJobs,
    ForceOption,
    IndexOption,
    JsonOption,
    MaxBytesOption,
    OnErrorOption,
    Paths,
    RayOption,
    ShardsOption,
    files_of,
    given_options,
    interruptible,
    jobs_option,
)
from .progress import connect_to_ray, print_result, run_job

Jobs: TypeAlias = Annotated[int, jobs_option("Number of threads.")]
OutputFile: TypeAlias = Annotated[str, typer.Option("--output", "-o", help="Output file.")]
OutputName: TypeAlias = Annotated[
    str, typer.Option("--output", "-o", metavar="NAME", help="Common start of the output paths.")
]
OutputFolder: TypeAlias = Annotated[
    str, typer.Option("--output", "-o", metavar="FOLDER", help="Output folder.")
]
SeedOption: TypeAlias = Annotated[int, typer.Option(help="Seed of the random choice.")]


def _calls_tool(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command call the tool of the same name with the options that were given.

    With ``--ray`` it is the function of the cluster.
    """

    @functools.wraps(command)
    def wrapper(
        paths: list[str],
        output: str,
        *,
        allow_missing: bool,
        as_json: bool,
        ray: str | None = None,
        **options: Any,
    ) -> None:
        arguments = given_options(options)
        room: ModuleType = tools
        if ray is not None:
            from .. import cluster as room  # noqa: PLC0415  # rarely needed

            del arguments["jobs"]
        tool = getattr(room, command.__name__)
        if ray is not None:
            _check_options(tool, arguments)
            connect_to_ray(ray)
        files = files_of(paths, allow_missing=allow_missing)
        result = run_job(functools.partial(tool, files, output, **arguments))
        print_result(result, as_json=as_json)

    return interruptible(wrapper)


def _check_options(tool: Callable[..., Any], options: Mapping[str, Any]) -> None:
    """Refuse options that a function of the cluster lacks, and require those that it needs."""
    needed = inspect.signature(tool).parameters
    for name in options:
        if name not in needed:
            raise typer.BadParameter(f"--{name.replace('_', '-')} cannot be used with --ray")
    for name, parameter in needed.items():
        is_required = (
            parameter.kind is parameter.KEYWORD_ONLY and parameter.default is parameter.empty
        )
        if is_required and name not in options:
            raise typer.BadParameter(f"--ray needs --{name.replace('_', '-')}")


@_calls_tool
def merge(
    paths: Paths,
    output: OutputFile,
    *,
    compression: CompressionOption = None,
    index: IndexOption = True,
    force: ForceOption = False,
    on_error: OnErrorOption = "raise",
    allow_missing: AllowMissingOption = False,
    jobs: Jobs = DEFAULT_JOBS,
    as_json: JsonOption = False,
) -> None:
    """Write the records of all files to one file, in the order of the files."""


@_calls_tool
def split(
    paths: Paths,
    output: OutputName,
    fractions: Annotated[
        str,
        typer.Option(
            metavar="A,B,...", help="Size of each part: 0.8,0.1,0.1, or percentages 80,10,10."
        ),
    ],
    *,
    names: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="Name of each part, such as train,validation,test."),
    ] = None,
    seed: SeedOption = 0,
    compression: CompressionOption = None,
    index: IndexOption = True,
    force: ForceOption = False,
    on_error: OnErrorOption = "raise",
    allow_missing: AllowMissingOption = False,
    jobs: Jobs = DEFAULT_JOBS,
    as_json: JsonOption = False,
) -> None:
    """Write disjoint random parts: NAME-train.tfrecord and so on.

    The parts are those of TFRecordDataset.split with the same fractions and seed.
    """


@_calls_tool
def reshard(
    paths: Paths,
    output: OutputName,
    *,
    num_shards: ShardsOption = None,
    max_bytes: MaxBytesOption = None,
    compression: CompressionOption = None,
    index: IndexOption = True,
    force: ForceOption = False,
    on_error: OnErrorOption = "raise",
    allow_missing: AllowMissingOption = False,
    jobs: Jobs = DEFAULT_JOBS,
    ray: RayOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the records of all files to shards: NAME-00000-of-00008 and so on."""


@_calls_tool
def shuffle(
    paths: Paths,
    output: OutputName,
    *,
    num_shards: ShardsOption = None,
    max_bytes: MaxBytesOption = None,
    seed: SeedOption = 0,
    compression: CompressionOption = None,
    index: IndexOption = True,
    force: ForceOption = False,
    on_error: OnErrorOption = "raise",
    allow_missing: AllowMissingOption = False,
    jobs: Jobs = DEFAULT_JOBS,
    ray: RayOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the records of all files to shards, in a uniform random order.

    It needs disk space for a copy of the data beside the shards while it runs. --ray needs
    --num-shards, and writes consecutive records of the order to each shard, not records in turn.
    """


@_calls_tool
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
    force: ForceOption = False,
    on_error: OnErrorOption = "raise",
    allow_missing: AllowMissingOption = False,
    jobs: Jobs = DEFAULT_JOBS,
    as_json: JsonOption = False,
) -> None:
    """Write some of the records of all files to one file: --records, --every or --sample."""


@_calls_tool
def compress(
    paths: Paths,
    output: OutputFolder,
    *,
    compression: Annotated[
        Compression, typer.Option(help="gzip writes NAME.gz, zlib writes NAME.zz, zstd NAME.zst.")
    ] = "gzip",
    index: IndexOption = True,
    force: ForceOption = False,
    on_error: OnErrorOption = "raise",
    allow_missing: AllowMissingOption = False,
    jobs: FileJobs = DEFAULT_JOBS,
    as_json: JsonOption = False,
) -> None:
    """Write each file compressed to a folder."""


@_calls_tool
def decompress(
    paths: Paths,
    output: OutputFolder,
    *,
    index: IndexOption = True,
    force: ForceOption = False,
    on_error: OnErrorOption = "raise",
    allow_missing: AllowMissingOption = False,
    jobs: FileJobs = DEFAULT_JOBS,
    as_json: JsonOption = False,
) -> None:
    """Write each file uncompressed to a folder."""


COMMANDS = (merge, split, reshard, shuffle, subset, compress, decompress)
