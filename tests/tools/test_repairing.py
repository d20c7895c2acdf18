"""tio.tools.repair: what it keeps, what it loses, and how it reports that."""

from __future__ import annotations

import gzip
import json
import os
import random
import struct
import tempfile
import tracemalloc
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.damage import DAMAGES, Damage, damaged, survivors
from tests.support.tfrecord import frame, masked_crc, write_tfrecord
from torchrec_io import CorruptRecordError, RecordIndex, tools
from torchrec_io._records.sequential import iter_records
from torchrec_io._storage.compression import Compression
from torchrec_io._storage.zstd import load_zstd


def records_in(path: str | Path) -> list[bytes]:
    return [record for _, record in iter_records(path)]


def numbered(start: int, stop: int) -> list[bytes]:
    return [b"record %d " % number * (1 + number % 5) for number in range(start, stop)]


def member(records: list[bytes], compression: str) -> bytes:
    content = b"".join(map(frame, records))
    if compression == "zstd":
        packed: bytes = load_zstd().compress(content)
        return packed
    return zlib.compress(content) if compression == "zlib" else gzip.compress(content, mtime=0)


def write_damaged(path: Path, count: int = 20) -> Path:
    """Write records, with the data of record 3 and the length of record 10 damaged."""
    content = bytearray(b"".join(map(frame, numbered(0, count))))
    sizes = [len(frame(record)) for record in numbered(0, count)]
    content[sum(sizes[:3]) + 12] ^= 1
    content[sum(sizes[:10])] ^= 1
    path.write_bytes(content)
    return path


def kept(count: int = 20) -> list[bytes]:
    return [record for i, record in enumerate(numbered(0, count)) if i not in (3, 10)]


# ---- any damage ----


def repaired(content: bytes, **options: Any) -> tuple[list[bytes], tuple[tools.Loss, ...]]:
    """Return the records and the losses of a damaged file, which stays as it is."""
    with tempfile.TemporaryDirectory() as name:
        path, out = Path(name) / "in", Path(name) / "out"
        path.write_bytes(content)
        report = tools.repair(path, dry_run=True, **options)
        assert os.listdir(name) == ["in"]
        if report.records:
            tools.repair(path, out, index=False, compression=None, **options)
        assert path.read_bytes() == content
        records = records_in(out) if report.records else []
    assert report.records == len(records)
    return records, report.losses


def lost(content: bytes, **options: Any) -> list[tuple[int, int]]:
    return [(loss.offset, loss.size) for loss in repaired(content, **options)[1]]


def header(length: int) -> bytes:
    data = struct.pack("<Q", length)
    return data + struct.pack("<I", masked_crc(data))


@given(
    parts=st.lists(st.lists(st.binary(max_size=60), max_size=6), min_size=1, max_size=4),
    compression=st.sampled_from([None, "gzip", "zlib", "zstd"]),
    damages=DAMAGES,
    window=st.sampled_from([16, 50, 200, 1 << 20]),
)
def test_any_damage(
    parts: list[list[bytes]], compression: Compression | None, damages: list[Damage], window: int
) -> None:
    records = [record for part in parts for record in part]
    if compression is None:
        members = [b"".join(map(frame, part)) for part in parts]
    else:
        members = [member(part, compression) for part in parts]
    content = damaged(b"".join(members), damages)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torchrec_io._records.stream_window._WINDOW_BYTES", window)
        found, losses = repaired(content, input_compression=compression)
    if compression is None:
        alive = list(survivors(content, records).values())
        assert is_subsequence(found, alive)
        assert len(alive) - len(found) <= sum(loss.records for loss in losses)
        # Records and losses cover the file exactly.
        assert sum(len(frame(r)) for r in found) + sum(loss.size for loss in losses) == len(content)
        return
    # Damage to compressed data may repeat records, but it makes no others.
    assert {*found} <= set(records)
    # Members that are whole in the file lose nothing.
    intact = whole_parts(content, dict(zip(members, parts, strict=True)))
    assert is_subsequence(intact, found)


