"""TFRecordDataset in one process: order, batches, schemas, keys, damage, arguments."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import torchrec_io as tio
from tests.support.datasets import SCHEMA, numbers_of, open_records, record, write_files
from tests.support.tfrecord import frame, write_tfrecord

SIZES = [30, 0, 7, 13]
COUNT = sum(SIZES)


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    return write_files(tmp_path, SIZES)


def test_bytes_without_a_schema(paths: list[str]) -> None:
    expected = [record(i) for i in range(COUNT)]
    assert list(tio.TFRecordDataset(paths)) == expected
    assert list(tio.TFRecordDataset(paths, batch_size=40)) == [expected[:40], expected[40:]]


def test_results_of_a_function(paths: list[str]) -> None:
    dataset = tio.TFRecordDataset(paths, len, batch_size=49)
    assert list(dataset) == [
        [len(record(i)) for i in range(49)], [len(record(49))],
    ]  # fmt: skip


def test_keys(paths: list[str]) -> None:
    pairs = list(tio.TFRecordDataset(paths, SCHEMA, with_key=True))
    assert pairs[0][0] == f"{paths[0]}:0"
    assert pairs[31][0] == f"{paths[2]}:{len(frame(record(30)))}"
    assert [int(sample["id"]) for _, sample in pairs] == list(range(COUNT))
    keys, batch = next(iter(tio.TFRecordDataset(paths, SCHEMA, batch_size=3, with_key=True)))
    assert keys == [key for key, _ in pairs[:3]]
    assert batch["id"].tolist() == [0, 1, 2]


def test_indexes_are_built_once_and_kept_in_the_cache(
    paths: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tio.TFRecordDataset(paths)

    def no_scan(*_: object, **__: object) -> None:
        raise AssertionError("built again")

    monkeypatch.setattr(tio.RecordIndex, "build", no_scan)
    dataset = tio.TFRecordDataset(paths, SCHEMA, batch_size=100)
    assert len(pickle.loads(pickle.dumps(dataset))) == 1
    assert sorted(os.listdir(Path(paths[0]).parent)) == sorted(map(os.path.basename, paths))


def test_given_indexes(paths: list[str]) -> None:
    binary = [str(tio.RecordIndex.build(path).save(path + ".mine")) for path in paths]
    text = [str(tio.RecordIndex.build(path).to_text(path + ".idx")) for path in paths]
    for given_ones in (binary, text):
        dataset = tio.TFRecordDataset(paths, SCHEMA, batch_size=100, index=given_ones)
        assert numbers_of(dataset) == list(range(COUNT))
    one = tio.TFRecordDataset(paths[0], index=binary[0])
    assert len(one) == SIZES[0]
    with pytest.raises(ValueError, match="index must have 4 paths, one for each data file, got 1"):
        tio.TFRecordDataset(paths, index=binary[0])
    with pytest.raises(tio.StaleIndexError):
        tio.TFRecordDataset(paths[0], index=binary[2])


OFFSET = sum(len(frame(record(number))) for number in range(30, 33))
# What stands in place of record 33, the fourth one of its file; the error, and the lost records.
DAMAGE: dict[str, tuple[Callable[[bytearray], Any], Any, range]] = {
    "data": (lambda frame: frame.__setitem__(-5, frame[-5] ^ 1), tio.CorruptRecordError, range(1)),
    "length": (lambda frame: frame.__setitem__(9, frame[9] ^ 1), tio.CorruptRecordError, range(4)),
    "end": (lambda frame: frame.__delitem__(slice(20, None)), tio.TruncatedFileError, range(4)),
}


@pytest.mark.parametrize("name", [*DAMAGE, "message"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("batch_size", "threads"), [(None, 3), (10, 1), (10, 3)])
def test_damage(
    paths: list[str], name: str, stream: bool, batch_size: int | None, threads: int
) -> None:
    frames = [bytearray(frame(record(number))) for number in range(30, 37)]
    frames[3] = bytearray(frame(b"\xff"))
    error, lost = tio.DecodeError, range(1)
    if name in DAMAGE:
        frames[3] = bytearray(frame(record(33)))
        change, error, lost = DAMAGE[name]
        change(frames[3])
    Path(paths[2]).write_bytes(b"".join(frames[: 4 if name == "end" else None]))
    options: Any = {"stream": stream, "batch_size": batch_size, "num_threads": threads}
    seen: list[int] = []
    with pytest.raises(error) as caught:
        dataset = open_records(paths, **options)  # whose index finds damaged lengths
        for item in dataset:
            seen += item["id"].reshape(-1).tolist()
            consumed = dataset.state_dict()["consumed"]
    if stream or len(lost) == 1:
        whole = 33 if batch_size is None else 30
        assert seen[:whole] == list(range(whole))
        assert consumed == len(seen)
        assert len(seen) == whole
    found = caught.value
    assert (found.path, found.record, found.offset) == (paths[2], 3, OFFSET)
    errors: list[tio.TorchRecIOError] = []
    dataset = open_records(paths, on_error=errors.append, **options)
    ids = [number for item in dataset for number in item["id"].reshape(-1).tolist()]
    assert ids == [number for number in range(COUNT) if number - 33 not in lost]
    assert [each.record for each in errors] == [3]
    assert dataset.skipped == 1


def test_record_that_does_not_match_the_schema(paths: list[str]) -> None:
    write_tfrecord(paths[1], [record(1000), b"", b"\xff\xff", record(1001)])
    with pytest.raises(tio.DecodeError) as caught:
        list(tio.TFRecordDataset(paths, SCHEMA, batch_size=10))
    error = caught.value
    assert (error.path, error.record, error.feature) == (paths[1], 1, "id")
    assert "required" in error.reason
    errors: list[tio.TorchRecIOError] = []
    dataset = tio.TFRecordDataset(paths[:2], SCHEMA, batch_size=40, on_error=errors.append)
    assert numbers_of(dataset) == [*range(30), 1000, 1001]
    assert [error.record for error in errors] == [1, 2]
    assert [error.feature for error in errors] == ["id", None]


def test_a_function_that_raises(paths: list[str]) -> None:
    def decode(data: bytes) -> int:
        if data == record(31):
            raise KeyError("surprise")
        return len(data)

    with pytest.raises(tio.DecodeError, match="KeyError: 'surprise'") as caught:
        list(tio.TFRecordDataset(paths, decode))
    assert (caught.value.path, caught.value.record) == (paths[2], 1)
    assert isinstance(caught.value.__cause__, KeyError)
    assert len(list(tio.TFRecordDataset(paths, decode, on_error="skip"))) == COUNT - 1
