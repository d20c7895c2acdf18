"""Files that are read in chunks, which are kept in memory and, with a cache, on the local disk."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from .. import _core
from .byte_source import ByteBuffer, ByteSource, Ints
from .chunk_cache import Chunk, ChunkCache
from .remote.ranges import cut_ranges
from .stamp import Stamp

if TYPE_CHECKING:
    from .cache.stored_chunks import StoredChunks


class ChunkedFile(ByteSource):
    """A stream of known size that is cut into chunks at known bounds.

    A kind of file says how a chunk is loaded, in :meth:`load`. If several threads want a chunk, one
    of them loads it. With a cache on the local disk, one process does.

    Args:
        path: Name of the stored file.
        stamp: Stamp of the stored file.
        starts: Offset of each chunk, and the size of the stream; int64 ``[chunks + 1]``.
        identity: Value that identifies the content and the chunks, also for another object that
            reads them.
        cache: Cache that keeps chunks in memory.
        stored: Chunks on the local disk, if they are kept there.

    Attributes:
        starts: Offset of each chunk, and the size of the stream; int64 ``[chunks + 1]``.
        count: Number of chunks.
        stored: Chunks on the local disk, if they are kept there.
    """

    def __init__(
        self,
        path: str,
        stamp: Stamp,
        starts: Ints,
        identity: Hashable,
        *,
        cache: ChunkCache,
        stored: StoredChunks | None = None,
    ) -> None:
        self.path = path
        self.stamp = stamp
        self.starts = starts
        self.count: int = len(starts) - 1
        self.stored = stored
        self._identity = identity
        self._cache = cache
        self._bounds = np.column_stack([starts[:-1], starts[1:]])

    @abstractmethod
    def load(self, number: int, size: int) -> Chunk:
        """Load a chunk from the stored file.

        Args:
            number: Number of the chunk.
            size: Number of its first bytes that are wanted.

        Returns:
            At least these bytes, or all before damage.

        Raises:
            OSError: If the file cannot be read.
        """

    @property
    def size(self) -> int:
        return int(self.starts[-1])

    def size_of(self, number: int) -> int:
        """Return the size of a chunk in bytes."""
        return int(self.starts[number + 1] - self.starts[number])

    def read_into(self, offset: int, out: memoryview) -> int:
        size = max(0, min(len(out), self.size - offset))
        buffer = np.frombuffer(out, np.uint8)
        for chunk, parts in self._chunks(self._split(np.array([(offset, size, 0)]))):
            begin, wanted, target = parts[0].tolist()
            data = chunk.data[begin : begin + wanted]
            buffer[target : target + len(data)] = data
            if len(data) < wanted:
                if chunk.damage is not None and target + len(data) == 0:
                    raise chunk.damage
                return int(target) + len(data)
        return size

    def read_ranges(self, ranges: Ints, out: ByteBuffer) -> int | None:
        is_outside = ranges[:, 0] + ranges[:, 1] > self.size
        if is_outside.any():
            return int(is_outside.argmax())
        self._gather(self._split(ranges), out)
        return None

    def _gather(self, split: Iterable[tuple[int, Ints]], out: ByteBuffer) -> None:
        """Copy parts of chunks into a buffer."""
        for chunk, parts in self._chunks(split):
            if chunk.damage is not None and len(chunk.data) < _end_of(parts):
                raise chunk.damage
            _core.gather(chunk.data, parts, out)

    def drop_kept(self, ranges: Ints) -> bool:
        for number, _ in self._split(ranges):
            if self.stored is not None:
                self.stored.discard(number)
            self._cache.drop((self._identity, number))
        return True

    def _chunks(self, split: Iterable[tuple[int, Ints]]) -> Iterator[tuple[Chunk, Ints]]:
        """Yield chunks with the parts of ranges in them, by the numbers of the chunks."""
        split = [*split]
        numbers = [number for number, _ in split]
        for position, (number, parts) in enumerate(split):
            self._prefetch(numbers[position:])
            yield self._chunk(number, _end_of(parts)), parts

    def _prefetch(self, numbers: list[int]) -> None:
        """Let threads load chunks that are read next, after the first one."""

    def _chunk(self, number: int, size: int) -> Chunk:
        """Return at least the first bytes of a chunk, or all before damage."""
        return self._cache.get((self._identity, number), size, lambda: self._read(number, size))

    def _read(self, number: int, size: int) -> Chunk:
        """Return a chunk from the local disk, or load it."""
        stored, whole = self.stored, self.size_of(number)
        if stored is None:
            return self.load(number, size)
        data = stored.load(number, whole)
        if data is None:
            with stored.locked(number):
                data = stored.load(number, whole)  # another process may have stored it by now
                if data is None:
                    chunk = self.load(number, whole)
                    if chunk.damage is None:
                        stored.store(number, chunk.data)
                    return chunk
        return Chunk(data, None)

    def _split(self, ranges: Ints) -> Iterator[tuple[int, Ints]]:
        """Yield the numbers of chunks, and the parts of ranges in them, as offsets in the chunk."""
        numbers, parts = cut_ranges(self._bounds, ranges[ranges[:, 1] > 0])
        order = np.argsort(numbers, kind="stable")
        found, firsts = np.unique(numbers[order], return_index=True)
        for number, group in zip(found.tolist(), np.split(order, firsts)[1:], strict=True):
            yield number, parts[group]


def _end_of(parts: Ints) -> int:
    """Return the end of the last part in a chunk."""
    return int((parts[:, 0] + parts[:, 1]).max())
