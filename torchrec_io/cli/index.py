"""The command ``index``."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Literal, NamedTuple, TypeAlias

import numpy as np
import typer

from ..checks import counted
from ..errors import IndexFormatError, StaleIndexError
from ..records.formats import Progress
from ..records.index import RecordIndex
from ..records.index_file import SUFFIX
from ..storage.compression import detect_compression
from ..storage.opening import open_file
from .options import (
    DEFAULT_JOBS,
    AllowMissingOption,
    FileJobs,
    JsonLinesOption,
    Paths,
    files_of,
    interruptible,
)
from .progress import FileOutcome, Meter, for_each_file

IndexFormat: TypeAlias = Literal["tfidx", "text"]


class _Indexed(NamedTuple):
    state: str  # "indexed", "up to date" or "index matches"
    records: int


@interruptible
def make_indexes(
    paths: Paths,
    index_format: Annotated[
        IndexFormat,
        typer.Option(
            "--format", help="tfidx writes FILE.tfidx; text writes FILE.idx, for DALI and tfrecord."
        ),
    ] = "tfidx",
    *,
    jobs: FileJobs = DEFAULT_JOBS,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Build indexes again that are up to date, and replace other FILE.idx."
        ),
    ] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Build nothing; report indexes that are missing or stale."),
    ] = False,
    allow_missing: AllowMissingOption = False,
    as_json: JsonLinesOption = False,
) -> None:
    """Write an index beside each TFRecord file, unless there is one that is up to date.

    Files may be compressed. The exit status is 1 if a file fails; the other files are still
    indexed.

    A line of --json has the members file, state, records, file_bytes and seconds. The state is
    indexed, "up to date", "index matches" or failed, with an error.
    """
    if check and force:
        raise typer.BadParameter("--check cannot be used with --force: it builds nothing")
    states: Counter[str] = Counter()

    def work(path: str, progress: Progress) -> _Indexed:
        if check:
            return _check(path, index_format, progress)
        return _make(path, index_format, force, progress)

    def done(meter: Meter, outcome: FileOutcome[_Indexed]) -> None:
        if outcome.error is not None:
            meter.error(outcome.path, outcome.error)
        indexed = outcome.value
        states[indexed.state if indexed else "failed"] += 1
        if as_json:
            state = {"state": "failed"} if indexed is None else indexed._asdict()
            meter.line(outcome.as_json(state))
        elif indexed and not meter.has_bar:
            records = counted(indexed.records, "record")
            size = counted(outcome.file_bytes, "byte")
            meter.line(
                f"{outcome.path}: {indexed.state}, {records}, {size}, {outcome.seconds:.3f} s"
            )

    meter = for_each_file(files_of(paths, allow_missing=allow_missing), jobs, work, done)
    if meter.has_bar and not as_json:
        totals = ", ".join(f"{count:,} {state}" for state, count in states.items())
        typer.echo(f"{totals}; {meter.summary()}")
    if states["failed"]:
        raise typer.Exit(1)


def _make(path: str, index_format: IndexFormat, force: bool, progress: Progress) -> _Indexed:
    if index_format == "text":
        _refuse_compressed(path)
    if not force:
        try:
            index = _load(path, index_format)
            if not index.gaps:  # otherwise building it raises the error
                return _Indexed("up to date", len(index))
        except (FileNotFoundError, StaleIndexError):
            pass  # the index is missing or stale, so it is built
        except IndexFormatError as error:
            if index_format == "text":  # other programs use this suffix, too
                reason = f"{error.reason}; replace the file with --force, or move it away"
                raise IndexFormatError(reason, path=error.path) from None
    index = RecordIndex.build(path, progress=progress)
    if index_format == "text":
        index.to_text(_index_path(path, index_format))
    else:
        index.save()
    return _Indexed("indexed", len(index))


def _check(path: str, index_format: IndexFormat, progress: Progress) -> _Indexed:
    target = _index_path(path, index_format)
    try:
        index = _load(path, index_format)
    except FileNotFoundError:
        raise ValueError("the index does not exist") from None
    fresh = RecordIndex.build(path, progress=progress)
    same_end = index.stream_end == fresh.stream_end
    if not (same_end and np.array_equal(index.offsets, fresh.offsets)):
        raise StaleIndexError("the index does not match the records of the data file", path=target)
    return _Indexed("index matches", len(index))


def _load(path: str, index_format: IndexFormat) -> RecordIndex:
    target = _index_path(path, index_format)
    if index_format == "text":
        return RecordIndex.from_text(target, path)
    return RecordIndex.load(target, path)


def _index_path(path: str, index_format: IndexFormat) -> str:
    return path + (SUFFIX if index_format == "tfidx" else ".idx")


def _refuse_compressed(path: str) -> None:
    compression = detect_compression(open_file(path).head())
    if compression is not None:
        raise ValueError(
            f"a text index of a {compression} file is not possible: its readers do not decompress; "
            "use --format tfidx"
        )
