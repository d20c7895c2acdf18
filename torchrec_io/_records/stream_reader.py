"""Reading of files from front to back, without an index. Works for pipes, too.

Records are assigned to partitions without knowing their number: whole files if there are enough,
single records otherwise. A shuffle is limited to a window of records.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from .._storage.byte_source import ByteSource
from .._storage.compression import CompressionChoice, check_compression
from .._storage.location import Location
from ..checks import check_integer
from ..errors import StaleIndexError, TorchRecIOError
from ..timing.steps import checking, reading
from .changes import check_unchanged
from .formats import TFRECORD
from .native_frames import Frames
from .reader import Reader, RecordLocation, without_damaged
from .record_block import RecordBlock
from .record_size import MAX_RECORD_BYTES
from .scanned_block import ScannedBlock
from .sequential import iter_blocks
from .shuffle_window import ShuffleWindow, copy_frames

# Identity of a record: the number of its file, its number in the file, the offset of its frame.
STREAM_LOCATION = np.dtype([("file", np.int32), ("record", np.int64), ("offset", np.int64)])

# A block of records, or damage after them that ended a file.
Item: TypeAlias = "RecordBlock | TorchRecIOError"

_NO_NUMBERS = np.empty(0, np.int64)
_NO_LOCATIONS = np.empty(0, STREAM_LOCATION)
_NO_RECORDS = RecordBlock(np.empty(0, np.uint8), _NO_NUMBERS, _NO_NUMBERS, _NO_LOCATIONS)


@dataclass(slots=True)
class StreamChunk:
    """Consecutive records of a stream, unchecked, and the damage that ended files after them.

    It is its own plan: its records are in memory already.

    Attributes:
        block: Records, whose buffer has their whole frames. ``numbers`` has the dtype
            :data:`STREAM_LOCATION`.
        damage: Errors that ended files early.
    """

    block: RecordBlock
    damage: list[TorchRecIOError]

    def __len__(self) -> int:
        return len(self.block)

    @property
    def numbers(self) -> npt.NDArray[np.void]:
        """Location of each record; :data:`STREAM_LOCATION` ``[n]``."""
        return self.block.numbers

    @property
    def buffer_bytes(self) -> int:
        """Size of the records' data in bytes."""
        return int(self.block.lengths.sum())

    def stored_bytes(self, begin: int, end: int) -> int:
        """Return the number of bytes of the records from ``begin`` to ``end``, as stored."""
        lengths = self.block.lengths[begin:end]
        return int(lengths.sum()) + len(lengths) * TFRECORD.overhead_bytes

    @classmethod
    def of(cls, blocks: Sequence[RecordBlock], damage: list[TorchRecIOError]) -> StreamChunk:
        """Return a chunk with the records of blocks, and some damage after them."""
        if len(blocks) == 1:
            return cls(blocks[0], damage)
        return cls(copy_frames(blocks) if blocks else _NO_RECORDS, damage)


