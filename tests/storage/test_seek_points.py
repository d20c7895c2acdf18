"""Seek points: where they are found, and what is read from them."""

from __future__ import annotations

import functools
import gzip
import itertools
import sys
import threading
import time
import weakref
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from isal import isal_zlib

from tests.support.spans import count_decoded
from torchrec_io import _core
from torchrec_io.errors import CorruptRecordError
from torchrec_io.storage import spanned_file
from torchrec_io.storage.byte_source import ByteBuffer, ByteSource, Loan
from torchrec_io.storage.compression import Compression
from torchrec_io.storage.decoder import WINDOW_BYTES, unpack_window
from torchrec_io.storage.inflater import Inflater
from torchrec_io.storage.local import LocalFile
from torchrec_io.storage.opening import make_spans, open_decompressed, open_spans
from torchrec_io.storage.salvage import SalvagedSpans
from torchrec_io.storage.seek_points import (
    CHECKED_BYTES,
    SeekPoint,
    SeekPointRecorder,
    SeekPoints,
)
from torchrec_io.storage.span import Span
from torchrec_io.storage.spanned_file import SpannedFile
from torchrec_io.storage.spanned_stream import SpannedStream

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
    "fast": ("gzip", lambda: (DATA, deflated(DATA, 31, 1))),
    "by ISA-L": ("gzip", lambda: (DATA, isal_zlib.compress(DATA, 1, wbits=31))),
    "zlib": ("zlib", lambda: (DATA, deflated(DATA, 15))),
    "two zlib streams": ("zlib", lambda: (DATA, zlib.compress(DATA[:9]) + zlib.compress(DATA[9:]))),
    "stored": ("gzip", lambda: (DATA, deflated(DATA, 31, 0))),
    "noise": ("gzip", lambda: (NOISE, deflated(NOISE, 31))),
    "noise in zlib": ("zlib", lambda: (NOISE, deflated(NOISE, 15))),
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
    open_decompressed(LocalFile(path), kind, recorder).find_size()
    return recorder.finish()


def spans_of(
    path: Path,
    kind: Compression,
    points: SeekPoints,
    size: int,
    cache: int = 1 << 20,
) -> ByteSource:
    file = LocalFile(path)
    return open_spans(file, make_spans(file, kind, points, size, cache))


@pytest.mark.parametrize("name", FILES)
def test_reading_at_any_offset_equals_the_stream(tmp_path: Path, name: str) -> None:
    kind, make = FILES[name]
    data, content = make()
    path = tmp_path / "x"
    path.write_bytes(content)
    points = record(path, kind)
    assert points.stream_offsets[0] == 0
    if name not in WITHOUT_BLOCKS:
        assert points.longest_span(len(data)) < 600_000
        assert len(points) >= 3
    source = spans_of(path, kind, points, len(data))
    rng = np.random.default_rng(2)
    edges = points.stream_offsets.tolist()
    for offset in [*rng.integers(0, len(data) + 1, 25).tolist(), *edges[-9:], len(data)]:
        for at in {max(0, offset - 5), offset}:
            assert source.read(at, 999) == data[at : at + 999]
    assert source.read(0, len(data) + 9) == data


@pytest.mark.parametrize("name", FILES)
def test_points_and_checksums_survive_encoding(tmp_path: Path, name: str) -> None:
    kind, make = FILES[name]
    data, content = make()
    path = tmp_path / "x"
    path.write_bytes(content)
    points = record(path, kind)
    again = decode(points.encode(), len(data), len(content))
    bounds = again.check_bounds(len(data))
    assert bounds is not None
    assert (bounds == points.check_bounds(len(data))).all()
    checks = [part.tolist() for part in np.split(again.checks, bounds[1:-1])]
    ends = [*points.stream_offsets[1:].tolist(), len(data)]
    for number, end in enumerate(ends[:40]):
        point = again.point(number)
        assert point == points.point(number)
        parts = [data[at : min(at + 2**18, end)] for at in range(point.stream_offset, end, 2**18)]
        assert checks[number] == [zlib.crc32(part) for part in parts]


@pytest.mark.parametrize("name", FILES)
def test_builds_without_native_decompression_do_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    kind, make = FILES[name]
    data, content = make()
    path = tmp_path / "x"
    path.write_bytes(content)
    by_native = record(path, kind)
    with monkeypatch.context() as patch:
        patch.setattr("torchrec_io.storage.decoder._inflate", None)
        by_isal = record(path, kind)
        _check_reads(spans_of(path, kind, by_native, len(data)), data)
    _check_reads(spans_of(path, kind, by_isal, len(data)), data)


