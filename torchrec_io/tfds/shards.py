"""The shards of a split, and checks that they match dataset_info.json."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from .._order.selection import Mask, Selection, Span, Subset
from .._records.formats import TFRECORD
from .._records.index import RecordIndex
from .._records.index_cache import has_writable_cache
from .._records.opening import open_indexes
from .._storage.byte_source import read_bytes
from .._storage.location import Location, remember_stamps
from .._storage.stamp import Stamp
from ..checks import counted
from ..errors import WrongShardError
from .feature_choice import StoredKeys
from .info import INFO_FILE
from .shard_index import shard_index
from .splits import SplitRange

_OVERHEAD = TFRECORD.header_bytes + TFRECORD.footer_bytes
_MOST_NAMED = 3  # missing shards that an error names


class Shards(NamedTuple):
    """The shards of a split.

    Attributes:
        files: Location of each shard.
        lengths: Number of records of each shard.
        num_bytes: Size in dataset_info.json, of the records or of the files; 0 if it is not known.
        indexes: Index of each shard, if the records had to be counted.
    """

    files: Sequence[Location]
    lengths: Sequence[int]
    num_bytes: int
    indexes: Sequence[RecordIndex] | None = None


class ShardSlice(NamedTuple):
    """Records ``skip..skip+take-1`` of a shard.

    Attributes:
        split: Name of the split.
        shard: Number of the shard in the split.
        skip: Number of records before the first one.
        take: Number of records.
    """

    split: str
    shard: int
    skip: int
    take: int


def open_shards(
    ranges: Sequence[SplitRange],
    splits: Mapping[str, Shards],
    keys: StoredKeys,
    *,
    verify_crc: bool = True,
) -> tuple[list[RecordIndex], Selection]:
    """Open the shards of some records, and check as much as is possible without reading them.

    If the files of a split have the total size that dataset_info.json says, the split is complete,
    and each shard is checked when it is first read. Otherwise, or if indexes cannot be stored, the
    shards are indexed and their records counted here.

    Args:
        ranges: The records. Each range lists its own shards, in order.
        splits: Shards of each split.
        keys: Stored features that the first record of each shard must have.
        verify_crc: See :meth:`RecordIndex.build`.

    Returns:
        Index of the shard of each slice of the ranges, and the selection of their records.

    Raises:
        FileNotFoundError: If shards are missing.
        WrongShardError: If a shard has another number of records than dataset_info.json says.
        CorruptRecordError: If a shard is damaged.
        TruncatedFileError: If a shard is truncated.
    """
    slices = [part for each in ranges for part in find_slices(each, splits)]
    stamps = get_stamps(splits[part.split].files[part.shard] for part in slices)
    found: dict[tuple[str, int], RecordIndex] = {}
    for name in dict.fromkeys(part.split for part in slices):
        shards = splits[name]
        numbers = sorted({part.shard for part in slices if part.split == name})
        indexes = _find_indexes(shards, numbers, verify_crc)
        for number, index in zip(numbers, indexes, strict=True):
            file = shards.files[number]
            found[name, number] = shard_index(
                file, shards.lengths[number], stamps[file], keys, found=index, verify_crc=verify_crc
            )
    lengths = [splits[part.split].lengths[part.shard] for part in slices]
    return [found[part.split, part.shard] for part in slices], _select(slices, lengths)


def find_slices(wanted: SplitRange, splits: Mapping[str, Shards]) -> Iterator[ShardSlice]:
    """Yield the part of a range of records that each shard holds, in order."""
    starts = accumulate(splits[wanted.split].lengths, initial=0)
    for shard, (start, end) in enumerate(pairwise(starts)):
        begin, stop = max(wanted.begin, start), min(wanted.end, end)
        if begin < stop:
            yield ShardSlice(wanted.split, shard, begin - start, stop - begin)


def get_stamps(files: Iterable[Location]) -> dict[Location, Stamp]:
    """Return the stamp of each shard.

    Raises:
        FileNotFoundError: If shards are missing. The message names the first ones.
    """
    wanted = list(dict.fromkeys(files))
    remember_stamps(wanted)
    found = {file: get_stamp(file) for file in wanted}
    missing = [file.name for file, stamp in found.items() if stamp is None]
    if missing:
        named = ", ".join(missing[:_MOST_NAMED])
        more = f" and {len(missing) - _MOST_NAMED} more" if len(missing) > _MOST_NAMED else ""
        reason = f"shards are missing ({len(missing)} of {len(wanted)})"
        raise FileNotFoundError(errno.ENOENT, reason, f"{named}{more}")
    return {file: stamp for file, stamp in found.items() if stamp is not None}


def get_stamp(file: Location) -> Stamp | None:
    """Return the stamp of a shard; None if it is missing."""
    try:
        return file.stamp()
    except FileNotFoundError:
        return None


def _find_indexes(
    shards: Shards, numbers: Sequence[int], verify_crc: bool
) -> Sequence[RecordIndex | None]:
    """Return the index of each shard that must be checked now, else None for the shard."""
    if shards.indexes is not None:
        return [shards.indexes[number] for number in numbers]
    # If indexes cannot be stored, each worker would build them again in each epoch.
    if _has_stated_size(shards) and has_writable_cache():
        return [None] * len(numbers)
    _check_empty(shards)
    files = [shards.files[number] for number in numbers]
    indexes, errors = open_indexes(files, "auto", "auto", verify_crc=verify_crc)
    if errors:
        raise errors[0]
    return indexes


def _check_empty(shards: Shards) -> None:
    """Raise an error for shards that are empty according to dataset_info.json, but are not."""
    for file, length in zip(shards.files, shards.lengths, strict=True):
        stamp = None if length else get_stamp(file)
        if stamp is None or not stamp.size:
            continue
        with closing(file.open_stream()) as content:
            is_empty = not read_bytes(content, 0, 1)  # a compressed file of nothing has some bytes
        if not is_empty:
            raise WrongShardError(
                f"the shard has {counted(stamp.size, 'byte')}, but {INFO_FILE} says it has no "
                "records",
                path=file.name,
            )


def _has_stated_size(shards: Shards) -> bool:
    """Return whether the files of a split have the total size that dataset_info.json says.

    TFDS's writers differ. ``core/writer.py`` adds up the sizes of records. If shards are not
    shuffled (``NoShuffleWriter``), and in ``split_builder.py``, it is the sizes of files.
    """
    if not shards.num_bytes:
        return False
    total = 0
    for file, length in zip(shards.files, shards.lengths, strict=True):
        stamp = get_stamp(file)
        if stamp is None and length:
            return False
        total += 0 if stamp is None else stamp.size
    return total - shards.num_bytes in (0, _OVERHEAD * sum(shards.lengths))


def _select(slices: Sequence[ShardSlice], lengths: Sequence[int]) -> Selection:
    """Return the records of slices as a selection of all records of their shards."""
    starts = list(accumulate(lengths, initial=0))
    begins = [start + part.skip for start, part in zip(starts, slices, strict=False)]
    ends = [begin + part.take for begin, part in zip(begins, slices, strict=True)]
    if all(end == begin for end, (_, begin) in zip(ends, pairwise(begins), strict=False)):
        return Span(begins[0], ends[-1] - begins[0], starts[-1])
    begins_at, ends_at = np.array(begins), np.array(ends)

    def mask(begin: int, end: int) -> Mask:
        numbers = np.arange(begin, end)
        at = np.searchsorted(begins_at, numbers, side="right") - 1
        found: Mask = (at >= 0) & (numbers < ends_at[at])
        return found

    return Subset.build(starts[-1], mask)
