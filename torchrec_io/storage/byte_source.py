"""Interface of byte sources: streams of bytes that can be read at any offset."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import TorchRecIOError

if TYPE_CHECKING:
    from .seek_points import SeekPoints

# Arrays of int64, of stream offsets (uint64) and of bytes.
Ints: TypeAlias = npt.NDArray[np.int64]
Offsets: TypeAlias = npt.NDArray[np.uint64]
ByteBuffer: TypeAlias = npt.NDArray[np.uint8]

# Size of the front of a file that is inspected to find out what the file is.
HEAD_BYTES = 1 << 12


class Stamp(NamedTuple):
    """Identity of a stored file. It differs from that of another file, or of a changed one.

    Attributes:
        file: Identity of the file among those that have had its name: device and inode of a local
            file.
        size: Size in bytes.
        mtime_ns: Time of the last change, in nanoseconds since 1970.
    """

    file: tuple[int | str, ...]
    size: int
    mtime_ns: int


class CheckedBlock(Protocol):
    """A block on the local disk, open as long as the object exists.

    Attributes:
        file: The file, for the native core.
    """

    @property
    def file(self) -> _core.CheckedFile: ...


class CheckedBlocks(Protocol):
    """Blocks on the local disk that native code can read, and check.

    Attributes:
        block_bytes: Size of a block in bytes.
    """

    @property
    def block_bytes(self) -> int: ...

    def find(self, numbers: list[int]) -> Sequence[CheckedBlock] | None:
        """Return blocks, by their numbers; None if one of them is not there."""


class Loan(NamedTuple):
    """Memory that has ranges of sources. It keeps them until it is given back.

    Attributes:
        pieces: For each piece of memory, uint8, where the ranges are in it; int64 ``[n, 3]``:
            offset in the memory, size, and offset in the buffer that the ranges are for.
        give_back: Function that gives the memory back. It must not be read after that.
    """

    pieces: list[tuple[ByteBuffer, Ints]]
    give_back: Callable[[], None]


class ByteSource(ABC):
    """A stream of bytes: the content of a stored file, decompressed if it is compressed.

    Safe to use from several threads, if it is seekable. It is closed when the last reference to it
    is dropped.

    Attributes:
        path: Name of the stored file.
        stamp: Stamp of the stored file when it was opened.
        is_seekable: True if every offset can be read any number of times. Other sources, such as
            pipes, can be read once, from front to back.
        file_watch: Notices that the stored file is changed in place; None if it cannot be.
        is_pinned: True if reads fail once the stored file is not the one of the stamp, so that it
            need not be compared again.
    """

    path: str
    stamp: Stamp
    is_seekable: bool = True
    file_watch: _core.FileWatch | None = None
    is_pinned: bool = False

    @property
    @abstractmethod
    def size(self) -> int | None:
        """Size of the stream in bytes; None if it is known only after reading it to its end.

        A stream of unknown size is best read forwards.
        """

    @property
    def descriptor(self) -> int | None:
        """File descriptor that native code can read the stream from, if there is one."""
        return None

    @property
    def checked_blocks(self) -> CheckedBlocks | None:
        """Blocks that native code can read the stream from, if there are any."""
        return None

    @property
    def lends(self) -> bool:
        """True if :meth:`begin_lending` saves copies."""
        return False

    @property
    def seek_points(self) -> SeekPoints | None:
        """Places found so far where decompression can start; None if it is not compressed."""
        return None

    @abstractmethod
    def read_into(self, offset: int, out: memoryview) -> int:
        """Fill ``out`` with the bytes at a stream offset.

        Returns:
            Number of bytes read. It is less than the size of ``out`` only at the end of the stream,
            or where a source that is not seekable has no more bytes yet.

        Raises:
            CorruptRecordError, TruncatedFileError: If the stream is damaged.
            OSError: If reading fails.
        """

    def read(self, offset: int, size: int) -> bytes:
        """Return up to ``size`` bytes at a stream offset; none at the end of the stream."""
        out = bytearray(size)
        return bytes(out[: self.read_into(offset, memoryview(out))])

    def head(self) -> bytes:
        """Return the first bytes of the stream: at least 12, unless it is shorter."""
        return self.read(0, HEAD_BYTES)

    def read_ranges(self, ranges: Ints, out: ByteBuffer) -> int | None:
        """Read several ranges into a buffer.

        Args:
            ranges: int64 ``[n, 3]``: stream offset, size, and offset in ``out``.
            out: Buffer; uint8.

        Returns:
            Number of the first range that extends past the end of the stream; None if all were
            read.
        """
        for number, (offset, size, start) in enumerate(ranges.tolist()):
            if self.read_into(offset, out.data[start : start + size]) != size:
                return number
        return None

    def begin_reading(self, ranges: Ints, out: ByteBuffer) -> Callable[[], int | None]:
        """Begin to read ranges, and return a function that ends it like :meth:`read_ranges`.

        Where requests take long, those of several sources are then made at the same time.
        """
        return lambda: self.read_ranges(ranges, out)

    def begin_lending(self, ranges: Ints) -> Callable[[], Loan | None]:
        """Begin to read ranges into the memory of this source.

        Where requests take long, those of several sources are then made at the same time.

        Args:
            ranges: int64 ``[n, 3]``: stream offset, size, and offset in the buffer that they are
                for.

        Returns:
            A function that waits until the ranges are there, and lends the memory. It returns None
            if they must be read by :meth:`read_ranges`: it does not wait for memory that others
            have borrowed.
        """
        del ranges
        return lambda: None

    def will_need(self, ranges: Ints, *, is_scattered: bool = False) -> None:
        """Announce ranges, as for :meth:`read_ranges`, that are read soon.

        Args:
            ranges: The ranges.
            is_scattered: Whether little of what lies between them is read soon.
        """
        del ranges, is_scattered

    def will_not_need(self, ranges: Ints) -> None:
        """Take back what was announced by :meth:`will_need`, and is not read."""
        del ranges

    def read_before_damage(
        self, offset: int, out: memoryview
    ) -> tuple[int, TorchRecIOError | None]:
        """Fill ``out`` as :meth:`read_into` does, with the bytes before any damage.

        A stream of unknown size must be read forwards: ``offset`` must not be less than the offset
        after the last byte read.

        Returns:
            Number of bytes read, and the damage that ends the stream, if it was reached.
        """
        return self.read_into(offset, out), None

    def find_size(
        self, progress: Callable[[int], None] | None = None
    ) -> tuple[int, TorchRecIOError | None]:
        """Return the size of the stream, and the damage that ends it early, if any.

        A stream of unknown size is read to its end.

        Args:
            progress: Function that is called now and then with the number of bytes of the stored
                file read so far.
        """
        del progress
        assert self.size is not None  # otherwise overridden
        return self.size, None

    def file_bytes_read(self, offset: int) -> int:
        """Return how many bytes of the stored file were read to reach a stream offset."""
        return offset

    @abstractmethod
    def close(self) -> None:
        """Close the source early. No thread may be reading it."""


def descriptors_of(sources: Sequence[ByteSource]) -> list[int] | None:
    """Return the descriptors of sources, or None if one of them has no descriptor."""
    found = [descriptor for source in sources if (descriptor := source.descriptor) is not None]
    return found if len(found) == len(sources) else None


def find_changed(sources: Iterable[ByteSource]) -> ByteSource | None:
    """Return the first source whose stored file was changed in place since it was opened."""
    watched = [(each.file_watch, each) for each in sources if each.file_watch is not None]
    number = _core.find_changed_file([watch for watch, _ in watched])
    return None if number is None else watched[number][1]


def read_ranges(
    sources: Sequence[ByteSource], bounds: Sequence[int], ranges: Ints, out: ByteBuffer
) -> _core.ReadResult:
    """Read ranges of several sources, in one native call if all are files or blocks on the disk.

    Args:
        sources: Sources to read.
        bounds: Numbers of the first range of each source, and the number of ranges;
            ``[sources + 1]``.
        ranges: int64 ``[n, 3]``: stream offset, size, and offset in ``out``.
        out: Buffer; uint8.
    """
    descriptors = descriptors_of(sources)
    if descriptors is not None:
        return _core.read_ranges(descriptors, bounds, ranges, out)
    found = find_blocks(sources, bounds, ranges) if len(sources) > 1 else None
    if found is not None and not _core.read_blocks(
        found.files, ranges[bounds[0] : bounds[-1]], found.block_bytes, out
    ):
        return _core.ReadResult()
    parts = zip(sources, bounds[:-1], bounds[1:], strict=True)
    readings = [
        (begin, source.begin_reading(ranges[begin:end], out)) for source, begin, end in parts
    ]
    for begin, finish in readings:
        number = finish()
        if number is not None:
            return _core.ReadResult(begin + number)
    return _core.ReadResult()


def lend_ranges(sources: Sequence[ByteSource], bounds: Sequence[int], ranges: Ints) -> Loan | None:
    """Return memory that has ranges of several sources.

    They are read into a buffer if a source cannot lend its own memory.

    Args:
        sources: Sources to read.
        bounds: Numbers of the ranges of each source; see :func:`read_ranges`.
        ranges: Ranges to read; see :func:`read_ranges`.

    Returns:
        None if a range extends past the end of its source.
    """
    loan = _borrow(sources, bounds, ranges) if all(each.lends for each in sources) else None
    return _read_to_lend(sources, bounds, ranges) if loan is None else loan


def _borrow(sources: Sequence[ByteSource], bounds: Sequence[int], ranges: Ints) -> Loan | None:
    """Return memory that all sources lend; None if one of them does not."""
    loans: list[Loan] = []

    def give_back() -> None:
        while loans:
            loans.pop().give_back()

    try:
        parts = zip(sources, bounds[:-1], bounds[1:], strict=True)
        begun = [source.begin_lending(ranges[begin:end]) for source, begin, end in parts]
        for finish in begun:
            loan = finish()
            if loan is None:
                give_back()
                return None
            loans.append(loan)
    except BaseException:
        give_back()
        raise
    return Loan([piece for loan in loans for piece in loan.pieces], give_back)


def _read_to_lend(
    sources: Sequence[ByteSource], bounds: Sequence[int], ranges: Ints
) -> Loan | None:
    """Read ranges into a buffer; return it, or None if one extends past the end of its source."""
    ends = np.cumsum(ranges[:, 1])
    begins = ends - ranges[:, 1]
    buffer = _core.allocate(int(ends[-1]) if len(ends) else 0)
    packed = np.column_stack([ranges[:, :2], begins])
    if read_ranges(sources, bounds, packed, buffer).truncated_range is not None:
        return None
    return Loan([(buffer, np.column_stack([begins, ranges[:, 1:]]))], lambda: None)


class RangesOfBlocks(NamedTuple):
    """Ranges of sources that are in blocks on the disk.

    Attributes:
        blocks: The blocks that the ranges touch, of each range in turn.
        block_bytes: Size of a block in bytes.
    """

    blocks: list[CheckedBlock]
    block_bytes: int

    @property
    def files(self) -> list[_core.CheckedFile]:
        """The files of the blocks."""
        return [block.file for block in self.blocks]


def find_blocks(
    sources: Sequence[ByteSource], bounds: Sequence[int], ranges: Ints
) -> RangesOfBlocks | None:
    """Return the blocks on the disk that ranges are in; None if not all are there.

    Args:
        sources: Sources to read.
        bounds: Numbers of the ranges of each source; see :func:`read_ranges`.
        ranges: Ranges to read; see :func:`read_ranges`.
    """
    found = [blocks for source in sources if (blocks := source.checked_blocks) is not None]
    if len(found) < len(sources) or len({blocks.block_bytes for blocks in found}) != 1:
        return None
    size = found[0].block_bytes
    first = bounds[0]
    ranges, bounds = ranges[first : bounds[-1]], [bound - first for bound in bounds]
    numbers = _core.block_numbers(ranges, size)
    if len(numbers) != len(ranges):  # a range has parts of several blocks
        begins, ends = ranges[:, 0], ranges[:, 0] + ranges[:, 1]
        counts = np.where(ranges[:, 1] > 0, -(-ends // size) - begins // size, 0)
        bounds = np.append(0, np.cumsum(counts))[list(bounds)].tolist()
    blocks_of_all: list[CheckedBlock] = []
    for blocks, begin, end in zip(found, bounds[:-1], bounds[1:], strict=True):
        of_source = blocks.find(numbers[begin:end])
        if of_source is None:
            return None
        blocks_of_all += of_source
    return RangesOfBlocks(blocks_of_all, size)
