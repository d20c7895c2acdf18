"""Files that tasks write to a hidden folder, and that get their names together at the end."""

from __future__ import annotations

import errno
import functools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

from .._records.index_file import SUFFIX
from .._storage.compression import Compression
from .._storage.digest import digest_text
from .._storage.folders import has_files, lock_of, make_folder, remove_folder
from .._storage.location import Location
from .._storage.ordered_pool import OrderedPool
from .._storage.outputs import names_in
from .._storage.temporary import job_folder, temporary_name
from .._storage.thread_pool import REMOTE_THREADS
from .._writing.frame_writer import BUFFER_BYTES
from .._writing.output_group import OutputGroup
from .._writing.shards import find_shards, shards_of
from ..checks import counted, printable
from .part_records import (
    RECORD_SUFFIX,
    JobPart,
    TaskErrors,
    content_of,
    delete_part_record,
    load_outputs,
    load_part,
    save_outputs,
    save_part,
)

__all__ = ["JobPart", "PartFolder"]

logger: logging.Logger = logging.getLogger("torchrec_io")

T = TypeVar("T")

_OUTPUTS = "outputs.json"
_DIGITS = 9
# Memory for pieces of parts in a store that are read ahead.
_AHEAD_BYTES = 64 << 20


@dataclass(frozen=True)
class PartFolder:
    """A hidden folder of parts, beside the outputs.

    Attributes:
        location: The folder, which all machines can write to.
        compression: Compression of the parts.
        index: Whether each part gets an index.
    """

    location: Location
    compression: Compression | None
    index: bool

    @classmethod
    @contextmanager
    def beside(
        cls, name: Location, compression: Compression | None, *, index: bool
    ) -> Iterator[PartFolder]:
        """Create a folder beside shards, and remove it at the end of the block."""
        location = name.at(temporary_name(name.absolute()))
        make_folder(location)
        try:
            yield cls(location, compression, index)
        finally:
            remove_folder(location)

    @classmethod
    @contextmanager
    def of_job(
        cls,
        name: Location,
        arguments: Sequence[str],
        compression: Compression | None,
        *,
        index: bool,
        is_last: bool = True,
    ) -> Iterator[PartFolder]:
        """Open the folder of a job, whose name depends only on the arguments.

        A job that is started again finds the parts that it has finished. The folder is removed when
        the last block ends. After an error it is kept if it has parts. It is locked during the
        block, if the file system has locks. A store has none.

        Args:
            name: The output, or common start of the shards.
            arguments: Name of the job, its inputs, and the options that change its parts.
            compression: Compression of the parts.
            index: Whether each part gets an index.
            is_last: Whether the job ends with the block.

        Raises:
            BlockingIOError: If another process or thread runs the same job.
            OSError: If the folder cannot be created.
        """
        folder = cls.named(name, arguments, compression, index=index)
        location = folder.location
        make_folder(location.parent)
        with lock_of(location.beside(".lock"), functools.partial(_refuse_second, location)):
            make_folder(location)
            try:
                yield folder
            except BaseException:
                if has_files(location):
                    logger.warning(
                        "finished parts are kept in %r: start the job again to continue, or remove "
                        "the folder",
                        printable(location),
                    )
                else:
                    remove_folder(location)
                raise
            if is_last:
                remove_folder(location)

    @classmethod
    def named(
        cls,
        name: Location,
        arguments: Sequence[str],
        compression: Compression | None,
        *,
        index: bool,
    ) -> PartFolder:
        """Return the folder of a job, which may not exist; see :meth:`of_job`."""
        digest = digest_text("\0".join([*arguments, str(compression), str(index)]), size=16)
        return cls(name.at(job_folder(name.absolute(), digest)), compression, index)

    def stage(
        self, name: str, compression: Compression | None = None, *, index: bool = False
    ) -> PartFolder:
        """Return a subfolder for the parts of another stage of the job, such as a first pass."""
        location = self.location.child(name)
        make_folder(location)
        return PartFolder(location, compression, index)

    def file_of(self, number: int) -> Location:
        """Return the location of a part."""
        return self.location.child(f"{number:0{_DIGITS}d}")

    def threads(self, mean_bytes: int) -> int:
        """Return the number of threads that read pieces of the parts at the same time.

        Several wait for a store; a local folder is best read by one.

        Args:
            mean_bytes: Mean size of a piece in bytes, which bounds the memory.
        """
        if self.location.local_path is not None:
            return 1
        return max(1, min(REMOTE_THREADS, _AHEAD_BYTES // max(1, mean_bytes)))

    def read_all(
        self, read: Callable[[T], Iterator[bytes]], items: Iterable[T], mean_bytes: int
    ) -> Iterator[bytes]:
        """Yield the records of pieces of the parts, in order, each read by a thread.

        Args:
            read: Function that yields the records of a piece.
            items: The pieces.
            mean_bytes: Mean size of a piece in bytes, which bounds the memory.
        """
        threads = self.threads(mean_bytes)

        def read_one(item: T) -> Iterable[bytes]:
            return read(item) if threads == 1 else list(read(item))

        with OrderedPool(read_one, threads, max_items=threads) as pool:
            yield from chain.from_iterable(pool.map(items))

    def write(
        self,
        number: int,
        records: Iterable[bytes],
        *,
        key: str = "",
        errors: TaskErrors | None = None,
        facts: Mapping[str, Any] | None = None,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> JobPart:
        """Write a part, all of it or nothing. A part of the same number is replaced.

        Args:
            number: Number of the part.
            records: Records of the part.
            key: Identity of the work: of the input, and of the options that change the part.
            errors: Errors of records that the part lacks; read after the last record.
            facts: Other facts to keep, as JSON stores them; read after the last record.
            buffer_bytes: Number of bytes of small records that are gathered before they are framed.

        Raises:
            FileNotFoundError: If this machine does not have the folder.
            OSError: If the system refuses a write.
        """
        file = self.file_of(number)
        delete_part_record(file)
        with OutputGroup(create_folders=False) as group:
            writer = group.open_records(
                file, self.compression, index=self.index, buffer_bytes=buffer_bytes
            )
            for record in records:
                writer.write(record)
            writer.finish()
        content = content_of(file)
        left_out = errors or TaskErrors()
        part = JobPart(
            number,
            sum(writer.counts),
            content,
            tuple(left_out.first),
            left_out.more,
            dict(facts or {}),
        )
        if key:
            save_part(file, part, key)
        return part

    def find(self, number: int, key: str, *, has_moved: bool = False) -> JobPart | None:
        """Return a part that was written with this key and is unchanged, or None.

        Args:
            number: Number of the part.
            key: Identity of the work.
            has_moved: Whether its file has become an output, so that it is not compared.
        """
        return load_part(number, self.file_of(number), key, has_moved=has_moved)

    def numbers(self) -> set[int]:
        """Return the numbers of the parts that were finished before, whatever their work."""
        names = names_in(self.location)
        return {int(name[:_DIGITS]) for name in names if name[_DIGITS:] == RECORD_SUFFIX}

    def commit(self, name: Location, parts: Sequence[JobPart], *, force: bool) -> list[Location]:
        """Give all parts the names of shards, and return these.

        Args:
            name: Common start of the paths of the shards.
            parts: The parts, in order.
            force: Whether shards that exist are replaced. All others of this name are removed then.

        Raises:
            FileExistsError: If a shard exists, and may not be replaced.
            FileNotFoundError: If a part is not in the folder of this machine.
            OSError: If the system refuses to rename a file.
        """
        shards = shards_of(name, len(parts))
        with OutputGroup(force=force) as group:
            self.adopt(group, parts, shards)
            if force:
                group.remove(find_shards(name, outputs=shards))
        return shards

    def adopt(
        self,
        group: OutputGroup,
        parts: Sequence[JobPart],
        outputs: Sequence[Location],
        identity: str = "",
    ) -> None:
        """Add all parts to the outputs of a group.

        Args:
            group: Group of the outputs.
            parts: The parts.
            outputs: Location of each part when the group is committed.
            identity: Identity of the work, as far as the name of the folder does not have it.

        Raises:
            FileExistsError: If an output exists, and may not be replaced.
            FileNotFoundError: If a part is not in the folder of this machine.
            OSError: If the system refuses to rename a file.
        """
        present = names_in(self.location)
        files = [self.file_of(part.number) for part in parts]
        missing = [file for file in files if file.basename not in present]
        if missing:
            raise FileNotFoundError(
                f"{counted(len(missing), 'shard')} cannot be found where a task wrote it, such as "
                f"{missing[0]!r}; write to a folder that all machines share"
            )
        record = self.location.child(_OUTPUTS)
        save_outputs(record, dict(zip(outputs, parts, strict=True)), identity)
        for file, output in zip(files, outputs, strict=True):
            group.adopt(file, output, index=self.index)

    def find_outputs(self, identity: str | None = None) -> list[Location] | None:
        """Return the outputs of a job that was killed after they got their names, or None.

        Args:
            identity: Identity of the work, as for :meth:`adopt`; None for any.
        """
        outputs = load_outputs(self.location.child(_OUTPUTS), identity)
        if outputs and self.index:
            present = names_in(outputs[0].parent)
            if not all(output.basename + SUFFIX in present for output in outputs):
                return None
        return outputs


def _refuse_second(folder: Location) -> None:
    reason = "another process runs the same job; wait until it ends"
    raise BlockingIOError(errno.EWOULDBLOCK, reason, folder.name)
