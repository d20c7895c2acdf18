"""Decompression of gzip and zlib files, compared with zlib.

ISA-L accepts Huffman codes that leave some codes unused, which zlib refuses. No encoder writes
them, and checksums guard the bytes.

Input: options (1 byte), size of the reads (1 byte), a file.
"""

from __future__ import annotations

import gzip
import random
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from tests.fuzz.python.inputs import cut_options, empty_folder
from tests.support.chunks import open_chunks
from tests.support.inflated import read_all
from tests.support.tfrecord import frame
from torchrec_io._storage.byte_source import find_size, read_bytes
from torchrec_io._storage.compression import Compression, detect_compression
from torchrec_io._storage.inflater import Inflater
from torchrec_io._storage.local import LocalFile
from torchrec_io._storage.seek_points import SeekPointRecorder, SeekPoints
from torchrec_io.errors import CorruptRecordError

_ZLIB, _REPAIRED = 1, 2
# Input is searched for seek points each time that it is read, and inputs are small.
_INPUT_BYTES = 200
_NO_END = "the end is missing"
_MOST_HELD_BYTES = 2 * 258  # two symbols
_UNUSED_CODES = re.compile("(code lengths|literal/lengths|distances) set")
_WINDOW_BITS = {"gzip": 31, "zlib": 15}


