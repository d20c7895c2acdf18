"""Tools that copy records to other files: merge, split, reshard and subset.

Records are copied unchanged, without decoding, and every checksum is verified. No input is
overwritten, no file has its name before all of them are complete, and every tool can be run again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Unpack

import numpy as np

from .._order.selection import Numbers, Selection, Subset
from .._order.shuffle import check_seed
from .._order.split import parse_slice, split_indexed
from .._storage.local import StrPath
from .._storage.location import Location
from .._writing.output_group import OutputGroup
from ..checks import check_integer
from .options import CopyOptions, open_inputs, open_shards, with_defaults
from .outputs import check_file_name, copy_records, refuse_inputs, refuse_shard_inputs
from .record_files import RecordFiles
from .report import Result


def merge(
    paths: StrPath | Iterable[StrPath],
    output: StrPath,
    **options: Unpack[CopyOptions],
) -> Result:
    """Write the records of all files to one file, in the order of the files.

    Args:
        paths: Files, glob patterns, directories or URLs. Compression is detected from the content.
        output: Path of the output file. A missing folder is created.
        options: Keyword options of all tools, see :class:`CopyOptions`: ``compression``, ``index``,
            ``force``, ``on_error``, ``allow_missing``, ``jobs``, ``watcher`` and
            ``storage_options``.

    Returns:
        Path, number of records and other facts of the output.

    Raises:
        CorruptRecordError: If a record is damaged, unless it is skipped.
        TruncatedFileError: If a file is truncated, unless its rest is skipped.
        FileNotFoundError: If a path matches no file, or shards are missing.
        FileExistsError: If an output exists, unless it may be replaced.
        ValueError: If an argument is invalid or the output is an input.
    """
    given = with_defaults(options)
    files = open_inputs(paths, given)
    return _write_one(files, files.all, output, given)


def subset(
    paths: StrPath | Iterable[StrPath],
    output: StrPath,
    *,
    records: str | None = None,
    every: int | None = None,
    sample: float | None = None,
    seed: int = 0,
    **options: Unpack[CopyOptions],
) -> Result:
    """Write some of the records of all files to one file, in their order.

    Exactly one of ``records``, ``every`` and ``sample`` selects the records.

    Args:
        paths: Files, glob patterns, directories or URLs. Compression is detected from the content.
        output: Path of the output file. A missing folder is created.
        records: Slice such as ``"[:1000]"`` or ``"[10%:20%]"``, as in ``TFRecordDataset(split=)``.
        every: Step between selected records. The first record is selected.
        sample: Fraction of the records, selected at random: the records of the first part of
            ``TFRecordDataset(paths).split(sample, 1 - sample, seed=seed)``.
        seed: Seed of the sample.
        options: Keyword options of all tools, see :class:`CopyOptions`: ``compression``, ``index``,
            ``force``, ``on_error``, ``allow_missing``, ``jobs``, ``watcher`` and
            ``storage_options``.

    Returns:
        Path, number of records and other facts of the output.

    Raises:
        CorruptRecordError: If a record is damaged, unless it is skipped.
        TruncatedFileError: If a file is truncated, unless its rest is skipped.
        FileNotFoundError: If a path matches no file, or shards are missing.
        FileExistsError: If an output exists, unless it may be replaced.
        ValueError: If not exactly one of ``records``, ``every`` and ``sample`` is given, an
            argument is invalid, or the output is an input.
    """
    if [records, every, sample].count(None) != 2:
        raise ValueError("exactly one of records, every and sample must be given")
    step = None if every is None else check_integer("every", every, 1)
    if sample is not None and not 0 < sample < 1:
        raise ValueError(f"sample must be a fraction between 0 and 1, got {sample}")
    given = with_defaults(options)
    files = open_inputs(paths, given)
    selection: Selection
    if records is not None:
        selection = parse_slice(records, len(files))
    elif step is not None:
        selection = Subset.build(len(files), lambda begin, end: np.arange(begin, end) % step == 0)
    else:
        assert sample is not None
        selection = _random_parts(files, [sample, 1 - sample], seed)[0]
    return _write_one(files, selection, output, given)


def split(
    paths: StrPath | Iterable[StrPath],
    name: StrPath,
    fractions: Sequence[float],
    *,
    names: Sequence[str] | None = None,
    seed: int = 0,
    **options: Unpack[CopyOptions],
) -> Result:
    """Write the records of all files to disjoint random parts.

    The parts are those of ``TFRecordDataset(paths).split(*fractions, seed=seed)``.

    Args:
        paths: Files, glob patterns, directories or URLs. Compression is detected from the content.
        name: Common start of the output paths. ``out/flowers`` gives
            ``out/flowers-train.tfrecord``; a folder that ends in ``/`` gives
            ``out/train.tfrecord``.
        fractions: Fraction of each part; they sum to 1. Or percentages or other weights, all at
            least 1: ``[80, 10, 10]``.
        names: Names of the parts. The default is train and test for two parts; train, validation
            and test for three; part0, part1 and so on for more.
        seed: Seed of the random selection.
        options: Keyword options of all tools, see :class:`CopyOptions`: ``compression``, ``index``,
            ``force``, ``on_error``, ``allow_missing``, ``jobs``, ``watcher`` and
            ``storage_options``.

    Returns:
        Paths, numbers of records and other facts of the outputs.

    Raises:
        CorruptRecordError: If a record is damaged, unless it is skipped.
        TruncatedFileError: If a file is truncated, unless its rest is skipped.
        FileNotFoundError: If a path matches no file, or shards are missing.
        FileExistsError: If an output exists, unless it may be replaced.
        ValueError: If the fractions neither sum to 1 nor are percentages or weights, the names are
            not different file names, one for each part, or an output is an input.
    """
    given = with_defaults(options)
    start = Location.of(name, given["storage_options"])
    outputs = [_part_of(start, part) for part in _part_names(names, len(fractions))]
    files = open_inputs(paths, given)
    refuse_inputs(files.locations, outputs)
    parts = _random_parts(files, fractions, seed)
    files.report.watcher.started(files.size)
    blocks = files.blocks(files.all, given["jobs"])
    with OutputGroup(force=given["force"]) as group, closing(blocks):
        writers = [
            group.open_records(each, given["compression"], index=given["index"]) for each in outputs
        ]
        for block in blocks:
            for part, writer in zip(parts, writers, strict=True):
                for position in _positions_in(part, block.numbers):
                    writer.write(block[position])
    counts = [count for writer in writers for count in writer.counts]
    return files.report.result(outputs, counts)


def reshard(
    paths: StrPath | Iterable[StrPath],
    name: StrPath,
    *,
    num_shards: int | None = None,
    max_bytes: int | None = None,
    **options: Unpack[CopyOptions],
) -> Result:
    """Write the records of all files to shards ``name-00000-of-00008`` and so on.

    Exactly one of ``num_shards`` and ``max_bytes`` must be given.

    Args:
        paths: Files, glob patterns, directories or URLs. Compression is detected from the content.
        name: Common start of the output paths.
        num_shards: Number of shards. Records go to all shards in turn.
        max_bytes: Largest size of a shard in bytes. One shard after another is filled.
        options: Keyword options of all tools, see :class:`CopyOptions`: ``compression``, ``index``,
            ``force``, ``on_error``, ``allow_missing``, ``jobs``, ``watcher`` and
            ``storage_options``.

    Returns:
        Paths, numbers of records and other facts of the outputs.

    Raises:
        CorruptRecordError: If a record is damaged, unless it is skipped.
        TruncatedFileError: If a file is truncated, unless its rest is skipped.
        FileNotFoundError: If a path matches no file, or shards are missing.
        FileExistsError: If there are shards of this name, unless they may be replaced.
        ValueError: If not exactly one of ``num_shards`` and ``max_bytes`` is given, an argument is
            invalid, the name is a folder, or an input could be a shard.
    """
    given = with_defaults(options)
    start = check_file_name(name, given["storage_options"])
    files = open_inputs(paths, given)
    refuse_shard_inputs(files.locations, start, None if given["force"] else num_shards)
    with OutputGroup(force=given["force"]) as group:
        shards = open_shards(group, start, num_shards, max_bytes, given)
        files.report.watcher.started(files.size)
        copy_records(files.blocks(files.all, given["jobs"]), shards.write)
        outputs = shards.finish()
    return files.report.result(outputs, shards.counts)


def _write_one(
    files: RecordFiles,
    selection: Selection,
    output: StrPath,
    given: CopyOptions,
) -> Result:
    target = Location.of(output, given["storage_options"])
    refuse_inputs(files.locations, [target])
    fraction = len(selection) / len(files) if len(files) else 0
    files.report.watcher.started(int(files.size * fraction))
    with OutputGroup(force=given["force"]) as group:
        writer = group.open_records(target, given["compression"], index=given["index"])
        copy_records(files.blocks(selection, given["jobs"]), writer.write)
        outputs = writer.finish()
    return files.report.result(outputs, writer.counts)


def _random_parts(files: RecordFiles, fractions: Sequence[float], seed: int) -> list[Subset]:
    """Return the same parts as ``TFRecordDataset.split``."""
    return split_indexed(files.reader.indexes, None, fractions, check_seed(seed))


def _positions_in(part: Subset, numbers: Numbers) -> list[int]:
    """Return the positions of the records that are in a part.

    Args:
        part: Selection of records.
        numbers: Ascending numbers of records. Only damaged records are missing in between.
    """
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
        raise ValueError(f"names must be {count} different names, got {list(names)}")
    for name in names:
        if not name or "/" in name or "\0" in name:
            raise ValueError(f"names must be valid in file names, got {name!r}")
    return list(names)


def _part_of(start: Location, part: str) -> Location:
    return start.beside(f"{'' if start.name.endswith(os.sep) else '-'}{part}.tfrecord")
