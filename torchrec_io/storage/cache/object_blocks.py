"""The blocks of one object."""

from __future__ import annotations

import time
from typing import NamedTuple

from ..byte_source import Stamp
from ..digest import digest_text
from ..remote.messages import is_strong
from ..remote.options import RemoteOptions
from ..remote.urls import OBJECT_STORES, scheme_of
from .folder import CacheFolder, cache_folder_at

# A time of the last change identifies content once it is this old: it may have a resolution of
# seconds, and an object may be replaced twice within one.
_SECONDS_UNTIL_SURE = 60


class ObjectBlocks(NamedTuple):
    """The blocks of an object in a cache. All have one size, except the last.

    Attributes:
        directory: Folder of the cache.
        max_bytes: Largest size of the cache.
        block_bytes: Size of a block.
        digest: Digest of the identity of the object.
        size: Size of the object in bytes.
    """

    directory: str
    max_bytes: int
    block_bytes: int
    digest: str
    size: int

    @property
    def folder(self) -> CacheFolder:
        """The folder of the cache."""
        return cache_folder_at(self.directory, self.max_bytes)

    def name(self, number: int) -> str:
        """Return the name of a block."""
        return f"{self.digest}-{number:x}"

    def size_of(self, number: int) -> int:
        """Return the size of a block."""
        return min(self.block_bytes, self.size - number * self.block_bytes)


def identity_of(url: str, stamp: Stamp, options: RemoteOptions, block_bytes: int) -> str | None:
    """Return a digest of all that identifies the content of an object, without secrets.

    Args:
        url: Public URL.
        stamp: Stamp of the object.
        options: Options of the access.
        block_bytes: Size of the blocks.

    Returns:
        None if it has no identity that is sure to change with its content.
    """
    etag, version = map(str, stamp.file)
    seconds = stamp.mtime_ns // 1_000_000_000
    if not is_strong(etag) and not version:
        if not seconds or time.time() - seconds < _SECONDS_UNTIL_SURE:
            return None
        version = str(stamp.mtime_ns)
    scheme = scheme_of(url)
    where = options.place(scheme) if scheme in OBJECT_STORES else options.identity
    identity = (url, where, etag, version, stamp.size, block_bytes)
    return digest_text(repr(identity), size=16)
