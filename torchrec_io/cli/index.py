"""``torchrec-io index``: writes an index beside each data file, or checks the one that is there."""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import Annotated, NamedTuple

import numpy as np
import typer

from ..errors import IndexFormatError, StaleIndexError
from ..records.formats import Progress
from ..records.index import RecordIndex
from ..records.index_file import SUFFIX
from ..storage.compression import detect_compression
from ..storage.opening import open_file
from .report import DEFAULT_JOBS, Jobs, Meter, Paths, Result, files_of, for_each_file, interruptible


class IndexForm(str, Enum):
    """The two kinds of index file."""

    tfidx = "tfidx"
    text = "text"


class _Outcome(NamedTuple):
    what: str
    records: int


@interruptible
def make_indexes(
    paths: Paths,
    form: Annotated[
        IndexForm,
        typer.Option(
            "--format", help="tfidx: FILE.tfidx. text: FILE.idx, as DALI and tfrecord read it."
        ),
    ] = IndexForm.tfidx,
    jobs: Jobs = DEFAULT_JOBS,
    force: Annotated[bool, typer.Option("--force", help="Build even what is up to date.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Build nothing; say if each index is there and fits.")
    ] = False,
) -> None:
    """Writes an index beside each TFRecord file, compressed ones too, unless it has one that fits.

    Status 1 if a file failed; the others are still done.
    """
    if check and force:
        raise typer.BadParameter("--check builds nothing, so it cannot go with --force")
    outcomes: Counter[str] = Counter()

    def work(path: str, progress: Progress) -> _Outcome:
        if check:
            return _check(path, form, progress)
        return _make(path, form, force, progress)

    def done(meter: Meter, result: Result[_Outcome]) -> None:
        if result.error is not None:
            meter.error(result.path, result.error)
        outcome = result.value
        outcomes[outcome.what if outcome else "failed"] += 1
        if outcome and not meter.has_bar:
            meter.line(
                f"{result.path}: {outcome.what}, {outcome.records} records, "
                f"{result.file_bytes} bytes, {result.seconds:.3f} s"
            )

    meter = for_each_file(files_of(paths), jobs, work, done)
    if meter.has_bar:
        files = ", ".join(f"{count} {what}" for what, count in outcomes.items())
        typer.echo(f"{files}; {meter.summary()}")
    if outcomes["failed"]:
        raise typer.Exit(1)


def _make(path: str, form: IndexForm, force: bool, progress: Progress) -> _Outcome:
    if form is IndexForm.text:
        _refuse_compressed(path)
    if not force:
        try:
            return _Outcome("up to date", len(_load(path, form)))
        except (FileNotFoundError, IndexFormatError, StaleIndexError):
            pass  # the index, not the data, is missing or wrong; the data is looked at next
    index = RecordIndex.build(path, progress=progress)
    if form is IndexForm.text:
        index.to_text(_index_path(path, form))
    else:
        index.save()
    return _Outcome("indexed", len(index))


def _check(path: str, form: IndexForm, progress: Progress) -> _Outcome:
    target = _index_path(path, form)
    try:
        index = _load(path, form)
    except FileNotFoundError:
        raise ValueError("has no index") from None
    fresh = RecordIndex.build(path, progress=progress)
    same_end = index.stream_end == fresh.stream_end
    if not (same_end and np.array_equal(index.offsets, fresh.offsets)):
        raise StaleIndexError("the index does not say what the data file holds", path=target)
    return _Outcome("index fits", len(index))


def _load(path: str, form: IndexForm) -> RecordIndex:
    target = _index_path(path, form)
    if form is IndexForm.text:
        return RecordIndex.from_text(target, path)
    return RecordIndex.load(target, path)


def _index_path(path: str, form: IndexForm) -> str:
    return path + (SUFFIX if form is IndexForm.tfidx else ".idx")


def _refuse_compressed(path: str) -> None:
    compression = detect_compression(open_file(path).head())
    if compression is not None:
        raise ValueError(
            f"a text index of a {compression} file would mean nothing: its readers look for the "
            "offsets in the file as it is; use --format tfidx"
        )
