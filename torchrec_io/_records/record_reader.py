"""Reading of records by number from indexed files, in as few reads as possible."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .. import _core
from .._storage.byte_source import ByteBuffer, Ints
from .._storage.chunk_cache import DEFAULT_CACHE_BYTES, Holder, process_cache
from .._storage.compression import Compression
from .._storage.file_limit import is_out_of_files
from .._storage.several_sources import descriptors_of
from .._storage.thread_pool import REMOTE_THREADS, most_storage_threads
from ..checks import counted
from ..errors import CorruptRecordError, TorchRecIOError
from ..timing.steps import checking, reading
from .chunks_of_files import open_chunks, report_decodings
from .formats import TFRECORD, RecordFormat
from .index import RecordIndex
from .native_frames import Frames
from .open_files import OpenFiles
from .prefetch import RecordPrefetcher
from .reader import PrefetchLimits, Reader, RecordLocation, without_damaged
from .record_block import RecordBlock
from .record_size import MAX_RECORD_BYTES, too_large
from .repetitions import MOST_RECORDS, own_numbers

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
        if len(self) > MOST_RECORDS:
            raise ValueError(f"a dataset has at most 2**40 records, got {len(self):,}")
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

    @property
    def options(self) -> dict[str, Any]:
        """The other arguments that the reader was made with."""
        return {
            "verify_crc": self.verify_crc,
            "max_record_bytes": self.max_record_bytes,
            "cache_bytes": self.cache_bytes,
            "cache": self.cache,
        }

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial(type(self), **self.options), (self.indexes,)

    def begin_epoch(self, num_ranks: int = 1) -> None:
        del num_ranks
        self.files.begin_epoch()

    def end_epoch(self) -> None:
        self.files.check_used()

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
        return self.files.find(records).plan(gap)

    def _find_prefetch_limits(self) -> PrefetchLimits | None:
        if self.compressions:
            most = self.cache_bytes * 3 // 4
            return PrefetchLimits(most, most // 2)
        limits = (index.location.fetch_bytes for index in self.indexes)
        fetch_bytes = min(filter(None, limits), default=0)
        return PrefetchLimits(fetch_bytes // 2, _FIRST_PREFETCH_BYTES) if fetch_bytes else None

    def prefetch(self, plans: Sequence[ReadPlan]) -> None:
        plans = [plan for plan in plans if not self._has_too_large(plan)]
        prefetcher = self._prefetcher()
        if plans and prefetcher is not None:
            prefetcher.begin(plans)

    def fetch(self, plan: ReadPlan) -> tuple[RecordBlock, list[TorchRecIOError]]:
        plan, too_large = self._without_too_large(plan)
        block, errors = self._read_valid(plan)
        if errors:
            damaged = self.plan(np.setdiff1d(plan.numbers, block.numbers))
            if self._drop_kept(damaged):
                block, errors = self._read_valid(plan)
        return block, [*too_large, *errors]

    def _read_frames(self, plan: ReadPlan) -> ByteBuffer:
        """Return all frames of a plan, unchecked, from where this reader finds them fastest."""
        return self.read(plan)

    def _read_valid(self, plan: ReadPlan) -> tuple[RecordBlock, list[TorchRecIOError]]:
        """Return the valid records of a plan, and an error for each damaged one."""
        damaged: list[TorchRecIOError] = []
        try:
            buffer = self._read_frames(plan)
        except CorruptRecordError:  # a compressed file is damaged
            plan, damaged = self._without_damaged(plan)
            buffer = self.read(plan)
        with checking():
            frames = RecordBlock(buffer, plan.frame_starts, plan.frame_sizes, plan.numbers)
            block, faults = self.format.extract(frames, self.verify_crc)
            block, errors = without_damaged(self, block, faults)
        return block, [*damaged, *errors]

    def _drop_kept(self, plan: ReadPlan) -> bool:
        """Drop the cached data of damaged records; return whether reading again may succeed."""
        dropped = [
            source.drop_kept(ranges)
            for file, ranges in plan.by_file()
            for source in self.files.open([file])
        ]
        return any(dropped)

    def _without_damaged(self, plan: ReadPlan) -> tuple[ReadPlan, list[TorchRecIOError]]:
        """Return a plan without the records that cannot be decompressed, and their errors."""
        readable = np.ones(len(plan.numbers), bool)
        errors: list[TorchRecIOError] = []
        for position, place in enumerate(self.locate(plan.numbers)):
            try:
                self.read(self.plan(plan.numbers[position : position + 1]))
            except CorruptRecordError as error:
                readable[position] = False
                errors.append(CorruptRecordError(error.reason, **place.where))
        return self.plan(plan.numbers[readable]), errors

    def _without_too_large(self, plan: ReadPlan) -> tuple[ReadPlan, list[TorchRecIOError]]:
        """Return a plan without the records that are too large, and an error for each of these."""
        if not self._has_too_large(plan):
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

    def _has_too_large(self, plan: ReadPlan) -> bool:
        """Return whether a record of a plan is too large to be read."""
        if plan.buffer_bytes <= self.max_record_bytes:
            return False
        largest = int(plan.frame_sizes.max()) - self.format.overhead_bytes
        return largest > self.max_record_bytes

    def read(self, plan: ReadPlan) -> ByteBuffer:
        """Read all frames of a plan, unchecked. They may be a view of a larger buffer.

        Raises:
            TruncatedFileError: If a file has become shorter since it was indexed.
            OSError: If reading fails.
            MemoryError: If there is not enough memory for the records.
        """
        prefetcher = self._prefetcher()
        buffer = None if prefetcher is None else prefetcher.take(plan)
        if buffer is not None:
            return buffer
        try:
            buffer = _core.allocate(plan.buffer_bytes)
        except MemoryError:
            records = counted(len(plan.numbers), "record")
            raise MemoryError(
                f"not enough memory for {records}, {counted(plan.buffer_bytes, 'byte')} "
                "as stored: use a smaller batch_size"
            ) from None
        self.files.read(plan.files, plan.range_bounds, plan.ranges, buffer)
        return buffer

    def open_run(self, plans: Sequence[ReadPlan]) -> list[Frames]:
        opened: list[Frames] = []
        files, open_together = self.files, set[int]()
        for plan in plans if self.is_native else ():
            if self._has_too_large(plan):
                break
            try:
                frames = self._open_frames(plan, files, open_together)
            except TorchRecIOError:
                break
            except OSError as error:
                if opened or is_out_of_files(error):
                    break
                raise  # a request that failed many times is not made again
            if frames is None:
                break
            opened.append(frames)
        return opened

    def _open_frames(
        self, plan: ReadPlan, files: OpenFiles, open_together: set[int]
    ) -> Frames | None:
        """Open the files of a plan for the native core, or read its frames if they are not plain.

        Args:
            plan: The plan.
            files: The files of this process.
            open_together: Files that are open for plans before, to which those of this plan are
                added.

        Returns:
            None if too many files would have to be open.
        """
        open_together.update(plan.files)
        if len(open_together) > files.at_once:
            return None
        sources = files.open(plan.files)
        descriptors = descriptors_of(sources)
        if descriptors is not None:
            return Frames(plan, sources, descriptors)
        with reading():  # the core cannot read compressed or remote files
            return Frames(plan).into(self.read(plan))

    def count_memory_of(self, holder: Holder) -> None:
        """Count the memory that an object holds within the memory for decoded parts of files."""
        if self.compressions:
            process_cache(self.cache_bytes).count_memory_of(holder)

    def locate(self, numbers: Ints | Sequence[int]) -> list[RecordLocation]:
        numbers = own_numbers(np.asarray(numbers, np.int64))
        files, starts, _ = self.files.find(numbers).locations()
        paths = [self.indexes[file].data_path for file in files.tolist()]
        records = (numbers - (self._ends - self._counts)[files]).tolist()
        offsets = starts.tolist()
        keys = map(self.format.key, paths, records, offsets)
        return [*map(RecordLocation, paths, records, offsets, keys)]

    @property
    def files(self) -> OpenFiles:
        """The data files of this process: a forked child must not share what its parent opened."""
        if self._pid != os.getpid():  # as below, but called several times for each batch
            self._reset()
        return self._files_of_process

    def _prefetcher(self) -> RecordPrefetcher | None:
        """Return the prefetcher of this process, or None for plain local files."""
        self._reset_after_fork()
        return self._prefetcher_of_process

    def _reset_after_fork(self) -> None:
        if self._pid != os.getpid():
            self._reset()  # another thread of the parent may have been changing the state

    def _reset(self) -> None:
        self._files_of_process = self._open_files()
        self._prefetcher_of_process: RecordPrefetcher | None = None
        if self.prefetch_limits is not None:
            threads = most_storage_threads() if self.compressions else REMOTE_THREADS
            self._prefetcher_of_process = RecordPrefetcher(self._files_of_process, threads)
            self.count_memory_of(self._prefetcher_of_process)
        # Last: a thread that sees it may use the rest.
        self._pid = os.getpid()

    def _open_files(self) -> OpenFiles:
        open_content = None
        if self.compressions:
            chunks = process_cache(self.cache_bytes)
            open_content = functools.partial(open_chunks, cache=chunks, disk=self.cache)
        return OpenFiles(self.indexes, self._counts, open_content)
