"""Reading of records by number from indexed files, in as few reads as possible."""

from __future__ import annotations

import bisect
import functools
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .. import _core
from .._storage.byte_source import ByteBuffer, Ints
from .._storage.chunk_cache import DEFAULT_CACHE_BYTES, Holder, process_cache
from .._storage.chunked_file import ChunkedFile
from .._storage.compression import Compression
from .._storage.file_limit import is_out_of_files
from .._storage.several_sources import descriptors_of, read_ranges
from .._storage.thread_pool import REMOTE_THREADS, most_storage_threads
from ..checks import counted
from ..errors import CorruptRecordError, TorchRecIOError, TruncatedFileError
from ..timing.steps import checking, reading
from .changes import check_unchanged
from .chunks_of_files import open_chunks, report_decodings, trust_valid_records
from .formats import TFRECORD, RecordFormat
from .index import RecordIndex
from .native_frames import Frames
from .open_files import OpenFiles
from .prefetch import RecordPrefetcher
from .reader import PrefetchLimits, Reader, RecordLocation, open_first, without_damaged
from .record_block import RecordBlock
from .record_size import MAX_RECORD_BYTES, too_large

if TYPE_CHECKING:
    from .._storage.cache.block_cache import BlockCache

ReadPlan: TypeAlias = _core.ReadPlan

# Two records at most this far apart are read at once: for data in memory, reading one more page
# costs about as much as another call.
_COALESCE_GAP_BYTES = 1 << 12
# Records of objects that are prefetched at first: a program may need few.
_FIRST_PREFETCH_BYTES = 1 << 20


