"""The records to inspect of some files: all of them, or some from all parts of all files."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, TypeAlias

import numpy as np

from ..checks import check_integer
from ..errors import CorruptRecordError, TorchRecIOError, TruncatedFileError
from ..storage.byte_source import ByteSource, Ints
from ..storage.compression import detect_compression
from ..storage.local import head_of
from ..storage.location import Location
from ..storage.thread_pool import map_in_threads
from .file_piece import FilePiece, blocks_by_number
from .formats import UNKNOWN_END
from .index import RecordIndex
from .index_cache import find_matching
from .scanned_block import Gap, ScannedBlock
from .sequential import iter_blocks
from .sound_frames import find_frame

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
_SCANNED_COMPRESSED_BYTES = 16 << 20

_RUNS = 16
_WINDOWS = 3
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
    found = map_in_threads(_File.of, files)
    if max_records is None:
        return RecordSample(_whole(found), None, is_all=True)
    size = sum(file.size for file in found)
    if max_records == "auto" and size <= WHOLE_BYTES:
        return RecordSample(_whole(found), None, is_all=True)
    found = _with_indexes(found)
    total = sum(file.count for file in found)
    is_known = total < math.inf
    if max_records == "auto":
        if total <= WHOLE_RECORDS and size <= _WHOLE_INDEXED_BYTES:
            return RecordSample(_whole(found), None, is_all=True)
        return _sample(found, WHOLE_RECORDS, WHOLE_BYTES)
    if is_known and total <= max_records:
        return RecordSample(_whole(found), None, is_all=True)
    return _sample(found, max_records, None)


def all_records(indexes: Sequence[RecordIndex]) -> RecordSample:
    """Return all records of indexed files."""
    found = [_File.of(index.location, index) for index in indexes]
    return RecordSample(_whole(found), None, is_all=True)


# ---- files ----


@dataclass(frozen=True)
class _File:
    """A file and what is known about it.

    Attributes:
        location: The file.
        size: Size in bytes; infinite for a pipe.
        is_plain: True if the file can be read at any offset and is not compressed.
        index: Index, if it is known.
        error: Damage that ended a scan of the file early.
    """

    location: Location
    size: float
    is_plain: bool
    index: RecordIndex | None = None
    error: TorchRecIOError | None = field(default=None, compare=False)

    @classmethod
    def of(cls, location: Location, index: RecordIndex | None = None) -> _File:
        if not location.is_seekable():
            return cls(location, math.inf, is_plain=False)
        with closing(location.open()) as file:
            is_plain = detect_compression(head_of(file)) is None
            return cls(location, file.stamp.size, is_plain, index)

    @property
    def count(self) -> float:
        """Number of records; infinite if it is unknown."""
        return math.inf if self.index is None else len(self.index)


def _with_indexes(files: Sequence[_File]) -> list[_File]:
    """Return files with their indexes: those that exist, and others for small files."""
    found = map_in_threads(_with_existing_index, files)
    unknown = [file for file in found if file.index is None]
    sizes = {
        is_plain: sum(file.size for file in unknown if file.is_plain == is_plain)
        for is_plain in (True, False)
    }
    limits = {True: WHOLE_BYTES, False: _SCANNED_COMPRESSED_BYTES}
    return map_in_threads(
        lambda file: (
            _scanned(file)
            if file.index is None and sizes[file.is_plain] <= limits[file.is_plain]
            else file
        ),
        found,
    )


def _with_existing_index(file: _File) -> _File:
    if file.size == math.inf:
        return file
    return replace(file, index=find_matching(file.location))


def _scanned(file: _File) -> _File:
    index = RecordIndex.build(file.location, allow_damage=True)
    return replace(file, index=index, error=index.damage)


# ---- all records ----


def _whole(files: Iterable[_File]) -> list[Piece]:
    pieces: list[Piece] = []
    for each in files:
        file = each
        if file.index is None and file.is_plain and file.size > 2 * _PIECE_BYTES:
            file = _with_existing_index(file)  # several threads can read it then
        if file.index is None or not file.is_plain or file.error is not None:
            pieces.append(FilePiece(file.location).blocks)
            continue
        count = len(file.index)
        parts = max(1, min(count, round(file.size / _PIECE_BYTES)))
        bounds = [count * part // parts for part in range(parts + 1)]
        for begin, end in itertools.pairwise(bounds):
            pieces.append(partial(blocks_by_number, file.index, range(begin, end)))
    return pieces


# ---- some records ----


def _sample(files: Sequence[_File], max_records: int, max_bytes: int | None) -> RecordSample:
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
        if not file.is_plain:
            pieces.append(partial(_front, file.location, share, bytes_per_file))
        elif file.index is None:
            pieces.append(partial(_windows, file.location, share, bytes_per_file))
        elif file.error is not None and share == file.count:
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
    sizes = [len(run) for run in np.array_split(np.arange(share), runs)]
    starts = [0]
    for run in range(1, runs):
        between = (count - share) * run // (runs - 1) - (count - share) * (run - 1) // (runs - 1)
        starts.append(starts[-1] + sizes[run - 1] + between)
    return np.concatenate(
        [np.arange(start, start + size) for start, size in zip(starts, sizes, strict=True)]
    )


def _front(location: Location, max_records: int, max_bytes: int) -> Iterator[ScannedBlock]:
    """Yield the first records of a file."""
    with closing(location.open_stream()) as source:
        yield from _limited(source, 0, max_records, max_bytes)


def _windows(location: Location, max_records: int, max_bytes: int) -> Iterator[ScannedBlock]:
    """Yield records from the beginning, the middle and the end of a file without an index.

    In the middle, the next record is found by the checksums of its length and its data. A window
    does not count unless all records up to its end follow each other: what looks like records may
    also be the content of one.
    """
    share = max_records // _WINDOWS
    with closing(location.open()) as source:
        size = source.stamp.size
        most = min(max_bytes, size) // _WINDOWS
        seen = used = largest = 0
        for block in _limited(source, 0, max_records - (_WINDOWS - 1) * share, most):
            seen += len(block.block)
            used += block.stored_bytes
            largest = max(largest, int(block.block.lengths.max(initial=0)))
            yield block
        width = min(most, used * share // max(1, seen))  # if records are alike
        from_end = min(most, width + largest)
        for at in ((size - width) // 2, size - from_end):
            start = find_frame(source, at) if width else None
            if start is not None and _is_chain(source, start, share, from_end):
                yield from _limited(source, start, share, from_end)


def _is_chain(source: ByteSource, start: int, max_records: int, max_bytes: int) -> bool:
    """Return whether records follow each other from an offset on, though their data may differ."""
    gaps = [gap for block in _limited(source, start, max_records, max_bytes) for gap in block.gaps]
    return all(isinstance(gap.error, CorruptRecordError) and gap.size for gap in gaps)


def _limited(
    source: ByteSource, start: int, max_records: int, max_bytes: int
) -> Iterator[ScannedBlock]:
    """Yield the first records of a stream from an offset on, where a frame starts.

    They start in the first ``max_bytes``. Damage that ends the stream is a gap.
    """
    left, end = max_records, start + max_bytes
    try:
        for block in iter_blocks(source, start=start):
            damaged = np.array([gap.offset for gap in block.gaps], np.int64)
            starts = np.sort(np.concatenate([block.offsets, damaged]))
            stop = end if len(starts) <= left else min(end, int(starts[left]))
            yield _numbered(block.before(stop), start)
            left -= len(starts)
            if left <= 0 or starts[-1] >= end:
                return
    except (CorruptRecordError, TruncatedFileError) as error:
        yield _numbered(ScannedBlock.of_gap(source.path, Gap(error, error.offset or 0, 0)), start)


def _numbered(block: ScannedBlock, start: int) -> ScannedBlock:
    """Return a block without numbers of records if they were counted from an offset on."""
    if start == 0:
        return block
    for error in block.errors:
        error.record = None
    return replace(block, base=None)