def _check_reads(source: ByteSource, data: bytes) -> None:
    for offset in [*np.random.default_rng(2).integers(0, len(data) + 1, 9).tolist(), 0]:
        assert source.read(offset, 999) == data[offset : offset + 999]
    assert source.read(0, len(data) + 9) == data


def test_seek_points_take_less_than_a_percent_by_default(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for data in (text(21_000_000), 30 * NOISE):
        content = isal_zlib.compress(data, 1, wbits=31)
        path.write_bytes(content)
        points = record(path, "gzip", None)
        assert len(points) > 2
        assert len(points.encode()) < len(content) / 100


def decode(section: bytes, stream_bytes: int, file_bytes: int) -> SeekPoints:
    return SeekPoints.decode(
        lambda at, size: section[at : at + size], len(section), stream_bytes, file_bytes
    )


@given(st.data())
def test_hostile_sections_are_rejected_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("hostile") / "x"
    stream = DATA[:600_000]
    content = deflated(stream, 31)
    path.write_bytes(content)
    section = bytearray(record(path, "gzip").encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.one_of(st.integers(0, 90), st.integers(0, len(section) - 1)))
        section[at] = data.draw(st.integers(0, 255))
    del section[len(section) - data.draw(st.integers(0, 3)) :]
    try:
        points = decode(bytes(section), len(stream), len(content))
    except ValueError:
        return
    source = spans_of(path, "gzip", points, len(stream))
    for offset in (0, 270_000, 599_000):
        try:
            source.read(offset, 500)
        except CorruptRecordError:
            continue


@pytest.mark.parametrize("name", ["one member", "blocked gzip", "zlib"])
def test_damage_in_a_span_leaves_the_others_readable(tmp_path: Path, name: str) -> None:
    kind, make = FILES[name]
    data, content = make()
    path = tmp_path / "x"
    path.write_bytes(content)
    points = record(path, kind)
    at = int(points.file_bits[2]) // 8 + 200
    path.write_bytes(content[:at] + bytes(900) + content[at + 900 :])
    source = spans_of(path, kind, points, len(data))
    bounds = [*points.stream_offsets.tolist(), len(data)]
    failed = []
    for number, (begin, end) in enumerate(itertools.pairwise(bounds)):
        try:
            assert source.read(begin, end - begin) == data[begin:end]
        except CorruptRecordError:
            failed.append(number)
    assert failed == [2]


def test_damage_to_the_first_bits_after_a_seek_point(tmp_path: Path) -> None:
    content = deflated(DATA, 31)
    path = tmp_path / "x"
    path.write_bytes(content)
    points = record(path, "gzip")
    ends = [*points.stream_offsets[1:].tolist(), len(DATA)]
    for number in range(1, len(points)):
        damaged = bytearray(content)
        for bit in range(int(points.file_bits[number]), int(points.file_bits[number]) + 3):
            damaged[bit // 8] |= 1 << bit % 8  # a block of a kind that does not exist
        path.write_bytes(damaged)
        source = spans_of(path, "gzip", points, len(DATA))
        begin = int(points.stream_offsets[number])
        with pytest.raises(CorruptRecordError, match=r"damaged|ends before"):
            source.read(begin, 1)
        assert source.read(0, 99) == DATA[:99]
        salvaged = SalvagedSpans(LocalFile(path), "gzip", points, len(DATA))
        assert read_all(salvaged) == DATA[:begin] + DATA[ends[number] :]


def read_all(source: ByteSource) -> bytes:
    out = bytearray()
    while data := source.read(len(out), 1 << 16):
        out += data
    return bytes(out)


def test_damage_that_leads_past_the_end_of_the_file(tmp_path: Path) -> None:
    content = bytearray(deflated(NOISE, 31, 0))  # stored blocks
    path = tmp_path / "x"
    path.write_bytes(content)
    points = record(path, "gzip")
    at = 10  # after the header of the member
    while not content[at] & 1:  # not the last block
        at += 5 + int.from_bytes(content[at + 1 : at + 3], "little")
    size = int.from_bytes(content[at + 1 : at + 3], "little") + 99
    content[at + 1 : at + 5] = size.to_bytes(2, "little") + (size ^ 0xFFFF).to_bytes(2, "little")
    path.write_bytes(content)
    source = spans_of(path, "gzip", points, len(NOISE) + 50)
    with pytest.raises(CorruptRecordError, match="file ends inside a gzip stream"):
        source.read(len(NOISE) - 99, 149)
    assert source.read(0, 400_000) == NOISE[:400_000]


def test_checksums_tell_of_damage_that_can_be_decoded(tmp_path: Path) -> None:
    content = bytearray(deflated(NOISE, 31))
    path = tmp_path / "x"
    path.write_bytes(content)
    points = record(path, "gzip")
    content[int(points.file_bits[2]) // 8 + 900] ^= 1  # in a stored block: no code is damaged
    path.write_bytes(content)
    source = spans_of(path, "gzip", points, len(NOISE))
    with pytest.raises(CorruptRecordError, match="does not match its checksum"):
        source.read(int(points.stream_offsets[2]), 99)
    assert source.read(0, 99) == NOISE[:99]


def test_windows_are_whole_after_reading_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A point shortly after the one where decompression started again needs bytes before both."""
    path = tmp_path / "x"
    path.write_bytes(with_flushes(DATA, zlib.Z_SYNC_FLUSH))  # blocks of 30,000 bytes
    recorder = SeekPointRecorder(5000)
    monkeypatch.setattr("torchrec_io.storage.compressed._CHUNK_BYTES", 1000)
    monkeypatch.setattr("torchrec_io.storage.inflater._CHUNK_BYTES", 4000)
    stream = open_decompressed(LocalFile(path), "gzip", recorder)
    for at in (118_000, 91_000):
        stream.read(at, 100)
        assert recorder.points[-1].stream_offset <= at
    stream.find_size()
    points = recorder.finish()
    source = spans_of(path, "gzip", points, len(DATA))
    bounds = [*points.stream_offsets.tolist(), len(DATA)]
    assert 120_000 in bounds
    for begin, end in itertools.pairwise(bounds):
        assert source.read(begin, end - begin) == DATA[begin:end]
    sizes = [len(unpack_window(points.point(n).window or b"")) for n in range(1, len(points))]
    assert sizes == [min(at, WINDOW_BYTES) for at in bounds[1:-1]]


def test_a_damaged_window_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(deflated(DATA, 31))
    found = record(path, "gzip")
    points = [found.point(number) for number in range(len(found))]
    for window in (b"", b"junk", zlib.compress(bytes(40_000))):
        points[1] = SeekPoint(points[1].stream_offset, points[1].file_bit, window)
        source = spans_of(path, "gzip", SeekPoints.of(points), len(DATA))
        with pytest.raises(CorruptRecordError, match="build the index again"):
            source.read(points[1].stream_offset, 1)


def test_memory_is_bounded_and_announced_ranges_survive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    path.write_bytes(deflated(DATA, 31))
    points = record(path, "gzip")
    file = LocalFile(path)
    cache_bytes = 4 * SPAN + len(DATA) // 20
    stream = make_spans(file, "gzip", points, len(DATA), cache_bytes)
    source = open_spans(file, stream)
    rng = np.random.default_rng(0)
    offsets = rng.permutation(len(DATA) // 1000) * 1000
    ranges = np.column_stack([offsets, np.full(len(offsets), 40), np.arange(len(offsets)) * 40])
    decoded = count_decoded(monkeypatch)
    source.will_need(ranges)
    out = np.zeros(40 * len(offsets), np.uint8)
    for row in ranges:
        assert source.read_ranges(row[None], out) is None
        assert stream.cache.used <= cache_bytes
    assert out.tobytes() == b"".join(DATA[at : at + 40] for at in offsets.tolist())
    assert len(decoded) == stream.count  # each span once


def open_long_spans(path: Path, cache_bytes: int) -> tuple[SpannedStream, ByteSource]:
    """Return the spans of a new file, each longer than what a decoder returns at a time."""
    path.write_bytes(deflated(DATA, 31))
    stream = make_spans(
        LocalFile(path), "gzip", record(path, "gzip", 600_000), len(DATA), cache_bytes
    )
    assert np.diff(stream.starts).min() > CHECKED_BYTES
    return stream, open_spans(LocalFile(path), stream)


def check_range(source: ByteSource, at: int, data: bytes = DATA) -> None:
    """Read 50 bytes and compare them."""
    out = np.zeros(50, np.uint8)
    assert source.read_ranges(np.array([(at, 50, 0)]), out) is None
    assert out.tobytes() == data[at : at + 50]


def test_no_more_is_decoded_than_is_read_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, source = open_long_spans(tmp_path / "x", 8 << 20)
    offsets = (stream.starts[:-1] + 10).tolist()
    source.will_need(np.array([(at, 50, 0) for at in offsets]))
    sizes = count_inflated(monkeypatch)
    for at in offsets:
        check_range(source, at)
    assert sum(sizes) == len(offsets) * CHECKED_BYTES


def test_spans_before_one_without_a_point_are_decoded_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torchrec_io.storage.seek_points._MOST_SPAN_BYTES", 1 << 20)
    data = 8 * NOISE
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(data, 1))
    points = record(path, "gzip", 1 << 40)
    stream = make_spans(LocalFile(path), "gzip", points, len(data), 16 << 20)
    source = open_spans(LocalFile(path), stream)
    offsets = (stream.starts[:-1] + 10).tolist()
    source.will_need(np.array([(at, 50, 0) for at in offsets]))
    sizes = count_inflated(monkeypatch)
    for at in offsets:
        check_range(source, at, data)
    # Nothing twice, and no more of the last span than is needed.
    assert sum(sizes) <= int(stream.starts[-2]) + CHECKED_BYTES


def test_what_a_span_decoded_in_part_has_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, source = open_long_spans(tmp_path / "x", 1_300_000)  # for one of them
    first, last = 10, 590_000
    source.will_need(np.array([(first, 50, 0)]))
    check_range(source, 100)  # the first part of the span
    source.will_need(np.array([(last, 50, 0)]))
    check_range(source, int(stream.starts[1]))  # evicts it
    sizes = count_inflated(monkeypatch)
    check_range(source, first)
    assert sizes == []
    check_range(source, last)
    assert sum(sizes) <= int(stream.starts[1])


def test_without_announcements_memory_is_bounded_too(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(deflated(DATA, 31))
    points = record(path, "gzip")
    file = LocalFile(path)
    stream = make_spans(file, "gzip", points, len(DATA), 5 * SPAN)
    source = open_spans(file, stream)
    for at in np.random.default_rng(0).integers(0, len(DATA) - 50, 100).tolist():
        assert source.read(at, 50) == DATA[at : at + 50]
        assert stream.cache.used <= 5 * SPAN
    stream.close()
    assert stream.cache.used == 0


def test_long_spans_are_decoded_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchrec_io.storage.seek_points._MOST_SPAN_BYTES", 2 << 20)
    data = DATA + NOISE + DATA[::-1] + NOISE + DATA
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(data))
    points = record(path, "gzip", 1 << 40)
    assert len(points) == 1
    file = LocalFile(path)
    stream = make_spans(file, "gzip", points, len(data), 1 << 20)
    assert np.diff(stream.starts).max() == 2 << 20
    source = open_spans(file, stream)
    sizes = count_inflated(monkeypatch)
    assert b"".join(source.read(at, 9999) for at in range(0, len(data), 9999)) == data
    assert sum(sizes) == len(data)  # by parts, none of them twice
    for at in (5_000_000, 100, 3_000_000, 2 << 20, len(data) - 9):
        assert source.read(at, 77) == data[at : at + 77]
        assert stream.cache.used <= 2 << 20


def test_threads_decode_different_spans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    path.write_bytes(deflated(DATA, 31))
    points = record(path, "gzip")
    file = LocalFile(path)
    stream = make_spans(file, "gzip", points, len(DATA), 8 << 20)
    source = open_spans(file, stream)
    ranges = np.array([(at, 500, 0) for at in range(0, len(DATA) - 500, 500)], np.int64)
    source.will_need(ranges)
    decoded = count_decoded(monkeypatch)
    wrong: list[int] = []

    def work(first: int) -> None:
        out = np.zeros(500, np.uint8)
        for row in ranges[first::3]:
            source.read_ranges(row[None], out)
            if out.tobytes() != DATA[row[0] : row[0] + 500]:
                wrong.append(int(row[0]))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(decoded) == stream.count  # none twice


@pytest.mark.parametrize("threads", [1, 3])
def test_files_without_points_are_decompressed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    monkeypatch.setattr("torchrec_io.storage.seek_points._MOST_SPAN_BYTES", 1 << 20)
    data = 8 * NOISE
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(data, 1))
    points = record(path, "gzip", 1 << 40)
    stream = make_spans(LocalFile(path), "gzip", points, len(data), 3 << 20)
    assert len(points) == 1 < len(stream.starts) - 1
    source = open_spans(LocalFile(path), stream)
    ranges = np.array([(at, 500, 0) for at in range(0, len(data) - 500, 1000)], np.int64)
    source.will_need(ranges)
    sizes = count_inflated(monkeypatch)
    left = iter(ranges)

    def work() -> None:
        out = np.zeros(500, np.uint8)
        for row in left:
            source.read_ranges(row[None], out)
            assert out.tobytes() == data[row[0] : row[0] + 500]

    in_threads(work, threads)
    assert sum(sizes) == len(data)


def in_threads(work: Callable[[], None], count: int) -> None:
    """Call a function in several threads, which must not fail."""
    with ThreadPoolExecutor(count) as pool:
        for done in [pool.submit(work) for _ in range(count)]:
            done.result()


def test_finding_out_whether_the_stream_goes_on_decodes_nothing_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    for rest, follows in ((b"", 0), (gzip.compress(b"more"), 1)):
        path.write_bytes(gzip.compress(DATA) + rest)
        points = SeekPoints.of([SeekPoint(0, 0)])
        source = spans_of(path, "gzip", points, len(DATA), 4 << 20)
        with monkeypatch.context() as patch:
            sizes = count_inflated(patch)
            assert source.read(0, len(DATA)) == DATA
            if not follows:
                assert source.read_before_damage(len(DATA), memoryview(bytearray(1))) == (0, None)
            assert sum(sizes) == len(DATA) + follows
        assert source.read(len(DATA), 1) == b"more"[:follows]


def test_decoders_that_are_kept_hold_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torchrec_io.storage.seek_points._MOST_SPAN_BYTES", 2 << 20)
    data = 8 * NOISE
    path = tmp_path / "x"
    path.write_bytes(gzip.compress(data, 1))
    stream = make_spans(LocalFile(path), "gzip", record(path, "gzip", 1 << 40), len(data), 16 << 20)
    for size in (1 << 20, 2 << 20):  # a part of a span, and all of it, after which another starts
        file = LocalFile(path)
        source = open_spans(file, stream)
        assert source.read(0, size) == data[:size]
        is_dropped = weakref.ref(file)
        del source, file
        assert is_dropped() is None
    sizes = count_inflated(monkeypatch)
    assert open_spans(LocalFile(path), stream).read(0, 3 << 20) == data[: 3 << 20]
    assert sum(sizes) == 1 << 20  # no more than the decoder had not decoded yet


def test_spans_take_memory_only_while_they_are_used(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(deflated(DATA, 31))
    stream = make_spans(LocalFile(path), "gzip", record(path, "gzip"), len(DATA), 200_000)
    source = open_spans(LocalFile(path), stream)
    assert stream.is_unused
    ranges = np.array([(at, 50, 0) for at in range(0, len(DATA) - 50, 9000)], np.int64)
    source.will_need(ranges)
    source.will_not_need(ranges)
    assert stream.is_unused
    for _ in range(2):
        source.will_need(ranges)
        for row in ranges:
            source.read_ranges(row[None], np.zeros(50, np.uint8))
    assert not stream.is_unused
    assert len(stream._spans) < 6 < stream.count
    assert sys.getsizeof(stream.span(0)) < 250


@given(
    announced=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3)), min_size=1, unique=True),
    data=st.data(),
)
def test_a_span_is_wanted_until_all_that_was_announced_is_taken_back(
    tmp_path_factory: pytest.TempPathFactory,
    announced: list[tuple[int, int]],
    data: st.DataObject,
) -> None:
    path = tmp_path_factory.mktemp("files") / "x"
    path.write_bytes(deflated(DATA, 31))
    stream = make_spans(LocalFile(path), "gzip", record(path, "gzip"), len(DATA), 8 << 20)
    source = open_spans(LocalFile(path), stream)
    source.will_need(np.array([(*each, 0) for each in announced], np.int64))
    taken = data.draw(st.permutations(announced))
    for number, each in enumerate(taken):
        assert stream.is_wanted(0), taken[number:]
        source.will_not_need(np.array([(*each, 0)], np.int64))
    assert not stream.is_wanted(0)


LENT = st.tuples(st.integers(0, len(DATA) - 1), st.integers(1, 40_000))


@given(steps=st.lists(st.tuples(st.lists(LENT, min_size=1, max_size=5), st.booleans()), max_size=6))
def test_spans_are_lent_until_they_are_given_back(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[list[tuple[int, int]], bool]]
) -> None:
    path = tmp_path_factory.mktemp("files") / "x"
    path.write_bytes(deflated(DATA, 31))
    stream = make_spans(LocalFile(path), "gzip", record(path, "gzip"), len(DATA), 120_000)
    source = open_spans(LocalFile(path), stream)
    lent: list[tuple[Loan, bytes]] = []
    for pairs, ends in steps:
        wanted = [(offset, min(size, len(DATA) - offset)) for offset, size in pairs]
        targets = np.cumsum([0, *(size for _, size in wanted)])
        ranges = np.column_stack([np.array(wanted), targets[:-1]])
        loan = source.begin_lending(ranges)()
        assert loan is not None
        lent.append((loan, b"".join(DATA[at : at + size] for at, size in wanted)))
        for each, expected in lent:
            check_loan(each, expected)
        while ends and lent:
            lent.pop()[0].give_back()
    for each, expected in lent:
        check_loan(each, expected)
        each.give_back()
    assert not any(span.readers for span in stream._spans.values())


def check_loan(loan: Loan, expected: bytes) -> None:
    out = np.zeros(len(expected), np.uint8)
    for memory, places in loan.pieces:
        _core.gather(memory, places, out)
    assert out.tobytes() == expected


def test_spans_that_are_not_lent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spanned_file, "_MOST_LENT_BYTES", 200_000)
    content = bytearray(deflated(DATA, 31))
    content[len(content) // 2] ^= 0xFF
    path = tmp_path / "x"
    path.write_bytes(deflated(DATA, 31))
    stream = make_spans(LocalFile(path), "gzip", record(path, "gzip"), len(DATA), 1 << 20)
    path.write_bytes(content)
    source = open_spans(LocalFile(path), stream)

    def lend(*pairs: tuple[int, int]) -> Loan | None:
        return source.begin_lending(np.array([(*pair, 0) for pair in pairs], np.int64))()

    assert source.lends
    assert lend((0, 10), (200_001, 10)) is None  # most of what lies between is not needed
    assert lend((len(DATA) - 9, 10)) is None
    with pytest.raises(CorruptRecordError):
        lend((600_000, 100), (750_000, 10))
    assert not any(span.readers for span in stream._spans.values())


def count_inflated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list to which each call of a decoder adds the number of bytes that it returned."""
    sizes: list[int] = []
    original = Inflater.read_into

    def read_into(self: Inflater, out: ByteBuffer) -> int:
        sizes.append(original(self, out))
        return sizes[-1]

    monkeypatch.setattr(Inflater, "read_into", read_into)
    return sizes


def test_a_reader_meets_only_its_own_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Threads of a reader decode spans of others, whose files may fail to be read."""
    sources = []
    for name in ("good", "bad"):
        path = tmp_path / name
        path.write_bytes(deflated(DATA, 31))
        stream = make_spans(LocalFile(path), "gzip", record(path, "gzip"), len(DATA), 8 << 20)
        sources.append((open_spans(LocalFile(path), stream), stream))
    (good, busy), (bad, _) = sources
    bad.will_need(np.array([(0, 100, 0)], np.int64))
    original = LocalFile.read_into

    def fail(self: LocalFile, offset: int, out: memoryview) -> int:
        if self.path.endswith("bad"):
            raise OSError(5, "I/O error", self.path)
        return original(self, offset, out)

    monkeypatch.setattr(LocalFile, "read_into", fail)
    with ThreadPoolExecutor(1) as pool:
        with busy.cache.lock:
            span = busy.span(0)
            span.is_busy = True  # so that the thread looks for other work
        read = pool.submit(good.read, 0, 100)
        while busy.cache.soon:
            time.sleep(0.001)
        with busy.cache.lock:
            span.is_busy = False
            busy.cache.lock.notify_all()
        assert read.result() == DATA[:100]
    with pytest.raises(OSError, match="I/O error"):
        bad.read(0, 100)
    monkeypatch.undo()
    assert bad.read(0, 100) == DATA[:100]


def test_after_an_interrupt_others_decode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    path.write_bytes(deflated(DATA, 31))
    source = spans_of(path, "gzip", record(path, "gzip"), len(DATA))

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    for offset, owner, name in ((300_000, SpannedFile, "_decode"), (900_000, Span, "decode")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, interrupt)
            with pytest.raises(KeyboardInterrupt):
                source.read(offset, 100)
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(source.read, offset, 100).result(60) == DATA[offset : offset + 100]
