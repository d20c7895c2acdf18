"""Which shards a split needs, and whether they are what dataset_info.json says."""

from __future__ import annotations

import errno
import os
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from ..errors import WrongShardError
from ..order.selection import Mask, Selection, Span, Subset
from ..records.formats import TFRECORD
from ..records.index import RecordIndex
from ..records.index_cache import has_writable_cache, open_indexes
from .info import INFO_FILE
from .promised import PromisedIndex
from .selection import StoredKeys
from .splits import Stretch

_OVERHEAD = TFRECORD.header_bytes + TFRECORD.footer_bytes
_NAMED = 3  # missing files, in an error


class Shards(NamedTuple):
    """The shards of a split.

    Attributes:
        paths: Of all of them.
        lengths: How many records each has.
        num_bytes: What dataset_info.json says of their size: that of the records or of the files;
            0 if nothing.
        indexes: Of all of them, if they had to be counted.
    """

    paths: Sequence[str]
    lengths: Sequence[int]
    num_bytes: int
    indexes: Sequence[RecordIndex] | None = None


class Piece(NamedTuple):
    """Records ``skip..skip+take-1`` of a shard.

    Attributes:
        split: The shard's.
        shard: Its number in the split.
        skip: Its first records are left out.
        take: How many are taken then.
    """

    split: str
    shard: int
    skip: int
    take: int


class Opened(NamedTuple):
    """Files, and which of their records are wanted.

    Attributes:
        indexes: One for each piece.
        selection: Of all the records of these.
    """

    indexes: list[PromisedIndex]
    selection: Selection


def open_shards(
    stretches: Sequence[Stretch], splits: Mapping[str, Shards], keys: StoredKeys
) -> Opened:
    """The shards that hold some records, checked as far as that takes no reading.

    A split whose files are as large together as dataset_info.json says lacks nothing; each shard is
    then looked at when it is first read. Otherwise, or where no index can be kept, the shards are
    indexed and counted here.

    Args:
        stretches: The records; each lists its own shards, in order.
        splits: The shards of each split.
        keys: What the first record of each shard must have.

    Raises:
        FileNotFoundError: shards are missing.
        WrongShardError, CorruptRecordError, TruncatedFileError: a shard has another number of
            records than is said, or is damaged.
    """
    pieces = [piece for stretch in stretches for piece in pieces_of(stretch, splits)]
    sizes = sizes_of(splits[piece.split].paths[piece.shard] for piece in pieces)
    found: dict[tuple[str, int], PromisedIndex] = {}
    for name in dict.fromkeys(piece.split for piece in pieces):
        shards = splits[name]
        numbers = sorted({piece.shard for piece in pieces if piece.split == name})
        indexes = _known(shards, numbers, sizes)
        for number, index in zip(numbers, indexes, strict=True):
            path = shards.paths[number]
            found[name, number] = PromisedIndex(
                path, shards.lengths[number], sizes[path], keys, index
            )
    return Opened(
        [found[piece.split, piece.shard] for piece in pieces],
        _selection(pieces, [splits[piece.split].lengths[piece.shard] for piece in pieces]),
    )


def pieces_of(stretch: Stretch, splits: Mapping[str, Shards]) -> Iterator[Piece]:
    """What some records are in each shard, in order."""
    lengths = splits[stretch.split].lengths
    ends = list(accumulate(lengths))
    first = bisect_right(ends, stretch.begin)
    last = bisect_left(ends, stretch.end)
    for shard in range(first, last + 1 if stretch.begin < stretch.end else first):
        start = ends[shard] - lengths[shard]
        skip = max(stretch.begin - start, 0)
        take = min(stretch.end, ends[shard]) - start - skip
        if take:  # a shard may be empty
            yield Piece(stretch.split, shard, skip, take)


def sizes_of(paths: Iterable[str]) -> dict[str, int]:
    """Bytes of shards, by path.

    Raises:
        FileNotFoundError: some are missing; the first of these are named.
    """
    sizes, missing = {}, []
    for path in dict.fromkeys(paths):
        size = _size(path)
        if size is None:
            missing.append(path)
        else:
            sizes[path] = size
    if missing:
        names = ", ".join(missing[:_NAMED])
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        reason = f"{len(missing)} of {len(missing) + len(sizes)} shards are missing"
        raise FileNotFoundError(errno.ENOENT, reason, f"{names}{more}")
    return sizes


def _size(path: str) -> int | None:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return None


def _known(
    shards: Shards, numbers: Sequence[int], sizes: Mapping[str, int]
) -> Sequence[RecordIndex | None]:
    """Indexes of those shards that must be looked at now; None for the others."""
    if shards.indexes is not None:
        return [shards.indexes[number] for number in numbers]
    # Where none can be kept, each worker would make them again in each epoch.
    if _adds_up(shards, sizes) and has_writable_cache():
        return [None] * len(numbers)
    _check_empty(shards)
    indexes, errors = open_indexes([shards.paths[number] for number in numbers], "auto", None)
    if errors:
        raise errors[0]
    return indexes


def _check_empty(shards: Shards) -> None:
    """Refuses shards of no records, as is said, that have some: nobody would read them."""
    for path, length in zip(shards.paths, shards.lengths, strict=True):
        if not length and (size := _size(path)):
            raise WrongShardError(
                f"the shard has {size} bytes, {INFO_FILE} says that it has no records", path=path
            )


def _adds_up(shards: Shards, sizes: Mapping[str, int]) -> bool:
    """Whether the files of a split have the size that is said.

    TFDS's writers say different things: ``core/writer.py`` adds up the records, but where shards
    are not shuffled (``NoShuffleWriter``) and in ``split_builder.py`` the files.
    """
    if not shards.num_bytes:
        return False
    whole = 0
    for path, length in zip(shards.paths, shards.lengths, strict=True):
        size = sizes[path] if path in sizes else _size(path)
        if size is None and length:
            return False
        whole += size or 0
    return whole - shards.num_bytes in (0, _OVERHEAD * sum(shards.lengths))


def _selection(pieces: Sequence[Piece], lengths: Sequence[int]) -> Selection:
    """The records of pieces, among all those of the shards that they list."""
    starts = list(accumulate(lengths, initial=0))
    begins = [start + piece.skip for start, piece in zip(starts, pieces, strict=False)]
    ends = [begin + piece.take for begin, piece in zip(begins, pieces, strict=True)]
    if all(end == begin for end, (_, begin) in zip(ends, pairwise(begins), strict=False)):
        return Span(begins[0], ends[-1] - begins[0], starts[-1])
    begins_at, ends_at = np.array(begins), np.array(ends)

    def mask(begin: int, end: int) -> Mask:
        numbers = np.arange(begin, end)
        at = np.searchsorted(begins_at, numbers, side="right") - 1
        found: Mask = (at >= 0) & (numbers < ends_at[at])
        return found

    return Subset.build(starts[-1], mask)