class StreamReader(Reader):
    """Reads records of several files or pipes, each from front to back.

    No file stays open between iterations.

    Args:
        files: Files or pipes.
        compression: Compression of the files: ``"auto"`` (by content), None, ``"gzip"``,
            ``"zlib"`` or ``"zstd"``.
        verify_crc: Whether checksums are compared, those of lengths and of data.
        max_record_bytes: Largest size of a record in bytes.

    Attributes:
        paths: Names of the files or pipes.
        compression: Compression of the files, as given.
        has_pipe: Whether a file is a pipe, which is read only once.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If ``compression`` is not one of its values.
    """

    def __init__(
        self,
        files: Sequence[Location],
        *,
        compression: CompressionChoice = "auto",
        verify_crc: bool = True,
        max_record_bytes: int = MAX_RECORD_BYTES,
    ) -> None:
        check_compression(compression)
        self.max_record_bytes = max_record_bytes
        self.paths = tuple(each.name for each in files)
        self.compression = compression
        self.verify_crc = verify_crc
        self._files = tuple(files)
        self._pipes = [each for each in files if not each.is_seekable()]
        self.has_pipe = len(self._pipes) > 0
        # A batch from a pipe, or from far away, does not wait for those after it.
        self.is_native = not self._pipes and all(each.local_path is not None for each in files)
        self._is_started = False

    def chunks(
        self,
        partition: int,
        num_partitions: int,
        *,
        size: int,
        ends_at_damage: bool = False,
        window: int = 1,
        seed: int = 0,
        epoch: int = 0,
        skip: int = 0,
    ) -> Iterator[StreamChunk]:
        """Iterate over the records of one partition.

        Each record belongs to exactly one partition. With at least as many files as partitions,
        whole files are assigned; otherwise single records are, and every partition reads all files.
        Damage that ends a file also belongs to one partition.

        Args:
            partition: Number of the partition, from 0.
            num_partitions: Number of partitions, which are read at the same time.
            size: Number of records in each chunk but the last. That may have fewer, or none if it
                only has damage to report.
            ends_at_damage: Whether a chunk also ends where it has damage, so that an error comes
                before the records of the next file.
            window: Number of records that a shuffle picks from; 1 keeps the order.
            seed: Seed of the shuffle, together with the epoch and the partition.
            epoch: Number of the epoch.
            skip: Number of records to skip, with the damage before them. The order of the others
                does not depend on it.

        Raises:
            FileNotFoundError, IsADirectoryError: If a file was removed.
            ValueError: If an argument is out of its range, or a pipe would be read by several
                partitions or a second time.
        """
        check_integer("partition", partition)
        check_integer("num_partitions", num_partitions, partition + 1)
        check_integer("size", size, 1)
        check_integer("window", window, 1, sys.maxsize)
        check_integer("skip", skip)
        self._check_pipes(num_partitions)
        items = self._read_partition(partition, num_partitions)
        if window > 1:
            entropy = [seed % 2**64, epoch, partition]
            items = _shuffle(items, ShuffleWindow(window, entropy, STREAM_LOCATION))
        return _in_chunks(items, size, skip, ends_at_damage=ends_at_damage)

    def begin_epoch(self, num_ranks: int = 1) -> None:
        """Start an epoch: a no-op, because each iteration opens its files again."""

    def end_epoch(self) -> None:
        """End an epoch: a no-op, because files are checked while they are read."""

    def plan(self, records: StreamChunk) -> StreamChunk:
        """Return the chunk itself, whose records are in memory."""
        return records

    def fetch(self, plan: StreamChunk) -> tuple[RecordBlock, list[TorchRecIOError]]:
        """Check the records of a chunk.

        Returns:
            The valid records; and an error for each damaged one, followed by the chunk's damage.
        """
        block = plan.block
        with checking():
            faults = TFRECORD.check(block, self.verify_crc)
            valid, errors = without_damaged(self, block, faults)
        for position, _, _ in faults:
            self._drop_kept(block.numbers[position], int(block.lengths[position]))
        return valid, [*errors, *plan.damage]

    def _drop_kept(self, number: np.void, length: int) -> None:
        """Drop the cached data of a damaged record: the next reader loads it again."""
        file, _, offset = number.item()
        if self._files[file].local_path is not None:
            return
        with contextlib.suppress(TorchRecIOError, OSError):  # the record is an error anyway
            source = self._files[file].open_stream(self.compression)
            source.drop_kept(np.array([(offset, length + TFRECORD.overhead_bytes, 0)]))
            source.close()

    def open_run(self, plans: Sequence[StreamChunk]) -> list[Frames]:
        # Damage that ended a file is raised, or skipped, when the chunk is loaded by itself.
        undamaged = itertools.takewhile(lambda plan: not plan.damage, plans)
        return [Frames.of_block(plan.block) for plan in undamaged]

    def locate(self, numbers: npt.NDArray[np.void] | Sequence[np.void]) -> list[RecordLocation]:
        found = np.asarray(numbers, STREAM_LOCATION).tolist()
        places = ((self.paths[file], record, at) for file, record, at in found)
        return [RecordLocation(path, record, at, f"{path}:{at}") for path, record, at in places]

    def check_no_pipe(self) -> None:
        """Raise ValueError if there is a pipe, because a worker process cannot read it reliably.

        The worker's pipe may not be that of the parent, as for standard input; and the worker of
        the next epoch would not know that it was read.
        """
        if self._pipes:
            raise ValueError(f"{self._pipes[0]!r} is a pipe: read it with num_workers=0")

    def _check_pipes(self, num_partitions: int) -> None:
        if not self._pipes:
            return
        if num_partitions > 1:
            raise ValueError(
                f"{self._pipes[0]!r} is a pipe: only one process can read it, not {num_partitions}"
            )
        if self._is_started:
            raise ValueError(f"{self._pipes[0]!r} is a pipe: it can be read only once")
        self._is_started = True

    def _read_partition(self, partition: int, num_partitions: int) -> Iterator[Item]:
        """Yield the records of a partition in blocks as they are read, and its damage."""
        by_file = len(self._files) >= num_partitions
        for file, location in enumerate(self._files):
            if by_file and file % num_partitions != partition:
                continue
            # Restarts with each file, so that a file that grows does not move others' records.
            count = file
            source = location.open_stream(self.compression)
            try:
                for block in _read_blocks(source, self.verify_crc, self.max_record_bytes):
                    first = (partition - count) % num_partitions
                    rows = slice(None) if by_file else slice(first, None, num_partitions)
                    yield copy_frames([_located(block, file, rows)])
                    count += len(block.block)
                    for error in block.errors:  # of a record that is too large
                        if by_file or count % num_partitions == partition:
                            yield error
                        count += 1
            except TorchRecIOError as damage:
                # A change ends every partition. Damage is reported by the partition that the next
                # record would belong to.
                if isinstance(damage, StaleIndexError):
                    raise
                if by_file or count % num_partitions == partition:
                    yield damage
            finally:
                source.close()


