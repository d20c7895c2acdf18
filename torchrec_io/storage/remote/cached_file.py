"""Remote objects that are read through a cache."""

from __future__ import annotations

from ... import _core
from ..byte_source import ByteBuffer, Ints, Stamp
from ..cache.object_blocks import ObjectBlocks
from .options import RemoteOptions
from .remote_file import RemoteFile


class CachedFile(RemoteFile):
    """A remote object that is read through a cache.

    Blocks that are cached are read from the disk by this process. Others are fetched as without a
    cache, in whole blocks, by the helper process, which writes them to the cache.

    Args:
        url: Public URL.
        stamp: Stamp of the object as it was first seen.
        options: Options for remote objects.
        blocks: Blocks of the object in the cache.
    """

    def __init__(
        self, url: str, stamp: Stamp, options: RemoteOptions, blocks: ObjectBlocks
    ) -> None:
        super().__init__(url, stamp, options, blocks)
        self._cached = blocks

    def drop_kept(self, ranges: Ints) -> bool:
        self._cached.discard(_core.block_numbers(ranges, self._cached.block_bytes))
        return True

    def _read(self, ranges: Ints, out: ByteBuffer) -> None:
        missing = self._cached.read(ranges, out)
        if len(missing):
            super()._read(ranges[missing], out)
