"""Remote objects that are read through a cache."""

from __future__ import annotations

import time

import numpy as np

from ... import _core
from ..byte_source import ByteBuffer, Ints, Stamp
from ..cache.folder import Claim, log_unwritable, reason_of
from ..cache.object_blocks import ObjectBlocks
from .options import RemoteOptions
from .ranges import RangeRequest, cut_at_blocks
from .remote_file import RemoteFile

# Blocks that one read claims at a time: each is an open file.
_MOST_CLAIMS = 16
_SECONDS_TO_WAIT = 0.02  # for blocks that others download
# Blocks that others have claimed for longer are downloaded without the cache: a process may be
# stopped.
_MOST_SECONDS = 60.0


class CachedFile(RemoteFile):
    """A remote object that is read through a cache.

    Blocks that are cached are read from the disk. Others are downloaded whole and stored, unless
    another thread or process does that.

    Args:
        url: Public URL.
        stamp: Stamp of the object as it was first seen.
        options: Options for remote objects.
        blocks: Blocks of the object in the cache.
    """

    def __init__(
        self, url: str, stamp: Stamp, options: RemoteOptions, blocks: ObjectBlocks
    ) -> None:
        super().__init__(url, stamp, options)
        self._blocks = blocks

    def drop_kept(self, ranges: Ints) -> bool:
        self._blocks.discard(_core.block_numbers(ranges, self._blocks.block_bytes))
        return True

    def _read(self, ranges: Ints, out: ByteBuffer) -> None:
        missing = self._blocks.read(ranges, out)
        if len(missing):
            self._read_missing(cut_at_blocks(ranges[missing], self._blocks.block_bytes), out)

    def _read_missing(self, ranges: Ints, out: ByteBuffer) -> None:
        """Read ranges that lie in one block each.

        This never waits for others while it has claims, so readers do not wait for each other in a
        circle.
        """
        last_progress = time.monotonic()
        while len(ranges) and time.monotonic() < last_progress + _MOST_SECONDS:
            numbers = ranges[:, 0] // self._blocks.block_bytes
            try:
                claims = self._blocks.claim_missing(np.unique(numbers).tolist(), _MOST_CLAIMS)
            except OSError as error:
                log_unwritable(self._blocks.directory, reason_of(error))
                break
            is_claimed = np.isin(numbers, [*claims])
            try:
                self._download(ranges[is_claimed], out, claims)
            finally:
                for claim in claims.values():
                    claim.abandon()
            left = ranges[~is_claimed]
            left = left[self._blocks.read(left, out)]
            if len(left) < len(ranges):
                last_progress = time.monotonic()
            else:
                time.sleep(_SECONDS_TO_WAIT)
            ranges = left
        if len(ranges):
            super()._read(ranges, out)

    def _download(self, ranges: Ints, out: ByteBuffer, claims: dict[int, Claim]) -> None:
        """Download the blocks of ranges, and store each when it arrives.

        Args:
            ranges: int64 ``[n, 3]``: offset, size, and offset in ``out``.
            out: Buffer; uint8.
            claims: Claims of the blocks, by their numbers. Those of stored ones are removed.
        """
        size = self._blocks.block_bytes

        def take(request: RangeRequest, data: ByteBuffer) -> None:
            _core.gather(data, request.copies, out)
            try:
                for at in range(0, request.size, size):
                    claim = claims.pop((request.begin + at) // size, None)
                    if claim is not None:  # else it was stored before the helper ended
                        claim.publish(data[at : at + size].data)
            except OSError as error:
                log_unwritable(self._blocks.directory, reason_of(error))

        self._fetch(ranges, self._blocks, take)
