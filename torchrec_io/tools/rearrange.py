"""Record files made of others: merged, split, dealt to shards, cut down.

Records are copied as they are, never decoded, and every checksum is verified on the way. Nothing is
written over an input, nothing has its name before all of it is complete, and everything can be run
again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import closing

import numpy as np

from ..convert.jobs import OnError, Tally, Watcher
from ..convert.outputs import (
    RecordOutputs,
    Written,
    check_shards_name,
    copy_records,
    make_folder_of,
    refuse_inputs,
    refuse_shards_of,
)
from ..order.selection import Numbers, Selection, Subset
from ..order.shuffle import checked_seed
from ..order.split import parse_slice, split_indexed
from ..storage.compression import Compression
from ..storage.local import StrPath
from ..writing.sharded import ShardedWriter, shard_path
from .record_files import RecordFiles


def merge_files(
    paths: StrPath | Iterable[StrPath],
    output: StrPath,
    *,
    compression: Compression | None = None,
    index: bool = True,
    on_error: OnError = "raise",
    jobs: int = 1,
    watcher: Watcher | None = None,
) -> Written:
    """Writes the records of all files into one, in the order of the files.

    Args:
        paths: Files, patterns or directories; compressed or not is told by content.
        output: The file written, in a folder that is made if there is none.
        compression: Of what is written: ``None``, ``"gzip"`` or ``"zlib"``.
        index: Whether each file written gets its ``.tfidx``, too.
        on_error: ``"raise"``, or ``"skip"``: damaged records are left out, and counted; behind a
            damaged length the rest of a file is lost.
        jobs: Threads that read. The result does not depend on it.
        watcher: Is told how it gets on.

    Raises:
        CorruptRecordError, TruncatedFileError: a file is damaged, unless that is skipped.
        FileNotFoundError: a path stands for no file.
        ValueError: an argument is none of its choices, or the output is an input.
    """
    tally = Tally(on_error, watcher)
    files = RecordFiles(paths, tally)
    return _write_one(
        files, files.all, output, tally, compression=compression, index=index, jobs=jobs
    )


def subset_files(
    paths: StrPath | Iterable[StrPath],
    output: StrPath,
    *,
    records: str | None = None,
    every: int | None = None,
    sample: float | None = None,
    seed: int = 0,
    compression: Compression | None = None,
    index: bool = True,
    on_error: OnError = "raise",
    jobs: int = 1,
    watcher: Watcher | None = None,
) -> Written:
    """Writes some of the records of all files into one, in the order they have.

    Args:
        paths: Files, patterns or directories; compressed or not is told by content.
        output: The file written.
        records: A slice such as ``"[:1000]"`` or ``"[10%:20%]"``, as ``TFRecordDataset(split=)``
            takes it.
        every: Every so many-th record, from the first on.
        sample: This fraction of the records, drawn at random: those that the first part of
            ``TFRecordDataset(paths).split(sample, 1 - sample, seed=seed)`` has.
        seed: Of the sample.
        compression: Of what is written: ``None``, ``"gzip"`` or ``"zlib"``.
        index: Whether each file written gets its ``.tfidx``, too.
        on_error: ``"raise"``, or ``"skip"``: damaged records are left out, and counted; behind a
            damaged length the rest of a file is lost.
        jobs: Threads that read. The result does not depend on it.
        watcher: Is told how it gets on.

    Raises:
        CorruptRecordError, TruncatedFileError: a file is damaged, unless that is skipped.
        FileNotFoundError: a path stands for no file.
        ValueError: not exactly one of ``records``, ``every`` and ``sample`` is given, or it is out
            of its range.
    """
    if [records, every, sample].count(None) != 2:
        raise ValueError("exactly one of records, every and sample says which records are taken")
    if every is not None and every < 1:
        raise ValueError(f"every must be 1 or more, not {every}")
    if sample is not None and not 0 < sample < 1:
        raise ValueError(f"sample must be a fraction between 0 and 1, not {sample}")
    tally = Tally(on_error, watcher)
    files = RecordFiles(paths, tally)
    chosen: Selection
    if records is not None:
        chosen = parse_slice(records, len(files))
    elif every is not None:
        step = every
        chosen = Subset.build(len(files), lambda begin, end: np.arange(begin, end) % step == 0)
    else:
        assert sample is not None
        chosen = _parts(files, [sample, 1 - sample], seed)[0]
    return _write_one(files, chosen, output, tally, compression=compression, index=index, jobs=jobs)


def split_files(
    paths: StrPath | Iterable[StrPath],
    name: StrPath,
    fractions: Sequence[float],
    *,
    names: Sequence[str] | None = None,
    seed: int = 0,
    compression: Compression | None = None,
    index: bool = True,
    on_error: OnError = "raise",
    jobs: int = 1,
    watcher: Watcher | None = None,
) -> Written:
    """Writes parts drawn at random, those of ``TFRecordDataset(paths).split(*fractions, seed)``.

    Args:
        paths: Files, patterns or directories; compressed or not is told by content.
        name: How the files begin: ``out/flowers`` gives ``out/flowers-train.tfrecord``, and a
            folder, with its ``/`` at the end, ``out/train.tfrecord``.
        fractions: Of each part; they sum to 1.
        names: Of the parts; by default train, validation and test, or train and test of two, or
            part0, part1 and so on of more.
        seed: Another one draws other parts.
        compression: Of what is written: ``None``, ``"gzip"`` or ``"zlib"``.
        index: Whether each file written gets its ``.tfidx``, too.
        on_error: ``"raise"``, or ``"skip"``: damaged records are left out, and counted; behind a
            damaged length the rest of a file is lost.
        jobs: Threads that read. The result does not depend on it.
        watcher: Is told how it gets on.

    Raises:
        CorruptRecordError, TruncatedFileError: a file is damaged, unless that is skipped.
        FileNotFoundError: a path stands for no file.
        ValueError: the fractions do not sum to 1, or the names are not one for each, different and
            fit for file names.
    """
    outputs = [_part_path(name, part) for part in _part_names(names, len(fractions))]
    tally = Tally(on_error, watcher)
    files = RecordFiles(paths, tally)
    refuse_inputs(files.paths, outputs)
    parts = _parts(files, fractions, seed)
    tally.watcher.started(files.size)
    counts = [0] * len(outputs)
    blocks = files.blocks(files.all, tally, jobs)
    with RecordOutputs(compression, index) as opened, closing(blocks):
        writers = [opened.open(path) for path in outputs]
        for block in blocks:
            for number, part in enumerate(parts):
                for position in _positions_in(part, block.numbers):
                    writers[number].write(block[position])
                    counts[number] += 1
    return Written.of(outputs, tally, counts)


def reshard_files(
    paths: StrPath | Iterable[StrPath],
    name: StrPath,
    *,
    num_shards: int | None = None,
    max_bytes: int | None = None,
    compression: Compression | None = None,
    index: bool = True,
    on_error: OnError = "raise",
    jobs: int = 1,
    watcher: Watcher | None = None,
) -> Written:
    """Writes the records of all files into shards ``name-00000-of-00008``.

    Args:
        paths: Files, patterns or directories; compressed or not is told by content.
        name: How the shards begin.
        num_shards: Deals the records to so many shards by turns.
        max_bytes: Fills one shard after another, each up to so many bytes of file.
        compression: Of what is written: ``None``, ``"gzip"`` or ``"zlib"``.
        index: Whether each file written gets its ``.tfidx``, too.
        on_error: ``"raise"``, or ``"skip"``: damaged records are left out, and counted; behind a
            damaged length the rest of a file is lost.
        jobs: Threads that read. The result does not depend on it.
        watcher: Is told how it gets on.

    Raises:
        CorruptRecordError, TruncatedFileError: a file is damaged, unless that is skipped.
        FileNotFoundError: a path stands for no file.
        ValueError: not exactly one of ``num_shards`` and ``max_bytes`` is given, or the name is a
            folder, or a shard is an input.
        FileExistsError: another number of shards has the name already.
    """
    tally = Tally(on_error, watcher)
    files = RecordFiles(paths, tally)
    writer = open_shards(
        files.paths, name, num_shards, max_bytes=max_bytes, compression=compression, index=index
    )
    tally.watcher.started(files.size)
    with writer:
        copy_records(files.blocks(files.all, tally, jobs), writer.write)
    return Written.of(writer.paths, tally)


def open_shards(
    inputs: Sequence[str],
    name: StrPath,
    num_shards: int | None,
    *,
    max_bytes: int | None = None,
    compression: Compression | None,
    index: bool,
) -> ShardedWriter:
    """A writer of shards, none of which is an input."""
    check_shards_name(name)
    if max_bytes is not None:
        refuse_shards_of(inputs, name)
    elif num_shards is not None:
        refuse_inputs(inputs, (shard_path(name, i, num_shards) for i in range(num_shards)))
    make_folder_of(name)
    return ShardedWriter(
        name, num_shards, max_bytes=max_bytes, compression=compression, index=index
    )


# ---- what they share ----


def _write_one(
    files: RecordFiles,
    chosen: Selection,
    output: StrPath,
    tally: Tally,
    *,
    compression: Compression | None,
    index: bool,
    jobs: int,
) -> Written:
    refuse_inputs(files.paths, [output])
    share = len(chosen) / len(files) if len(files) else 0
    tally.watcher.started(int(files.size * share))
    with RecordOutputs(compression, index) as opened:
        writer = opened.open(os.fspath(output))
        count = copy_records(files.blocks(chosen, tally, jobs), writer.write)
    return Written.of([os.fspath(output)], tally, [count])


def _parts(files: RecordFiles, fractions: Sequence[float], seed: int) -> list[Subset]:
    """As TFRecordDataset.split has them."""
    return split_indexed(files.reader.indexes, None, fractions, checked_seed(seed))


def _positions_in(part: Subset, numbers: Numbers) -> list[int]:
    """Which of some records, which follow each other but for damaged ones, are in a part."""
    if not len(numbers):
        return []
    begin, end = int(numbers[0]), int(numbers[-1]) + 1
    taken: list[int] = np.flatnonzero(part.mask(begin, end)[numbers - begin]).tolist()
    return taken


def _part_names(names: Sequence[str] | None, count: int) -> list[str]:
    if names is None:
        usual = {2: ["train", "test"], 3: ["train", "validation", "test"]}
        return usual.get(count, [f"part{number}" for number in range(count)])
    if len(names) != count or len(set(names)) != count:
        raise ValueError(f"{count} parts need as many different names, not {list(names)}")
    for name in names:
        if not name or "/" in name or "\0" in name:
            raise ValueError(f"the name of a part becomes part of a file name: not {name!r}")
    return list(names)


def _part_path(name: StrPath, part: str) -> str:
    start = os.fspath(name)
    joint = "" if start.endswith(os.sep) else "-"
    return f"{start}{joint}{part}.tfrecord"
