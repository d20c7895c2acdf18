"""The blocks of one object in a cache: a remote object, or the content of a compressed file."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ... import _core
from ..byte_source import ByteBuffer, Ints, Stamp
from ..digest import digest_text
from ..remote.messages import is_strong
from ..remote.options import RemoteOptions
from ..remote.urls import OBJECT_STORES, scheme_of
from .block_file import CachedBlock
from .folder import CacheFolder, Claim, log_unwritable, reason_of

if TYPE_CHECKING:
    from .block_cache import BlockCache

# A time of the last change identifies content once it is this old: it may have a resolution of
# seconds, and an object may be replaced twice within one.
_SECONDS_UNTIL_SURE = 60


class ObjectBlocks(NamedTuple):
    """The blocks of an object in a cache.

    Blocks of remote objects have one size, except the last. Those of compressed files are decoded
    chunks. Safe to use from several threads, and after a fork.

    Attributes:
        folder: Folder of the cache.
        block_bytes: Size of a block; 0 if blocks have different sizes.
        digest: Digest of all that identifies the content of the object, and the bounds.
        size: Size of the object in bytes.
        bounds: Offset of each block, and the end of the last one, if blocks have different sizes.
    """

    folder: CacheFolder
    block_bytes: int
    digest: str
    size: int
    bounds: Sequence[int] = ()

    @property
    def directory(self) -> str:
        """Path of the folder."""
        return self.folder.path

    def name(self, number: int) -> str:
        """Return the name of a block."""
        return f"{self.digest}-{number:x}"

    def size_of(self, number: int) -> int:
        """Return the size of a block."""
        if self.bounds:
            return self.bounds[number + 1] - self.bounds[number]
        return min(self.block_bytes, self.size - number * self.block_bytes)

    def open(self, number: int) -> CachedBlock | None:
        """Open a block; return None if it is not cached."""
        return self.folder.open(self.name(number), self.size_of(number))

    def has(self, number: int) -> bool:
        """Return whether a block is cached."""
        return self.open(number) is not None

    def claim_missing(self, numbers: Iterable[int], most: int) -> dict[int, Claim]:
        """Claim blocks that are not cached; return the claims by the numbers of the blocks.

        Args:
            numbers: Numbers of blocks.
            most: Largest number of claims.

        Raises:
            OSError: If the folder cannot be used.
        """
        claims: dict[int, Claim] = {}
        try:
            for number in numbers:
                claim = self.folder.claim(self.name(number))
                if claim is not None:
                    claims[number] = claim
                    if self.has(number):  # another process has stored it meanwhile
                        claims.pop(number).abandon()
                if len(claims) == most:
                    break
        except BaseException:
            for claim in claims.values():
                claim.abandon()
            raise
        return claims

    def discard(self, numbers: Iterable[int]) -> bool:
        """Remove blocks from the cache; return whether one of them is gone."""
        is_gone = False
        for number in numbers:
            is_gone |= self.folder.remove(self.folder.block_path(self.name(number)))
        return is_gone

    def load(self, number: int) -> ByteBuffer | None:
        """Return a whole block; None if it is not cached. A damaged one is removed."""
        block = self.open(number)
        if block is None:
            return None
        data = block.read()
        if data is None:
            self.discard([number])
        return data

    def store(self, number: int, data: ByteBuffer) -> None:
        """Store a block, unless a process has stored it, or does."""
        try:
            for claim in self.claim_missing([number], 1).values():
                claim.publish(data.data)
        except OSError as error:
            log_unwritable(self.directory, reason_of(error))

    def read(self, ranges: Ints, out: ByteBuffer) -> Ints:
        """Read the ranges whose blocks are all cached; return the numbers of the ranges not read.

        Damaged blocks are removed.

        Args:
            ranges: int64 ``[n, 3]``: offset, size, and offset in ``out``.
            out: Buffer; uint8.
        """
        size = self.block_bytes
        opened = {number: self.open(number) for number in _core.block_numbers(ranges, size)}
        blocks = {number: block for number, block in opened.items() if block is not None}
        lost = opened.keys() - blocks.keys()
        whole = np.delete(ranges, self._ranges_of(lost, ranges), axis=0)
        read = _core.block_numbers(whole, size)
        failed = _core.read_blocks([blocks[number].file for number in read], whole, size, out)
        damaged = [read[position] for position in failed]
        self.discard(damaged)
        return self._ranges_of(lost.union(damaged), ranges)

    def _ranges_of(self, numbers: Iterable[int], ranges: Ints) -> Ints:
        """Return the numbers of the ranges that have bytes in one of some blocks."""
        wanted = np.sort(np.fromiter(numbers, np.int64))
        first = ranges[:, 0] // self.block_bytes
        end = -(-ranges[:, :2].sum(axis=1) // self.block_bytes)
        has_block = np.searchsorted(wanted, first) < np.searchsorted(wanted, end)
        return np.flatnonzero(has_block & (ranges[:, 1] > 0))


def remote_blocks(
    cache: BlockCache, url: str, stamp: Stamp, options: RemoteOptions
) -> ObjectBlocks | None:
    """Return the blocks of a remote object; None if its content has no identity."""
    identity = identity_of(url, stamp, options, cache.block_bytes)
    if identity is None:
        return None
    folder = CacheFolder(cache.directory, cache.max_bytes)
    return ObjectBlocks(folder, cache.block_bytes, identity, stamp.size)


def chunk_blocks(cache: BlockCache, identity: str, starts: Ints) -> ObjectBlocks:
    """Return the blocks of the decoded chunks of a compressed file.

    Args:
        cache: The cache.
        identity: Text that identifies the content of the file.
        starts: Offset of each chunk, and the end of the last one; int64 ``[chunks + 1]``.
    """
    folder = CacheFolder(cache.directory, cache.max_bytes)
    digest, bounds = digest_text(identity, starts.data, size=16), starts.tolist()
    return ObjectBlocks(folder, 0, digest, bounds[-1], bounds)


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
