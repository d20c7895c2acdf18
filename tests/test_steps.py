"""Steps of episodes as samples: numbered, ordered, shared, split, saved and told as records are."""

from __future__ import annotations

import itertools
import logging
import os
import pickle
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.episodes import SCHEMA, STRIDE, episode, windows_of, write_episodes
from tests.support.examples import example_of, sequence_example_of
from tests.support.states import states_of
from tests.support.tfrecord import write_tfrecord
from torchrec_io.records.reader import RecordReader

FILES = [[3, 0, 7, 1], [], [5, 2]]
STEPS = 18

Files = st.lists(st.lists(st.integers(0, 6), max_size=5), min_size=1, max_size=3)
Shuffles = st.one_of(
    st.booleans(),
    st.integers(1, 12),
    st.builds(tio.Shuffle, block=st.integers(1, 6), window=st.integers(1, 9)),
)


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return write_episodes(tmp_path_factory.mktemp("episodes"), FILES)


def steps_of(paths: list[str], window: int | None = None, **options: Any) -> tio.TFRecordDataset:
    options = {"batch_size": 4, **options}
    return tio.TFRecordDataset(paths, SCHEMA, **options).steps(window=window)


def ids_of(batches: Iterable[Any]) -> list[Any]:
    """The id of each step, or the ids of each window."""
    return [each for batch in batches for each in batch["steps/id"].tolist()]


def all_steps(files: list[list[int]] = FILES) -> list[int]:
    return [number for [number] in windows_of(files, 1)]


