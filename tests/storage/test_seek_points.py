"""Seek points: where they are found, and what is read from them."""

from __future__ import annotations

import functools
import gzip
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from isal import isal_zlib

from tests.support.chunks import open_chunks
from torchrec_io._storage.byte_source import find_size, read_bytes
from torchrec_io._storage.compression import Compression
from torchrec_io._storage.local import LocalFile
from torchrec_io._storage.opening import open_decompressed
from torchrec_io._storage.seek_points import (
    SeekPoint,
    SeekPointRecorder,
    SeekPoints,
)
from torchrec_io.errors import CorruptRecordError

SPAN = 50_000


def text(size: int, seed: int = 0) -> bytes:
    """Return bytes that compress to about half."""
    rng = np.random.default_rng(seed)
    words = [rng.bytes(6) for _ in range(4000)]
    return b"".join(words[n] for n in rng.integers(0, 4000, size // 6))


DATA = text(1_500_000)
NOISE = np.random.default_rng(1).bytes(700_000)


@functools.cache
def deflated(data: bytes, wbits: int, level: int = 6, strategy: int = 0) -> bytes:
    maker = zlib.compressobj(level, wbits=wbits, strategy=strategy)
    return maker.compress(data) + maker.flush()


def with_flushes(data: bytes, mode: int) -> bytes:
    maker = zlib.compressobj(6, wbits=31)
    parts = [
        maker.compress(data[i : i + 30_000]) + maker.flush(mode)
        for i in range(0, len(data), 30_000)
    ]
    return b"".join(parts) + maker.flush()


def bgzf(data: bytes) -> bytes:
    """Return blocked gzip: members of at most 64 KiB with an extra field, and an empty one."""
    members = []
    for at in [*range(0, len(data), 65_280), len(data)]:
        body = zlib.compressobj(6, wbits=-15)
        part = data[at : at + 65_280]
        packed = body.compress(part) + body.flush()
        size = (len(packed) + 25).to_bytes(2, "little")
        head = b"\x1f\x8b\x08\x04\0\0\0\0\0\xff\x06\0BC\x02\0" + size
        tail = zlib.crc32(part).to_bytes(4, "little") + len(part).to_bytes(4, "little")
        members.append(head + packed + tail)
    return b"".join(members)


def members(data: bytes, size: int) -> bytes:
    return b"".join(gzip.compress(data[i : i + size]) for i in range(0, len(data), size))


FILES: dict[str, tuple[Compression, Callable[[], tuple[bytes, bytes]]]] = {
    "one member": ("gzip", lambda: (DATA, deflated(DATA, 31))),
    "by ISA-L": ("gzip", lambda: (DATA, isal_zlib.compress(DATA, 1, wbits=31))),
    "zlib": ("zlib", lambda: (DATA, deflated(DATA, 15))),
    "two zlib streams": ("zlib", lambda: (DATA, zlib.compress(DATA[:9]) + zlib.compress(DATA[9:]))),
    "stored": ("gzip", lambda: (DATA, deflated(DATA, 31, 0))),
    "noise": ("gzip", lambda: (NOISE, deflated(NOISE, 31))),
    "many members": ("gzip", lambda: (DATA[:400_000], members(DATA[:400_000], 700))),
    "blocked gzip": ("gzip", lambda: (DATA, bgzf(DATA))),
    "empty members": (
        "gzip",
        lambda: (DATA, 3 * gzip.compress(b"") + gzip.compress(DATA) + gzip.compress(b"")),
    ),
    "sync flushes": ("gzip", lambda: (DATA, with_flushes(DATA, zlib.Z_SYNC_FLUSH))),
    "full flushes": ("gzip", lambda: (DATA, with_flushes(DATA, zlib.Z_FULL_FLUSH))),
    "zeros": ("gzip", lambda: (bytes(3_000_000), gzip.compress(bytes(3_000_000)))),
    "padded": ("gzip", lambda: (DATA, gzip.compress(DATA) + bytes(9999))),
    "fixed codes": ("gzip", lambda: (DATA[:90_000], deflated(DATA[:90_000], 31, 6, zlib.Z_FIXED))),
    "empty": ("gzip", lambda: (b"", gzip.compress(b""))),
}
# These files have no place inside of their members where a block with codes of its own starts.
WITHOUT_BLOCKS = ("fixed codes", "zeros", "empty", "many members", "blocked gzip")


def record(path: Path, kind: Compression, span: int | None = SPAN) -> SeekPoints:
    """Return the seek points of a file."""
    recorder = SeekPointRecorder(span)
    find_size(open_decompressed(LocalFile(path), kind, recorder=recorder))
    return recorder.finish()


def write(path: Path, content: bytes, kind: Compression) -> SeekPoints:
    """Write a file and return its seek points."""
    path.write_bytes(content)
    return record(path, kind)


@pytest.mark.parametrize("name", FILES)
def test_reading_at_any_offset_equals_the_stream(tmp_path: Path, name: str) -> None:
    kind, make = FILES[name]
    data, content = make()
    points = write(tmp_path / "x", content, kind)
    section = points.encode()
    points = SeekPoints.decode(
        lambda at, size: section[at : at + size], len(section), len(data), len(content)
    )
    assert points.stream_offsets[0] == 0
    if name not in WITHOUT_BLOCKS:
        assert np.diff(points.stream_offsets, append=len(data)).max() < 600_000
        assert len(points) >= 3
    source = open_chunks(tmp_path / "x", kind, points, len(data))
    rng = np.random.default_rng(2)
    edges = points.stream_offsets.tolist()
    for offset in [*rng.integers(0, len(data) + 1, 25).tolist(), *edges[-9:], len(data)]:
        for at in {max(0, offset - 5), offset}:
            assert read_bytes(source, at, 999) == data[at : at + 999]
    assert read_bytes(source, 0, len(data) + 9) == data
    past = np.array([(0, 0, 0), (len(data), 1, 0)])
    assert source.read_ranges(past, np.zeros(1, np.uint8)) == 1


def test_seek_points_take_less_than_a_percent_by_default(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for data in (text(21_000_000), 30 * NOISE):
        content = isal_zlib.compress(data, 1, wbits=31)
        path.write_bytes(content)
        points = record(path, "gzip", None)
        assert len(points) > 2
        assert len(points.encode()) < len(content) / 100


def test_a_damaged_window_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(deflated(DATA, 31))
    found = record(path, "gzip")
    points = [found.point(number) for number in range(len(found))]
    for window in (b"", b"junk", zlib.compress(bytes(40_000))):
        points[1] = SeekPoint(points[1].stream_offset, points[1].file_bit, window)
        source = open_chunks(path, "gzip", SeekPoints.of(points, found.checks.tolist()), len(DATA))
        with pytest.raises(CorruptRecordError, match="build the index again"):
            read_bytes(source, points[1].stream_offset, 1)
