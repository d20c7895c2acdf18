"""Jobs that write shards in two passes, and continue where they were when they are started again.

Tasks of the first pass read the inputs, each a part of them, and write spills: see
:mod:`torchrec_io.cluster.spills`. A task of the second pass writes a shard from all of them. Both
passes keep the order of the records, so the shards are those of one machine.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from .._storage.byte_source import Ints
from .._storage.compression import COMPRESSIONS, Compression
from .._storage.digest import digest_text
from .._storage.location import Location, threads_for
from .._storage.ordered_pool import OrderedPool
from .._storage.outputs import refuse_existing, split_output
from .._storage.thread_pool import map_in_threads
from .._writing.output_group import OutputGroup
from .._writing.shards import (
    MOST_OBJECT_BYTES,
    buffer_bytes_of,
    check_max_bytes,
    find_shards,
    refuse_other_shards,
    refuse_shards,
    shard_path,
    shards_of,
)
from ..checks import check_choice, check_integer
from ..tools.report import JobReport
from . import tasks
from .part_records import TaskErrors
from .parts import JobPart, PartFolder
from .spills import measured, read_bucket, read_sizes, read_slices, spilled

T = TypeVar("T")

# About the size of the table of the records of a spill in bytes, if they are not very small.
_SIZES_BYTES = 2 << 20


class Item(NamedTuple):
    """A part of the inputs of a job, for one task. It is sent to another machine.

    Attributes:
        size: Number of bytes to read.
        key: Identity of the part among those of the same inputs.
        read: Function that yields the records of the part. It adds the errors of records that are
            left out to its first argument, and other facts, as JSON stores them, to its second.
    """

    size: int
    key: str
    read: Callable[[TaskErrors, dict[str, Any]], Iterator[bytes]]


@dataclass(frozen=True)
class Output:
    """The outputs of a job.

    Attributes:
        name: Location of a single file, or common start of those of the shards.
        num_shards: Number of shards.
        max_bytes: Largest size of a shard in bytes. Without both there is a single file.
        compression: Compression of the files.
        index: Whether each file gets an index.
        force: Whether outputs that exist are replaced.

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
        split_output(self.name)  # a URL that cannot be written is refused
        check_choice("compression", self.compression, (None, *COMPRESSIONS))
        if self.num_shards is not None:
            shard_path(self.name, 0, check_integer("num_shards", self.num_shards, 1))
        if self.max_bytes is not None:
            check_max_bytes(self.name, check_integer("max_bytes", self.max_bytes, 1))
            if self.compression is not None:
                raise ValueError(
                    "max_bytes cannot be used with compression on a cluster, because the start of "
                    "a shard would depend on all earlier ones; use num_shards"
                )

    @property
    def is_sharded(self) -> bool:
        """Whether the outputs are shards."""
        return self.num_shards is not None or self.max_bytes is not None

    def folder(self, arguments: Sequence[str]) -> PartFolder:
        """Return the folder of a job with these outputs, which may not exist."""
        arguments = [*arguments, self.identity]
        return PartFolder.named(self.name, arguments, self.compression, index=self.index)

    def open_folder(
        self, arguments: Sequence[str], *, is_last: bool = True
    ) -> AbstractContextManager[PartFolder]:
        """Open the folder of a job with these outputs; see :meth:`PartFolder.of_job`."""
        return PartFolder.of_job(
            self.name,
            [*arguments, self.identity],
            self.compression,
            index=self.index,
            is_last=is_last,
        )

    def check_new(
        self,
        arguments: Sequence[str],
        companions: Iterable[Location] = (),
        identity: str | None = None,
    ) -> None:
        """Raise FileExistsError if an output exists, is not of this job and may not be replaced.

        Args:
            arguments: Name of the job, identity of its inputs, and the options.
            companions: Other outputs.
            identity: Identity of the work, as far as the arguments do not have it; None for any.
        """
        if self.force or self.folder(arguments).find_outputs(identity) is not None:
            return
        if self.is_sharded:
            refuse_shards(self.name)
        for output in [*companions, *([] if self.is_sharded else [self.name])]:
            refuse_existing(output)

    def check_sizes(self, size: int) -> None:
        """Raise ValueError if uncompressed files would be too large for a store.

        Args:
            size: Size of all records with their frames in bytes.
        """
        if self.compression is None and self.max_bytes is None and self.name.local_path is None:
            least = -(-size // MOST_OBJECT_BYTES)
            if least > (self.num_shards or 1):
                raise ValueError(
                    f"num_shards must be at least {least:,} for {size:,} bytes, as a store copies "
                    f"no object of more than 5 GiB, got {self.num_shards}"
                )

    @property
    def identity(self) -> str:
        """The members that change the first pass."""
        return f"num_shards={self.num_shards} max_bytes={self.max_bytes}"

    def commit(
        self,
        folder: PartFolder,
        parts: Sequence[JobPart],
        companions: Mapping[Location, bytes] | None = None,
        identity: str = "",
    ) -> list[Location]:
        """Give all parts their names together, and return these.

        Args:
            folder: Folder of the parts.
            parts: The parts, in order.
            companions: Contents of other files.
            identity: Identity of the work, as far as the name of the folder does not have it.
        """
        outputs = shards_of(self.name, len(parts)) if self.is_sharded else [self.name]
        with OutputGroup(force=self.force) as group:
            if self.is_sharded and self.force:
                group.remove(find_shards(self.name, outputs=outputs))
            elif self.is_sharded:
                refuse_other_shards(self.name, outputs)
            for companion, content in (companions or {}).items():
                with group.open_file(companion) as file:
                    file.write(content)
            folder.adopt(group, parts, outputs, identity)
        return outputs


class Written(NamedTuple):
    """The result of a job.

    Attributes:
        outputs: The outputs.
        counts: Number of records of each.
        facts: Facts that were found in each item, in order.
    """

    outputs: list[Location]
    counts: list[int]
    facts: list[Mapping[str, Any]]


def write_shards(
    items: Sequence[Item],
    output: Output,
    arguments: Sequence[str],
    report: JobReport,
    *,
    companions: Mapping[Location, bytes] | None = None,
    check: Callable[[int], None] = lambda _: None,
) -> Written:
    """Write the records of all items to shards, in tasks.

    Args:
        items: Parts of the inputs, in order.
        output: The outputs.
        arguments: Name of the job, identity of its inputs, and the options that change records.
        report: Report that receives errors, and the progress: half of the bytes in each pass.
        companions: Contents of other files, which appear together with the shards.
        check: Function that is called with the number of records before shards are written.

    Raises:
        TorchRecIOError: The first error of a task, unless the report skips errors.
        BlockingIOError: If another process runs the same job.
        FileExistsError: If an output exists, unless it may be replaced.
        FileNotFoundError: If machines do not share the folder.
        OSError: If a file cannot be read or written.
    """
    companions = companions or {}
    # The keys of the items may have stamps of files that the name of the folder does not have.
    work = digest_text("\0".join(item.key for item in items), *companions.values(), size=16)
    output.check_new(arguments, companions, work)
    with output.open_folder(arguments) as folder:
        spills = folder.stage("spills")
        spill = functools.partial(_spill, output=output)
        groups = [
            [items[number] for number in group]
            for group in tasks.group_items([item.size for item in items])
        ]
        sizes = [sum(item.size for item in group) for group in groups]
        keys = [digest_text("\0".join(item.key for item in group)) for group in groups]
        parts = []
        with closing(run_parts(spills, spill, groups, keys, sizes)) as found:
            for part, size in zip(found, sizes, strict=True):
                report.add(0, size - size // 2, part.errors, part.more_errors)
                parts.append(part)
        check(sum(part.records for part in parts))
        output.check_sizes(sum(part.content.size for part in parts))
        outputs = folder.find_outputs(work)
        shards = _shards_of(spills, parts, output)
        write = functools.partial(_write_shard, buffer_bytes=buffer_bytes_of(output.num_shards))
        counts = str([part.records for part in parts])
        keys = [digest_text(work, counts, str(number)) for number in range(len(shards))]
        left = sum(size // 2 for size in sizes)
        ends = [left * number // len(shards) for number in range(len(shards) + 1)]
        sizes = [end - begin for begin, end in itertools.pairwise(ends)]
        written = run_parts(folder, write, shards, keys, sizes, is_complete=outputs is not None)
        done = []
        with closing(written) as found:
            for part, size in zip(found, sizes, strict=True):
                report.add(part.records, size)
                done.append(part)
        outputs = outputs or output.commit(folder, done, companions, work)
    facts = [found for part in parts for found in part.facts["items"]]
    return Written(outputs, [part.records for part in done], facts)


# ---- both passes ----


def run_parts(
    folder: PartFolder,
    work: Callable[[PartFolder, int, str, T], JobPart],
    items: Sequence[T],
    keys: Sequence[str],
    sizes: Sequence[int],
    *,
    is_complete: bool = False,
) -> Generator[JobPart]:
    """Yield the part of each item, in order. Parts that were finished before are not written.

    Args:
        folder: Folder of the parts.
        work: Function that writes a part in a task, given the folder, its number, key and item.
        items: The items.
        keys: Identity of the work for each item.
        sizes: Number of bytes of each item.
        is_complete: Whether all parts are complete. Their files need not be there any more.
    """
    finished = folder.numbers()
    found = map_in_threads(
        lambda number: (
            folder.find(number, keys[number], has_moved=is_complete) if number in finished else None
        ),
        range(len(items)),
        threads_for([folder.location]),
    )
    missing = [number for number, part in enumerate(found) if part is None]
    done = tasks.run_tasks(
        functools.partial(_call, work, folder),
        [(number, keys[number], items[number]) for number in missing],
        [sizes[number] for number in missing],
    )
    with closing(done):
        for part in found:
            yield next(done)[0] if part is None else part


def _call(
    work: Callable[[PartFolder, int, str, T], JobPart], folder: PartFolder, item: tuple[int, str, T]
) -> JobPart:
    return work(folder, *item)


# ---- the first pass ----


def _spill(
    folder: PartFolder, number: int, key: str, items: Sequence[Item], *, output: Output
) -> JobPart:
    errors = TaskErrors()
    facts: list[dict[str, Any]] = [{} for _ in items]
    found = (item.read(errors, own) for item, own in zip(items, facts, strict=True))
    records: Iterator[bytes] = itertools.chain.from_iterable(found)
    file = folder.file_of(number)
    if output.max_bytes is None:
        records = spilled(records, file, output.num_shards or 1)
    else:
        records = measured(records, file)
    return folder.write(number, records, key=key, errors=errors, facts={"items": facts})


# ---- the second pass ----


def _read_buckets(
    spills: PartFolder, num_shards: int, first: Ints, bucket_bytes: int, shard: int
) -> Iterator[bytes]:
    """Yield the records of a shard that takes a bucket of each spill.

    Args:
        spills: Folder of the spills.
        num_shards: Number of shards.
        first: Number of the first record of each spill, modulo the number of shards.
        bucket_bytes: Mean size of a bucket of a spill in bytes.
        shard: Number of the shard.
    """

    def read_one(place: tuple[int, int]) -> Iterator[bytes]:
        number, bucket = place
        return read_bucket(spills.file_of(number), bucket, num_shards)

    buckets = ((shard - first) % num_shards).tolist()
    return spills.read_all(read_one, enumerate(buckets), bucket_bytes)


def _read_slices(spills: PartFolder, slices: Sequence[tuple[int, int, int]]) -> Iterator[bytes]:
    """Yield the records of a shard that takes consecutive ones.

    Args:
        spills: Folder of the spills.
        slices: Number of a spill, and the offsets of the first frame and after the last, in order.
    """
    for number, begin, end in slices:
        yield from read_slices(spills.file_of(number), [(begin, end)])


def _shards_of(
    spills: PartFolder, parts: Sequence[JobPart], output: Output
) -> Sequence[Callable[[], Iterator[bytes]]]:
    """Return a function for each shard that yields its records."""
    if output.max_bytes is None:
        count = output.num_shards or 1
        ends = np.cumsum([0, *(part.records for part in parts)])
        first = ends[:-1] % count
        mean = sum(part.content.size for part in parts) // max(1, len(parts) * count)
        read = functools.partial(_read_buckets, spills, count, first, mean)
        return [functools.partial(read, shard) for shard in range(count)]
    with OrderedPool(read_sizes, spills.threads(_SIZES_BYTES)) as pool:
        files = [spills.file_of(part.number) for part in parts]
        slices = slices_by_size(pool.map(files), output.max_bytes)
        shards = [functools.partial(_read_slices, spills, each) for each in slices]
    shard_path(output.name, 0, len(shards))  # too many are refused
    return shards


def slices_by_size(sizes: Iterable[Ints], max_bytes: int) -> Iterator[list[tuple[int, int, int]]]:
    """Yield the slices of each shard: as many records as fit, and at least one.

    Args:
        sizes: Sizes of the frames of each part.
        max_bytes: Largest size of a shard in bytes.
    """
    slices: list[tuple[int, int, int]] = []
    room = max_bytes
    for number, frames in enumerate(sizes):
        ends = np.cumsum(frames)
        begin = position = 0
        while position < len(ends):
            stop = int(np.searchsorted(ends, begin + room, side="right"))
            if stop == position and room == max_bytes:
                stop += 1  # a larger record has a shard of its own
            end = int(ends[stop - 1]) if stop else 0
            if stop > position:
                slices.append((number, begin, end))
                room -= end - begin
                begin, position = end, stop
            if position < len(ends):
                yield slices
                slices, room = [], max_bytes
    yield slices


def _write_shard(
    folder: PartFolder,
    number: int,
    key: str,
    shard: Callable[[], Iterator[bytes]],
    *,
    buffer_bytes: int,
) -> JobPart:
    return folder.write(number, shard(), key=key, buffer_bytes=buffer_bytes)
