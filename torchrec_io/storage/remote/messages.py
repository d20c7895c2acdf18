"""Messages between a process that loads and its helper process.

A message is a tuple, and a frame is a pickled list of messages. Both ends are one program, and the
socket between them is theirs alone, so a frame is trusted.
"""

from __future__ import annotations

import bisect
import itertools
import pickle
import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ..cache.object_blocks import ObjectBlocks

_FRAME_HEAD = struct.Struct("<I")


class ObjectInfo(NamedTuple):
    """An object of a store.

    Attributes:
        key: Its name in the store.
        size: Size in bytes.
        etag: Its ETag, with quotes; ``""`` if there is none.
        version: Its version; ``""`` if there is none.
        mtime: Time of the last change in whole seconds since 1970; 0 if it is unknown.
    """

    key: str
    size: int
    etag: str
    version: str
    mtime: int


class Fetch(NamedTuple):
    """A range of an object to fetch.

    Attributes:
        ticket: Number of the request.
        store: Number of the store.
        pin: The object as it was first seen.
        blocks: Its blocks in a cache, of which the range has whole ones; None without a cache.
        begin: First byte of the range.
        size: Size of the range in bytes.
        pieces: What is kept of it, ascending: offset in the range, size, and offset in the shared
            memory. All of it, if there are blocks.
    """

    ticket: int
    store: int
    pin: ObjectInfo
    blocks: ObjectBlocks | None
    begin: int
    size: int
    pieces: Sequence[tuple[int, int, int]]

    @property
    def target(self) -> int:
        """Offset of the first piece in the shared memory."""
        return self.pieces[0][2]

    def part(self, begin: int, size: int) -> Fetch:
        """Return the fetch of a part of a range that is kept whole."""
        target = self.target + begin - self.begin
        return self._replace(begin=begin, size=size, pieces=[(0, size, target)])

    def places(self, done: int, size: int) -> Iterator[tuple[int, int, int]]:
        """Yield what is kept of the next bytes of the range.

        Args:
            done: Number of bytes of the range before them.
            size: Number of these bytes.

        Yields:
            First byte that is kept, the one after the last, and the offset in the shared memory.
        """
        first = bisect.bisect(self.pieces, done, key=lambda piece: piece[0] + piece[1])
        for offset, kept, target in itertools.islice(self.pieces, first, None):
            begin, end = max(offset - done, 0), min(offset + kept - done, size)
            if begin >= end:
                return
            yield begin, end, target + done + begin - offset


def canonical_etag(etag: str) -> str:
    """Return an ETag with its quotes, which some answers of a server lack."""
    weak = "W/" if etag.startswith("W/") else ""
    bare = etag.removeprefix("W/").strip('"')
    return f'{weak}"{bare}"' if bare else ""


def is_strong(etag: str) -> bool:
    """Return whether a server compares an ETag with that of an object."""
    return bool(etag) and not etag.startswith("W/")


def frame_of(messages: list[Any]) -> bytes:
    """Return messages as one frame."""
    body = pickle.dumps(messages, pickle.HIGHEST_PROTOCOL)
    return _FRAME_HEAD.pack(len(body)) + body


def take_frames(received: bytearray) -> list[list[Any]]:
    """Remove the whole frames from received bytes, and return their messages."""
    frames: list[list[Any]] = []
    at = 0
    while len(received) - at >= _FRAME_HEAD.size:
        (size,) = _FRAME_HEAD.unpack_from(received, at)
        end = at + _FRAME_HEAD.size + size
        if len(received) < end:
            break
        frames.append(pickle.loads(bytes(received[at + _FRAME_HEAD.size : end])))  # noqa: S301
        at = end
    del received[:at]
    return frames
