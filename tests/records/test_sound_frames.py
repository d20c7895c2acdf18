"""iter_sound_frames: all records that survive damage, and no others."""

from __future__ import annotations

import random
import struct
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.damage import DAMAGES, Damage, damaged, survivors
from tests.support.tfrecord import frame, masked_crc
from torchrec_io.errors import CorruptRecordError, RecordTooLargeError, TruncatedFileError
from torchrec_io.records import stream_window
from torchrec_io.records.scanned_block import Gap
from torchrec_io.records.sound_frames import iter_sound_frames
from torchrec_io.storage.local import LocalFile, PipeFile

RECORDS = st.lists(st.binary(max_size=70), max_size=12)


def sweep(content: bytes, **options: int) -> tuple[list[bytes], list[Gap]]:
    """Return the sound records and the gaps of a file, the same as a file and as a pipe."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x"
        path.write_bytes(content)
        results = []
        for source in (LocalFile(path), PipeFile(path)):
            records: list[bytes] = []
            gaps: list[Gap] = []
            for block in iter_sound_frames(source, **options):
                records += [record for _, record in block.records()]
                gaps += block.gaps
            results.append((records, gaps))
    (found, gaps), (piped, piped_gaps) = results
    assert piped == found
    assert [(gap.offset, gap.size) for gap in piped_gaps] == [(g.offset, g.size) for g in gaps]
    return found, gaps


def header(length: int) -> bytes:
    data = struct.pack("<Q", length)
    return data + struct.pack("<I", masked_crc(data))


@given(records=RECORDS, damages=DAMAGES, window=st.sampled_from([16, 50, 200, 1 << 20]))
def test_exactly_the_survivors_are_found(
    records: list[bytes], damages: list[Damage], window: int
) -> None:
    content = damaged(b"".join(map(frame, records)), damages)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream_window, "_WINDOW_BYTES", window)
        found, gaps = sweep(content)
    alive = survivors(content, records)
    # Frames inside of one with damaged data, whose length is confirmed, are not searched.
    skipped = [
        at for at in alive
        if any(gap.is_one_record and gap.offset <= at < gap.offset + gap.size for gap in gaps)
    ]  # fmt: skip
    assert found == [record for at, record in alive.items() if at not in skipped]
    assert len(skipped) <= sum(gap.is_one_record for gap in gaps)
    # Records and gaps cover the file exactly.
    sizes = [len(frame(record)) for record in found] + [gap.size for gap in gaps]
    assert sum(sizes) == len(content)
    assert all(gap.size > 0 for gap in gaps)


def lost(content: bytes, **options: int) -> list[tuple[int, int, bool]]:
    return [(g.offset, g.size, g.is_one_record) for g in sweep(content, **options)[1]]


def test_damaged_data_loses_one_record() -> None:
    content = bytearray(frame(b"abcd") * 5)
    for at in (13, 53, 93):
        content[at] ^= 1
    records, gaps = sweep(bytes(content))
    assert records == [b"abcd"] * 2
    assert [(gap.offset, gap.size, gap.is_one_record) for gap in gaps] == [
        (0, 20, True), (40, 20, True), (80, 20, True)
    ]  # fmt: skip
    assert isinstance(gaps[0].error, CorruptRecordError)


def test_damaged_length_is_searched_past() -> None:
    content = bytearray(frame(b"abcd") * 5)
    content[20] ^= 1
    assert sweep(bytes(content))[0] == [b"abcd"] * 4
    assert lost(bytes(content)) == [(20, 20, False)]


def test_truncated_files() -> None:
    content = frame(b"abcd") * 3
    for size in range(41, 60):
        records, [gap] = sweep(content[:size])
        assert records == [b"abcd"] * 2
        assert (gap.offset, gap.size) == (40, size - 40)
        assert isinstance(gap.error, TruncatedFileError)


def test_frames_inside_a_record_are_not_taken_for_records() -> None:
    inner = frame(b"inner") * 3
    content = bytearray(frame(inner) + frame(b"next"))
    content[12 + 2] ^= 1  # in the first inner frame
    content[len(frame(inner)) - 1] ^= 1
    assert sweep(bytes(content))[0] == [b"next"]
    assert sweep(bytes(content[: len(frame(inner))]))[0] == []


def test_inserted_and_removed_bytes_lose_one_record() -> None:
    content = frame(b"first") + frame(b"x" * 50) + frame(b"last")
    for changed in (content[:40] + b"ins" + content[40:], content[:40] + content[43:]):
        records, gaps = sweep(changed)
        assert records == [b"first", b"last"]
        assert [gap.offset for gap in gaps] == [21]


def test_records_that_are_too_large_are_damage() -> None:
    content = frame(b"a") + frame(b"x" * 100) + frame(b"b")
    records, [gap] = sweep(content, max_record_bytes=99)
    assert records == [b"a", b"b"]
    assert isinstance(gap.error, RecordTooLargeError)
    assert (gap.offset, gap.size) == (17, 116)
    assert sweep(content, max_record_bytes=100)[1] == []


@pytest.mark.parametrize("length", [1, 1 << 31, 1 << 40, (1 << 64) - 1, (1 << 64) - 16])
def test_any_length_in_a_sound_header(length: int) -> None:
    content = header(length) + b"..." + frame(b"ok")
    records, gaps = sweep(content)
    assert records == [b"ok"]
    assert [(gap.offset, gap.size) for gap in gaps] == [(0, 15)]


def test_records_larger_than_windows() -> None:
    large = random.Random(0).randbytes(3 << 20)
    content = bytearray(frame(large) + frame(b"a") + frame(large) + frame(large))
    content[5] ^= 1
    content[len(frame(large)) + 17 + (1 << 20)] ^= 1
    assert sweep(bytes(content))[0] == [b"a", large]


def test_empty_and_foreign_files() -> None:
    assert sweep(b"") == ([], [])
    assert lost(bytes(5)) == [(0, 5, False)]
    assert lost(random.Random(0).randbytes(3 << 20)) == [(0, 3 << 20, False)]


def test_headers_in_every_place_take_little_time() -> None:
    # Each header claims half of the file. Reading what each of them claims would take minutes.
    half = 1 << 20
    plain = header(half) * (2 * half // 12)
    mixed = (header(half) + frame(b"a")) * (2 * half // 29)
    assert sweep(plain)[0] == []
    assert len(sweep(mixed)[0]) == 2 * half // 29


def test_memory_is_bounded_by_the_limit(tmp_path: Path) -> None:
    import tracemalloc  # noqa: PLC0415

    path = tmp_path / "x"
    path.write_bytes((header(1 << 40) + bytes(1 << 20)) * 16)
    tracemalloc.start()
    try:
        for _ in iter_sound_frames(PipeFile(path), max_record_bytes=1 << 16):
            pass
        assert tracemalloc.get_traced_memory()[1] < 5 << 20
    finally:
        tracemalloc.stop()


def reasons(gaps: Sequence[Gap]) -> list[str]:
    return [gap.error.reason for gap in gaps]


def test_reasons_of_gaps() -> None:
    bad_data = bytearray(frame(b"abcd"))
    bad_data[13] ^= 1
    content = bytes(bad_data) + frame(b"a") + b"?" * 30 + frame(b"b") + frame(b"cut")[:-1]
    assert reasons(sweep(content)[1]) == [
        "the record's data does not match its checksum",
        "the record's length does not match its checksum",
        "the record reaches past the end of the file",
    ]
