"""Remote objects that are read through a cache."""

from __future__ import annotations

import time

import numpy as np

from ... import _core
from ..byte_source import ByteBuffer, Ints, Stamp
from ..cache.folder import Claim, log_unwritable, reason_of
from ..cache.object_blocks import ObjectBlocks
from .options import RemoteOptions
from .ranges import cut_at_blocks
from .remote_file import RemoteFile

# Blocks that one read claims at a time: each is an open file.
_MOST_CLAIMS = 16
_PARTS_OF_MEMORY = 4  # one of which is for the blocks that one read downloads at a time
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
        self._gap_bytes = 0  # blocks between others may be there already
        room = options.fetch_bytes // _PARTS_OF_MEMORY // blocks.block_bytes
        self._most_claims = min(_MOST_CLAIMS, max(1, room))

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
                claims = self._blocks.claim_missing(np.unique(numbers).tolist(), self._most_claims)
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
            self._fetch(ranges, out)

    def _download(self, ranges: Ints, out: ByteBuffer, claims: dict[int, Claim]) -> None:
        """Download blocks, copy ranges of them, and store them.

        Args:
            ranges: int64 ``[n, 3]``: offset, size, and offset in ``out``.
            out: Buffer; uint8.
            claims: Claims of the blocks, by their numbers, ascending. Those of stored ones are
                removed.
        """
        if not claims:
            return
        size, numbers = self._blocks.block_bytes, np.array([*claims])
        begins = numbers * size
        sizes = np.minimum(size, self.size - begins)
        starts = np.arange(len(claims)) * size  # in memory
        data = np.empty(len(claims) * size, np.uint8)
        self._fetch(np.column_stack([begins, sizes, starts]), data)
        rows = np.searchsorted(begins, ranges[:, 0], side="right") - 1
        offsets = starts[rows] + ranges[:, 0] - begins[rows]
        _core.gather(data, np.column_stack([offsets, ranges[:, 1], ranges[:, 2]]), out)
        try:
            for number, block in zip([*claims], np.split(data, starts[1:]), strict=True):
                claims.pop(number).publish(block[: self.size - number * size].data)
        except OSError as error:
            log_unwritable(self._blocks.directory, reason_of(error))