def test_frames_inside_a_record_are_not_taken_for_records() -> None:
    inner = frame(b"inner") * 3
    content = bytearray(frame(inner) + frame(b"next"))
    content[12 + 2] ^= 1  # in the first inner frame
    content[len(frame(inner)) - 1] ^= 1
    assert repaired(bytes(content))[0] == [b"next"]
    assert repaired(bytes(content[: len(frame(inner))]))[0] == []


@pytest.mark.parametrize("length", [1, 1 << 31, 1 << 40, (1 << 64) - 1, (1 << 64) - 16])
def test_any_length_in_a_sound_header(length: int) -> None:
    content = header(length) + b"..." + frame(b"ok")
    assert repaired(content)[0] == [b"ok"]
    assert lost(content) == [(0, 15)]


def test_records_larger_than_windows() -> None:
    large = random.Random(0).randbytes(3 << 20)
    content = bytearray(frame(large) + frame(b"a") + frame(large) + frame(large))
    content[5] ^= 1
    content[len(frame(large)) + 17 + (1 << 20)] ^= 1
    assert repaired(bytes(content))[0] == [b"a", large]


def test_empty_and_foreign_files() -> None:
    assert repaired(b"") == ([], ())
    assert lost(bytes(5)) == [(0, 5)]
    assert lost(random.Random(0).randbytes(3 << 20)) == [(0, 3 << 20)]


