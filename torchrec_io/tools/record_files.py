"""Records of files as they are stored: read by number, checked, a stretch at a time."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..convert.jobs import Jobs, Tally
from ..errors import TorchRecIOError
from ..order.selection import Numbers, Selection, Span
from ..records.index_cache import open_indexes
from ..records.reader import ReadPlan, RecordBlock, RecordReader
from ..storage.local import StrPath
from ..storage.paths import expand_paths

# Of a stretch that is read at once. A larger record makes one of its own.
_MOST_RECORDS = 1 << 12
_MOST_BYTES = 1 << 22


@dataclass(frozen=True)
class Stretch:
    """Some records that were read at once.

    Attributes:
        block: The sound ones.
        size: Bytes of the frames of all of them.
        errors: An error for each of the others.
    """

    block: RecordBlock
    size: int
    errors: Sequence[TorchRecIOError]


class RecordFiles:
    """The records of TFRecord files, numbered on from file to file.

    Files are indexed first, as a dataset does it, and read by number: so what an operation does is
    settled before it writes a byte. Whether a file is compressed is told by its content.

    Args:
        paths: Files, patterns or directories.
        tally: Is told of files whose rest is lost behind a damaged length.

    Attributes:
        paths: The files.
        reader: Reads them.
        size: Bytes of all records and their frames.

    Raises:
        CorruptRecordError, TruncatedFileError: a length is damaged, or a file is cut short, unless
            the tally skips that.
        FileNotFoundError: a path stands for no file.
        OSError: a file is a pipe, which cannot be read by number.
        ValueError: no path at all.
    """

    def __init__(self, paths: StrPath | Iterable[StrPath], tally: Tally) -> None:
        self.paths = expand_paths(paths)
        indexes, errors = open_indexes(self.paths, "auto", "auto")
        for error in errors:
            tally.skip(_with_loss(error))
        self.reader = RecordReader(indexes)
        self.size = sum(index.stream_end for index in indexes)

    def __len__(self) -> int:
        return len(self.reader)

    @property
    def all(self) -> Span:
        """A selection of all records."""
        return Span(0, len(self), len(self))

    def blocks(
        self,
        selection: Selection,
        tally: Tally,
        jobs: int = 1,
        *,
        counted: bool = True,
        until: Callable[[], bool] = lambda: False,
        most_records: int | None = None,
        most_bytes: int | None = None,
    ) -> Generator[RecordBlock]:
        """Sound records of a selection, in order, a stretch at a time.

        Each stretch is counted once the next one is asked for.

        Args:
            selection: Of these records.
            tally: Counts the records, and is told of damaged ones.
            jobs: Threads that read. Compressed files are read by one, from front to back.
            counted: Whether the tally counts the records, or only the bytes.
            until: Says, before each stretch, if nobody wants it any more.
            most_records: In a stretch; by default 4,096.
            most_bytes: In a stretch of more than one record; by default 4 MiB.

        Raises:
            CorruptRecordError: a record does not match its checksum, unless the tally skips that.
            StaleIndexError, TruncatedFileError, OSError: a file is not what was indexed.
        """
        pieces = self._plans(selection, most_records or _MOST_RECORDS, most_bytes or _MOST_BYTES)
        with Jobs(self._fetch, jobs if self._is_plain else 1) as crew:
            for stretch in crew.map(pieces):
                if until():
                    return
                for error in stretch.errors:
                    tally.skip(error)
                yield stretch.block
                tally.add(len(stretch.block) if counted else 0, stretch.size)

    @property
    def _is_plain(self) -> bool:
        return not any(index.compression for index in self.reader.indexes)

    def _plans(
        self, selection: Selection, most_records: int, most_bytes: int
    ) -> Iterator[ReadPlan]:
        for begin in range(0, len(selection), most_records):
            positions = np.arange(begin, min(len(selection), begin + most_records))
            yield from self._cut(selection.numbers_at(positions), most_bytes)

    def _cut(self, numbers: Numbers, most_bytes: int) -> Iterator[ReadPlan]:
        plan = self.reader.plan(numbers)
        if plan.buffer_bytes <= most_bytes or len(numbers) == 1:
            yield plan
            return
        for half in np.array_split(numbers, 2):
            yield from self._cut(half, most_bytes)

    def _fetch(self, plan: ReadPlan) -> Stretch:
        block, errors = self.reader.fetch(plan)
        return Stretch(block, int(plan.frame_sizes.sum()), errors)


def _with_loss(error: TorchRecIOError) -> TorchRecIOError:
    return type(error)(
        f"{error.reason}; the rest of the file is lost",
        path=error.path,
        record=error.record,
        offset=error.offset,
        feature=error.feature,
    )
