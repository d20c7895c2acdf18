"""Lengths of records, and their cache."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import torchrec_io as tio
from tests.support.examples import example_of
from tests.support.tfrecord import frame, write_tfrecord
from torchrec_io._parsing import lengths as module
from torchrec_io._parsing.lengths import LengthMeasure, find_lengths
from torchrec_io._records.index_cache import cache_path
from torchrec_io._records.opening import open_indexes
from torchrec_io._records.record_reader import RecordReader
from torchrec_io._schema.stored_keys import StoredCount
from torchrec_io._storage.location import Location

TOKENS = LengthMeasure((StoredCount("tokens", "int64"),))


def reader_of(*paths: Path, verify_crc: bool = True) -> RecordReader:
    indexes, _ = open_indexes([Location.of(path) for path in paths], "auto", "auto")
    return RecordReader(indexes, verify_crc=verify_crc)


def lengths_of(*paths: Path, feature: LengthMeasure = TOKENS) -> list[int]:
    found: list[int] = find_lengths(reader_of(*paths), feature).tolist()
    return found


def write(path: Path, lengths: list[int], compression: str | None = None) -> Path:
    records = [example_of(tokens=[300] * length, id=[n]) for n, length in enumerate(lengths)]
    return write_tfrecord(path, records, compression)


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Records whose lengths were looked for in the data."""
    numbers: list[int] = []
    fetch = RecordReader.fetch

    def noted(reader: RecordReader, plan: Any) -> Any:
        numbers.extend(plan.numbers.tolist())
        return fetch(reader, plan)

    monkeypatch.setattr(RecordReader, "fetch", noted)
    return numbers


def kept(path: Path) -> list[Path]:
    return sorted(cache_path(path).parent.glob(f"*{module.SUFFIX}"))


class TestCache:
    def test_data_is_read_once(self, tmp_path: Path, parsed: list[int]) -> None:
        paths = [write(tmp_path / "a", [1, 2, 3]), write(tmp_path / "b", [4, 5])]
        for _ in range(2):
            assert lengths_of(*paths) == [1, 2, 3, 4, 5]
        assert sorted(parsed) == [0, 1, 2, 3, 4]
        # Each file has its own: another list of files is no reason to read them again.
        other = write(tmp_path / "c", [6])
        assert lengths_of(paths[1], other, paths[0]) == [4, 5, 6, 1, 2, 3]
        assert sorted(parsed) == [0, 1, 2, 2, 3, 4]
        assert not list(tmp_path.glob(f"*{module.SUFFIX}"))

    def test_data_changed_in_the_middle_alone(self, tmp_path: Path) -> None:
        """Where the fingerprint of a large file does not look, and which has the same size."""
        ends = [40_000, 40_000]
        path = write(tmp_path / "data", [*ends, 3, 4, *ends])
        assert lengths_of(path) == [*ends, 3, 4, *ends]
        before = tio.RecordIndex.build(path)
        write(path, [*ends, 4, 3, *ends])
        after = tio.RecordIndex.build(path)
        after.save(cache_path(path))
        assert after.identity == before.identity
        assert lengths_of(path) == [*ends, 4, 3, *ends]

    def test_a_cache_that_cannot_be_written(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        reader = reader_of(write(tmp_path / "data", [3, 4]))
        (tmp_path / "file").write_bytes(b"")
        monkeypatch.setenv("TORCHREC_IO_CACHE", str(tmp_path / "file" / "cache"))
        with caplog.at_level(logging.INFO, "torchrec_io"):
            assert find_lengths(reader, TOKENS).tolist() == [3, 4]
        assert "lengths cannot be cached" in caplog.text


class TestDamage:
    @pytest.fixture
    def damaged(self, tmp_path: Path) -> Path:
        """Records of 3, of another kind, no Example, of a wrong checksum, and of 5."""
        frames = [
            frame(example_of(tokens=[1, 2, 3])),
            frame(example_of(tokens=[0.5])),
            frame(b"\xff\xff\xff"),
            frame(example_of(tokens=[1] * 4))[:-1] + b"?",
            frame(example_of(tokens=[1] * 5)),
        ]
        path = tmp_path / "damaged"
        path.write_bytes(b"".join(frames))
        return path

    def test_bad_records_have_no_length(self, damaged: Path, parsed: list[int]) -> None:
        for _ in range(2):  # what may be repaired is not kept
            assert lengths_of(damaged) == [3, -1, -1, -1, 5]
        assert sorted(parsed) == sorted([*range(5)] * 2)
        assert kept(damaged) == []
