"""Counts of the steps of records, records whose features disagree, and invalid schemas."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import torchrec_io as tio
from tests.support.episodes import (
    SCHEMA,
    episode,
    step_ids,
    steps_of,
    uneven_episode,
    windows_of,
    write_episodes,
)
from tests.support.examples import example_of, sequence_example_of
from tests.support.tfrecord import write_tfrecord
from torchrec_io._records.record_reader import RecordReader

FILES = [[3, 0, 7, 1], [], [5, 2]]
STEPS = 18


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return write_episodes(tmp_path_factory.mktemp("episodes"), FILES)


class TestCounting:
    def test_counts_are_kept(self, paths: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        records = tio.TFRecordDataset(paths, SCHEMA)
        assert records.steps().num_records == STEPS
        monkeypatch.setattr(RecordReader, "fetch", None)
        assert records.steps(range(2)).num_records == len(windows_of(FILES, 2))

    @pytest.mark.parametrize(
        ("spec", "stored"),
        [
            (tio.VarLenFeature("float32"), {"g/x": [1.0, 2.0, 3.0]}),
            (tio.FixedLenFeature([3], "int64"), {"g/x": [1, 2, 3]}),
            (tio.FixedLenFeature([3, 2], "int64"), {"g/x": [1, 2, 3, 4, 5, 6]}),
            (
                tio.FixedLenSequenceFeature([2], "int64", allow_missing=True),
                {"g/x": [1, 2, 3, 4, 5, 6]},
            ),
            (
                tio.RaggedFeature("int64", partitions=[tio.RaggedFeature.UniformRowLength(2)]),
                {"g/x": [1, 2, 3, 4, 5, 6]},
            ),
            *(
                (
                    tio.RaggedFeature("int64", "v", [partition("p")]),
                    {"v": [1, 2, 3, 4], "p": numbers},
                )
                for partition, numbers in (
                    (tio.RaggedFeature.RowLengths, [1, 0, 3]),
                    (tio.RaggedFeature.RowLimits, [1, 1, 4]),
                    (tio.RaggedFeature.RowStarts, [0, 1, 1]),
                )
            ),
            (
                tio.RaggedFeature(
                    "int64",
                    "v",
                    [
                        tio.RaggedFeature.UniformRowLength(2),
                        tio.RaggedFeature.RowLengths("p"),
                        tio.RaggedFeature.UniformRowLength(2),
                    ],
                ),
                {"v": [1] * 8, "p": [1, 0, 0, 1, 1, 1]},
            ),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_counted_features(self, tmp_path: Path, spec: Any, stored: dict[str, Any]) -> None:
        write_tfrecord(tmp_path / "data", [example_of(**stored)])
        dataset = tio.TFRecordDataset(tmp_path / "data", {"g/x": spec}).steps(group="g")
        assert dataset.num_records == len(list(dataset)) == 3

    @pytest.mark.parametrize(
        ("partition", "numbers"),
        [
            (tio.RaggedFeature.RowSplits("p"), [0, 1, 1, 4]),
            (tio.RaggedFeature.ValueRowIds("p"), [0, 2, 2, 2]),
        ],
    )
    def test_features_that_are_not_counted_are_compared(
        self, tmp_path: Path, partition: Any, numbers: list[int]
    ) -> None:
        spec = tio.RaggedFeature("int64", "v", [partition])
        records = [
            example_of(**{"v": [1, 2, 3, 4], "p": numbers, "g/y": [7] * count}) for count in (3, 4)
        ]
        write_tfrecord(tmp_path / "data", records)
        with pytest.raises(tio.SchemaError, match="the steps of 'g' cannot be counted"):
            tio.TFRecordDataset(tmp_path / "data", {"g/x": spec}).steps(group="g")
        schema = {"g/x": spec, "g/y": tio.VarLenFeature("int64")}
        dataset = tio.TFRecordDataset(tmp_path / "data", schema, on_error="skip").steps(group="g")
        assert [sample["g/x"].tolist() for sample in dataset] == [[1], [], [2, 3, 4]]
        with pytest.raises(tio.DecodeError, match=r"it has 3 steps, but 'g' has 4 .*'g/x'"):
            list(dataset.replace(on_error="raise"))


class TestBadRecords:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        """Write a file with inconsistent record 1, invalid record 3 and damaged record 5."""
        uneven = uneven_episode(1, [1], [b"a", b"b"])
        records = [episode(0, 2), uneven, episode(2, 3), b"\xff\xff", episode(4, 1), episode(5, 6)]
        write_tfrecord(tmp_path / "data", records)
        stored = bytearray((tmp_path / "data").read_bytes())
        stored[-9] ^= 1
        (tmp_path / "data").write_bytes(stored)
        return tmp_path / "data"

    def test_disagreements_are_reported(self, path: Path) -> None:
        dataset = tio.TFRecordDataset(path, SCHEMA, batch_size=2).steps()
        iterator = iter(dataset)
        assert next(iterator)["steps/id"].tolist() == [0, 1]
        with pytest.raises(tio.DecodeError) as caught:
            next(iterator)
        error = caught.value
        assert (error.path, error.record, error.feature) == (str(path), 1, "steps/text")
        assert error.reason == "it has 2 steps, but 'steps/id' has 1"

    @pytest.mark.parametrize("window", [None, 2])
    def test_each_invalid_record_is_reported_once(self, path: Path, window: int | None) -> None:
        told: list[tio.TorchRecIOError] = []
        dataset = tio.TFRecordDataset(path, SCHEMA, batch_size=2, on_error=told.append)
        stepped = dataset.steps(range(window) if window else None)
        expected = windows_of([[2, 0, 3, 0, 1]], window or 1)
        assert stepped.num_records == len(expected) + 3
        seen = step_ids(stepped)
        assert ([[each] for each in seen] if window is None else seen) == expected
        found = {error.record: type(error) for error in told}
        assert found == {1: tio.DecodeError, 3: tio.DecodeError, 5: tio.CorruptRecordError}
        assert stepped.skipped == len(told) == 3

    def test_batches_are_refilled(self, path: Path) -> None:
        dataset = tio.TFRecordDataset(path, SCHEMA, batch_size=4, on_error="skip").steps()
        assert [batch["steps/id"].tolist() for batch in dataset] == [
            [0, 1, 2000, 2001],
            [2002, 4000],
        ]

    def test_an_invalid_feature_of_the_record_fails_each_sample(self, tmp_path: Path) -> None:
        values: Any = {"episode": [1, 2], "steps/id": [1000, 1001], "steps/text": [b"", b""]}
        bad = example_of(**values)
        write_tfrecord(tmp_path / "data", [episode(0, 1), bad, episode(2, 1)])
        dataset = tio.TFRecordDataset(tmp_path / "data", SCHEMA, batch_size=4, on_error="skip")
        stepped = dataset.steps()
        assert step_ids(stepped) == [0, 2000]
        assert stepped.skipped == 2

    def test_counts_without_checksums_are_cached_separately(self, tmp_path: Path) -> None:
        [path] = write_episodes(tmp_path, [[2, 6]])
        stored = bytearray(Path(path).read_bytes())
        stored[-9] ^= 1
        Path(path).write_bytes(stored)
        unchecked = tio.TFRecordDataset(path, SCHEMA, verify_crc=False, on_error="skip").steps()
        assert unchecked.num_records == 2 + 6
        checked = tio.TFRecordDataset(path, SCHEMA, on_error="skip").steps()
        assert checked.num_records == 2 + 1

    def test_later_damage_is_reported_once_per_batch(self, tmp_path: Path) -> None:
        [path] = write_episodes(tmp_path, [[2, 3]])
        dataset = tio.TFRecordDataset(path, SCHEMA, batch_size=8, on_error="skip").steps()
        before = os.stat(path)
        stored = bytearray(Path(path).read_bytes())
        stored[-9] ^= 1
        Path(path).write_bytes(stored)
        os.utime(
            path, ns=(before.st_atime_ns, before.st_mtime_ns)
        )  # disk errors do not change the time
        assert step_ids(dataset) == [0, 1]
        assert dataset.skipped == 1


class TestRefusals:
    def test_groups(self, paths: list[str]) -> None:
        records = tio.TFRecordDataset(paths, SCHEMA)
        with pytest.raises(tio.SchemaError, match=r"named 'frames/\.\.\.'; groups are \['steps'\]"):
            records.steps(group="frames")
        scalar = {**SCHEMA, "steps/scalar": tio.FixedLenFeature([], "int64")}
        with pytest.raises(tio.SchemaError, match=r"FixedLenFeature has no steps.*'steps/scalar'"):
            records.replace(schema=scalar).steps()
        with pytest.raises(tio.SchemaError, match="named 'steps/"):
            records.steps().replace(schema={"episode": SCHEMA["episode"]})

    @pytest.mark.parametrize("schema", [None, len])
    def test_without_a_schema(self, paths: list[str], schema: Any) -> None:
        with pytest.raises(tio.SchemaError, match="steps need a schema of features, got "):
            tio.TFRecordDataset(paths, schema).steps()
        with pytest.raises(tio.SchemaError, match="steps need a schema of features, got "):
            steps_of(paths).replace(schema=schema)

    def test_sequence_examples_without_feature_lists(self, tmp_path: Path) -> None:
        write_tfrecord(tmp_path / "data", [sequence_example_of({"x": [1]}, {})])
        schema = tio.Schema(context={"x": tio.VarLenFeature("int64")}, sequence={})
        with pytest.raises(tio.SchemaError, match="steps need feature lists"):
            tio.TFRecordDataset(tmp_path / "data", schema).steps()

    def test_steps_of_steps(self, paths: list[str]) -> None:
        with pytest.raises(ValueError, match="the samples are already steps"):
            steps_of(paths).steps()

    def test_batches_by_length(self, paths: list[str]) -> None:
        match = "a dataset of steps has no batches by length"
        by_length = tio.TFRecordDataset(paths, SCHEMA, batch_tokens=9, length_key="steps/id")
        with pytest.raises(ValueError, match=match):
            by_length.steps()
        for options in ({"batch_tokens": 9}, {"length_key": "steps/id"}):
            with pytest.raises(ValueError, match=match):
                steps_of(paths).replace(**options)
