"""Jobs whose outputs are shards, each written by a task that reads its records."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

from .._records.scanned_block import with_loss
from .._storage.compression import COMPRESSIONS, Compression
from .._storage.location import Location
from .._storage.outputs import split_output
from .._writing.shards import MOST_OBJECT_BYTES, check_max_bytes, refuse_shards, shards_of
from ..checks import check_choice, check_integer
from ..tools.outputs import refuse_shard_inputs
from ..tools.report import JobReport
from . import tasks
from .division import DividedRecords
from .file_piece import FilePiece
from .shard_folder import ShardFolder, TaskErrors, WrittenShard
from .shared_indexes import open_shared_indexes


@dataclass(frozen=True)
class ShardOutput:
    """The outputs of a job.

    Attributes:
        name: Common start of the locations of the shards.
        num_shards: Number of shards.
        max_bytes: Instead of ``num_shards``, the largest size of a shard in bytes.
        compression: Compression of the shards.
        index: Whether each shard gets an index.
        force: Whether shards that exist are replaced.

    Raises:
        OSError: If the name is a URL of HTTP.
        ValueError: If a member is invalid.
    """

    name: Location
    num_shards: int | None
    max_bytes: int | None
    compression: Compression | None
    index: bool
    force: bool

    def __post_init__(self) -> None:
        if (self.num_shards is None) == (self.max_bytes is None):
            raise ValueError("exactly one of num_shards and max_bytes must be given")
        split_output(self.name)  # a URL that cannot be written is refused
        check_choice("compression", self.compression, (None, *COMPRESSIONS))
        if self.num_shards is not None:
            shards_of(self.name, check_integer("num_shards", self.num_shards, 1))
        if self.max_bytes is not None:
            check_max_bytes(self.name, check_integer("max_bytes", self.max_bytes, 1))
            if self.compression is not None:
                raise ValueError(
                    "max_bytes cannot be used with compression on a cluster, because the start of "
                    "a shard would depend on all earlier ones; use num_shards"
                )

    def open_inputs(self, files: Sequence[Location], report: JobReport) -> DividedRecords:
        """Return the records of the inputs of the job.

        Raises:
            CorruptRecordError, TruncatedFileError: If a file is damaged, unless the report skips
                errors.
            FileExistsError: If there are shards of the output's name that may not be replaced.
            ValueError: If an input could be an output, or shards would be too large for a store.
        """
        refuse_shard_inputs(files, self.name, None if self.force else self.num_shards)
        if not self.force:
            refuse_shards(self.name)
        indexes, errors = open_shared_indexes(files)
        for error in errors:
            report.skip(with_loss(error))
        records = DividedRecords(indexes)
        least = -(-records.size // MOST_OBJECT_BYTES)
        is_copied = self.name.local_path is None and self.compression is None
        if is_copied and self.num_shards is not None and least > self.num_shards:
            raise ValueError(
                f"num_shards must be at least {least:,} for {records.size:,} bytes, as a store "
                f"copies no object of more than 5 GiB, got {self.num_shards}"
            )
        return records

    def write(self, records: DividedRecords, report: JobReport) -> tuple[list[Location], list[int]]:
        """Write records to shards, in order, and return these with their numbers of records.

        Args:
            records: The records.
            report: Report that receives errors and the progress.

        Raises:
            TorchRecIOError: The first error of a task, unless the report skips errors.
            FileExistsError: If a shard exists, unless it may be replaced.
            FileNotFoundError: If machines do not share the folder.
            OSError: If a file cannot be read or written.
        """
        if self.num_shards is None:
            bounds = records.bounds_by_size(self.max_bytes or 0)
        else:
            count = self.num_shards
            bounds = [len(records) * shard // count for shard in range(count + 1)]
        pieces = records.cut(bounds)
        shards_of(self.name, len(pieces))  # too many are refused
        sizes = [sum(piece.size for piece in each) for each in pieces]
        shards = []
        with ShardFolder.beside(self.name, self.compression, index=self.index) as folder:
            work = functools.partial(_write_shard, folder)
            with closing(tasks.run_tasks(work, list(enumerate(pieces)), sizes)) as done:
                for shard, size in done:
                    report.add(shard.records, size, shard.errors.first)
                    report.skipped += shard.errors.more
                    shards.append(shard)
            outputs = folder.commit(shards, self.name, force=self.force)
        return outputs, [shard.records for shard in shards]


def _write_shard(folder: ShardFolder, shard: tuple[int, Sequence[FilePiece]]) -> WrittenShard:
    number, pieces = shard
    errors = TaskErrors()
    return folder.write(number, _records(pieces, errors), errors)


def _records(pieces: Iterable[FilePiece], errors: TaskErrors) -> Iterator[bytes]:
    for piece in pieces:
        for block in piece.blocks():
            errors.add(block.errors)
            for _, record in block.records():
                yield record