def check(data: bytes) -> None:
    (bits, step), file = cut_options(data, 2)
    kind: Compression = "zlib" if bits & _ZLIB else "gzip"
    if bits & _REPAIRED:
        file = _with_right_checksum(file, kind)
    content, fault = _decompress(file, kind)
    with empty_folder() as folder:
        path = folder / "file"
        path.write_bytes(file)
        detect_compression(file[:4096])
        found, error = read_all(Inflater(LocalFile(path), kind), 1 + step + len(content) // 1000)
        if _UNUSED_CODES.search(fault or ""):
            assert found.startswith(content), "other bytes than zlib's"
            return
        # Before damage or the end of a truncated file, ISA-L waits for more bits than the last
        # symbols need.
        most_missing = 0 if fault is None else _MOST_HELD_BYTES
        assert content.startswith(found), "other bytes than zlib's"
        assert len(content) - len(found) <= most_missing, "fewer bytes than zlib's"
        assert (error is None) == (fault is None), f"{error!r}, but zlib says {fault!r}"
        if fault is None:
            recorder = SeekPointRecorder(1 + len(content) // (1 + step))
            with patch("torchrec_io._storage.inflater._INPUT_BYTES", _INPUT_BYTES):
                source = Inflater(LocalFile(path), kind, recorder=recorder)
                assert find_size(source) == (len(content), None)
            points = recorder.finish()
            _check_chunks(path, kind, points, content)
            _check_wrong_points(path, kind, points, content, step)
            for offset in (len(content) // 2, step, 0, len(content)):
                source = Inflater(LocalFile(path), kind)
                assert read_bytes(source, offset, 100) == content[offset : offset + 100]


def _check_chunks(path: Path, kind: Compression, points: SeekPoints, content: bytes) -> None:
    """Read from every seek point."""
    source = open_chunks(path, kind, points, len(content))
    for offset in points.stream_offsets.tolist()[-20:]:
        assert read_bytes(source, offset, 300) == content[offset : offset + 300]


def _check_wrong_points(
    path: Path, kind: Compression, points: SeekPoints, content: bytes, shift: int
) -> None:
    """Read from points that are at wrong bits, or have the windows of others."""
    found = [points.point(number) for number in range(len(points))]
    windows = [found[-1 - number].window for number in range(len(found))]
    for wrong in (
        [point._replace(file_bit=point.file_bit + shift - 128) for point in found[1:]],
        [point._replace(window=window) for point, window in zip(found[1:], windows, strict=False)],
    ):
        try:
            section = SeekPoints.of([found[0], *wrong], points.checks.tolist()).encode()
            decoded = SeekPoints.decode(
                lambda at, size, section=section: section[at : at + size],  # type: ignore[misc]
                len(section),
                len(content),
                path.stat().st_size,
            )
        except (ValueError, OverflowError):
            continue
        source = open_chunks(path, kind, decoded, len(content))
        for point in wrong[-20:]:
            try:
                found_bytes = read_bytes(source, point.stream_offset, 300)
            except CorruptRecordError:
                continue
            expected = content[point.stream_offset : point.stream_offset + 300]
            assert found_bytes == expected, "wrong bytes from a wrong point"


def _decompress(file: bytes, kind: Compression) -> tuple[bytes, str | None]:
    """Return the bytes before the first damage, and the damage."""
    out = bytearray()
    rest = file
    is_first = True
    while rest := (rest if is_first else rest.lstrip(b"\0")):
        if not is_first and not _is_member(rest, kind):
            return bytes(out), "stray bytes"
        if kind == "gzip" and len(rest) > 3 and rest[3] & 0xE0:  # zlib accepts reserved flags
            return bytes(out), "a reserved flag"
        is_first = False
        decoder = zlib.decompressobj(_WINDOW_BITS[kind])
        for number, byte in enumerate(rest):
            try:
                out += decoder.decompress(bytes([byte]))
            except zlib.error as error:
                return bytes(out), str(error)
            if decoder.eof:
                rest = rest[number + 1 :]
                break
        else:
            return bytes(out), _NO_END
    return bytes(out), None


def _is_member(rest: bytes, kind: Compression) -> bool:
    if kind == "gzip":
        return b"\x1f\x8b".startswith(rest[:2])
    is_method = rest[0] & 15 == 8 and rest[0] >> 4 <= 7
    return is_method and (len(rest) < 2 or int.from_bytes(rest[:2], "big") % 31 == 0)


def _with_right_checksum(file: bytes, kind: Compression) -> bytes:
    """Correct the checksum of the only member, which no mutation would find."""
    head = 10 if kind == "gzip" else 2
    decoder = zlib.decompressobj(-15)
    try:
        content = decoder.decompress(file[head:], 1 << 20)
    except zlib.error:
        return file
    if not decoder.eof:
        return file
    if kind == "gzip":
        end = zlib.crc32(content).to_bytes(4, "little") + len(content).to_bytes(4, "little")
    else:
        end = zlib.adler32(content).to_bytes(4, "big")
    body = file[: len(file) - len(decoder.unused_data)]
    return body + end + decoder.unused_data[len(end) :]


def seeds() -> Iterator[bytes]:
    records = b"".join(frame(bytes(range(size))) for size in (0, 1, 40, 200))
    for level in (0, 1, 9):
        for content in (b"", b"a", records, bytes(3000), records * 20):
            yield bytes([0, level]) + gzip.compress(content, level, mtime=0)
            yield bytes([_ZLIB, level]) + zlib.compress(content, level)
            yield bytes([_REPAIRED, level]) + gzip.compress(content, level, mtime=0)
    for content in (
        random.Random(0).randbytes(2000),
        random.Random(0).randbytes(999).hex().encode(),
    ):
        for level in (0, 1, 9):
            for step in (1, 9, 100, 127, 129):
                yield bytes([0, step]) + gzip.compress(content, level, mtime=0)
                parts = zlib.compressobj(level)
                pieces = [
                    parts.compress(content[at : at + 500]) + parts.flush(zlib.Z_SYNC_FLUSH)
                    for at in range(0, len(content), 500)
                ]
                yield bytes([_ZLIB, step]) + b"".join(pieces) + parts.flush()
    member = gzip.compress(b"member", mtime=0)
    yield b"\0\0" + member + bytes(20) + member
    yield b"\0\0" + member + b"stray"
    yield b"\0\0" + member + member[:-3]
    # All optional fields of a header: extra, name, comment, checksum.
    head = b"\x1f\x8b\x08\x1e" + bytes(6) + b"\x02\0ab" + b"name\0" + b"comment\0"
    yield b"\0\0" + head + zlib.crc32(head).to_bytes(4, "little")[:2] + member[10:]
    dictionary = zlib.compressobj(zdict=b"word")
    yield bytes([_ZLIB, 0]) + dictionary.compress(b"word") + dictionary.flush()
    for bits in (9, 12):
        narrow = zlib.compressobj(9, zlib.DEFLATED, bits)
        yield bytes([_ZLIB, 3]) + narrow.compress(records * 9) + narrow.flush()
