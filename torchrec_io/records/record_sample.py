"""The records to inspect of some files: all of them, or some from all parts of all files."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from ..checks import check_integer
from ..errors import CorruptRecordError, TorchRecIOError, TruncatedFileError
from ..storage.byte_source import ByteSource, Ints
from ..storage.compression import detect_compression
from ..storage.opening import is_seekable, open_file, open_stream
from ..storage.thread_pool import map_in_threads
from .formats import TFRECORD
from .index import RecordIndex
from .index_cache import find_matching
from .record_block import RecordBlock
from .record_reader import RecordReader
from .sequential import FrameBlock, iter_blocks
from .sound_frames import find_frame

MaxRecords: TypeAlias = int | Literal["auto"] | None

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
# Sizes of the pieces of a file, and of the blocks that are read at a time.
_PIECE_BYTES = 32 << 20
_BLOCK_RECORDS = 1 << 12
_BLOCK_BYTES = 1 << 22


class SampledBlock(NamedTuple):
    """Some records.

    Attributes:
        block: Records. Their buffer is valid until the next block is requested.
        locate: Function that returns where the record at a position is stored, as arguments of an
            error.
    """

    block: RecordBlock
    locate: Callable[[int], dict[str, Any]]

    @property
    def stored_bytes(self) -> int:
        """Size of the records with their frames."""
        return int(self.block.lengths.sum()) + len(self.block) * TFRECORD.overhead_bytes


class Piece(ABC):
    """Some records of a file that one thread reads."""

    @abstractmethod
    def blocks(self, *, skip_errors: bool) -> Iterator[SampledBlock]:
        """Yield the records in blocks, in order.

        Args:
            skip_errors: Whether to skip damaged records.

        Raises:
            CorruptRecordError, TruncatedFileError: If a record is damaged, unless it is skipped.
        """


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


def choose_records(files: Sequence[str], max_records: MaxRecords) -> RecordSample:
    """Choose records to inspect. The choice depends only on the files and their indexes.

    No index is written.

    Args:
        files: Paths of the files.
        max_records: Largest number of records, "auto", or None for all.

    Raises:
        ValueError: If ``max_records`` is neither a positive integer nor one of the above.
    """
    if max_records is None:
        return RecordSample(_whole(map(_File.of, files)), None, is_all=True)
    if max_records != "auto":
        max_records = check_integer("max_records", max_records, 1)
    found = [_File.of(path) for path in files]
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
    found = [_File.of(index.data_path, index) for index in indexes]
    return RecordSample(_whole(found), None, is_all=True)


# ---- files ----


@dataclass(frozen=True)
class _File:
    """A file and what is known about it.

    Attributes:
        path: Path of the file.
        size: Size in bytes; infinite for a pipe.
        is_plain: True if the file can be read at any offset and is not compressed.
        index: Index, if it is known.
        error: Damage that ended a scan of the file early.
    """

    path: str
    size: float
    is_plain: bool
    index: RecordIndex | None = None
    error: TorchRecIOError | None = field(default=None, compare=False)

    @classmethod
    def of(cls, path: str, index: RecordIndex | None = None) -> _File:
        if not is_seekable(path):
            return cls(path, math.inf, is_plain=False)
        with closing(open_file(path)) as file:
            is_plain = detect_compression(file.head()) is None
            return cls(path, file.stamp.size, is_plain, index)

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
    return _File(file.path, file.size, file.is_plain, find_matching(file.path))


def _scanned(file: _File) -> _File:
    index, error = RecordIndex.build_partial(file.path)
    return _File(file.path, file.size, file.is_plain, index, error)


# ---- all records ----


def _whole(files: Iterable[_File]) -> list[Piece]:
    pieces: list[Piece] = []
    for each in files:
        file = each
        if file.index is None and file.is_plain and file.size > 2 * _PIECE_BYTES:
            file = _with_existing_index(file)  # several threads can read it then
        if file.index is None or not file.is_plain or file.error is not None:
            pieces.append(_Front(file.path))
            continue
        count = len(file.index)
        parts = max(1, min(count, round(file.size / _PIECE_BYTES)))
        bounds = [count * part // parts for part in range(parts + 1)]
        for begin, end in itertools.pairwise(bounds):
            pieces.append(_Indexed(file.index, np.arange(begin, end)))
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
    bytes_per_file = None if max_bytes is None else max_bytes // max(read, 1)
    pieces: list[Piece] = []
    for file, share in zip(files, shares, strict=True):
        if share == 0:
            continue
        if not file.is_plain:
            pieces.append(_Front(file.path, share, bytes_per_file))
        elif file.index is None:
            pieces.append(_Windows(file.path, share, bytes_per_file))
        elif file.error is not None and share == file.count:
            pieces.append(_Front(file.path))  # it raises the error
        else:
            numbers = spread_numbers(len(file.index), share)
            pieces += [
                _Indexed(file.index, part) for part in np.array_split(numbers, _parts(share))
            ]
    return RecordSample(pieces, int(total) if total < math.inf else None, is_all=False)


def _parts(share: int) -> int:
    return max(1, share // _BLOCK_RECORDS)


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


# ---- pieces ----


@dataclass(frozen=True, eq=False)
class _Indexed(Piece):
    """Records of a file by number."""

    index: RecordIndex
    numbers: Ints

    def blocks(self, *, skip_errors: bool) -> Iterator[SampledBlock]:
        reader = RecordReader([self.index])
        for plan in reader.plans(self.numbers, _BLOCK_RECORDS, _BLOCK_BYTES):
            block, errors = reader.fetch(plan)
            if errors and not skip_errors:
                first = min(errors, key=lambda error: error.record or 0)
                yield _before(block, first, reader)
                raise first
            yield SampledBlock(block, _locator(block, reader))


def _locator(block: RecordBlock, reader: RecordReader) -> Callable[[int], dict[str, Any]]:
    return lambda position: reader.location(int(block.numbers[position]))._asdict()


def _before(block: RecordBlock, error: TorchRecIOError, reader: RecordReader) -> SampledBlock:
    """Return the records before a damaged one, which may have other errors."""
    assert error.record is not None
    rest = block.rows(np.flatnonzero(block.numbers < error.record))
    return SampledBlock(rest, _locator(rest, reader))


@dataclass(frozen=True)
class _Front(Piece):
    """The first records of a file, or all."""

    path: str
    max_records: int | None = None
    max_bytes: int | None = None

    def blocks(self, *, skip_errors: bool) -> Iterator[SampledBlock]:
        with closing(open_stream(self.path, "auto")) as source:
            yield from _read(source, 0, self.max_records, self.max_bytes, skip_errors=skip_errors)


@dataclass(frozen=True)
class _Windows(Piece):
    """Records from the beginning, the middle and the end of a file without an index.

    In the middle, the next record is found by the checksums of its length and its data. A window
    does not count unless all records up to its end follow each other: what looks like records may
    also be the content of one.
    """

    path: str
    max_records: int
    max_bytes: int | None

    def blocks(self, *, skip_errors: bool) -> Iterator[SampledBlock]:
        with closing(open_file(self.path)) as source:
            size = source.stamp.size
            shares = [len(part) for part in np.array_split(range(self.max_records), _WINDOWS)]
            most = size // _WINDOWS if self.max_bytes is None else self.max_bytes // _WINDOWS
            most = min(most, size // _WINDOWS)
            seen = used = largest = 0
            for block in _read(source, 0, shares[0], most, skip_errors=skip_errors):
                seen += len(block.block)
                used += block.stored_bytes
                largest = max(largest, int(block.block.lengths.max(initial=0)))
                yield block
            width = min(most, used * shares[1] // max(1, seen))  # if records are alike
            from_end = min(most, width + largest)
            for share, at in ((shares[2], (size - width) // 2), (shares[1], size - from_end)):
                start = find_frame(source, at) if share and width else None
                if start is not None and _is_chain(source, start, share, from_end):
                    yield from _read(source, start, share, from_end, skip_errors=skip_errors)


def _is_chain(source: ByteSource, start: int, max_records: int, max_bytes: int) -> bool:
    blocks = _limited(iter_blocks(source, start=start, verify_crc=False), max_records, max_bytes)
    try:
        return all(not block.faults and block.too_large is None for block, _ in blocks)
    except (CorruptRecordError, TruncatedFileError):
        return False


def _read(
    source: ByteSource,
    start: int,
    max_records: int | None,
    max_bytes: int | None,
    *,
    skip_errors: bool,
) -> Iterator[SampledBlock]:
    """Yield the intact records of a stream from an offset on, where a frame starts."""
    blocks = _limited(iter_blocks(source, start=start), max_records, max_bytes)
    try:
        for block, stop in blocks:
            damaged = [position for position, _, _ in block.faults if position < stop]
            if stop == len(block) and block.too_large is not None:
                damaged.append(stop)
            if damaged and not skip_errors:
                yield _sampled(block, np.arange(damaged[0]), source.path, start)
                raise block.errors(source.path)[0]
            kept = np.setdiff1d(np.arange(stop), damaged)
            yield _sampled(block, kept, source.path, start)
    except (CorruptRecordError, TruncatedFileError) as error:
        if not skip_errors:
            if start:
                error.record = None  # it was counted from there on
            raise


def _limited(
    blocks: Iterator[FrameBlock], max_records: int | None, max_bytes: int | None
) -> Iterator[tuple[FrameBlock, int]]:
    """Yield blocks and the number of their records to take, up to the limits.

    At least one record is taken.
    """
    left = math.inf if max_records is None else max_records
    left_bytes = math.inf if max_bytes is None else max_bytes
    for block in blocks:
        ends = np.cumsum(block.lengths + TFRECORD.overhead_bytes)
        fitting = max(1, int(np.searchsorted(ends, left_bytes, side="right")))
        yield block, int(min(left, fitting, len(block)))
        left -= len(block)
        left_bytes -= int(ends[-1]) if len(block) else block.too_large_bytes
        if left <= 0 or left_bytes <= 0:
            return


def _sampled(block: FrameBlock, kept: Ints, path: str, start: int) -> SampledBlock:
    rows = RecordBlock(
        block.buffer,
        block.starts[kept] + TFRECORD.header_bytes,
        block.lengths[kept],
        block.first + kept,
    )
    offsets = block.offset + block.starts[kept]

    def locate(position: int) -> dict[str, Any]:
        number = None if start else int(rows.numbers[position])
        return {"path": path, "record": number, "offset": int(offsets[position])}

    return SampledBlock(rows, locate)
