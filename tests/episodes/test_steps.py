"""Steps of episodes as samples: numbered, ordered, assigned, split and saved like records."""

from __future__ import annotations

import itertools
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.episodes import (
    SCHEMA,
    STRIDE,
    step_ids,
    steps_of,
    windows_of,
    write_episodes,
)
from tests.support.states import rest_of, states_of
from torchrec_io._records.record_reader import RecordReader

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


def all_steps(files: list[list[int]] = FILES) -> list[int]:
    return [number for [number] in windows_of(files, 1)]


class TestOrder:
    def test_steps_as_stored(self, paths: list[str]) -> None:
        dataset = steps_of(paths)
        batches = list(dataset)
        assert step_ids(batches) == all_steps()
        for batch in batches:
            assert batch["steps/id"].dim() == 1
            ids = batch["steps/id"].tolist()
            assert batch["steps/text"].tolist() == [f"step {each}".encode() for each in ids]
            assert batch["episode"].tolist() == [each // STRIDE for each in ids]
        assert (dataset.num_records, len(dataset)) == (STEPS, 5)

    @pytest.mark.parametrize("window", [1, 3, 7])
    def test_windows_stay_within_an_episode(self, paths: list[str], window: int) -> None:
        dataset = steps_of(paths, window)
        assert step_ids(dataset) == windows_of(FILES, window)
        assert dataset.num_records == len(windows_of(FILES, window))
        for batch in dataset:
            assert batch["steps/id"].shape[1] == window
            assert batch["steps/text"].shape[1] == window
            assert batch["episode"].dim() == 1

    def test_windows_longer_than_all_episodes(
        self, paths: list[str], caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "torchrec_io")
        dataset = steps_of(paths, 8)
        assert (len(dataset), list(dataset)) == (0, [])
        assert "6 of 6 records have fewer than 8 steps" in caplog.text

    def test_samples(self, paths: list[str]) -> None:
        samples = list(steps_of(paths, batch_size=None))
        assert [sample["steps/id"].item() for sample in samples] == all_steps()
        assert samples[0]["steps/text"] == b"step 0"
        assert len(steps_of(paths, batch_size=None)) == STEPS
        assert step_ids(
            DataLoader(steps_of(paths, batch_size=None), 4, collate_fn=tio.collate)
        ) == (all_steps())

    @given(Files, st.sampled_from([None, 1, 2, 4]), Shuffles, st.data())
    def test_each_once_in_any_process_layout(
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
            for each in step_ids(whole.replace(rank=rank, world_size=world_size, uneven="keep"))
        ]
        expected: list[Any] = windows_of(files, window or 1)
        if window is None:
            expected = [number for [number] in expected]
        assert sorted(seen) == expected
        assert sorted(step_ids(whole)) == expected
        if shuffle is False:
            assert step_ids(whole) == expected

    def test_blocks_are_one_read(self, paths: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        dataset = steps_of(paths, shuffle=tio.Shuffle(block=6, window=6), num_threads=1)
        read: list[int] = []
        whole = RecordReader.read

        def reading(reader: RecordReader, plan: Any) -> Any:
            read.extend(plan.numbers.tolist())
            return whole(reader, plan)

        monkeypatch.setattr(RecordReader, "read", reading)
        assert sorted(step_ids(dataset)) == all_steps()
        assert read.pop(0) == 0  # the record in which features are looked for
        assert sorted(read) == [0, 2, 3, 4, 5]  # each record once, except the one without steps

    @pytest.mark.parametrize(("method", "workers"), [("fork", 2), ("forkserver", 1)])
    def test_workers(self, paths: list[str], method: str, workers: int) -> None:
        dataset = steps_of(paths, 2, shuffle=5)
        loader = DataLoader(dataset, None, num_workers=workers, multiprocessing_context=method)
        own = steps_of(paths, 2, shuffle=5)
        assert [step_ids(loader) for _ in range(2)] == [step_ids(own) for _ in range(2)]

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
    @given(Files, st.sampled_from([None, 2]), st.integers(0, 9))
    def test_splits_divide_records(
        self,
        tmp_path_factory: pytest.TempPathFactory,
        files: list[list[int]],
        window: int | None,
        seed: int,
    ) -> None:
        paths = write_episodes(tmp_path_factory.mktemp("episodes"), files)
        records = tio.TFRecordDataset(paths, SCHEMA, batch_size=4)
        parts = [
            step_ids(part)
            for part in records.steps(range(window) if window else None).split(0.5, 0.5, seed=seed)
        ]
        expected = [
            step_ids(part.steps(range(window) if window else None))
            for part in records.split(0.5, 0.5, seed=seed)
        ]
        assert parts == expected
        windows = [[each] if window is None else each for part in parts for each in part]
        assert sorted(windows) == windows_of(files, window or 1)

    def test_part_of_a_part(self, paths: list[str]) -> None:
        first, second = steps_of(paths).split(0.5, 0.5)
        parts = [step_ids(part) for part in (*first.split(0.4, 0.6), second)]
        assert sorted(itertools.chain(*parts)) == all_steps()
        episodes = [{each // STRIDE for each in part} for part in parts]
        assert sum(map(len, episodes)) == len(set().union(*episodes)) == 5

    def test_groups_have_whole_records(self, paths: list[str]) -> None:
        seen: list[list[int]] = []

        def parity(record: Any) -> int:
            seen.append(record["steps/id"].tolist())
            return int(record["episode"]) % 2

        parts = steps_of(paths).split(0.5, 0.5, group_by=parity)
        assert seen == [
            [STRIDE * e + i for i in range(n)] for e, n in enumerate(itertools.chain(*FILES))
        ]
        parities = [{each // STRIDE % 2 for each in step_ids(part)} for part in parts]
        assert sorted(map(sorted, parities)) == [[0], [1]]

    def test_steps_of_one_feature(self, paths: list[str]) -> None:
        records = tio.TFRecordDataset(paths, SCHEMA, batch_size=4)
        one = records.steps(range(2), group="steps/id")
        assert step_ids(one) == windows_of(FILES, 2)
        assert isinstance(next(iter(one))["steps/text"], tio.Ragged)  # does not have these steps

    def test_replace(self, paths: list[str]) -> None:
        dataset = steps_of(paths, 3).replace(shuffle=True, seed=5, batch_size=2)
        assert [len(batch["episode"]) for batch in dataset] == [2, 2, 2, 2, 1]
        assert sorted(step_ids(dataset)) == windows_of(FILES, 3)
        fewer = dataset.replace(schema={"steps/id": SCHEMA["steps/id"]}, shuffle=False)
        assert next(iter(fewer)).keys() == {"steps/id"}
        assert step_ids(fewer) == windows_of(FILES, 3)
        assert len(steps_of(paths)) == 5  # unchanged

    def test_mixture_of_steps_and_records(self, paths: list[str]) -> None:
        records = tio.TFRecordDataset(paths, SCHEMA, batch_size=4)
        for other in (records.steps(range(3)), records):
            with pytest.raises(ValueError, match="datasets differ in samples: "):
                tio.mix([records.steps(range(2)), other], weights=[1, 1])


class TestStates:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("batch_size", "shuffle"), [(None, False), (3, True), (None, 6), (3, False)]
    )
    def test_resumes_at_every_position(
        self, paths: list[str], batch_size: int | None, shuffle: Any
    ) -> None:
        def make() -> tio.TFRecordDataset:
            return steps_of(paths, 2, batch_size=batch_size, shuffle=shuffle, epochs=2)

        dataset = make()
        whole, following = ([item["steps/id"].tolist() for item in dataset] for _ in range(2))
        for count, state in states_of(make()):
            resumed = make()
            resumed.load_state_dict(state)
            expected = rest_of(whole, following, count)
            assert [item["steps/id"].tolist() for item in resumed] == expected

    def test_state_of_another_kind(self, paths: list[str]) -> None:
        records = tio.TFRecordDataset(paths, SCHEMA, batch_size=4)
        kinds = [records, records.steps(), records.steps(range(1)), records.steps(range(2))]
        for saved, other in itertools.permutations(kinds, 2):
            iterator = iter(saved)
            next(iterator)
            with pytest.raises(tio.StateMismatchError, match=r"steps is .* here and .* in the"):
                other.load_state_dict(saved.state_dict())
