"""Requests that fetch ranges of an object. Neighbors share a request where that costs less."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..byte_source import Ints

# The largest request. Larger ranges take several, which run at the same time.
MOST_PART_BYTES = 8 << 20
# Neighbors with at most this many bytes between them are read by one request, if that is little
# beside the largest one. Requests wait at the same time, and bytes share the network: so a request
# costs less than the time of its answer.
GAP_BYTES = 1 << 19
_LEAST_PARTS_OF_GAPS = 16
_LEAST_PARTS = 8  # of all memory


class RangeRequest(NamedTuple):
    """A request for consecutive bytes of an object.

    Attributes:
        begin: First byte.
        size: Size in bytes.
        copies: Pieces of them that are copied: offset in the request, size, and offset in the
            buffer of the reader; int64 ``[n, 3]``.
    """

    begin: int
    size: int
    copies: Ints


def plan_requests(ranges: Ints, fetch_bytes: int, gap: int) -> list[RangeRequest]:
    """Return the requests that fetch ranges of an object, in the order of its bytes.

    Args:
        ranges: int64 ``[n, 3]``: offset, size, and offset in a buffer.
        fetch_bytes: Size of the memory for ranges that are fetched, in bytes.
        gap: Largest number of bytes between neighbors that share a request.
    """
    ranges = ranges[ranges[:, 1] > 0]
    if not len(ranges):
        return []
    begins, ends = ranges[:, 0], ranges[:, 0] + ranges[:, 1]
    most = min(MOST_PART_BYTES, fetch_bytes // _LEAST_PARTS)
    gap = min(gap, most // _LEAST_PARTS_OF_GAPS)
    parts = _split(_joined(begins, ends, gap), most)
    numbers, copies = cut_ranges(parts, ranges)
    order = np.argsort(numbers, kind="stable")
    bounds = np.searchsorted(numbers[order], np.arange(1, len(parts)))
    return [
        RangeRequest(begin, end - begin, copies[rows])
        for (begin, end), rows in zip(parts.tolist(), np.split(order, bounds), strict=True)
    ]


def _joined(begins: Ints, ends: Ints, gap: int) -> Ints:
    """Return the begin and end of ascending parts that cover ranges; int64 ``[n, 2]``."""
    order = np.argsort(begins, kind="stable")
    begins, ends = begins[order], np.maximum.accumulate(ends[order])
    firsts = np.flatnonzero(np.append(True, begins[1:] > ends[:-1] + gap))
    lasts = np.append(firsts[1:], len(order)) - 1
    return np.column_stack([begins[firsts], ends[lasts]])


def _split(parts: Ints, most: int) -> Ints:
    """Split parts that are larger than a size."""
    counts = -(-(parts[:, 1] - parts[:, 0]) // most)
    rows = np.repeat(np.arange(len(parts)), counts)
    number = np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]
    begins = parts[rows, 0] + number * most
    return np.column_stack([begins, np.minimum(begins + most, parts[rows, 1])])


def cut_ranges(parts: Ints, ranges: Ints) -> tuple[Ints, Ints]:
    """Cut ranges at the bounds of parts.

    Args:
        parts: Begin and end of each part, ascending; int64 ``[m, 2]``.
        ranges: int64 ``[n, 3]``: offset, size of at least 1, and offset in a buffer.

    Returns:
        For each piece the number of its part, int64 ``[n]``; and its offset in the part, its size,
        and its offset in the buffer, int64 ``[n, 3]``.
    """
    begins, ends = ranges[:, 0], ranges[:, 0] + ranges[:, 1]
    first = np.searchsorted(parts[:, 0], begins, side="right") - 1
    last = np.searchsorted(parts[:, 0], ends, side="left") - 1
    counts = last - first + 1
    rows = np.repeat(np.arange(len(ranges)), counts)
    numbers = first[rows] + np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]
    starts = np.maximum(parts[numbers, 0], begins[rows])
    sizes = np.minimum(parts[numbers, 1], ends[rows]) - starts
    targets = ranges[rows, 2] + starts - begins[rows]
    return numbers, np.column_stack([starts - parts[numbers, 0], sizes, targets])
