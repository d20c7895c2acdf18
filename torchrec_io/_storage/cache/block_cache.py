"""The cache of remote objects, as users see it."""

from __future__ import annotations

import os

from ...checks import check_integer
from ..local import StrPath
from .folder import CacheFolder, CacheSummary

DEFAULT_BLOCK_BYTES = 1 << 20
_LEAST_BLOCK_BYTES = 1 << 16
_LEAST_BLOCKS = 4


class BlockCache:
    """A cache of remote objects, and of decompressed data, on the local disk.

    Pass it as ``cache=`` to a dataset. What is read from an object store or HTTP server is kept in
    blocks, and so are decompressed parts of compressed files, also of local ones. They are read
    from the disk the next time, by all processes and later runs on the machine that use the
    directory. Each block is downloaded once, by one process. Blocks that were not used
    for longest are removed first. A block belongs to one version of its object, and has checksums:
    a block that is stale or damaged is downloaded again. If the directory cannot be written, as on
    a full disk, data is read without the cache, and a warning is logged once.

    Args:
        directory: Folder of the cache. It is created for this user alone, because it has data that
            the store may protect. To share it among users, create it for a group that you trust.
        max_bytes: Largest size of the directory in bytes, however many processes write to it.
        block_bytes: Size of a block in bytes. Smaller blocks make random reads of a part of the
            data cheaper; larger ones make fewer files.

    Attributes:
        directory: Folder of the cache; an absolute path.
        max_bytes: Largest size of the directory in bytes.
        block_bytes: Size of a block in bytes.

    Raises:
        ValueError: If a size is too small, or ``directory`` is a file.
    """

    def __init__(
        self,
        directory: StrPath,
        *,
        max_bytes: int,
        block_bytes: int = DEFAULT_BLOCK_BYTES,
    ) -> None:
        self.directory: str = os.path.abspath(os.path.expanduser(os.fspath(directory)))
        self.block_bytes: int = check_integer("block_bytes", block_bytes, _LEAST_BLOCK_BYTES)
        self.max_bytes: int = check_integer("max_bytes", max_bytes, 1)
        least = _LEAST_BLOCKS * block_bytes + (1 << 18)
        if self.max_bytes < least:
            raise ValueError(
                f"max_bytes must be at least {least:,} with blocks of {block_bytes:,} bytes, got "
                f"{max_bytes:,}"
            )
        if os.path.exists(self.directory) and not os.path.isdir(self.directory):
            raise ValueError(f"directory must not be a file, got {self.directory!r}")

    def summary(self) -> CacheSummary:
        """Return the present size and content of the cache."""
        if not os.path.isdir(self.directory):
            return CacheSummary(self.directory, 0, None, 0, 0, None)
        return CacheFolder(self.directory, 0).summary()

    def clear(self) -> None:
        """Remove all blocks.

        Raises:
            OSError: If the directory cannot be written.
        """
        if os.path.isdir(self.directory):
            CacheFolder(self.directory, 0).clear()

    def __repr__(self) -> str:
        return (
            f"BlockCache({self.directory!r}, max_bytes={self.max_bytes}, "
            f"block_bytes={self.block_bytes})"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BlockCache):
            return NotImplemented
        return repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))
