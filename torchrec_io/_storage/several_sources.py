"""Reading of several byte sources together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from .. import _core
from .byte_source import ByteBuffer, ByteSource, Ints
from .thread_pool import REMOTE_THREADS, map_in_threads


def descriptors_of(sources: Sequence[ByteSource]) -> list[int] | None:
    """Return the descriptors of sources, or None if one of them has no descriptor."""
    found = [descriptor for source in sources if (descriptor := source.descriptor) is not None]
    return found if len(found) == len(sources) else None


def find_changed(sources: Iterable[ByteSource]) -> ByteSource | None:
    """Return the first source whose stored file was changed in place since it was opened."""
    watched = [(each.file_watch, each) for each in sources if each.file_watch is not None]
    number = _core.find_changed_file([watch for watch, _ in watched])
    return None if number is None else watched[number][1]


def read_ranges(
    sources: Sequence[ByteSource], bounds: Sequence[int], ranges: Ints, out: ByteBuffer
) -> int | None:
    """Read ranges of several sources, in one native call if all are local files.

    Args:
        sources: Sources to read.
        bounds: Numbers of the first range of each source, and the number of ranges;
            ``[sources + 1]``.
        ranges: int64 ``[n, 3]``: stream offset, size, and offset in ``out``.
        out: Buffer; uint8.

    Returns:
        Number of the range that extends past the end of its source; None if there is none.
    """
    descriptors = descriptors_of(sources)
    if descriptors is not None:
        return _core.read_ranges(descriptors, bounds, ranges, out)

    def read(number: int) -> int | None:
        begin, end = bounds[number : number + 2]
        found = sources[number].read_ranges(ranges[begin:end], out)
        return None if found is None else begin + found

    if len(sources) == 1:
        return read(0)
    numbers = map_in_threads(read, range(len(sources)), min(len(sources), REMOTE_THREADS))
    return next((number for number in numbers if number is not None), None)
