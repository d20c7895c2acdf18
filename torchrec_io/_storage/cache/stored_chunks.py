"""The chunks of one file in a cache on the local disk."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ... import _core
from ..byte_source import ByteBuffer, Ints
from ..digest import digest_text
from .folder import CacheFolder

if TYPE_CHECKING:
    from .block_cache import BlockCache


class StoredChunks(NamedTuple):
    """The chunks of a file on the local disk. Each of them is a block of the cache.

    Safe to use from several threads and processes, and after a fork.

    Attributes:
        folder: Folder of the cache.
        digest: Digest of all that identifies the content of the file, and the bounds of the chunks.
    """

    folder: CacheFolder
    digest: str

    @classmethod
    def of(cls, cache: BlockCache, identity: str, starts: Ints) -> StoredChunks:
        """Return the chunks of a file.

        Args:
            cache: The cache.
            identity: Text that identifies the content of the file.
            starts: Offset of each chunk, and the end of the last one; int64 ``[chunks + 1]``.
        """
        folder = CacheFolder(cache.directory, cache.max_bytes)
        return cls(folder, digest_text(identity, starts.data, size=16))

    def read(self, number: int, size: int, ranges: Ints, out: ByteBuffer) -> bool:
        """Read ranges of a chunk; return whether it is stored. A damaged one is removed.

        Args:
            number: Number of the chunk.
            size: Its size in bytes.
            ranges: int64 ``[n, 3]``: offset in the chunk, size, and offset in ``out``.
            out: Buffer; uint8.
        """
        return self.folder.read(self._name(number), size, ranges, out)

    def load(self, number: int, size: int) -> ByteBuffer | None:
        """Return a whole chunk; None if it is not stored. A damaged one is removed."""
        data = _core.allocate(size)
        return data if self.read(number, size, np.array([(0, size, 0)]), data) else None

    def store(self, number: int, data: ByteBuffer) -> None:
        """Store a chunk, if the folder can be written."""
        self.folder.store(self._name(number), data)

    def discard(self, number: int) -> None:
        """Remove a chunk."""
        self.folder.remove(self.folder.block_path(self._name(number)))

    def locked(self, number: int) -> AbstractContextManager[None]:
        """Return a context in which no other process loads a chunk, where the system can lock."""
        return self.folder.block_lock(self._name(number))

    def _name(self, number: int) -> str:
        return f"{self.digest}-{number:x}"
