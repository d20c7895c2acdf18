"""The records to inspect of some files: all of them, or some from all parts of all files."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, TypeAlias

import numpy as np

from .._storage.byte_source import Ints
from .._storage.compression import detect_compression
from .._storage.local import head_of
from .._storage.location import Location
from .._storage.thread_pool import map_in_threads
from ..checks import check_integer
from ..errors import CorruptRecordError, TruncatedFileError
from .file_piece import FilePiece, blocks_by_number
from .index import RecordIndex
from .index_cache import find_matching
from .scanned_block import Gap, ScannedBlock
from .sequential import iter_blocks
from .stream_window import UNKNOWN_END

MaxRecords: TypeAlias = int | Literal["auto"] | None
# Function that yields some records of a file, in order. Each is called by one thread.
Piece: TypeAlias = Callable[[], Iterator[ScannedBlock]]

# All records are read of files of at most this size, or with at most that many records, if their
# indexes tell so. That many are read of other files.
WHOLE_BYTES = 256 << 20
WHOLE_RECORDS = 100_000
# Files with few records may still be large.
_WHOLE_INDEXED_BYTES = 4 << 30
# Files without an index are scanned for the number of their records if they are this small.
_SCANNED_BYTES = 16 << 20

_RUNS = 16
_PIECE_BYTES = 32 << 20
_PIECE_RECORDS = 1 << 12


@dataclass(frozen=True)
class RecordSample:
    """The records to inspect.

    Attributes:
        pieces: Parts of the records, in order.
        total: Number of all records of the files; None if it is unknown, or if all are inspected.
        is_all: Whether these are all records.
    """

    pieces: Sequence[Piece]
    total: int | None
    is_all: bool


def choose_records(files: Sequence[Location], max_records: MaxRecords) -> RecordSample:
    """Choose records to inspect. The choice depends only on the files and their indexes.

    No index is written.

    Args:
        files: The files.
        max_records: Largest number of records, "auto", or None for all.

    Raises:
        ValueError: If ``max_records`` is neither a positive integer nor one of the above.
    """
    if max_records not in ("auto", None):
        max_records = check_integer("max_records", max_records, 1)
    found = map_in_threads(_SampledFile.of, files)
    size = sum(file.size for file in found)
    if max_records is None or (max_records == "auto" and size <= WHOLE_BYTES):
        return _all_of(found)
    found = _with_indexes(found)
    total = sum(file.count for file in found)
    if max_records == "auto":
        if total <= WHOLE_RECORDS and size <= _WHOLE_INDEXED_BYTES:
            return _all_of(found)
        return _sample(found, WHOLE_RECORDS, WHOLE_BYTES)
    return _all_of(found) if total <= max_records else _sample(found, max_records, None)


def all_records(indexes: Sequence[RecordIndex]) -> RecordSample:
    """Return all records of indexed files."""
    return _all_of([_SampledFile.of(index.location, index) for index in indexes])


# ---- files ----


@dataclass(frozen=True)
class _SampledFile:
    """A file and the facts that are known about it.

    Attributes:
        location: The file.
        size: Size in bytes; infinite for a pipe.
        is_plain: True if the file can be read at any offset and is not compressed.
        index: Index, if it is known.
    """

    location: Location
    size: float
    is_plain: bool
    index: RecordIndex | None = None

    @classmethod
    def of(cls, location: Location, index: RecordIndex | None = None) -> _SampledFile:
        if not location.is_seekable():
            return cls(location, math.inf, is_plain=False)
        with closing(location.open()) as file:
            is_plain = detect_compression(head_of(file)) is None
            return cls(location, file.stamp.size, is_plain, index)

    @property
    def count(self) -> float:
        """Number of records; infinite if it is unknown."""
        return math.inf if self.index is None else len(self.index)


def _with_indexes(files: Sequence[_SampledFile]) -> list[_SampledFile]:
    """Return files with their indexes: those that exist, and others if these files are small."""
    found = map_in_threads(_with_existing_index, files)
    if sum(file.size for file in found if file.index is None) > _SCANNED_BYTES:
        return found
    return map_in_threads(_with_any_index, found)


def _with_existing_index(file: _SampledFile) -> _SampledFile:
    if file.size == math.inf:
        return file
    return replace(file, index=find_matching(file.location))


def _with_any_index(file: _SampledFile) -> _SampledFile:
    if file.index is not None:
        return file
    return replace(file, index=RecordIndex.build(file.location, allow_damage=True))


# ---- all records ----


def _all_of(files: Iterable[_SampledFile]) -> RecordSample:
    pieces: list[Piece] = []
    for each in files:
        file = each
        if file.index is None and file.is_plain and file.size > 2 * _PIECE_BYTES:
            file = _with_existing_index(file)  # several threads can read it then
        if file.index is None or not file.is_plain or file.index.damage is not None:
            pieces.append(FilePiece(file.location).blocks)
            continue
        count = len(file.index)
        parts = max(1, min(count, round(file.size / _PIECE_BYTES)))
        bounds = [count * part // parts for part in range(parts + 1)]
        for begin, end in itertools.pairwise(bounds):
            pieces.append(partial(blocks_by_number, file.index, range(begin, end)))
    return RecordSample(pieces, None, is_all=True)


# ---- some records ----


def _sample(files: Sequence[_SampledFile], max_records: int, max_bytes: int | None) -> RecordSample:
    total = sum(file.count for file in files)
    if max_bytes is not None and total < math.inf:
        # Records may be so large that fewer suffice.
        size = sum(file.index.stream_end for file in files if file.index is not None)
        max_records = max(1, min(max_records, int(total * max_bytes / max(size, 1))))
        max_bytes = None
    shares = _shares([file.count for file in files], max_records)
    read = sum(share > 0 for share in shares)
    bytes_per_file = UNKNOWN_END if max_bytes is None else max_bytes // max(read, 1)
    pieces: list[Piece] = []
    for file, share in zip(files, shares, strict=True):
        if share == 0:
            continue
        if file.index is None or not file.is_plain:
            pieces.append(partial(_front, file.location, share, bytes_per_file))
        elif file.index.damage is not None and share == file.count:
            pieces.append(FilePiece(file.location).blocks)  # it raises the error
        else:
            numbers = spread_numbers(len(file.index), share)
            parts = np.array_split(numbers, max(1, share // _PIECE_RECORDS))
            pieces += [partial(blocks_by_number, file.index, part) for part in parts]
    return RecordSample(pieces, int(total) if total < math.inf else None, is_all=False)


def _shares(counts: Sequence[float], budget: int) -> list[int]:
    """Divide a number of records between files: the same for each, more where others have fewer.

    Of more files than records, those at equal distances get one.
    """
    shares = [0] * len(counts)
    files = [file for file, count in enumerate(counts) if count > 0]
    if len(files) > budget:
        for position in range(budget):
            shares[files[position * len(files) // budget]] = 1
        return shares
    files.sort(key=counts.__getitem__)
    for position, file in enumerate(files):
        shares[file] = int(min(counts[file], budget // (len(files) - position)))
        budget -= shares[file]
    return shares


def spread_numbers(count: int, share: int) -> Ints:
    """Return the numbers of some of the records of a file: runs from its first to its last one."""
    runs = min(share, _RUNS)
    taken = np.arange(share)
    run_of = taken * runs // share
    return taken + (count - share) * run_of // max(1, runs - 1)


def _front(location: Location, max_records: int, max_bytes: int) -> Iterator[ScannedBlock]:
    """Yield the first records of a file, those that start in its first ``max_bytes``.

    Damage that ends the file is a gap.
    """
    left = max_records
    with closing(location.open_stream()) as source:
        try:
            for block in iter_blocks(source):
                damaged = np.array([gap.offset for gap in block.gaps], np.int64)
                starts = np.sort(np.concatenate([block.offsets, damaged]))
                stop = max_bytes if len(starts) <= left else min(max_bytes, int(starts[left]))
                yield block.before(stop)
                left -= len(starts)
                if left <= 0 or starts[-1] >= max_bytes:
                    return
        except (CorruptRecordError, TruncatedFileError) as error:
            yield ScannedBlock.of_gap(source.path, Gap(error, error.offset or 0, 0))
