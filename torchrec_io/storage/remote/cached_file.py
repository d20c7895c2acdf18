"""Remote objects that are read through a cache."""

from __future__ import annotations

import numpy as np

from ..byte_source import ByteBuffer, Ints, Stamp
from ..cache.object_blocks import ObjectBlocks
from ..cache.open_blocks import OpenBlocks
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
        self._cached = OpenBlocks(blocks)
        # Ranges that are being fetched, or are in memory, as offset and size. Changed without a
        # lock: if one is missing here, it is read from the disk or fetched again.
        self._announced: set[tuple[int, int]] = set()

    def will_need(self, ranges: Ints) -> None:
        missing = ranges[self._cached.missing(ranges, advise=True)]
        if len(missing):
            self._announced.update(_keys(missing))
            super().will_need(missing)

    def _will_not_need(self, ranges: Ints) -> None:
        announced = ranges[self._find_announced(ranges)]
        if len(announced):
            self._announced.difference_update(_keys(announced))
            super()._will_not_need(announced)

    def _begin_urgent(self, ranges: Ints) -> None:
        missing = ranges[np.append(self._cached.missing(ranges), self._find_announced(ranges))]
        if len(missing):
            self._announced.update(_keys(missing))
            super()._begin_urgent(missing)

    def _read(self, ranges: Ints, out: ByteBuffer) -> None:
        announced = self._find_announced(ranges)
        rest = ranges[announced]
        if len(announced) < len(ranges):
            from_disk = np.delete(ranges, announced, axis=0) if len(announced) else ranges
            rest = np.concatenate((rest, from_disk[self._cached.read(from_disk, out)]))
        if len(rest):
            self._announced.difference_update(_keys(rest))
            super()._read(rest, out)

    def _find_announced(self, ranges: Ints) -> Ints:
        """Return the numbers of the ranges that are being fetched, or are in memory."""
        if not self._announced:
            return np.empty(0, np.int64)
        return np.array(
            [number for number, key in enumerate(_keys(ranges)) if key in self._announced], np.int64
        )


def _keys(ranges: Ints) -> list[tuple[int, int]]:
    return [(offset, size) for offset, size, _ in ranges.tolist()]