def _read_blocks(
    source: ByteSource, verify_crc: bool, max_record_bytes: int
) -> Iterator[ScannedBlock]:
    """Yield the records of a stream, whose data is unchecked.

    Raises:
        StaleIndexError: If the file was changed in place, other than by appending to it.
    """
    blocks = iter_blocks(
        source, verify_crc=verify_crc, checks_data=False, max_record_bytes=max_record_bytes
    )
    while True:
        try:
            with reading():
                block = next(blocks, None)
        finally:  # what looks like damage may be a change
            check_unchanged([source], may_grow=True)
        if block is None:
            return
        yield block


def _located(found: ScannedBlock, file: int, rows: slice) -> RecordBlock:
    """Return some records of a block, with their locations."""
    block = found.block
    numbers = np.empty(len(block.starts[rows]), STREAM_LOCATION)
    numbers["file"] = file
    numbers["record"] = block.numbers[rows]
    numbers["offset"] = found.offsets[rows]
    return RecordBlock(block.buffer, block.starts[rows], block.lengths[rows], numbers)


def _shuffle(items: Iterable[Item], window: ShuffleWindow) -> Iterator[Item]:
    """Yield the same records, each picked at random from those in the window."""
    for item in items:
        yield window.push(item) if isinstance(item, RecordBlock) else item
    yield from window.drain()


def _in_chunks(
    items: Iterable[Item], size: int, skip: int, *, ends_at_damage: bool
) -> Iterator[StreamChunk]:
    """Yield the records after the first ones, ``size`` in each chunk but the last.

    Args:
        items: Blocks of records, and the damage after them.
        size: Number of records in a chunk.
        skip: Number of records to skip, with the damage before them.
        ends_at_damage: Whether a chunk with damage also ends there.
    """
    blocks: list[RecordBlock] = []
    damage: list[TorchRecIOError] = []
    missing = size
    try:
        for item in items:
            if not isinstance(item, RecordBlock):
                damage += [item] if skip == 0 else []
                if damage and ends_at_damage:
                    yield StreamChunk.of(blocks, damage)
                    blocks, damage, missing = [], [], size
                continue
            rest = item.rows(slice(skip, None))
            skip -= len(item) - len(rest)
            while len(rest) >= missing:
                yield StreamChunk.of([*blocks, rest.rows(slice(missing))], damage)
                rest = rest.rows(slice(missing, None))
                blocks, damage, missing = [], [], size
            if len(rest):
                blocks.append(rest)
                missing -= len(rest)
    except Exception:
        if blocks or damage:  # the records before a file that cannot be read
            yield StreamChunk.of(blocks, damage)
        raise
    if blocks or damage:
        yield StreamChunk.of(blocks, damage)
