"""Lengths of records, and their cache."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.support.examples import example_of, sequence_example_of
from tests.support.tfrecord import frame, write_tfrecord
from torchrec_io._parsing import lengths as module
from torchrec_io._parsing.lengths import LengthFeature, find_lengths
from torchrec_io._records.index_cache import cache_path, open_indexes
from torchrec_io._records.record_reader import RecordReader
from torchrec_io._storage.location import Location

TOKENS = LengthFeature("tokens", "int64", "example")


def reader_of(*paths: Path, verify_crc: bool = True) -> RecordReader:
    indexes, _ = open_indexes([Location.of(path) for path in paths], "auto", "auto")
    return RecordReader(indexes, verify_crc=verify_crc)


def lengths_of(*paths: Path, feature: LengthFeature = TOKENS) -> list[int]:
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


class TestFeatures:
    @given(
        st.lists(
            st.tuples(
                st.one_of(st.none(), st.integers(0, 9)),
                st.one_of(st.none(), st.lists(st.integers(0, 3), max_size=4)),
            ),
            min_size=1,
            max_size=12,
        )
    )
    def test_values_and_steps_are_counted(
        self,
        tmp_path_factory: pytest.TempPathFactory,
        records: list[tuple[int | None, list[int] | None]],
    ) -> None:
        path = tmp_path_factory.mktemp("steps") / "data"
        write_tfrecord(
            path,
            [
                sequence_example_of(
                    {} if values is None else {"words": [b"x"] * values},
                    {} if steps is None else {"steps": [[0.5] * count for count in steps]},
                )
                for values, steps in records
            ],
        )
        words = LengthFeature("words", "string", "context")
        steps = LengthFeature("steps", "float32", "sequence")
        assert lengths_of(path, feature=words) == [values or 0 for values, _ in records]
        assert lengths_of(path, feature=steps) == [len(counts or []) for _, counts in records]


class TestManyFiles:
    @pytest.mark.parametrize("compression", [None, "gzip"])
    def test_records_are_numbered_on(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compression: str | None
    ) -> None:
        monkeypatch.setattr(module, "_RECORDS_AT_ONCE", 7)
        rng = np.random.default_rng(0)
        lengths = [rng.integers(0, 60, count).tolist() for count in (40, 0, 1, 25)]
        paths = [
            write(tmp_path / f"data-{number}", some, compression)
            for number, some in enumerate(lengths)
        ]
        assert lengths_of(*paths) == [length for some in lengths for length in some]
        assert len(kept(paths[0])) == 3

    def test_progress_is_logged(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        monkeypatch.setattr(module, "_SECONDS_BETWEEN_REPORTS", -1.0)
        paths = [write(tmp_path / f"data-{number}", [1] * 5) for number in range(2)]
        with caplog.at_level(logging.INFO, "torchrec_io"):
            lengths_of(*paths)
        messages = [record.getMessage() for record in caplog.records]
        assert messages[-3:] == [
            "finding the lengths of 10 records by 'tokens'",
            "found the lengths of 5 of 10 records",
            "found the lengths of 10 of 10 records",
        ]


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

    def test_another_feature_is_another_length(self, tmp_path: Path) -> None:
        path = write(tmp_path / "data", [3, 4])
        ids = LengthFeature("id", "int64", "example")
        for _ in range(2):
            assert lengths_of(path) == [3, 4]
            assert lengths_of(path, feature=ids) == [1, 1]
        assert len(kept(path)) == 2

    def test_changed_data_is_read_again(self, tmp_path: Path) -> None:
        path = write(tmp_path / "data", [3, 4])
        assert lengths_of(path) == [3, 4]
        write(path, [4, 3, 1])
        assert lengths_of(path) == [4, 3, 1]
        assert len(kept(path)) == 1

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

    def test_data_changed_where_all_records_keep_their_sizes(self, tmp_path: Path) -> None:
        path = tmp_path / "data"
        for tokens in ([300, 300, 300], [1] * 6):
            middle = example_of(tokens=tokens, id=[1])
            end = example_of(tokens=[1] * 70_000, id=[0])
            write_tfrecord(path, [end, middle, end])
            os.utime(path, ns=(0, 10**18 + len(tokens)))
            assert lengths_of(path) == [70_000, len(tokens), 70_000]

    @given(data=st.data())
    def test_lengths_of_damaged_files_are_not_cached(
        self, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
    ) -> None:
        folder = tmp_path_factory.mktemp("damaged")
        path = write(folder / "data", [3, 4, 5])
        assert lengths_of(path) == [3, 4, 5]
        [file] = [one for one in kept(path) if one.name.startswith(cache_path(path).stem)]
        valid = file.read_bytes()
        damage = data.draw(st.sampled_from(["bit", "short", "long"]))
        if damage == "bit":
            bit = data.draw(st.integers(0, 8 * len(valid) - 1))
            broken = bytearray(valid)
            broken[bit // 8] ^= 1 << bit % 8
            file.write_bytes(broken)
        elif damage == "short":
            file.write_bytes(valid[: data.draw(st.integers(0, len(valid) - 1))])
        else:
            file.write_bytes(valid + b"\0" * data.draw(st.integers(1, 20)))
        assert lengths_of(path) == [3, 4, 5]
        assert file.read_bytes() == valid

    def test_lengths_of_another_file_in_its_place(self, tmp_path: Path) -> None:
        first, second = write(tmp_path / "a", [3, 4]), write(tmp_path / "b", [5, 6])
        assert lengths_of(first, second) == [3, 4, 5, 6]
        [of_first] = [one for one in kept(first) if one.name.startswith("a-")]
        [of_second] = [one for one in kept(first) if one.name.startswith("b-")]
        os.replace(of_first, of_second)
        assert lengths_of(second) == [5, 6]

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
            assert lengths_of(damaged) == [3, 0, 0, 0, 5]
        assert sorted(parsed) == sorted([*range(5)] * 2)
        assert kept(damaged) == []

    def test_other_files_are_kept(self, damaged: Path, tmp_path: Path, parsed: list[int]) -> None:
        valid = write(tmp_path / "valid", [7])
        for _ in range(2):
            assert lengths_of(damaged, valid) == [3, 0, 0, 0, 5, 7]
        assert parsed.count(5) == 1

    def test_a_file_that_became_shorter_raises(self, tmp_path: Path) -> None:
        path = write(tmp_path / "data", [3] * 2000)
        reader = reader_of(path)
        os.truncate(path, path.stat().st_size // 2)
        with pytest.raises(tio.TruncatedFileError):
            find_lengths(reader, TOKENS)
        assert kept(path) == []
