"""Shards that tasks write to a hidden folder, and that get their names together at the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .._records.index import RecordIndex
from .._records.index_file import SUFFIX
from .._storage.compression import Compression
from .._storage.folders import make_folder, remove_folder
from .._storage.location import Location, threads_for
from .._storage.outputs import names_in
from .._storage.temporary import temporary_name
from .._storage.thread_pool import map_in_threads
from .._writing.output_group import OutputGroup
from .._writing.shards import find_shards, refuse_other_shards, shards_of
from ..checks import counted
from ..errors import TorchRecIOError
from ..tools.report import MOST_KEPT_ERRORS
from .division import DividedRecords


@dataclass
class TaskErrors:
    """Errors of records that a task skips, of which the first ones are kept.

    Attributes:
        first: The first errors, at most 1,000.
        more: Number of the other errors.
    """

    first: list[TorchRecIOError] = field(default_factory=list)
    more: int = 0

    def add(self, errors: Sequence[TorchRecIOError]) -> None:
        """Add errors that were found later."""
        room = MOST_KEPT_ERRORS - len(self.first)
        self.first += errors[:room]
        self.more += len(errors[room:])


class WrittenShard(NamedTuple):
    """A complete shard in a folder. A task returns it.

    Attributes:
        number: Number of the shard.
        records: Number of its records.
        errors: Errors of records that it lacks.
        facts: Other facts about its records.
    """

    number: int
    records: int
    errors: TaskErrors
    facts: Any = None


@dataclass(frozen=True)
class ShardFolder:
    """A hidden folder of shards, beside the outputs.

    Attributes:
        location: The folder, which all machines can write to.
        compression: Compression of the shards.
        index: Whether each shard gets an index.
    """

    location: Location
    compression: Compression | None = None
    index: bool = True

    @classmethod
    @contextmanager
    def beside(
        cls, name: Location, compression: Compression | None = None, *, index: bool = True
    ) -> Iterator[ShardFolder]:
        """Create a folder beside an output, and remove it at the end of the block."""
        location = name.at(temporary_name(name.absolute()))
        make_folder(location)
        try:
            yield cls(location, compression, index)
        finally:
            remove_folder(location)

    def file_of(self, number: int) -> Location:
        """Return the location of a shard."""
        return self.location.child(f"{number:09d}")

    def write(
        self, number: int, records: Iterable[bytes], errors: TaskErrors | None = None
    ) -> WrittenShard:
        """Write a shard, all of it or nothing. A shard of the same number is replaced.

        Args:
            number: Number of the shard.
            records: Records of the shard.
            errors: Errors of records that the shard lacks, once its last record was taken.

        Raises:
            FileNotFoundError: If this machine does not have the folder.
            OSError: If the system refuses a write.
        """
        with OutputGroup(create_folders=False) as group:
            writer = group.open_records(self.file_of(number), self.compression, index=self.index)
            for record in records:
                writer.write(record)
            writer.finish()
        return WrittenShard(number, sum(writer.counts), errors or TaskErrors())

    def find(self, shards: Sequence[WrittenShard]) -> list[Location]:
        """Return the locations of shards that tasks wrote.

        Raises:
            FileNotFoundError: If a shard is not in the folder of this machine.
        """
        present = names_in(self.location)
        files = [self.file_of(shard.number) for shard in shards]
        missing = [file for file in files if file.basename not in present]
        if missing:
            raise FileNotFoundError(
                f"{counted(len(missing), 'shard')} cannot be found where a task wrote it, such as "
                f"{missing[0]!r}; write to a folder that all machines share"
            )
        return files

    def open(self, shards: Sequence[WrittenShard]) -> DividedRecords:
        """Return the records of shards with indexes, in order.

        Raises:
            FileNotFoundError: If a shard is not in the folder of this machine.
        """
        files = self.find(shards)
        return DividedRecords(
            map_in_threads(
                lambda file: RecordIndex.load(file.beside(SUFFIX), file), files, threads_for(files)
            )
        )

    def commit(
        self, shards: Sequence[WrittenShard], name: Location, *, force: bool
    ) -> list[Location]:
        """Give all shards their names together, and return these.

        Args:
            shards: The shards.
            name: Common start of the names.
            force: Whether shards of this name that exist are replaced, all of them.

        Raises:
            FileExistsError: If there is a shard of this name, and it may not be replaced.
            FileNotFoundError: If a shard is not in the folder of this machine.
            OSError: If the system refuses to rename a file.
        """
        files = self.find(shards)
        outputs = shards_of(name, len(shards))
        with OutputGroup(force=force) as group:
            if force:
                group.remove(find_shards(name, outputs=outputs))
            else:
                refuse_other_shards(name, outputs)
            for complete, output in zip(files, outputs, strict=True):
                group.adopt(complete, output, index=self.index)
        return outputs
