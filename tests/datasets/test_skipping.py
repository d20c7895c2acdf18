"""Skipped records: batches are filled up, and each loss is counted and reported once."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.datasets import record
from tests.support.examples import example_of
from tests.support.images import encoded, smooth
from tests.support.pngs import png_of
from tests.support.states import through_json
from tests.support.tfrecord import frame, write_tfrecord

# An id of at least this is outside of the valid range.
REFUSED = 10_000
DENSE = {"id": tio.FixedLenFeature([], "int64", valid_range=(0, REFUSED - 1))}
SCHEMAS: dict[str, dict[str, Any]] = {
    "dense": DENSE,
    "any": {
        **DENSE,
        "name": tio.FixedLenFeature([], "string"),
        "tokens": tio.FixedLenSequenceFeature([], "int64", allow_missing=True),
    },
}


def content(number: int, kind: str) -> bytes:
    """Return the frame of a record that is sound, or bad in one of three ways."""
    data = record(number)
    if kind == "undecodable":
        data = b"\xff"
    elif kind == "refused":
        tokens = list(range(number % 5)) + [0] * 9
        data = example_of(id=[REFUSED + number], name=[b"refused"], tokens=tokens)
    stored = frame(data)
    return stored[:-1] + bytes([stored[-1] ^ 1]) if kind == "damaged" else stored


def write(path: Path, kinds: list[str]) -> str:
    path.write_bytes(b"".join(content(number, kind) for number, kind in enumerate(kinds)))
    return str(path)


def expected_batches(kinds: list[str], size: int, *, drop_last: bool) -> list[list[int]]:
    """Return the batches of an epoch of records in stored order."""
    if drop_last:  # the last records are not even planned
        kinds = kinds[: len(kinds) // size * size]
    sound = [number for number, kind in enumerate(kinds) if kind == "sound"]
    batches = [sound[at : at + size] for at in range(0, len(sound), size)]
    return [batch for batch in batches if len(batch) == size or not drop_last]


def batches_of(dataset: tio.TFRecordDataset) -> Iterator[tuple[list[int], dict[str, Any]]]:
    """Yield the ids of the batches of a dataset, with the state after each of them."""
    for batch in dataset:
        ids = batch["id"].tolist()
        if "name" in batch:
            assert list(batch["name"]) == [f"record {number}".encode() for number in ids]
            width = max(number % 5 for number in ids)
            assert batch["tokens"].shape[1] == width  # nothing is left of longer, refused ones
        yield ids, through_json(dataset.state_dict())


KINDS = st.lists(
    st.sampled_from(["sound"] * 3 + ["refused"] * 2 + ["undecodable", "damaged"]), max_size=60
)


@pytest.mark.parametrize("schema", SCHEMAS)
@given(
    kinds=KINDS,
    size=st.integers(1, 9),
    num_threads=st.sampled_from([1, 2]),
    drop_last=st.booleans(),
    callback=st.booleans(),
)
def test_batches_are_filled_up_in_order(
    tmp_path_factory: pytest.TempPathFactory,
    schema: str,
    kinds: list[str],
    size: int,
    *,
    drop_last: bool,
    callback: bool,
    num_threads: int,
) -> None:
    path = write(tmp_path_factory.mktemp("kinds") / "a.tfrecord", kinds)
    errors: list[tio.TorchRecIOError] = []
    options: dict[str, Any] = {
        "batch_size": size,
        "drop_last": drop_last,
        "num_threads": num_threads,
        "on_error": errors.append if callback else "skip",
    }
    dataset = tio.TFRecordDataset(path, SCHEMAS[schema], **options)
    found = list(batches_of(dataset))
    expected = expected_batches(kinds, size, drop_last=drop_last)
    assert [ids for ids, _ in found] == expected
    bad = [number for number, kind in enumerate(kinds) if kind != "sound"]
    if drop_last:
        bad = [number for number in bad if number < len(kinds) // size * size]
    assert dataset.skipped == len(bad)
    if callback:
        assert sorted(error.record or 0 for error in errors) == bad
        for error in errors:
            if kinds[error.record or 0] == "refused":
                assert error.feature == "id"
                assert f"the value {REFUSED + (error.record or 0)} is outside" in error.reason
    for number, (_, state) in enumerate(found, 1):
        other = tio.TFRecordDataset(path, SCHEMAS[schema], **options)
        other.load_state_dict(state)
        rest = [ids for ids, _ in batches_of(other)]
        # The next epoch follows a state in which no record of this one is left.
        assert rest == expected[number:] or (number == len(expected) and rest == expected)


def test_several_columns_have_a_range(tmp_path: Path) -> None:
    """The first column of the schema that refuses a record is the one in its error."""
    spec = tio.FixedLenFeature([], "int64", valid_range=(0, 5))
    pair = tio.FixedLenFeature([2], "int64", valid_range=(0, 5))
    values = [(1, [1, 1]), (9, [1, 1]), (1, [1, 8]), (7, [6, 6]), (2, [2, 2]), (3, [9, 9])]
    path = write_tfrecord(tmp_path / "a", [example_of(a=[a], b=b) for a, b in values])
    errors: list[tio.TorchRecIOError] = []
    dataset = tio.TFRecordDataset(
        path, {"a": spec, "b": pair}, batch_size=9, on_error=errors.append
    )
    (batch,) = dataset
    assert batch["b"].tolist() == [[1, 1], [2, 2]]
    assert [(error.record, error.feature, error.reason.split(" is ")[0]) for error in errors] == [
        (1, "a", "the value 9"),
        (2, "b", "the value 8"),
        (3, "a", "the value 7"),
        (5, "b", "the value 9"),
    ]


@pytest.mark.parametrize("num_threads", [1, 2])
def test_a_position_inside_a_batch_resumes_without_skipping(
    tmp_path: Path, num_threads: int
) -> None:
    """The planned batches begin elsewhere. Images of several sizes are not one column to copy."""
    path = tmp_path / "a.tfrecord"
    pixels = [np.full((2 + number % 3, 2, 3), number, np.uint8) for number in range(13)]
    with tio.TFRecordWriter(path) as writer:
        for number, image in enumerate(pixels):
            ids = [number] if number != 1 else [number, number]  # the second one is lost
            writer.write({"id": ids, "image": png_of(image)})
    schema = {"id": tio.FixedLenFeature([], "int64"), "image": tio.ImageFeature()}
    options: dict[str, Any] = {
        "batch_size": 4,
        "num_threads": num_threads,
        "transform": lambda batch: (batch["id"].add_(100), batch["image"]),
    }
    dataset = tio.TFRecordDataset(path, schema, on_error="skip", **options)
    first, _ = next(iter(dataset))
    assert first.tolist() == [100, 102, 103, 104]
    other = tio.TFRecordDataset(path, schema, **options)
    other.load_state_dict(through_json(dataset.state_dict()))
    seen: list[int] = []
    for ids, images in other:
        seen += ids.tolist()
        for number, image in zip(ids.tolist(), images, strict=True):
            assert np.array_equal(image.permute(1, 2, 0), pixels[number - 100])
    assert seen == [*range(105, 113)]


class TestLog:
    @pytest.fixture
    def paths(self, tmp_path: Path) -> list[str]:
        return [
            write(tmp_path / "a.tfrecord", ["sound", "refused", "damaged", "sound", "refused"]),
            write(tmp_path / "b.tfrecord", ["sound"] * 4),
            write(tmp_path / "c.tfrecord", ["sound", "sound", "undecodable"]),
        ]

    @pytest.mark.parametrize("options", [{"batch_size": 2}, {"batch_size": 50}, {}], ids=str)
    def test_one_line_for_each_file_and_epoch(
        self, paths: list[str], caplog: pytest.LogCaptureFixture, options: Any
    ) -> None:
        dataset = tio.TFRecordDataset(paths, DENSE, on_error="skip", epochs=2, **options)
        list(dataset)
        lines = [each.getMessage() for each in caplog.records]
        assert len(lines) == 4
        for epoch in range(2):
            first, second = lines[2 * epoch : 2 * epoch + 2]
            assert first.startswith(f"skipped 3 errors in epoch {epoch}, the first one: {paths[0]}")
            assert second.startswith(f"skipped 1 error in epoch {epoch}: {paths[2]}: ")
            assert "(record 2, offset " in second
        assert dataset.skipped == 8

    def test_an_iteration_that_is_left_early(
        self, paths: list[str], caplog: pytest.LogCaptureFixture
    ) -> None:
        dataset = tio.TFRecordDataset(paths, DENSE, on_error="skip", batch_size=2)
        for _ in dataset:
            break
        assert [each.getMessage().split(", the")[0] for each in caplog.records] == [
            "skipped 2 errors in epoch 0"
        ]

    @pytest.mark.parametrize("is_left", [pytest.param(False, marks=pytest.mark.slow), True])
    def test_workers(
        self, paths: list[str], capfd: pytest.CaptureFixture[str], is_left: bool
    ) -> None:
        dataset = tio.TFRecordDataset(paths, DENSE, on_error="skip", batch_size=1)
        loader = DataLoader(
            dataset, batch_size=None, num_workers=2, multiprocessing_context="spawn"
        )
        for number, _ in enumerate(loader):
            if is_left and number == 3:  # both workers are running
                break
        del loader
        lines = capfd.readouterr().err.splitlines()
        reported = [line for line in lines if line.startswith("skipped ")]
        assert sum(int(line.split()[1]) for line in reported) == dataset.skipped
        assert len(reported) <= 2 * 2

    def test_splits_by_group(self, paths: list[str], caplog: pytest.LogCaptureFixture) -> None:
        dataset = tio.TFRecordDataset(paths, DENSE, on_error="skip")
        dataset.split(0.5, 0.5, group_by=lambda sample: sample["id"])
        assert [each.getMessage().split(":")[0] for each in caplog.records] == [
            "skipped 3 errors, the first one",
            "skipped 1 error",
        ]


def test_damage_names_what_helps(tmp_path: Path) -> None:
    path = write(tmp_path / "a", ["sound", "damaged", "undecodable"])
    reason = r"checksum; on_error=\"skip\" reads .* torchrec-io repair copies .* \(record 1, offset"
    with pytest.raises(tio.CorruptRecordError, match=reason):
        list(tio.TFRecordDataset(path, DENSE))
    with pytest.raises(tio.CorruptRecordError, match=reason):
        list(DataLoader(tio.TFRecordStream(path, DENSE), batch_size=None, num_workers=1))
    seen: list[Any] = []
    list(tio.TFRecordDataset(path, DENSE, on_error=seen.append))
    assert seen[0].reason == "the record's data does not match its checksum"
    cut = tmp_path / "cut.gz"
    cut.write_bytes(gzip.compress(Path(path).read_bytes())[:-20])
    with pytest.raises(tio.TruncatedFileError, match="inside a gzip stream; on_error"):
        tio.TFRecordDataset(cut, DENSE)
    text = tmp_path / "text"
    text.write_text("<html>not found</html>" * 9)
    with pytest.raises(tio.CorruptRecordError, match="not like a TFRecord file \\(record 0"):
        tio.TFRecordDataset(text, DENSE)


def test_damage_inside_of_an_intact_record_has_no_such_remedy(tmp_path: Path) -> None:
    image = bytearray(encoded(smooth(8, 8, seed=1), "PNG"))
    image[-1] ^= 1
    with tio.TFRecordWriter(tmp_path / "x") as writer:
        writer.write({"image": bytes(image)})
    dataset = tio.TFRecordDataset(tmp_path / "x", {"image": tio.ImageFeature()})
    with pytest.raises(tio.DecodeError, match="a chunk does not match its checksum") as caught:
        list(dataset)
    assert "repair" not in str(caught.value)
