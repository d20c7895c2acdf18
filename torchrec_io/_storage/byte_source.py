"""Interface of byte sources: streams of bytes that can be read at any offset."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import TorchRecIOError
from .stamp import Stamp

# Arrays of int64, of stream offsets (uint64) and of bytes.
Ints: TypeAlias = npt.NDArray[np.int64]
Offsets: TypeAlias = npt.NDArray[np.uint64]
ByteBuffer: TypeAlias = npt.NDArray[np.uint8]

# Size of the front of a file that is inspected to find out what the file is.
HEAD_BYTES = 1 << 12
_READ_BYTES = 1 << 18


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
        descriptor: File descriptor that native code can read the stream from, if there is one.
        failures: Requests that have failed for good, which are not made again: several threads may
            need what they were for. None where each read asks again.
    """

    path: str
    stamp: Stamp
    is_seekable: bool = True
    file_watch: _core.FileWatch | None = None
    is_pinned: bool = False
    descriptor: int | None = None
    failures: list[Any] | None = None

    @property
    @abstractmethod
    def size(self) -> int | None:
        """Size of the stream in bytes; None if it is known only after reading it to its end."""

    @abstractmethod
    def read_into(self, offset: int, out: memoryview) -> int:
        """Fill ``out`` with the bytes at a stream offset.

        A stream of unknown size must be read forwards: ``offset`` must not be less than the offset
        after the last byte read.

        Returns:
            Number of bytes read. It is less than the size of ``out`` only at the end of the stream,
            before damage, or where a source that is not seekable has no more bytes yet.

        Raises:
            CorruptRecordError, TruncatedFileError: If the stream is damaged at the offset.
            OSError: If reading fails.
        """

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

    def split(self, ranges: Ints) -> Iterator[Ints]:
        """Yield parts of ranges, as for :meth:`read_ranges`, that threads may read separately."""
        yield ranges

    def drop_kept(self, ranges: Ints) -> bool:
        """Drop the cached data of ranges, as for :meth:`read_ranges`, because it seems damaged.

        Returns:
            Whether reading them again may give other bytes: what a store answered, or a cache has,
            may be damaged while the file is not.
        """
        del ranges
        return False

    @property
    def valid_end(self) -> int:
        """End of the valid data of a damaged stream: its checksums were checked up to there.

        It is the end of the last member (frame) that was decompressed completely; 0 without one.
        """
        return 0

    @abstractmethod
    def close(self) -> None:
        """Close the source early. No thread may be reading it."""


class DecodedStream(ByteSource):
    """A stream that is decompressed from front to back, whose size is not known."""

    @property
    def size(self) -> None:
        return None

    @property
    @abstractmethod
    def decoded(self) -> int:
        """Stream offset up to which it was decompressed."""

    @property
    @abstractmethod
    def file_bytes_read(self) -> int:
        """Number of bytes of the stored file read so far."""


def read_bytes(source: ByteSource, offset: int, size: int) -> bytes:
    """Return up to ``size`` bytes at a stream offset; none at the end of the stream.

    There are fewer before the end of the stream, and before damage.
    """
    out = bytearray(size)
    return bytes(out[: source.read_into(offset, memoryview(out))])


def file_bytes_read(source: ByteSource, offset: int) -> int:
    """Return the number of bytes of the stored file that were read to reach a stream offset."""
    return source.file_bytes_read if isinstance(source, DecodedStream) else offset


def find_size(
    source: ByteSource, progress: Callable[[int], None] | None = None
) -> tuple[int, TorchRecIOError | None]:
    """Return the size of a stream, and the damage that ends it early, if any.

    A stream of unknown size is read to its end.

    Args:
        source: The stream.
        progress: Function that is called now and then with the number of bytes of the stored file
            read so far.
    """
    if not isinstance(source, DecodedStream):
        assert source.size is not None  # pipes have no index
        return source.size, None
    buffer = memoryview(bytearray(_READ_BYTES))
    try:
        while source.read_into(source.decoded, buffer):
            if progress is not None:
                progress(source.file_bytes_read)
    except TorchRecIOError as damage:
        return source.decoded, damage
    return source.decoded, None
