"""Where converted records go, and what is said of them afterwards."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict, TypeVar

from ..errors import ConversionError, TorchRecIOError
from ..schema.schema import Schema
from ..storage.local import StrPath
from ..writing.record_writer import TFRecordWriter
from ..writing.sharded import ShardedWriter
from .jobs import Jobs, OnError, Tally, Watcher
from .shapes import Shapes
from .sources import SourceFile, source_files

Item = TypeVar("Item")
Seen = TypeVar("Seen")
# What a file of its own is called as it is; other names get ".tfrecord".
_DATA_NAME = re.compile(r"\.(tfrecords?|tfrec|recordio)\b")


class Options(TypedDict, total=False):
    """What all conversions to TFRecord can be told, by keyword.

    Attributes:
        num_shards: Write so many files, ``NAME-00000-of-00008`` and so on; record ``i`` goes to
            file ``i % num_shards``. Default: one file, ``NAME``, with ``.tfrecord`` added unless it
            is there.
        max_bytes: Write as many files as it takes for none to have more bytes.
        compression: None, "gzip" or "zlib".
        index: Whether each file gets its ``.tfidx``. Default: True.
        jobs: How many processes, for images threads, share the work. What is written does not
            depend on it. Processes need ``if __name__ == "__main__":`` in a script. Default: 1.
        on_error: "raise", or "skip": leave out what cannot be converted, and say so in the result.
        watcher: Is told how it gets on.
    """

    num_shards: int | None
    max_bytes: int | None
    compression: str | None
    index: bool
    jobs: int
    on_error: OnError
    watcher: Watcher | None


class Conversion(NamedTuple):
    """What a conversion has done.

    Attributes:
        paths: The files, in order.
        records: Records in them.
        skipped: How much was left out, because of ``on_error="skip"``.
        errors: Why, of the first 1,000.
        ignored: Files in the source that were never meant, by kind.
        file_bytes: Size of all files.
        seconds: How long it took.
        schema: Reads the records; None if they have no features.
    """

    paths: tuple[str, ...]
    records: int
    skipped: int
    errors: tuple[TorchRecIOError, ...]
    ignored: dict[str, int]
    file_bytes: int
    seconds: float
    schema: Schema | None


class Made(NamedTuple):
    """What a piece of the source became.

    Attributes:
        records: Serialized Examples.
        size: Bytes of the source that they stand for.
        errors: Why the others are missing.
        shapes: How many values their features have.
    """

    records: list[bytes]
    size: int
    errors: list[TorchRecIOError]
    shapes: Shapes


@dataclass(frozen=True)
class Target:
    """Where records go.

    Raises:
        ValueError: num_shards and max_bytes are both given, or destination is a folder's name.
    """

    destination: StrPath
    num_shards: int | None = None
    max_bytes: int | None = None
    compression: Any = None
    index: bool = True

    def __post_init__(self) -> None:
        if self.num_shards is not None and self.max_bytes is not None:
            raise ValueError("give num_shards or max_bytes, not both")
        destination = os.fspath(self.destination)
        if os.path.basename(destination) in ("", os.curdir, os.pardir):
            raise ValueError(f"{destination!r} names no file: the destination is a file's name")

    @property
    def sharded(self) -> bool:
        """Whether it is several files."""
        return not (self.num_shards is None and self.max_bytes is None)

    @property
    def name(self) -> str:
        """Of the one file, or of all without their numbers."""
        name = os.fspath(self.destination)
        if self.sharded or _DATA_NAME.search(os.path.basename(name)):
            return name
        return name + ".tfrecord"

    def replaces(self, path: str) -> bool:
        """Whether a file of that name may be written."""
        own = re.escape(os.path.abspath(self.name)) + (r"-\d{5}-of-\d{5}" if self.sharded else "")
        return re.fullmatch(own, os.path.abspath(path)) is not None

    def open(self) -> TFRecordWriter | ShardedWriter:
        """Opens a writer, and makes its folder if there is none."""
        os.makedirs(os.path.dirname(self.name) or ".", exist_ok=True)
        if not self.sharded:
            return TFRecordWriter(self.name, self.compression, self.index)
        return ShardedWriter(
            self.name,
            self.num_shards,
            max_bytes=self.max_bytes,
            compression=self.compression,
            index=self.index,
        )


class Converter:
    """Runs one conversion to TFRecord.

    Args:
        destination: Name of the file, or of the files without their numbers.
        options: See :class:`Options`.

    Attributes:
        tally: Of what was done so far.

    Raises:
        TypeError: there is no such option.
        ValueError: an option has a value that it cannot have.
    """

    def __init__(self, destination: StrPath, options: Options) -> None:
        unknown = set(options) - set(Options.__annotations__)
        if unknown:
            allowed = ", ".join(Options.__annotations__)
            raise TypeError(f"there is no option {min(unknown)!r}; there are {allowed}")
        self.tally = Tally(options.get("on_error", "raise"), options.get("watcher"))
        self._jobs = options.get("jobs", 1)
        self.target = Target(
            destination,
            options.get("num_shards"),
            options.get("max_bytes"),
            options.get("compression"),
            options.get("index", True),
        )

    def files(self, sources: StrPath | Sequence[StrPath]) -> list[SourceFile]:
        """The files to convert.

        Raises:
            ValueError: as :func:`source_files`, or what is written would replace one of them.
            OSError: as :func:`source_files`.
        """
        files = source_files(sources)
        for path, _ in files:
            if self.target.replaces(path):
                raise ValueError(f"{path!r} would be replaced by what becomes of it")
        return files

    def look(self, work: Callable[[Item], Seen], pieces: Iterable[Item]) -> Iterator[Seen]:
        """What work finds in each piece of the source, before any of them is converted."""
        with Jobs(work, self._jobs, processes=True) as crew:
            yield from crew.map(pieces)

    def write(
        self,
        work: Callable[[Item], Made],
        pieces: Iterable[Item],
        schema_of: Callable[[Shapes, int], Schema | None],
        *,
        processes: bool = True,
    ) -> Conversion:
        """Converts all pieces.

        Args:
            work: Converts one; of a module, as it may go to another process.
            pieces: In the order that their records are to have.
            schema_of: Gives the schema for the features' shapes and the number of records.
            processes: Whether by processes, or by threads.

        Raises:
            ConversionError: a piece has an error that is not to be skipped, or nothing is left.
        """
        tally, shapes = self.tally, Shapes()
        with Jobs(work, self._jobs, processes=processes) as crew, self.target.open() as writer:
            for made in crew.map(pieces):
                for record in made.records:
                    writer.write(record)
                shapes.merge(made.shapes)
                tally.add(len(made.records), made.size, made.errors)
            if not tally.records:
                raise ConversionError("there is no record to write")
        paths = [self.target.name] if isinstance(writer, TFRecordWriter) else writer.paths
        return Conversion(
            tuple(map(os.fspath, paths)),
            tally.records,
            tally.skipped,
            tuple(tally.errors),
            tally.ignored,
            sum(map(os.path.getsize, paths)),
            tally.seconds,
            schema_of(shapes, tally.records),
        )