class RecordReader(Reader):
    """Reads records of several indexed files by number. Numbers continue from file to file.

    Files are opened on first use in each process. A file that was replaced or changed since its
    index was opened is detected on its first use in each process, and again after
    :meth:`begin_epoch`. A file that is changed in place after that is detected when it is read
    next. Safe to use from several threads.

    Args:
        indexes: Index of each file, all of the same record format.
        verify_crc: Whether checksums are compared, those of lengths and of data.
        max_record_bytes: Largest size of a record in bytes. Larger ones are not read.
        cache_bytes: Memory for decoded parts of compressed files, in bytes.
        cache: Cache on the local disk that keeps decoded parts of compressed files.

    Attributes:
        indexes: Index of each file.
        format: Record format of the files.
    """

    def __init__(
        self,
        indexes: Sequence[RecordIndex],
        *,
        verify_crc: bool = True,
        max_record_bytes: int = MAX_RECORD_BYTES,
        cache_bytes: int = DEFAULT_CACHE_BYTES,
        cache: BlockCache | None = None,
    ) -> None:
        self.indexes: tuple[RecordIndex, ...] = tuple(indexes)
        self.max_record_bytes = max_record_bytes
        self.verify_crc = verify_crc
        self.format: RecordFormat = self.indexes[0].format
        self._counts = np.array([len(index) for index in self.indexes], np.int64)
        self._ends = np.cumsum(self._counts)
        self.cache_bytes = cache_bytes
        self.cache = cache
        self._has_reported = False  # how often the files are decompressed
        kinds = {index.compression for index in self.indexes}
        self.compressions: frozenset[Compression] = frozenset(
            kind for kind in kinds if kind is not None
        )
        self.is_native: bool = self.format.code == TFRECORD.code
        self.prefetch_limits: PrefetchLimits | None = self._find_prefetch_limits()
        self._reset()

    def __len__(self) -> int:
        return int(self._counts.sum())

    def __reduce__(self) -> tuple[Any, ...]:
        make = functools.partial(
            type(self),
            verify_crc=self.verify_crc,
            max_record_bytes=self.max_record_bytes,
            cache_bytes=self.cache_bytes,
            cache=self.cache,
        )
        return make, (self.indexes,)

    def begin_epoch(self, num_ranks: int = 1) -> None:
        del num_ranks
        self._files.begin_epoch()

    def end_epoch(self) -> None:
        self._files.check_used()

    def report_decodings(self, block: int | None = None) -> None:
        """Log once if a shuffle decompresses the files very often.

        Args:
            block: Number of records that are read together; None: each is read alone.
        """
        if self.compressions and self.cache is None and not self._has_reported:
            self._has_reported = report_decodings(self.indexes, self.cache_bytes, block)

    def plan(self, records: Ints, gap: int = _COALESCE_GAP_BYTES) -> ReadPlan:
        """Find where records are, and join neighboring ones into one read.

        Args:
            records: Numbers of the records, in any order, repeats allowed; int64 ``[n]``.
            gap: Largest number of bytes between two records that are read at once.

        Raises:
            IndexError: If a number is out of range.
            StaleIndexError: If a data file or its index file was replaced or changed, or if a large
                index file was removed.
            TruncatedFileError: If a data file has become shorter since it was indexed.
            FileNotFoundError: If a data file was removed.
        """
        return self._files.find(records).plan(gap)

    def _find_prefetch_limits(self) -> PrefetchLimits | None:
        if self.compressions:
            most = self.cache_bytes * 3 // 4
            return PrefetchLimits(most, most // 2)
        limits = (index.location.fetch_bytes for index in self.indexes)
        fetch_bytes = min(filter(None, limits), default=0)
        return PrefetchLimits(fetch_bytes // 2, _FIRST_PREFETCH_BYTES) if fetch_bytes else None

    def prefetch(self, plans: Sequence[ReadPlan]) -> None:
        plans = [plan for plan in plans if not self.has_too_large(plan)]
        prefetcher = self._prefetcher()
        if plans and prefetcher is not None:
            prefetcher.begin(plans)

    def _take_prefetched(self, plan: ReadPlan, *, shares_memory: bool) -> ByteBuffer | None:
        """Take the frames of a plan if they were prefetched; see :meth:`RecordPrefetcher.take`."""
        prefetcher = self._prefetcher()
        return None if prefetcher is None else prefetcher.take(plan, shares_memory=shares_memory)

    def fetch(self, plan: ReadPlan) -> tuple[RecordBlock, list[TorchRecIOError]]:
        plan, too_large = self.without_too_large(plan)
        block, errors = self._read_valid(plan)
        if errors and self._drop_kept(plan):
            block, errors = self._read_valid(plan)
        return block, [*too_large, *errors]

    def _read_valid(self, plan: ReadPlan) -> tuple[RecordBlock, list[TorchRecIOError]]:
        """Return the valid records of a plan, and an error for each damaged one."""
        damaged: list[TorchRecIOError] = []
        try:
            buffer = self.read(plan)
        except CorruptRecordError:  # a compressed file is damaged
            plan, damaged = self._without_damaged(plan)
            buffer = self.read(plan)
        block, errors = self.extract(buffer, plan)
        return block, [*damaged, *errors]

    def _drop_kept(self, plan: ReadPlan) -> bool:
        """Drop the cached data of damaged records; return whether reading again may succeed."""
        dropped = [
            source.drop_kept(ranges)
            for file, ranges in plan.by_file()
            for source in self._files.open([file])
        ]
        return any(dropped)

    def _without_damaged(self, plan: ReadPlan) -> tuple[ReadPlan, list[TorchRecIOError]]:
        """Return a plan without the records that cannot be decompressed, and their errors."""
        readable = np.ones(len(plan.numbers), bool)
        errors: list[TorchRecIOError] = []
        for position, place in enumerate(self.locate(plan.numbers)):
            try:
                self._try_reading(plan.numbers[position : position + 1])
            except CorruptRecordError as error:
                readable[position] = False
                errors.append(CorruptRecordError(error.reason, **place.where))
        return self.plan(plan.numbers[readable]), errors

    def _try_reading(self, record: Ints) -> None:
        """Read a record of a compressed file, as far as that can be trusted.

        Raises:
            CorruptRecordError: If it cannot.
        """
        plan = self.plan(record)
        try:
            self.read(plan)
        except CorruptRecordError:
            if not self.format.is_self_checking:
                raise
            for file, ranges in plan.by_file():
                [source] = self._files.open([file])
                if isinstance(source, ChunkedFile):
                    trust_valid_records(source, self.indexes[file], ranges)
            self.read(plan)

    def without_too_large(self, plan: ReadPlan) -> tuple[ReadPlan, list[TorchRecIOError]]:
        """Return a plan without the records that are too large, and an error for each of these."""
        if not self.has_too_large(plan):
            return plan, []
        lengths = plan.frame_sizes - self.format.overhead_bytes
        is_too_large = lengths > self.max_record_bytes
        errors: list[TorchRecIOError] = [
            too_large(length, self.max_record_bytes, **place.where)
            for place, length in zip(
                self.locate(plan.numbers[is_too_large]), lengths[is_too_large].tolist(), strict=True
            )
        ]
        return self.plan(plan.numbers[~is_too_large]), errors

    def has_too_large(self, plan: ReadPlan) -> bool:
        """Return whether a record of a plan is too large to be read."""
        if plan.buffer_bytes <= self.max_record_bytes:
            return False
        largest = int(plan.frame_sizes.max()) - self.format.overhead_bytes
        return largest > self.max_record_bytes

    def read(self, plan: ReadPlan) -> ByteBuffer:
        """Read all frames of a plan into a buffer, unchecked.

        Raises:
            TruncatedFileError: If a file has become shorter since it was indexed.
            OSError: If reading fails.
            MemoryError: If there is not enough memory for the records.
        """
        frames = self._take_prefetched(plan, shares_memory=False)
        if frames is not None:
            return frames
        try:
            buffer = _core.allocate(plan.buffer_bytes)
        except MemoryError:
            records = counted(len(plan.numbers), "record")
            raise MemoryError(
                f"not enough memory for {records}, {counted(plan.buffer_bytes, 'byte')} "
                "as stored: use a smaller batch_size"
            ) from None
        first = 0
        at_once = self._files.at_once
        all_files, all_bounds, ranges = plan.files, plan.range_bounds, plan.ranges
        while first < len(all_files):
            files = all_files[first : first + at_once]
            try:
                sources = self._files.open(files)
            except OSError as error:
                if not is_out_of_files(error) or at_once == 1:
                    raise
                at_once //= 2
                continue
            bounds = all_bounds[first : first + len(files) + 1]
            try:
                truncated = read_ranges(sources, bounds, ranges, buffer)
            except CorruptRecordError:
                check_unchanged(sources)  # what looks like damage may be a change
                raise
            if truncated is not None:
                file = bisect.bisect_right(bounds, truncated) - 1
                raise TruncatedFileError(
                    "the file has become shorter since it was indexed",
                    path=sources[file].path,
                    offset=int(ranges[truncated, 0]),
                )
            check_unchanged(sources)
            for number, file in enumerate(files):
                of_file = ranges[bounds[number] : bounds[number + 1]]
                self._files.check_end(file, sources[number], of_file)
            first += len(files)
            del sources  # they may be closed for the next ones
        return buffer

    def count_memory_of(self, holder: Holder) -> None:
        """Count the memory that an object holds within the memory for decoded parts of files."""
        if self.compressions:
            self._chunk_cache.count_memory_of(holder)

    def open_run(self, plans: Sequence[ReadPlan]) -> list[Frames]:
        files: set[int] = set()  # all are open at the same time
        for count, plan in enumerate(plans):
            files.update(plan.files)
            if len(files) > self._files.at_once:
                plans = plans[: max(1, count)]
                break
        return open_first(plans, self._open_frames)

    def _open_frames(self, plan: ReadPlan) -> Frames | None:
        if not self.is_native or len(plan.files) > self._files.at_once or self.has_too_large(plan):
            return None
        sources = self._files.open(plan.files)
        if descriptors_of(sources) is not None:
            return Frames(plan, sources)
        with reading():  # the core cannot read compressed or remote files
            frames = self._take_prefetched(plan, shares_memory=True)
            return Frames.of_plan(plan, self.read(plan) if frames is None else frames)

    def extract(
        self, buffer: ByteBuffer, plan: ReadPlan
    ) -> tuple[RecordBlock, list[TorchRecIOError]]:
        """Return the valid records of a plan, and an error for each damaged one.

        Args:
            buffer: Buffer with the frames of the plan, which the block keeps; uint8.
            plan: Plan of the records.
        """
        with checking():
            found = self.format.extract(
                buffer, plan.frame_starts, plan.frame_sizes, self.verify_crc
            )
            block = RecordBlock(found.buffer, found.starts, found.lengths, plan.numbers)
            return without_damaged(self, block, found.faults)

    def locate(self, numbers: Ints | Sequence[int]) -> list[RecordLocation]:
        numbers = np.asarray(numbers, np.int64)
        files, starts, _ = self._files.find(numbers).locations()
        paths = [self.indexes[file].data_path for file in files.tolist()]
        records = (numbers - (self._ends - self._counts)[files]).tolist()
        offsets = starts.tolist()
        keys = map(self.format.key, paths, records, offsets)
        return [*map(RecordLocation, paths, records, offsets, keys)]

    @property
    def _files(self) -> OpenFiles:
        """The data files of this process: a forked child must not share what its parent opened."""
        if self._pid != os.getpid():
            self._reset()
        return self._files_of_process

    def _prefetcher(self) -> RecordPrefetcher | None:
        """Return the prefetcher of this process, or None for plain local files."""
        if self._pid != os.getpid():
            self._reset()
        return self._prefetcher_of_process

    def _reset(self) -> None:
        open_content = None
        if self.compressions:
            self._chunk_cache = process_cache(self.cache_bytes)
            open_content = functools.partial(open_chunks, cache=self._chunk_cache, disk=self.cache)
        self._files_of_process = OpenFiles(self.indexes, self._counts, open_content)
        self._prefetcher_of_process: RecordPrefetcher | None = None
        if self.prefetch_limits is not None:
            threads = most_storage_threads() if self.compressions else REMOTE_THREADS
            self._prefetcher_of_process = RecordPrefetcher(self._files_of_process, threads)
            self.count_memory_of(self._prefetcher_of_process)
        # Last: a thread that sees it may use the rest.
        self._pid = os.getpid()
