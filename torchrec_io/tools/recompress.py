"""Record files compressed, or not any more: each anew, with the same records."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from ..convert.jobs import Jobs, OnError, Tally, Watcher
from ..convert.outputs import RecordOutputs, Written, copy_records, refuse_inputs
from ..storage.compression import Compression
from ..storage.local import StrPath
from ..storage.paths import expand_paths
from .record_files import RecordFiles

SUFFIXES: dict[Compression, str] = {"gzip": ".gz", "zlib": ".zz"}


def compress_files(
    paths: StrPath | Iterable[StrPath],
    folder: StrPath,
    compression: Compression = "gzip",
    *,
    index: bool = True,
    on_error: OnError = "raise",
    jobs: int = 1,
    watcher: Watcher | None = None,
) -> Written:
    """Writes each file compressed: ``a.tfrecord`` as ``folder/a.tfrecord.gz`` (``.zz`` for zlib).

    What is compressed already is compressed anew. All files get their names at the end.

    Args:
        paths: Files, patterns or directories; compressed or not is told by content.
        folder: Where they go; it is made if there is none. One that also holds the inputs has every
            record twice for who reads the whole folder.
        compression: ``"gzip"`` or ``"zlib"``.
        index: Whether each file written gets its ``.tfidx``, too.
        on_error: ``"raise"``, or ``"skip"``: damaged records are left out, and counted; behind a
            damaged length the rest of a file is lost.
        jobs: How many files are done at once. The result does not depend on it.
        watcher: Is told how it gets on.

    Raises:
        CorruptRecordError, TruncatedFileError: a file is damaged, unless that is skipped.
        FileNotFoundError: a path stands for no file.
        ValueError: an argument is none of its choices, two files would have one name, or an output
            is an input.
    """
    if compression not in SUFFIXES:
        raise ValueError(f"compression must be 'gzip' or 'zlib', not {compression!r}")

    def name_of(name: str) -> str:
        return _plain_name(name) + SUFFIXES[compression]

    return _rewrite(
        paths,
        folder,
        name_of,
        compression=compression,
        index=index,
        on_error=on_error,
        jobs=jobs,
        watcher=watcher,
    )


def decompress_files(
    paths: StrPath | Iterable[StrPath],
    folder: StrPath,
    *,
    index: bool = True,
    on_error: OnError = "raise",
    jobs: int = 1,
    watcher: Watcher | None = None,
) -> Written:
    """Writes each file uncompressed, without the ``.gz`` or ``.zz`` at the end of its name.

    What is not compressed is copied. Otherwise as :func:`compress_files`.
    """
    return _rewrite(
        paths,
        folder,
        _plain_name,
        compression=None,
        index=index,
        on_error=on_error,
        jobs=jobs,
        watcher=watcher,
    )


def _plain_name(name: str) -> str:
    stem, suffix = os.path.splitext(name)
    return stem if suffix in SUFFIXES.values() and stem else name


class _Rewritten(NamedTuple):
    tally: Tally
    size: int


def _rewrite(
    paths: StrPath | Iterable[StrPath],
    folder: StrPath,
    name_of: Callable[[str], str],
    *,
    compression: Compression | None,
    index: bool,
    on_error: OnError,
    jobs: int,
    watcher: Watcher | None,
) -> Written:
    """Writes every file anew, several at once; all appear at the end."""
    tally = Tally(on_error, watcher)
    inputs = expand_paths(paths)
    outputs = [os.path.join(folder, name_of(os.path.basename(path))) for path in inputs]
    for output, count in Counter(outputs).items():
        if count > 1:
            raise ValueError(f"{count} of the files would be {output!r}: do them one by one")
    refuse_inputs(inputs, outputs)
    stopped = threading.Event()

    def rewrite(pair: tuple[str, str]) -> _Rewritten:
        path, output = pair
        own = Tally(on_error)
        files = RecordFiles(path, own)
        blocks = files.blocks(files.all, own, until=stopped.is_set)
        writer = opened.open(output)
        copy_records(blocks, writer.write)
        writer.prepare()
        return _Rewritten(own, os.path.getsize(path))

    counts = []
    tally.watcher.started(sum(map(os.path.getsize, inputs)))
    with RecordOutputs(compression, index) as opened, Jobs(rewrite, jobs) as crew:
        try:
            for done in crew.map(zip(inputs, outputs, strict=True)):
                own = done.tally
                tally.add(own.records, done.size, own.errors)
                tally.skipped += own.skipped - len(own.errors)  # it keeps only the first ones
                counts.append(own.records)
        except BaseException:
            stopped.set()  # files under way need not be finished
            raise
    return Written.of(outputs, tally, counts)
