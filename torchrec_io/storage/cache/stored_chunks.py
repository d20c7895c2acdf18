"""Decoded chunks of a compressed file in a cache on the local disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..byte_source import ByteBuffer, Ints, Stamp
from ..digest import digest_text
from .block_table import BlockTable
from .filling import log_trouble, reason_of
from .folder import CacheFolder, CacheFullError, cache_folder_at
from .object_blocks import identity_of

if TYPE_CHECKING:
    from ..location import Location
    from .block_cache import BlockCache


class ChunkBlocks(NamedTuple):
    """Names and sizes of the blocks of a file: one for each chunk.

    Attributes:
        folder: Folder of the cache.
        digest: Digest of all that identifies the content of the file, and of its seek points.
        sizes: Size of each chunk in bytes.
    """

    folder: CacheFolder
    digest: str
    sizes: list[int]

    def name(self, number: int) -> str:
        """Return the name of a block."""
        return f"{self.digest}-{number:x}"

    def size_of(self, number: int) -> int:
        """Return the size of a block."""
        return self.sizes[number]


class StoredChunks:
    """The chunks of a file that are stored. Safe to use from several threads, and after a fork.

    Args:
        cache: The cache.
        digest: Digest of all that identifies the content of the file, and of its seek points.
        starts: Offset of each chunk, and the end of the last one; int64 ``[chunks + 1]``.
    """

    def __init__(self, cache: BlockCache, digest: str, starts: Ints) -> None:
        folder = cache_folder_at(cache.directory, cache.max_bytes)
        self._blocks = ChunkBlocks(folder, digest, (starts[1:] - starts[:-1]).tolist())
        self._table = BlockTable(self._blocks)
        self._unusable: set[int] = set()  # damaged blocks of other users, which stay

    def has(self, number: int) -> bool:
        """Return whether a chunk is stored."""
        return number not in self._unusable and self._table.find([number]) != [None]

    def load(self, number: int) -> ByteBuffer | None:
        """Return a chunk; None if it is not stored, or damaged."""
        [block] = self._table.find([number])
        if block is None or number in self._unusable:
            return None
        data = np.empty(block.size, np.uint8)
        if block.read(data):
            return data
        if not self._table.discard(block):
            self._unusable.add(number)
        return None

    def discard(self, numbers: Sequence[int]) -> bool:
        """Remove chunks from the disk; return whether there were some."""
        found = [block for block in self._table.find([*numbers]) if block is not None]
        for block in found:
            self._table.discard(block)
        return bool(found)

    def store(self, number: int, data: ByteBuffer) -> None:
        """Store a chunk, unless a process has stored it, or does, or there is no room."""
        try:
            claim = self._blocks.folder.claim(self._blocks.name(number), len(data))
            if claim is not None:
                claim.publish(data.data)
        except CacheFullError:
            pass
        except OSError as error:
            log_trouble(self._blocks.folder.path, reason_of(error))


def stored_chunks(
    cache: BlockCache, location: Location, stamp: Stamp, starts: Ints
) -> StoredChunks | None:
    """Return the chunks of a compressed file in a cache.

    Args:
        cache: The cache.
        location: Where the file is.
        stamp: Stamp of the file.
        starts: Offset of each chunk, and the end of the last one; int64 ``[chunks + 1]``.

    Returns:
        None if the file is a remote object whose content has no identity.
    """
    identity: str | None
    if location.options is None:
        identity = repr((location.identity, stamp))
    else:
        identity = identity_of(location.name, stamp, location.options, 0)
    if identity is None:
        return None
    return StoredChunks(cache, digest_text(identity, starts.data, size=16), starts)
