"""Interface of byte sources: streams of bytes that can be read at any offset."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
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

    @property
    def sound_end(self) -> int:
        """Stream offset up to which a compressed stream that was read is proved by its checksums.

        There the last member (frame) ends that was decompressed to its end; 0 if there is none.
        """
        return 0

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

    def begin_epoch(self) -> None:  # noqa: B027  # most sources make no requests
        """Begin an epoch. From now on, a request that fails for good is not made again in it.

        Several threads may need what it was for, and without an epoch each read asks again.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the source early. No thread may be reading it."""
