"""Files of the first pass of a shuffle: records sorted by buckets, each a part of a shard."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from .. import _core
from .._order.shuffle import positions_of
from .._records.formats import TFRECORD
from .._records.record_block import RecordBlock
from .._storage.byte_source import Ints
from .._storage.location import Location
from ..tools.record_chunks import RECORD_BYTES, decode_chunks, encode_chunk
from .file_piece import FilePiece
from .part_records import TaskErrors
from .parts import JobPart, PartFolder
from .spills import read_bucket, write_table

# Largest size of a chunk of more than one record.
_CHUNK_BYTES = 1 << 22
# Number of records that are looked up at a time.
_MANY_RECORDS = 1 << 12


@dataclass(frozen=True)
class BucketLayout:
    """Division of all records into shards, and of each shard into buckets.

    The record at position p of the new order goes to shard p % num_shards.

    Attributes:
        records: Number of records.
        num_shards: Number of shards.
        buckets: Number of buckets of each shard.
        seed: Seed of the order.
    """

    records: int
    num_shards: int
    buckets: int
    seed: int

    @classmethod
    def of(
        cls, records: int, size: int, num_shards: int, seed: int, task_bytes: int
    ) -> BucketLayout:
        """Return a layout whose buckets have about ``task_bytes`` at most.

        Args:
            records: Number of records.
            size: Size of all records with their frames in bytes.
            num_shards: Number of shards.
            seed: Seed of the order.
            task_bytes: Number of bytes of a bucket.
        """
        largest_shard = max(1, -(-records // num_shards))
        buckets = min(largest_shard, max(1, -(-size // (num_shards * task_bytes))))
        return cls(records, num_shards, buckets, seed)

    def __len__(self) -> int:
        return self.num_shards * self.buckets

    def buckets_of(self, positions: Ints) -> Ints:
        """Return the number of the bucket of each position, counted over all shards."""
        largest_shard = -(-self.records // self.num_shards)
        largest_bucket = -(-largest_shard // self.buckets)
        bucket = positions // self.num_shards // largest_bucket
        return positions % self.num_shards * self.buckets + bucket


@dataclass
class BucketFiles:
    """Files with the records of all buckets, one file for each task of the first pass.

    They are TFRecord files, so that checksums protect them. Each record is a chunk of records of
    one bucket, with their positions. Beside each file is the table of a spill.

    Attributes:
        folder: Folder of the files, which all machines can write to.
        layout: Layout of the buckets.
        files: Number of files, once all are written.
        records: Number of records in all files.
        chunk_bytes: Mean number of bytes of a bucket in a file.
    """

    folder: PartFolder
    layout: BucketLayout
    files: int = field(default=0, init=False)
    records: int = field(default=0, init=False)
    chunk_bytes: int = field(default=0, init=False)

    def fill(
        self, folder: PartFolder, number: int, key: str, pieces: Sequence[FilePiece]
    ) -> JobPart:
        """Write the file of some records, in a task.

        Raises:
            StaleIndexError: If an input is not the file that was indexed.
            OSError: If a file cannot be read or written.
        """
        block, errors = self._load(pieces)
        chunks = self._sorted_chunks(block, folder.file_of(number))
        facts = {"records": len(block)}
        return folder.write(number, chunks, key=key, errors=errors, facts=facts)

    def finish(self, parts: Sequence[JobPart]) -> None:
        """Take note of the files, once all are written."""
        self.files = len(parts)
        self.records = sum(int(part.facts["records"]) for part in parts)
        size = sum(part.content.size for part in parts)
        self.chunk_bytes = size // max(1, len(parts) * len(self.layout))

    def records_of(self, shard: int) -> Iterator[bytes]:
        """Yield the records of a shard, in order.

        Raises:
            CorruptRecordError, TruncatedFileError: If a file of the first pass is damaged.
            OSError: If a file cannot be read.
        """
        first = shard * self.layout.buckets
        for bucket in range(first, first + self.layout.buckets):
            yield from self._sorted_records(bucket)

    def _load(self, pieces: Sequence[FilePiece]) -> tuple[RecordBlock, TaskErrors]:
        """Return the intact records of pieces, numbered by their positions, and the errors."""
        buffer = np.empty(sum(piece.end - piece.begin for piece in pieces), np.uint8)
        lengths, numbers = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        errors = TaskErrors()
        at = 0
        for piece in pieces:
            for found in piece.blocks():
                errors.add(found.errors)
                block = found.block
                targets = np.cumsum(block.lengths) - block.lengths
                _core.gather(
                    block.buffer,
                    np.column_stack([block.starts, block.lengths, targets]),
                    buffer[at:],
                )
                at += int(block.lengths.sum())
                lengths.append(block.lengths)
                of_dataset = block.numbers + piece.base
                numbers.append(positions_of(of_dataset, self.layout.records, self.layout.seed))
        sizes = np.concatenate(lengths)
        starts = np.cumsum(sizes) - sizes
        return RecordBlock(buffer, starts, sizes, np.concatenate(numbers)), errors

    def _sorted_chunks(self, block: RecordBlock, file: Location) -> Iterator[bytes]:
        """Yield the chunks of each bucket, and write the table of a file when they end."""
        buckets = self.layout.buckets_of(block.numbers)
        order = np.argsort(buckets, kind="stable")
        bounds = np.searchsorted(buckets, np.arange(len(self.layout) + 1), sorter=order)
        del buckets
        sizes = np.zeros(len(bounds), np.int64)
        for bucket in np.flatnonzero(np.diff(bounds)).tolist():
            for rows in _chunk_rows(block.lengths, order[bounds[bucket] : bounds[bucket + 1]]):
                chunk = encode_chunk(block.rows(rows))
                yield chunk
                sizes[bucket + 1] += len(chunk) + TFRECORD.overhead_bytes
        write_table(file, np.cumsum(sizes))

    def _sorted_records(self, bucket: int) -> Iterator[bytes]:
        def read(number: int) -> Iterator[bytes]:
            return read_bucket(self.folder.file_of(number), bucket, len(self.layout))

        buffer = bytearray()
        for chunk in self.folder.read_all(read, range(self.files), self.chunk_bytes):
            buffer += chunk
        block = decode_chunks(np.frombuffer(buffer, np.uint8))
        order = np.argsort(block.numbers)
        for first in range(0, len(order), _MANY_RECORDS):
            rows = block.rows(order[first : first + _MANY_RECORDS])
            for row in range(len(rows)):
                yield rows[row]


def _chunk_rows(lengths: Ints, rows: Ints) -> Iterator[Ints]:
    """Yield the rows of each chunk."""
    ends = np.cumsum(lengths[rows] + RECORD_BYTES)
    begin = 0
    while begin < len(rows):
        done = int(ends[begin - 1]) if begin else 0
        stop = max(begin + 1, int(np.searchsorted(ends, done + _CHUNK_BYTES, side="right")))
        yield rows[begin:stop]
        begin = stop