class TestOrder:
    def test_steps_as_stored(self, paths: list[str]) -> None:
        dataset = steps_of(paths)
        batches = list(dataset)
        assert ids_of(batches) == all_steps()
        for batch in batches:
            assert batch["steps/id"].dim() == 1
            ids = batch["steps/id"].tolist()
            assert batch["steps/text"].tolist() == [f"step {each}".encode() for each in ids]
            assert batch["episode"].tolist() == [each // STRIDE for each in ids]
        assert (dataset.num_records, len(dataset)) == (STEPS, 5)

    @pytest.mark.parametrize("window", [1, 2, 3, 6, 7])
    def test_windows_do_not_leave_an_episode(self, paths: list[str], window: int) -> None:
        dataset = steps_of(paths, window)
        assert ids_of(dataset) == windows_of(FILES, window)
        assert dataset.num_records == len(windows_of(FILES, window))
        for batch in dataset:
            assert batch["steps/id"].shape[1] == window
            assert batch["steps/text"].shape[1] == window
            assert batch["episode"].dim() == 1

    def test_windows_that_no_episode_has(
        self, paths: list[str], caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "torchrec_io")
        dataset = steps_of(paths, 8)
        assert (len(dataset), list(dataset)) == (0, [])
        assert "6 of 6 records have less than 8 steps" in caplog.text

    def test_samples(self, paths: list[str]) -> None:
        samples = list(steps_of(paths, batch_size=None))
        assert [sample["steps/id"].item() for sample in samples] == all_steps()
        assert samples[0]["steps/text"] == b"step 0"
        assert len(steps_of(paths, batch_size=None)) == STEPS
        assert ids_of(DataLoader(steps_of(paths, batch_size=None), 4, collate_fn=tio.collate)) == (
            all_steps()
        )

    @given(Files, st.sampled_from([None, 1, 2, 4]), Shuffles, st.data())
    def test_each_once_whatever_the_arrangement(
        self,
        tmp_path_factory: pytest.TempPathFactory,
        files: list[list[int]],
        window: int | None,
        shuffle: Any,
        data: st.DataObject,
    ) -> None:
        paths = write_episodes(tmp_path_factory.mktemp("episodes"), files)
        batch_size, world_size = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 3))
        whole = steps_of(paths, window, shuffle=shuffle, batch_size=batch_size, seed=3)
        seen = [
            each
            for rank in range(world_size)
            for each in ids_of(whole.replace(rank=rank, world_size=world_size))
        ]
        expected: list[Any] = windows_of(files, window or 1)
        if window is None:
            expected = [number for [number] in expected]
        assert sorted(seen) == expected
        assert sorted(ids_of(whole)) == expected
        if shuffle is False:
            assert ids_of(whole) == expected

    def test_an_epoch_is_another_order(self, paths: list[str]) -> None:
        dataset = steps_of(paths, shuffle=True, epochs=2)
        ids = ids_of(dataset)
        assert sorted(ids[:STEPS]) == sorted(ids[STEPS:]) == all_steps()
        assert ids[:STEPS] != ids[STEPS:]
        dataset.set_epoch(1)
        assert ids_of(dataset)[:STEPS] == ids[STEPS:]

    def test_blocks_are_read_at_once(
        self, paths: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        dataset = steps_of(paths, shuffle=tio.Shuffle(block=6, window=6), num_threads=1)
        read: list[int] = []
        whole = RecordReader.read

        def reading(reader: RecordReader, plan: Any) -> Any:
            read.extend(plan.numbers.tolist())
            return whole(reader, plan)

        monkeypatch.setattr(RecordReader, "read", reading)
        assert sorted(ids_of(dataset)) == all_steps()
        assert sorted(read) == [0, 2, 3, 4, 5]  # each once, and not the one without steps

    @pytest.mark.parametrize("method", ["fork", "spawn"])
    def test_workers(self, paths: list[str], method: str) -> None:
        dataset = steps_of(paths, 2, shuffle=5)
        loader = DataLoader(dataset, None, num_workers=2, multiprocessing_context=method)
        assert ids_of(loader) == ids_of(dataset)

    def test_a_pickled_one(self, paths: list[str]) -> None:
        dataset = steps_of(paths, 2, shuffle=tio.Shuffle(block=3, window=5))
        assert ids_of(pickle.loads(pickle.dumps(dataset))) == ids_of(dataset)

    def test_keys(self, paths: list[str]) -> None:
        keys = [key for some, _ in steps_of(paths, 2, with_key=True) for key in some]
        of_records = [
            key
            for some, _ in tio.TFRecordDataset(paths, None, batch_size=4, with_key=True)
            for key in some
        ]
        assert keys == [
            f"{of_records[window[0] // STRIDE]}#{window[0] % STRIDE}"
            for window in windows_of(FILES, 2)
        ]


class TestParts:
    def test_a_slice_is_of_records(self, paths: list[str]) -> None:
        assert ids_of(steps_of(paths, split="[2:5]")) == [
            each for each in all_steps() if 2 <= each // STRIDE < 5
        ]

    @given(Files, st.sampled_from([None, 2]), st.integers(0, 9))
    @settings(max_examples=15)
    def test_a_split_is_by_records(
        self,
        tmp_path_factory: pytest.TempPathFactory,
        files: list[list[int]],
        window: int | None,
        seed: int,
    ) -> None:
        paths = write_episodes(tmp_path_factory.mktemp("episodes"), files)
        records = tio.TFRecordDataset(paths, SCHEMA, batch_size=4)
        parts = [ids_of(part) for part in records.steps(window=window).split(0.5, 0.5, seed=seed)]
        expected = [
            ids_of(part.steps(window=window)) for part in records.split(0.5, 0.5, seed=seed)
        ]
        assert parts == expected
        windows = [[each] if window is None else each for part in parts for each in part]
        assert sorted(windows) == windows_of(files, window or 1)

    def test_a_part_of_a_part(self, paths: list[str]) -> None:
        first, second = steps_of(paths).split(0.5, 0.5)
        parts = [ids_of(part) for part in (*first.split(0.4, 0.6), second)]
        assert sorted(itertools.chain(*parts)) == all_steps()
        episodes = [{each // STRIDE for each in part} for part in parts]
        assert sum(map(len, episodes)) == len(set().union(*episodes)) == 5

    def test_groups_are_of_whole_records(self, paths: list[str]) -> None:
        seen: list[list[int]] = []

        def parity(record: Any) -> int:
            seen.append(record["steps/id"].tolist())
            return int(record["episode"]) % 2

        parts = steps_of(paths).split(0.5, 0.5, group_by=parity)
        assert seen == [
            [STRIDE * e + i for i in range(n)] for e, n in enumerate(itertools.chain(*FILES))
        ]
        parities = [{each // STRIDE % 2 for each in ids_of(part)} for part in parts]
        assert sorted(map(sorted, parities)) == [[0], [1]]

    def test_a_group_of_one_feature(self, paths: list[str]) -> None:
        records = tio.TFRecordDataset(paths, SCHEMA, batch_size=4)
        one = records.steps("steps/id", window=2)
        assert ids_of(one) == windows_of(FILES, 2)
        assert isinstance(next(iter(one))["steps/text"], tio.Ragged)  # is not of that group

    def test_make_loader(self, paths: list[str]) -> None:
        loader = tio.make_loader(steps_of(paths, 2, shuffle=True))
        assert sorted(ids_of(loader)) == windows_of(FILES, 2)

    def test_replace(self, paths: list[str]) -> None:
        dataset = steps_of(paths, 3).replace(shuffle=True, seed=5, batch_size=2)
        assert [len(batch["episode"]) for batch in dataset] == [2, 2, 2, 2, 1]
        assert sorted(ids_of(dataset)) == windows_of(FILES, 3)
        fewer = dataset.replace(schema={"steps/id": SCHEMA["steps/id"]}, shuffle=False)
        assert next(iter(fewer)).keys() == {"steps/id"}
        assert ids_of(fewer) == windows_of(FILES, 3)
        assert len(steps_of(paths)) == 5  # untouched

    def test_a_mix(self, paths: list[str], tmp_path: Path) -> None:
        other = write_episodes(tmp_path, [[2, 9]])
        first, second = steps_of(paths, 2), steps_of(other, 2)
        mixed = tio.mix({first: 2, second: 1}, stop="all_exhausted", batch_size=3)
        expected = windows_of(FILES, 2) + windows_of([[2, 9]], 2)
        assert sorted(ids_of(mixed)) == sorted(expected)
        assert mixed.num_records == len(expected)

    def test_a_mix_of_two_kinds(self, paths: list[str]) -> None:
        records = tio.TFRecordDataset(paths, SCHEMA, batch_size=4)
        for other in (records.steps(window=3), records):
            with pytest.raises(ValueError, match="datasets to be mixed differ in steps: "):
                tio.mix({records.steps(window=2): 1, other: 1})


class TestStates:
    @pytest.mark.parametrize("batch_size", [None, 3])
    @pytest.mark.parametrize("shuffle", [False, True, 6])
    def test_goes_on_at_every_place(
        self, paths: list[str], batch_size: int | None, shuffle: Any
    ) -> None:
        def make() -> tio.TFRecordDataset:
            return steps_of(paths, 2, batch_size=batch_size, shuffle=shuffle, epochs=2)

        whole = [item["steps/id"].tolist() for item in make()]
        for count, state in states_of(make()):
            resumed = make()
            resumed.load_state_dict(state)
            assert [item["steps/id"].tolist() for item in resumed] == whole[count:]

    def test_of_another_kind(self, paths: list[str]) -> None:
        records = tio.TFRecordDataset(paths, SCHEMA, batch_size=4)
        kinds = [records, records.steps(), records.steps(window=1), records.steps(window=2)]
        for saved, other in itertools.permutations(kinds, 2):
            iterator = iter(saved)
            next(iterator)
            with pytest.raises(tio.StateMismatchError, match=r"steps is .* here and .* in the"):
                other.load_state_dict(saved.state_dict())

    def test_of_other_counts(self, paths: list[str]) -> None:
        schema = {**SCHEMA, "steps/pairs": tio.FixedLenFeature([1], "int64", [0])}
        assert steps_of(paths).replace(schema=schema).num_records == STEPS
        state = steps_of(paths).state_dict()
        steps_of(paths).replace(schema=schema).load_state_dict(state)

    def test_resume_by_batches(self, paths: list[str]) -> None:
        dataset = steps_of(paths, shuffle=True)
        whole = ids_of(dataset)
        dataset.resume(epoch=0, batches=2)
        assert ids_of(dataset) == whole[8:]


class TestCounting:
    def test_counts_are_kept(self, paths: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        records = tio.TFRecordDataset(paths, SCHEMA)
        assert records.steps().num_records == STEPS
        monkeypatch.setattr(RecordReader, "fetch", None)
        assert records.steps(window=2).num_records == len(windows_of(FILES, 2))

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
    def test_what_is_counted(self, tmp_path: Path, spec: Any, stored: dict[str, Any]) -> None:
        write_tfrecord(tmp_path / "data", [example_of(**stored)])
        dataset = tio.TFRecordDataset(tmp_path / "data", {"g/x": spec}).steps("g")
        assert dataset.num_records == len(list(dataset)) == 3

    @pytest.mark.parametrize(
        ("partition", "numbers"),
        [
            (tio.RaggedFeature.RowSplits("p"), [0, 1, 1, 4]),
            (tio.RaggedFeature.ValueRowIds("p"), [0, 2, 2, 2]),
        ],
    )
    def test_what_is_not_counted_is_compared(
        self, tmp_path: Path, partition: Any, numbers: list[int]
    ) -> None:
        spec = tio.RaggedFeature("int64", "v", [partition])
        records = [
            example_of(**{"v": [1, 2, 3, 4], "p": numbers, "g/y": [7] * count}) for count in (3, 4)
        ]
        write_tfrecord(tmp_path / "data", records)
        with pytest.raises(tio.SchemaError, match="no feature of 'g' tells how many steps"):
            tio.TFRecordDataset(tmp_path / "data", {"g/x": spec}).steps("g")
        schema = {"g/x": spec, "g/y": tio.VarLenFeature("int64")}
        dataset = tio.TFRecordDataset(tmp_path / "data", schema, on_error="skip").steps("g")
        assert [sample["g/x"].tolist() for sample in dataset] == [[1], [], [2, 3, 4]]
        with pytest.raises(tio.DecodeError, match=r"it has 3 steps, where 'g' has 4 .*'g/x'"):
            list(dataset.replace(on_error="raise"))


class TestBadRecords:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        """Record 1 has features that disagree, record 3 is no Example, and 5 is damaged."""
        uneven = example_of(**{"episode": [1], "steps/id": [1], "steps/text": [b"a", b"b"]})
        records = [episode(0, 2), uneven, episode(2, 3), b"\xff\xff", episode(4, 1), episode(5, 6)]
        write_tfrecord(tmp_path / "data", records)
        stored = bytearray((tmp_path / "data").read_bytes())
        stored[-9] ^= 1
        (tmp_path / "data").write_bytes(stored)
        return tmp_path / "data"

    def test_what_disagrees_is_told(self, path: Path) -> None:
        dataset = tio.TFRecordDataset(path, SCHEMA, batch_size=2).steps()
        iterator = iter(dataset)
        assert next(iterator)["steps/id"].tolist() == [0, 1]
        with pytest.raises(tio.DecodeError) as caught:
            next(iterator)
        error = caught.value
        assert (error.path, error.record, error.feature) == (str(path), 1, "steps/text")
        assert error.reason == "it has 2 steps, 'steps/id' has 1"

    @pytest.mark.parametrize("window", [None, 2])
    def test_each_bad_record_is_told_once(self, path: Path, window: int | None) -> None:
        told: list[tio.TorchRecIOError] = []
        dataset = tio.TFRecordDataset(path, SCHEMA, batch_size=2, on_error=told.append)
        stepped = dataset.steps(window=window)
        expected = windows_of([[2, 0, 3, 0, 1]], window or 1)
        assert stepped.num_records == len(expected) + 3
        seen = ids_of(stepped)
        assert ([[each] for each in seen] if window is None else seen) == expected
        assert [error.record for error in told] == [1, 3, 5]
        kinds = [tio.DecodeError, tio.DecodeError, tio.CorruptRecordError]
        assert [type(error) for error in told] == kinds
        assert stepped.skipped == 3

    def test_samples_in_front_of_a_bad_record_are_given(self, path: Path) -> None:
        iterator = iter(tio.TFRecordDataset(path, SCHEMA).steps())
        assert [next(iterator)["steps/id"].item() for _ in range(2)] == [0, 1]
        with pytest.raises(tio.DecodeError, match="steps"):
            next(iterator)

    def test_batches_are_filled_up(self, path: Path) -> None:
        dataset = tio.TFRecordDataset(path, SCHEMA, batch_size=4, on_error="skip").steps()
        assert [batch["steps/id"].tolist() for batch in dataset] == [
            [0, 1, 2000, 2001],
            [2002, 4000],
        ]

    def test_a_feature_of_the_record_is_told_of_each_sample(self, tmp_path: Path) -> None:
        bad = example_of(**{"episode": [1, 2], "steps/id": [1000, 1001], "steps/text": [b"", b""]})
        write_tfrecord(tmp_path / "data", [episode(0, 1), bad, episode(2, 1)])
        dataset = tio.TFRecordDataset(tmp_path / "data", SCHEMA, batch_size=4, on_error="skip")
        stepped = dataset.steps()
        assert ids_of(stepped) == [0, 2000]
        assert stepped.skipped == 2

    def test_one_that_became_damaged_is_told_once_a_batch(self, tmp_path: Path) -> None:
        [path] = write_episodes(tmp_path, [[2, 3]])
        dataset = tio.TFRecordDataset(path, SCHEMA, batch_size=8, on_error="skip").steps()
        before = os.stat(path)
        stored = bytearray(Path(path).read_bytes())
        stored[-9] ^= 1
        Path(path).write_bytes(stored)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as a disk would do it
        assert ids_of(dataset) == [0, 1]
        assert dataset.skipped == 1


class TestRefusals:
    def test_groups(self, paths: list[str]) -> None:
        records = tio.TFRecordDataset(paths, SCHEMA)
        with pytest.raises(tio.SchemaError, match=r"named 'frames/\.\.\.'; groups are \['steps'\]"):
            records.steps("frames")
        scalar = {**SCHEMA, "steps/scalar": tio.FixedLenFeature([], "int64")}
        with pytest.raises(tio.SchemaError, match=r"FixedLenFeature has no steps.*'steps/scalar'"):
            records.replace(schema=scalar).steps()
        with pytest.raises(tio.SchemaError, match="named 'steps/"):
            records.steps().replace(schema={"episode": SCHEMA["episode"]})

    @pytest.mark.parametrize("schema", [None, len])
    def test_without_a_schema(self, paths: list[str], schema: Any) -> None:
        with pytest.raises(tio.SchemaError, match="steps need a schema of features, not "):
            tio.TFRecordDataset(paths, schema).steps()
        with pytest.raises(tio.SchemaError, match="steps need a schema of features, not "):
            steps_of(paths).replace(schema=schema)

    def test_sequence_examples(self, tmp_path: Path) -> None:
        write_tfrecord(tmp_path / "data", [sequence_example_of({}, {"steps/x": [[1]]})])
        schema = tio.Schema(sequence={"steps/x": tio.VarLenFeature("int64")})
        with pytest.raises(tio.SchemaError, match="not of SequenceExamples"):
            tio.TFRecordDataset(tmp_path / "data", schema).steps()

    @pytest.mark.parametrize("window", [0, -1, 1.5, True, "2"])
    def test_windows(self, paths: list[str], window: Any) -> None:
        with pytest.raises(ValueError, match="window must be a whole number of at least 1"):
            tio.TFRecordDataset(paths, SCHEMA).steps(window=window)

    def test_steps_of_steps(self, paths: list[str]) -> None:
        with pytest.raises(ValueError, match="is one of steps already"):
            steps_of(paths).steps()

    def test_without_an_index(self, paths: list[str]) -> None:
        with pytest.raises(ValueError, match="steps need an index"):
            tio.TFRecordDataset(paths, SCHEMA, index=None).steps()

    def test_batches_by_length(self, paths: list[str]) -> None:
        match = "a dataset of steps has no batches by length"
        by_length = tio.TFRecordDataset(paths, SCHEMA, batch_tokens=9, length_key="steps/id")
        with pytest.raises(ValueError, match=match):
            by_length.steps()
        for options in ({"batch_tokens": 9}, {"length_key": "steps/id"}):
            with pytest.raises(ValueError, match=match):
                steps_of(paths).replace(**options)
