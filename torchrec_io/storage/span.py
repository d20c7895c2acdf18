"""Spans: the parts of a decompressed stream between two seek points."""

from __future__ import annotations

import contextlib
import mmap
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from .. import _core
from ..errors import CorruptRecordError, TorchRecIOError, TruncatedFileError
from .byte_source import ByteBuffer, ByteSource, Ints
from .decoder import count_good_parts
from .inflater import Inflater
from .seek_points import CHECKED_BYTES

if TYPE_CHECKING:
    from .spanned_stream import SpannedStream

# Memory of at least this size is taken from the system, and not from a heap with holes.
_LEAST_MAPPED_BYTES = 1 << 15
_HUGE_PAGE_BYTES = 1 << 21
# Ranges that are noted before they are looked up among those that are read soon.
_MOST_FORGOTTEN = 64
# Ranges of a span: offset in the span, and size.
_NO_ROWS = np.empty((0, 2), np.int64)


class _Kept(NamedTuple):
    """The bytes of some ranges of a span.

    Attributes:
        rows: The ranges, ascending; int64 ``[n, 2]``.
        at: Offset of each range in the bytes; int64 ``[n]``.
        data: The bytes.
    """

    rows: Ints
    at: Ints
    data: ByteBuffer


_KEPT_NOTHING = _Kept(_NO_ROWS, np.empty(0, np.int64), np.empty(0, np.uint8))