def test_headers_in_every_place_take_little_time() -> None:
    # Each header claims half of the file. Reading what each of them claims would take minutes.
    half = 1 << 20
    assert repaired(header(half) * (2 * half // 12))[0] == []
    assert len(repaired((header(half) + frame(b"a")) * (2 * half // 29))[0]) == 2 * half // 29


def test_memory_is_bounded_by_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes((header(1 << 40) + bytes(1 << 20)) * 16)
    tracemalloc.start()
    try:
        tools.repair(path, dry_run=True, max_record_bytes=1 << 16)
        assert tracemalloc.get_traced_memory()[1] < 5 << 20
    finally:
        tracemalloc.stop()


def test_records_that_damage_repeats_in_a_compressed_member_are_lost() -> None:
    """An inserted byte moves the places that the rest of the member refers to."""
    records = [b"", b"", b"", b"\0", bytes.fromhex("000100010100000102030100"), b"\0\0\2\0\0\4"]
    damaged_member = bytearray(member(records, "gzip"))
    found = []
    for at in range(12, len(damaged_member) - 8):
        changed = damaged_member[:at] + b"\0" + damaged_member[at:] + member([b"next"], "gzip")
        found.append(repaired(bytes(changed), input_compression="gzip")[0])
    assert all(is_subsequence(each, [*records, b"next"]) for each in found)
    assert all(each[-1] == b"next" for each in found)
    assert any(len(each) > 3 for each in found)  # records before the damage are kept


def test_a_bad_record_in_a_sound_compressed_member_is_the_only_loss(tmp_path: Path) -> None:
    content = bytearray(b"".join(map(frame, numbered(0, 20))))
    content[len(frame(numbered(0, 1)[0])) + 12] ^= 1
    path = tmp_path / "in.gz"
    path.write_bytes(gzip.compress(bytes(content), mtime=0))
    report = tools.repair(path, dry_run=True, input_compression="gzip")
    assert (report.records, report.lost_records) == (19, 1)


def whole_parts(content: bytes, parts: dict[bytes, list[bytes]]) -> list[bytes]:
    """Return the records of all members that are whole in a file."""
    found = {}
    for data, part in parts.items():
        at = content.find(data)
        while at >= 0:
            found[at] = part
            at = content.find(data, at + 1)
    return [record for _, part in sorted(found.items()) for record in part]


def is_subsequence(some: list[bytes], all_of_them: list[bytes]) -> bool:
    rest = iter(all_of_them)
    return all(one in rest for one in some)


# ---- output ----


def test_sound_records_are_written_in_order(tmp_path: Path) -> None:
    path = write_damaged(tmp_path / "in")
    before = path.read_bytes()
    report = tools.repair(path, tmp_path / "new" / "out")
    assert records_in(tmp_path / "new" / "out") == kept()
    assert path.read_bytes() == before
    assert (report.records, report.lost_records, report.ok) == (18, 2, False)
    assert report.output == str(tmp_path / "new" / "out")
    index = RecordIndex.load(tmp_path / "new" / "out.tfidx", tmp_path / "new" / "out")
    assert len(index.offsets) == 18


def test_reports_of_losses(tmp_path: Path) -> None:
    path = write_damaged(tmp_path / "in")
    sizes = [len(frame(record)) for record in numbered(0, 20)]
    report = tools.repair(path, dry_run=True)
    first, second = report.losses
    assert (first.offset, first.size, first.records) == (sum(sizes[:3]), sizes[3], 1)
    assert (second.offset, second.size, second.records) == (sum(sizes[:10]), sizes[10], 1)
    assert first.reason == "the record's data does not match its checksum"
    assert second.reason == "the record's length does not match its checksum"
    assert report.lost_bytes == sizes[3] + sizes[10]
    assert report.file_bytes == sum(sizes)
    assert json.dumps([asdict(loss) for loss in report.losses])
    cells = report.damage_map.cells(sum(sizes))
    assert cells[first.offset]
    assert cells[second.offset + second.size - 1]
    assert not cells[0]
    assert not cells[-1]


def test_an_intact_file_is_copied(tmp_path: Path) -> None:
    for compression in (None, "gzip", "zlib"):
        path = write_tfrecord(tmp_path / f"{compression}", numbered(0, 9), compression)
        report = tools.repair(path, tmp_path / f"out-{compression}")
        assert report.ok
        assert (report.records, report.lost_records, report.lost_bytes) == (9, 0, 0)
        assert records_in(tmp_path / f"out-{compression}") == numbered(0, 9)
        assert report.compression == compression
    report = tools.repair(write_tfrecord(tmp_path / "empty", []), tmp_path / "out-empty")
    assert (report.ok, report.records) == (True, 0)


def test_the_input_is_never_replaced(tmp_path: Path) -> None:
    path = write_damaged(tmp_path / "in")
    os.symlink(path, tmp_path / "link")
    for name in ("in", "link"):
        with pytest.raises(ValueError, match="would overwrite the input"):
            tools.repair(path, tmp_path / name, force=True)


def test_files_without_sound_records_are_refused(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"\x89PNG" + bytes(1000))
    with pytest.raises(CorruptRecordError, match="no sound record was found"):
        tools.repair(tmp_path / "in", tmp_path / "out")
    assert os.listdir(tmp_path) == ["in"]
    assert tools.repair(tmp_path / "in", dry_run=True).records == 0


def test_invalid_arguments(tmp_path: Path) -> None:
    path = write_damaged(tmp_path / "in")
    with pytest.raises(ValueError, match="output must be a path, unless dry_run=True"):
        tools.repair(path)
    with pytest.raises(ValueError, match="max_record_bytes must be at least 0, got -1"):
        tools.repair(path, tmp_path / "out", max_record_bytes=-1)
    with pytest.raises(FileNotFoundError):
        tools.repair(tmp_path / "no such file", tmp_path / "out")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="pipe"):
        tools.repair(tmp_path / "pipe", tmp_path / "out")


def test_records_that_are_too_large(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "in", [b"a", b"x" * 100, b"b"])
    report = tools.repair(path, tmp_path / "out", max_record_bytes=99)
    assert records_in(tmp_path / "out") == [b"a", b"b"]
    assert report.losses[0].reason == "the record is larger than max_record_bytes"


def test_many_losses_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torchrec_io.tools.repairing._MAX_LISTED", 3)
    broken = bytearray(frame(b"abcd"))
    broken[13] ^= 1
    (tmp_path / "in").write_bytes((bytes(broken) + frame(b"good")) * 10)
    report = tools.repair(tmp_path / "in", dry_run=True)
    assert (report.lost_records, len(report.losses), report.unlisted_losses) == (10, 3, 7)


# ---- compressed files ----


@pytest.mark.parametrize("compression", ["gzip", "zlib"])
def test_damaged_members_lose_only_their_rest(tmp_path: Path, compression: str) -> None:
    parts = [numbered(start, start + 100) for start in (0, 100, 200, 300)]
    members = [member(part, compression) for part in parts]
    at = len(members[0]) + len(members[1]) // 2
    content = bytearray(b"".join(members))
    content[at : at + 8] = bytes(8)
    end = sum(map(len, members[:3]))
    content[end + 1] ^= 0xFF  # the header of the last member, which is lost
    (tmp_path / "in").write_bytes(content)
    report = tools.repair(tmp_path / "in", tmp_path / "out")
    found = records_in(tmp_path / "out")
    assert found[:100] == parts[0]
    assert found[-100:] == parts[2]
    assert found[100:-100] == parts[1][: len(found) - 200]
    assert [loss.is_decompressed for loss in report.losses].count(False) == 2
    assert at <= report.losses[0].offset <= sum(map(len, members[:2]))
    assert report.losses[1].offset == end
    assert report.lost_bytes > 0
    assert 50 < report.lost_records < 350


def test_lost_start_of_a_compressed_file(tmp_path: Path) -> None:
    content = member(numbered(0, 9), "gzip")[5:] + member(numbered(9, 20), "gzip")
    (tmp_path / "in").write_bytes(content)
    with pytest.raises(CorruptRecordError, match="set input_compression"):
        tools.repair(tmp_path / "in", tmp_path / "out")
    tools.repair(tmp_path / "in", tmp_path / "out", input_compression="gzip")
    assert records_in(tmp_path / "out") == numbered(9, 20)


@pytest.mark.parametrize("size", [5, 6, 7, 50])
def test_members_are_found_across_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr("torchrec_io.tools.salvage._SEARCH_BYTES", size)
    for gap in range(8):
        content = member([b"lost"], "gzip")[:-1] + bytes(gap) + b"?" + member([b"found"], "gzip")
        (tmp_path / "in").write_bytes(content)
        tools.repair(tmp_path / "in", tmp_path / "out", force=True, index=False)
        assert records_in(tmp_path / "out")[-1] == b"found"


def test_what_only_looks_like_a_member_is_no_loss_of_its_own(tmp_path: Path) -> None:
    first, second = member(numbered(0, 9), "gzip"), member(numbered(9, 20), "gzip")
    fakes = b"\x1f\x8b\x08\x00" * 50
    (tmp_path / "in").write_bytes(first + fakes + second)
    report = tools.repair(tmp_path / "in", tmp_path / "out")
    assert records_in(tmp_path / "out") == numbered(0, 20)
    [loss] = report.losses
    assert len(first) <= loss.offset < len(first) + 50
    assert loss.offset + loss.size == len(first) + len(fakes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("compression", "fill", "place"),
    [
        ("gzip", b"\0", "start"),
        ("zlib", b"\xff", "start"),
        ("zlib", b"\0", "middle"),
        ("gzip", b"\x55", "end"),
    ],
)
def test_seek_points_of_an_index_limit_the_loss(
    tmp_path: Path, compression: Compression, fill: bytes, place: str
) -> None:
    rng = np.random.default_rng(0)
    words = [rng.bytes(9) for _ in range(3000)]
    picked = rng.integers(0, 3000, (12_000, 12)).tolist()
    records = [b"%05d" % n + b"".join(words[k] for k in row) for n, row in enumerate(picked)]
    content = bytearray(member(records, compression))
    path = tmp_path / "in"
    path.write_bytes(content)
    index = RecordIndex.build(path, seek_point_bytes=100_000)
    at = {"start": 30_000, "middle": len(content) // 2, "end": len(content) - 30_000}[place]
    stamp = path.stat()
    content[at : at + 100] = fill * 100
    path.write_bytes(content)
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    if place != "end":
        without = tools.repair(path, tmp_path / "without")
        assert without.records < 7000
    index.save()
    report = tools.repair(path, tmp_path / "out")
    found = [record for _, record in iter_records(tmp_path / "out")]
    kept = {*found}
    assert found == [record for record in records if record in kept]  # in order, none made up
    assert report.records == len(found) > 10_000
    assert report.losses
    lost = [n for n, record in enumerate(records) if record not in kept]
    assert lost == list(range(lost[0], lost[-1] + 1))
    assert report.lost_records > 0
