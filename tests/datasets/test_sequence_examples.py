"""TFRecordDataset of SequenceExamples: batches, samples, workers and invalid records."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

import torchrec_io as tio
from tests.support.examples import sequence_example_of
from tests.support.tfrecord import frame, write_tfrecord

SIZES = [20, 0, 7, 13]
COUNT = sum(SIZES)
SCHEMA = tio.Schema(
    context={
        "id": tio.FixedLenFeature([], "int64"),
        "tags": tio.VarLenFeature("string"),
    },
    sequence={
        "frames": tio.FixedLenSequenceFeature([2], "float32"),
        "marks": tio.FixedLenSequenceFeature([], "string", allow_missing=True),
        "words": tio.VarLenFeature("string"),
        "tree": tio.RaggedFeature("int32", "v", [tio.RaggedFeature.RowLengths("n")]),
    },
)


def steps_of(number: int) -> int:
    return number % 4


def record(number: int) -> bytes:
    """Return a SequenceExample whose values are computed from its number."""
    steps = range(steps_of(number))
    lists: dict[str, Any] = {
        "frames": [[number + 0.5, float(step)] for step in steps],
        "words": [[b"%d-%d" % (number, step)] * step for step in steps],
        "v": [list(range(step)) for step in steps],
        "n": [[step, 0] for step in steps],
    }
    if number % 3 == 0:
        lists["marks"] = [[b"m"] for _ in steps]
    return sequence_example_of({"id": [number], "tags": [b"t"] * (number % 2)}, lists)


def expected(number: int) -> dict[str, Any]:
    """Return the expected sample of a record as Python values."""
    steps = range(steps_of(number))
    return {
        "id": number,
        "tags": [b"t"] * (number % 2),
        "frames": [[number + 0.5, float(step)] for step in steps],
        "marks": [b"m" for _ in steps] if number % 3 == 0 else [],
        "words": [[b"%d-%d" % (number, step)] * step for step in steps],
        "tree": [[list(range(step)), []] for step in steps],
    }


def plain(sample: dict[str, Any]) -> dict[str, Any]:
    return {name: value.tolist() for name, value in sample.items()}


def check_batch(batch: tio.Batch, numbers: list[int]) -> None:
    """Check every column of a batch of these records."""
    rows = [expected(number) for number in numbers]
    assert batch["id"].tolist() == numbers
    for name in ("tags", "words", "tree"):
        assert isinstance(batch[name], tio.Ragged)
        assert batch[name].tolist() == [row[name] for row in rows]
    for name, empty in (("frames", [0.0, 0.0]), ("marks", b"")):
        longest = max(len(row[name]) for row in rows)
        assert batch.lengths[name].tolist() == [len(row[name]) for row in rows]
        assert batch[name].shape[:2] == (len(rows), longest)
        assert batch[name].tolist() == [
            row[name] + [empty] * (longest - len(row[name])) for row in rows
        ]


def write_files(folder: Path, records: Iterable[bytes]) -> list[str]:
    left = iter(records)
    return [
        str(write_tfrecord(folder / f"part-{i}", [next(left) for _ in range(size)]))
        for i, size in enumerate(SIZES)
    ]


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return write_files(tmp_path_factory.mktemp("sequences"), map(record, range(COUNT)))


def cut(numbers: list[int], size: int) -> list[list[int]]:
    return [numbers[i : i + size] for i in range(0, len(numbers), size)]


# ---- batches and samples ----


@pytest.mark.parametrize("size", [1, 8, 100])
@pytest.mark.parametrize("threads", [1, 3])
def test_batches(paths: list[str], size: int, threads: int) -> None:
    dataset = tio.TFRecordDataset(paths, SCHEMA, batch_size=size, num_threads=threads)
    batches = list(dataset)
    chosen = cut(list(range(COUNT)), size)
    assert len(batches) == len(dataset) == len(chosen)
    for batch, numbers in zip(batches, chosen, strict=True):
        assert list(batch) == list(SCHEMA)
        check_batch(batch, numbers)


# ---- invalid records ----


def with_changed(number: int, context: Any = None, **lists: Any) -> bytes:
    """Return a record with some parts changed."""
    message = {"frames": [[0.0, 0.0]], "words": [], "v": [], "n": [], **lists}
    return sequence_example_of({"id": [number], **(context or {})}, message)


BAD: dict[str, tuple[bytes, str | None, str]] = {
    "count of a step": (
        with_changed(0, frames=[[0.0, 1.0], [0.0]]),
        "frames",
        "step 1 holds 1 float value, the schema wants 2",
    ),
    "kind of a step": (with_changed(0, frames=[[1, 2]]), "frames", "holds int64 values"),
    "lengths of rows": (with_changed(0, v=[[1]], n=[[2]]), "tree", "do not add up"),
    "number of steps": (with_changed(0, v=[[1]], n=[]), "tree", "has another number of steps"),
    "no range": (with_changed(0, v=[[2**31]], n=[[1]]), "tree", "does not fit"),
    "context": (with_changed(0, {"tags": [1]}), "tags", "holds int64 values"),
    "missing": (sequence_example_of({"id": [0]}, {}), "frames", "required"),
    "bytes": (b"\xff\xff", None, "truncated"),
}


def damaged_files(folder: Path, bad: bytes) -> list[str]:
    records = [record(number) for number in range(COUNT)]
    records[3] = records[23] = bad
    return write_files(folder, records)


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("size", [None, 6])
def test_invalid_record_is_named(tmp_path: Path, kind: str, size: int | None) -> None:
    bad, feature, reason = BAD[kind]
    paths = damaged_files(tmp_path, bad)
    with pytest.raises(tio.DecodeError, match=reason) as caught:
        list(tio.TFRecordDataset(paths, SCHEMA, batch_size=size))
    error = caught.value
    offset = sum(len(frame(record(number))) for number in range(3))
    assert (error.path, error.record, error.offset) == (paths[0], 3, offset)
    assert error.feature == feature
