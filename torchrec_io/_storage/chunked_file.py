"""Random access to a stream that is kept in memory in chunks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from .. import _core
from ..errors import TorchRecIOError
from .byte_source import ByteBuffer, ByteSource, Ints
from .chunk_cache import Chunk, ChunkCache

if TYPE_CHECKING:
    from .compressed_chunks import CompressedChunks


class ChunkedFile(ByteSource):
    """The decompressed stream of a compressed file, readable at any offset.

    Args:
        file: Compressed file.
        stream: Its chunks.
        cache: Cache that keeps them.
    """

    def __init__(self, file: ByteSource, stream: CompressedChunks, cache: ChunkCache) -> None:
        self.path = file.path
        self.stamp = file.stamp
        self.file_watch = file.file_watch
        self.is_pinned = file.is_pinned
        self._file = file
        self._stream = stream
        self._cache = cache
        # What identifies the chunks, also for another object that reads them.
        self._identity = (file.path, file.stamp, stream.starts.tobytes())
        # For damaged chunks, offset in the chunk up to which it may be read all the same.
        self._trusted: dict[int, int] = {}

    @property
    def size(self) -> int:
        return int(self._stream.starts[-1])

    def read_into(self, offset: int, out: memoryview) -> int:
        got, damage = self.read_before_damage(offset, out)
        if damage is not None:
            raise damage
        return got

    def read_before_damage(
        self, offset: int, out: memoryview
    ) -> tuple[int, TorchRecIOError | None]:
        size = max(0, min(len(out), self.size - offset))
        buffer = np.frombuffer(out, np.uint8)
        done = 0
        while done < size:
            number = self._number_at(offset + done)
            begin = offset + done - int(self._stream.starts[number])
            end = min(begin + size - done, self._stream.size_of(number))
            chunk = self._load(number, end)
            data = self._valid(number, chunk)[begin:end]
            buffer[done : done + len(data)] = data
            done += len(data)
            if len(data) < end - begin:
                return done, chunk.damage
        return done, None

    def read_ranges(self, ranges: Ints, out: ByteBuffer) -> int | None:
        is_outside = ranges[:, 0] + ranges[:, 1] > self.size
        if is_outside.any():
            return int(is_outside.argmax())
        for number, parts in self._split(ranges):
            end = int((parts[:, 0] + parts[:, 1]).max())
            chunk = self._load(number, end)
            data = self._valid(number, chunk)
            if len(data) < end:
                assert chunk.damage is not None
                raise chunk.damage
            _core.gather(data, parts, out)
        return None

    def split(self, ranges: Ints) -> Iterator[Ints]:
        """Cut ranges at the bounds of chunks; yield the parts in each chunk, one array for each.

        Args:
            ranges: int64 ``[n, 3]``, as for :meth:`read_ranges`.
        """
        for number, parts in self._split(ranges):
            parts[:, 0] += self._stream.starts[number]
            yield parts

    def ends(self) -> bool:
        """Return whether the stream ends where it did when it was indexed."""
        return self._stream.ends(self._file)

    def damaged_chunk(self, offset: int) -> tuple[int, ByteBuffer] | None:
        """Return the decoded bytes of the chunk around an offset; None if it is not damaged.

        Returns:
            Stream offset of the chunk, and bytes of which some may be wrong.
        """
        number = self._number_at(offset)
        chunk = self._load(number, self._stream.size_of(number))
        if chunk.damage is None or number in self._trusted:
            return None
        return int(self._stream.starts[number]), chunk.decoded

    def trust(self, begin: int, end: int) -> None:
        """Allow reading the damaged chunk that begins at an offset up to another offset."""
        self._trusted[self._number_at(begin)] = end - begin

    def drop_kept(self, ranges: Ints) -> bool:
        numbers = [number for number, _ in self._split(ranges)]
        if not self._stream.drop_kept(self._file, numbers):
            return False  # a file on the disk has the same damage, which takes long to find
        for number in numbers:
            self._cache.drop((self._identity, number))
        return True

    def close(self) -> None:
        self._file.close()
        self.file_watch = None

    def _load(self, number: int, end: int) -> Chunk:
        key = self._identity, number
        return self._cache.get(key, end, lambda: self._stream.load(self._file, number, end))

    def _valid(self, number: int, chunk: Chunk) -> ByteBuffer:
        """Return the bytes of a chunk that may be read."""
        return chunk.decoded[: max(len(chunk.data), self._trusted.get(number, 0))]

    def _number_at(self, offset: int) -> int:
        """Return the number of the chunk around an offset; the last one at the end."""
        number = int(np.searchsorted(self._stream.starts, offset, side="right")) - 1
        return min(number, self._stream.count - 1)

    def _split(self, ranges: Ints) -> Iterator[tuple[int, Ints]]:
        """Yield the numbers of chunks, and the parts of ranges in them, as offsets in the chunk."""
        starts = self._stream.starts
        ranges = ranges[ranges[:, 1] > 0]
        if not len(ranges):
            return
        ends = ranges[:, 0] + ranges[:, 1]
        first = np.searchsorted(starts, ranges[:, 0], side="right") - 1
        last = np.searchsorted(starts, ends, side="left") - 1
        counts = last - first + 1
        rows = np.repeat(np.arange(len(ranges)), counts)
        numbers = first[rows] + np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]
        begins = np.maximum(starts[numbers], ranges[rows, 0])
        sizes = np.minimum(starts[numbers + 1], ends[rows]) - begins
        targets = ranges[rows, 2] + begins - ranges[rows, 0]
        parts = np.column_stack([begins - starts[numbers], sizes, targets])
        order = np.argsort(numbers, kind="stable")
        found, firsts = np.unique(numbers[order], return_index=True)
        for number, group in zip(found.tolist(), np.split(order, firsts[1:]), strict=True):
            yield number, parts[group]
