"""Schema.infer: all records of small files, and samples of large ones."""

from __future__ import annotations

import pickle
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.conftest import Wild
from tests.support.inferring import example_of, finding
from tests.support.tfrecord import write_tfrecord
from torchrec_io._records.index_cache import cache_path
from torchrec_io._storage.location import Location
from torchrec_io.inspection import record_sample
from torchrec_io.inspection.record_sample import choose_records, spread_numbers

TAXI = "spotify__spotify-tensorflow/tests/resources/tf-test-resource/tf-records-taxi"


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make files of more than a few KiB, or more than 100 records, count as large."""
    monkeypatch.setattr(record_sample, "WHOLE_BYTES", 6 << 10)
    monkeypatch.setattr(record_sample, "WHOLE_RECORDS", 100)
    monkeypatch.setattr(record_sample, "_SCANNED_BYTES", 0)


def numbered(tmp_path: Path, count: int, name: str = "x", compression: str | None = None) -> Path:
    records = [example_of(number=[number]) for number in range(count)]
    return write_tfrecord(tmp_path / name, records, compression)


def inspected_numbers(path: Path) -> list[int]:
    numbers = []
    for piece in choose_records([Location.of(path)], "auto").pieces:
        for block in piece():
            assert not block.gaps
            parsed = tio.parse_examples(
                [record for _, record in block.records()],
                {"number": tio.FixedLenFeature([], "int64")},
            )
            numbers += parsed["number"].tolist()
    return numbers


# ---- all records ----


def test_a_feature_that_one_late_record_lacks(tmp_path: Path) -> None:
    records = [example_of(a=[number], b=[0.5]) for number in range(5000)]
    records[2925] = example_of(a=[2925])
    path = write_tfrecord(tmp_path / "x", records)
    schema = tio.Schema.infer(path)
    assert schema["b"] == tio.VarLenFeature("float32")
    assert finding(schema, "b").why == "1 of 5,000 records lacks it, and no default is known"
    batches = list(tio.TFRecordDataset(path, schema, batch_size=1000, num_threads=1))
    assert sum(len(batch["a"]) for batch in batches) == 5000


def test_a_real_feature_that_one_record_lacks(wild: Wild) -> None:
    [path] = (wild.path / TAXI).glob("part-00000*")
    schema = tio.Schema.infer(path)
    assert schema["trip_seconds"] == tio.VarLenFeature("int64")
    assert finding(schema, "trip_seconds").why.startswith("1 of 3,750 records lacks it")
    batches = list(tio.TFRecordDataset(path, schema, batch_size=500, num_threads=1))
    assert sum(len(batch["trip_seconds"]) for batch in batches) == 3750


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_none_inspects_all_records(tmp_path: Path, compression: str | None) -> None:
    records = [example_of(x=[1])] * 3000 + [example_of(x=[1, 2])] + [example_of(x=[1])] * 3000
    path = write_tfrecord(tmp_path / "x", records, compression)
    schema = tio.Schema.infer(path, None)
    assert schema["x"] == tio.VarLenFeature("int64")
    assert schema.inspected is not None
    assert (schema.inspected.records, schema.inspected.total) == (6001, 6001)
    assert str(schema.inspected) == "6,001 of 6,001 records inspected"
    assert schema.inspected.caution == ""


@pytest.mark.usefixtures("large")
def test_few_records_are_all_inspected_if_an_index_counts_them(tmp_path: Path) -> None:
    records = [example_of(x=[b"a" * 500])] * 99 + [example_of(x=[b"a"] * 2)]
    path = write_tfrecord(tmp_path / "x", records)
    assert tio.Schema.infer(path).inspected != (100, 100)
    tio.RecordIndex.build(path).save()
    schema = tio.Schema.infer(path)
    assert schema.inspected == (100, 100)
    assert schema["x"] == tio.VarLenFeature("string")


def test_several_threads_find_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [
        example_of(x=[b"text" if number % 3 else b"\xff"], **{f"f{number % 50}": [number]})
        for number in range(2000)
    ]
    path = write_tfrecord(tmp_path / "x", records)
    expected = tio.Schema.infer(path).findings
    tio.RecordIndex.build(path).save()
    monkeypatch.setattr(record_sample, "_PIECE_BYTES", 4 << 10)
    assert len(choose_records([Location.of(path)], None).pieces) > 10
    assert tio.Schema.infer(path, None).findings == expected


# ---- samples ----


@pytest.mark.usefixtures("large")
def test_a_sample_by_index(tmp_path: Path) -> None:
    path = numbered(tmp_path, 5000)
    tio.RecordIndex.build(path).save()
    numbers = inspected_numbers(path)
    assert numbers == sorted(set(numbers))
    assert (numbers[0], numbers[-1], len(numbers)) == (0, 4999, 100)
    assert any(2000 < number < 3000 for number in numbers)
    schema = tio.Schema.infer(path)
    assert schema.inspected is not None
    assert (schema.inspected.records, schema.inspected.total) == (100, 5000)
    assert str(schema.inspected) == "100 of 5,000 records inspected"
    assert "may still be missing in others" in schema.inspected.caution
    found = finding(schema, "number")
    assert (found.records, found.total) == (100, 5000)
    assert found.why == "every inspected record has 1 value"
    assert tio.Schema.infer(path).findings == schema.findings
    lines = schema.to_python().splitlines()
    assert lines[2] == (
        "# 100 of 5,000 records inspected: a feature that all inspected records have may still be "
        "missing in others."
    )
    assert "#" not in tio.Schema.infer(path, None).to_python()
    again = pickle.loads(pickle.dumps(schema))
    assert again.inspected == schema.inspected


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("compression", [None, "gzip"])
def test_a_sample_without_an_index_is_the_beginning(
    tmp_path: Path, compression: str | None
) -> None:
    path = numbered(tmp_path, 9000, compression=compression)
    assert inspected_numbers(path) == list(range(100))
    schema = tio.Schema.infer(path)
    assert schema.inspected == (100, None)
    assert str(schema.inspected) == "100 records inspected, of an unknown number"
    assert finding(schema, "number").extent == (0, 99)
    assert [each.name for each in tmp_path.iterdir()] == ["x"]
    assert not cache_path(path).exists()


@pytest.mark.usefixtures("large")
def test_a_sample_of_large_records_has_fewer(tmp_path: Path) -> None:
    records = [example_of(number=[number], data=[b"a" * 1000]) for number in range(300)]
    path = write_tfrecord(tmp_path / "x", records)
    assert 3 <= len(inspected_numbers(path)) <= 7
    tio.RecordIndex.build(path).save()
    assert 3 <= len(inspected_numbers(path)) <= 7


@pytest.mark.usefixtures("large")
def test_damage_that_is_not_inspected_is_not_an_error(tmp_path: Path) -> None:
    path = numbered(tmp_path, 5000)
    stream = bytearray(path.read_bytes())
    stream[len(stream) // 2 : len(stream) // 2 + 200] = bytes(200)
    path.write_bytes(stream)
    assert finding(tio.Schema.infer(path), "number").extent == (0, 99)
    with pytest.raises(tio.CorruptRecordError):
        tio.Schema.infer(path, None)
    path.write_bytes(stream[:30])
    with pytest.raises((tio.CorruptRecordError, tio.TruncatedFileError)):
        tio.Schema.infer(path)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("is_indexed", [True, False])
def test_a_sample_of_many_files(tmp_path: Path, is_indexed: bool) -> None:
    for file in range(40):
        path = numbered(tmp_path, 200, f"x-{file}")
        if is_indexed:
            tio.RecordIndex.build(path).save()
    schema = tio.Schema.infer(str(tmp_path / "x-*"))
    assert schema.inspected is not None
    assert schema.inspected.total == (8000 if is_indexed else None)
    assert 40 <= schema.inspected.records <= 100
    assert finding(schema, "number").extent == (0, 199 if is_indexed else 2)


@given(count=st.integers(1, 500), data=st.data())
def test_runs_are_spread_over_a_file(count: int, data: st.DataObject) -> None:
    share = data.draw(st.integers(1, count))
    numbers = spread_numbers(count, share).tolist()
    assert len(numbers) == share
    assert all(before < after for before, after in pairwise(numbers))
    assert numbers[0] == 0
    assert numbers[-1] == (count - 1 if share > 1 else 0)
    if share >= 16:
        gaps = np.diff([-1, *numbers, count])
        assert gaps.max() <= (count - share) // 15 + 2