class Span:
    """The part of a stream between two seek points, as far as it was decoded.

    All attributes are guarded by the lock of the cache; those of the decoder by ``is_busy``.

    Attributes:
        number: Number in the stream.
        start: Stream offset.
        size: Size in bytes.
        is_busy: True while a thread decodes it.
        damage: The error that ends what can be read, if it was reached.
        readers: Number of threads that read the data without the lock.
    """

    __slots__ = (
        "_data",
        "_decoded",
        "_forgotten",
        "_inflater",
        "_kept",
        "_left",
        "_sound",
        "_stream",
        "_trusted",
        "_wanted",
        "damage",
        "is_busy",
        "number",
        "readers",
        "size",
        "start",
    )

    def __init__(self, stream: SpannedStream, number: int) -> None:
        self.start = int(stream.starts[number])
        self.size = int(stream.starts[number + 1]) - self.start
        self.is_busy = False
        self.damage: TorchRecIOError | None = None
        self._stream = stream
        self.number = number
        self._data: ByteBuffer | None = None
        self._sound = 0  # bytes of the data that may be read
        self._trusted = 0  # bytes that may be read even if the span is damaged
        self._decoded = 0  # bytes of the data
        self._inflater: Inflater | None = None  # that continues after them, without its file
        self._wanted = _NO_ROWS  # ranges that are read soon, ascending
        self._kept = _KEPT_NOTHING  # ranges that are read soon, and were kept without the others
        self._forgotten: list[Ints] = []  # those of both that are not read soon anymore
        self._left = 0  # about how many others there are
        self.readers = 0

    # ---- what is read soon; the lock is held ----

    @property
    def is_wanted(self) -> bool:
        """True if parts of the span are read soon, and must be decoded for that."""
        return len(self._wanted) > 0 and self._data is None

    @property
    def _wanted_end(self) -> int:
        """Offset in the span up to which it is read soon, as far as it must be decoded for that."""
        return min(self.size, int(self._wanted.sum(axis=1).max(initial=0)))

    def want(self, ranges: Ints) -> None:
        """Note ranges that are read soon: int64 ``[n, 2]`` of offset in the span and size."""
        self._remove_forgotten()
        self._wanted = _sorted(np.concatenate([self._wanted, ranges]))
        self._left = len(self._wanted) + len(self._kept.rows)

    def forget(self, ranges: Ints) -> None:
        """Take back ranges, because they were read or are not needed."""
        if self._left:
            self._forgotten.append(ranges)
            self._left -= len(ranges)
            # Ranges may be read that were not announced, so the number may be too small.
            if self._left <= 0 or len(self._forgotten) == _MOST_FORGOTTEN:
                self._remove_forgotten()
        self._stream.drop_unused(self)

    def _remove_forgotten(self) -> None:
        if not self._forgotten:
            return
        forgotten = np.concatenate(self._forgotten)
        self._forgotten.clear()
        self._wanted = self._wanted[~_are_in(self._wanted, forgotten)]
        rows, at, data = self._kept
        if len(rows):
            left = ~_are_in(rows, forgotten)
            self._kept = _Kept(rows[left], at[left], data) if left.any() else _KEPT_NOTHING
            if not left.any():
                self._stream.cache.discard(self)
        self._left = len(self._wanted) + len(self._kept.rows)

    def _take_wanted(self) -> Ints:
        """Remove and return all ranges that are read soon."""
        self._remove_forgotten()
        rows = self._wanted
        if len(self._kept.rows):
            rows = _sorted(np.concatenate([rows, self._kept.rows]))
        self._wanted, self._kept, self._left = _NO_ROWS, _KEPT_NOTHING, 0
        return rows

    @property
    def is_unused(self) -> bool:
        """True if the span is as it was when it was made."""
        has_data = self._data is not None or self.damage is not None or self._trusted > 0
        return not (has_data or self._left or self.is_busy or self.readers)

    def evict(self) -> int:
        """Drop the data, except for what is read soon."""
        if self.is_busy and self._data is None:  # it is added again once it is decoded
            return 0
        kept = self._keep_wanted()
        self._stream.drop_unused(self)
        return kept

    def _keep_wanted(self) -> int:
        """Drop the data, but keep what is read soon; return the number of bytes of that."""
        data, self._data = self._data, None
        sound, self._sound = self._sound, 0
        self._inflater = self.damage = None
        rows = self._take_wanted()
        if data is None:
            return 0
        is_there = rows.sum(axis=1) <= sound
        self._wanted, rows = rows[~is_there], rows[is_there]
        self._left = len(self._wanted)
        if len(rows) == 0:
            self._recycle(data)
            return 0
        sizes = rows[:, 1]
        at = np.cumsum(sizes) - sizes
        try:
            kept = _allocate(int(sizes.sum()))
        except MemoryError:  # the span is decoded again when it is needed
            return 0
        _core.gather(data, np.column_stack([rows, at]), kept)
        self._recycle(data)
        self._kept = _Kept(rows, at, kept)
        self._left += len(rows)
        return len(kept)

    def _recycle(self, data: ByteBuffer) -> None:
        # Otherwise a thread may write to it, or read it.
        is_free = not self.is_busy and not self.readers
        if is_free and self.size >= _LEAST_MAPPED_BYTES:
            self._stream.cache.give_spare(data)

    # ---- reading; the lock is held ----

    def has(self, ranges: Ints) -> bool:
        """Return whether ranges are in memory."""
        return self.find(ranges) is not None

    def find(self, ranges: Ints) -> tuple[ByteBuffer, Ints] | None:
        """Return memory that has ranges. It may be read without the lock while readers are noted.

        Args:
            ranges: int64 ``[n, 3]``: offset in the span, size, and a number that stays.

        Returns:
            The memory, and the ranges with offsets in it; None if they are not in memory.
        """
        if self._data is not None:
            if int((ranges[:, 0] + ranges[:, 1]).max()) > self._sound:
                return None
            self._stream.cache.touch(self)
            return self._data, ranges
        rows, at, kept = self._kept
        found = np.searchsorted(rows[:, 0], ranges[:, 0])
        if found.max() >= len(rows) or (rows[found] != ranges[:, :2]).any():
            return None
        return kept, np.column_stack([at[found], ranges[:, 1:]])

    def find_range(self, offset: int, size: int) -> ByteBuffer | None:
        """Return the memory of one range like :meth:`find`; None also if only parts were kept."""
        if self._data is None or offset + size > self._sound:
            return None
        self._stream.cache.touch(self)
        return self._data[offset : offset + size]

    def available(self, offset: int) -> int:
        """Return the number of bytes that may be read from an offset in the span on."""
        return max(0, self._sound - offset) if self._data is not None else 0

    def unchecked(self) -> ByteBuffer:
        """Return all bytes that were decoded, of which some may be wrong."""
        return np.empty(0, np.uint8) if self._data is None else self._data[: self._decoded].copy()

    def trust(self, end: int) -> None:
        """Allow reading up to an offset in the span, although it is damaged."""
        self._trusted = max(self._trusted, end)
        self._sound = max(self._sound, min(end, self._decoded))

    # ---- decoding; without the lock, by the thread that has made the span busy ----

    def decode(self, file: ByteSource, end: int) -> None:
        """Decode up to an offset in the span at least, or up to damage."""
        stored = self._stream.stored
        # The rest of a remote span would have to be fetched again.
        if stored is not None or file.descriptor is None:
            end = self.size
        elif self.is_wanted:
            # Where the next span has no seek point, its decoder comes from the end of this one.
            is_alone = self._stream.begins_at_point(self.number + 1)
            end = max(end, self._wanted_end if is_alone else self.size)
        data, begin, inflater = self._take_data()
        target = min(self.size, begin - (begin - end) // CHECKED_BYTES * CHECKED_BYTES)
        decoded = begin
        damage: TorchRecIOError | None = None
        try:
            inflater = self._stream.start_inflater(file, self.number, target, inflater)
            while decoded < target and (size := inflater.read_into(data[decoded:target])):
                decoded += size
        except TorchRecIOError as error:
            damage = _as_damage(error)
        sound, decoded, damage = self._check(data, begin, decoded, target, damage)
        if inflater is not None and damage is None:
            self._keep_inflater(inflater, decoded)
        with self._stream.cache.lock:
            if damage is not None:
                sound = max(sound, min(self._trusted, decoded))
            self._data, self._decoded, self._sound, self.damage = data, decoded, sound, damage
            self._wanted = self._take_wanted()  # all of these are in the data now
            self._left = len(self._wanted)
            self._stream.cache.add(self, self.size)
        is_whole = damage is None and decoded == self.size
        if stored is not None and is_whole and self._stream.has_sound_end(self.number):
            stored.store(self.number, data)

    def _take_data(self) -> tuple[ByteBuffer, int, Inflater | None]:
        """Return memory for the span, the size of what it has, and the decoder after that."""
        cache = self._stream.cache
        with cache.lock:
            data, decoded = self._data, self._decoded
            inflater, self._inflater = self._inflater, None  # it is of no use if decoding fails
            cache.add(self, self.size)  # evicts others before memory is taken
            if data is not None and inflater is not None:
                return data, decoded, inflater
            spare = None if data is not None else cache.take_spare(self.size)
        return (_allocate(self.size) if spare is None else spare[: self.size]), 0, None

    def _keep_inflater(self, inflater: Inflater, decoded: int) -> None:
        """Keep a decoder for what follows the decoded bytes, without its file."""
        is_whole = decoded == self.size
        if is_whole:
            self._stream.note_end(self.number, inflater)
        inflater.detach()  # the file may be closed before the next read
        with self._stream.cache.lock:
            if is_whole:
                self._stream.keep_inflater(self.number + 1, inflater)
            else:
                self._inflater = inflater

    def _check(
        self,
        data: ByteBuffer,
        begin: int,
        decoded: int,
        target: int,
        damage: TorchRecIOError | None,
    ) -> tuple[int, int, TorchRecIOError | None]:
        """Compare decoded bytes with their checksums in the index.

        Args:
            data: Memory of the span.
            begin: Offset in the span of the first new byte.
            decoded: End of the decoded bytes.
            target: End of those that were to be decoded.
            damage: Error that ended decoding early, if there was one.

        Returns:
            End of the bytes that may be read, end of those that are kept, and the first damage.
        """
        parts = decoded if decoded == target else decoded - (decoded - begin) % CHECKED_BYTES
        checks = self._stream.checks(self.number)[begin // CHECKED_BYTES :]
        if len(checks):
            count = count_good_parts(data[begin:parts], checks, CHECKED_BYTES)
            sound = min(parts, begin + count * CHECKED_BYTES)
            if sound < parts:
                reason = "the decompressed data does not match its checksum in the index"
                return sound, min(parts, sound + CHECKED_BYTES), self._damage(reason, sound)
        if decoded < target and damage is None:
            reason = "the decompressed data ends before the indexed end"
            return parts, decoded, self._damage(reason, parts)
        return (parts if len(checks) else decoded), decoded, damage

    def _damage(self, reason: str, at: int) -> CorruptRecordError:
        return CorruptRecordError(reason, path=self._stream.path, offset=self.start + at)


def _as_damage(error: TorchRecIOError) -> TorchRecIOError:
    """Return the error of a file that has its size, but seems to end early."""
    if isinstance(error, TruncatedFileError):
        return CorruptRecordError(error.reason, path=error.path, offset=error.offset)
    return error


def _allocate(size: int) -> ByteBuffer:
    """Return memory that the system gets back when it is not used anymore."""
    if size < _LEAST_MAPPED_BYTES:
        return np.empty(size, np.uint8)
    try:
        if size < _HUGE_PAGE_BYTES or not hasattr(mmap, "MADV_HUGEPAGE"):
            memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            return np.frombuffer(memory, np.uint8)
        # Fewer page faults: filling it takes a third of the time. Only whole huge pages are taken.
        memory = mmap.mmap(-1, size + _HUGE_PAGE_BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        address: int = np.frombuffer(memory, np.uint8).__array_interface__["data"][0]
        start = -address % _HUGE_PAGE_BYTES
        with contextlib.suppress(OSError):  # the system may lack it
            whole = size // _HUGE_PAGE_BYTES * _HUGE_PAGE_BYTES
            memory.madvise(mmap.MADV_HUGEPAGE, start, whole)
        return np.frombuffer(memory, np.uint8, size, start)
    except OSError as error:
        raise MemoryError(f"not enough memory for {size} decompressed bytes") from error


def _sorted(rows: Ints) -> Ints:
    """Return the different ones of some ranges, ascending."""
    keys = _keys(rows)
    keys.sort()  # with the next line, several times as fast as unique()
    keys = keys[np.diff(keys, prepend=-1) != 0]
    return np.stack((keys >> 32, keys & 0xFFFF_FFFF), axis=1)


def _are_in(rows: Ints, others: Ints) -> npt.NDArray[np.bool_]:
    """Return which of some ascending ranges are among others."""
    keys, found = _keys(rows), np.sort(_keys(others))
    if len(found) == 0:
        return np.zeros(len(rows), bool)
    # Looking up ascending numbers takes a third of the time of others.
    places = np.searchsorted(found, keys)
    places[places == len(found)] = 0
    are_in: npt.NDArray[np.bool_] = found[places] == keys
    return are_in


def _keys(rows: Ints) -> Ints:
    """Return one number for each range, in the same order as the ranges."""
    # Spans are smaller than 4 GiB, so both numbers fit.
    keys: Ints = rows[:, 0] << 32 | rows[:, 1]
    return keys
