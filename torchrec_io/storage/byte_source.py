"""Interface of byte sources: streams of bytes that can be read at any offset."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

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

    def will_need(self, ranges: Ints) -> None:
        """Announce ranges, as for :meth:`read_ranges`, that are read soon."""
        del ranges

    def drop_kept(self, ranges: Ints) -> bool:
        """Drop what is kept of ranges, as for :meth:`read_ranges`, because it seems to be damaged.

        Returns:
            Whether reading them again may give other bytes: what a store answered, or a cache has,
            may be damaged while the file is not.
        """
        del ranges
        return False

    def split(self, ranges: Ints) -> Iterator[Ints]:
        """Yield parts of ranges, as for :meth:`read_ranges`, that threads may read at one time."""
        yield ranges

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
