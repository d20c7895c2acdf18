"""Datasets with packed rows: process layouts and states."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader
from torchdata.stateful_dataloader import StatefulDataLoader

import torchrec_io as tio
from tests.support.cover import pairs
from tests.support.documents import (
    LENGTH,
    MODES,
    SCHEMA,
    SHUFFLES,
    batches_of,
    make,
    packed,
    rows_of,
    write_documents,
)
from tests.support.examples import example_of
from tests.support.states import rest_of, states_of, through_json
from tests.support.tfrecord import write_tfrecord
from torchrec_io._records.record_reader import RecordReader


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return write_documents(tmp_path_factory.mktemp("packing"))


class TestProcesses:
    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("workers", [1, 3])
    def test_workers_yield_the_same_batches(
        self, paths: list[str], mode: Any, workers: int
    ) -> None:
        dataset = make(paths, packed(mode=mode, labels="same"), shuffle=True, epochs=2)
        own = dataset.replace()
        loader = DataLoader(dataset, batch_size=None, num_workers=workers)
        for _ in range(2):
            batches, expected = list(loader), list(own)
            assert batches_of(batches) == batches_of(expected)
            assert [b.max_seqlen for b in batches] == [b.max_seqlen for b in expected]

    @pytest.mark.parametrize("mode", MODES)
    def test_threads(self, paths: list[str], mode: Any) -> None:
        pack = packed(mode=mode)
        expected = batches_of(make(paths, pack, shuffle=True, num_threads=1))
        assert batches_of(make(paths, pack, shuffle=True, num_threads=4)) == expected

    @pytest.mark.parametrize("mode", MODES)
    def test_a_document_in_many_batches(self, tmp_path: Path, mode: Any) -> None:
        """Each batch decodes its part of the document, also in batches that share a window."""
        tokens = [*range(LENGTH * 40)]
        path = write_tfrecord(tmp_path / "long", [example_of(tokens=tokens)])
        schema = {"tokens": tio.VarLenFeature("int64")}
        dataset = tio.TFRecordDataset(path, schema, pack=packed(mode=mode), batch_size=1)
        assert [*itertools.chain(*rows_of(dataset))] == tokens

    @pytest.mark.parametrize(
        ("mode", "uneven", "world"), pairs(MODES, ["keep", "drop", "pad"], [2, 3, 5])
    )
    def test_rows_of_a_step_are_divided_over_ranks(
        self, paths: list[str], mode: Any, uneven: Any, world: int
    ) -> None:
        pack = packed(mode=mode)
        whole = rows_of(make(paths, pack, shuffle=True))
        options = {"shuffle": True, "uneven": uneven, "world_size": world, "batch_size": 2}
        ranks = [make(paths, pack, rank=rank, **options) for rank in range(world)]
        counts = [*map(len, ranks)]
        shares = [batches_of(rank) for rank in ranks]
        assert [*map(len, shares)] == counts
        assigned = [
            row for step in itertools.zip_longest(*shares, fillvalue=[]) for b in step for row in b
        ]
        expected = {
            "keep": whole,
            "drop": whole[: len(whole) // world * world],
            "pad": whole + whole[: -len(whole) % world],
        }
        assert assigned == expected[uneven]
        if uneven != "keep":
            assert len(set(counts)) == 1

    @pytest.mark.parametrize("mode", MODES)
    def test_ranks_and_workers_of_a_mixture(self, paths: list[str], mode: Any) -> None:
        parts = [
            tio.TFRecordDataset(path, SCHEMA, shuffle=True, uneven="keep") for path in paths[::2]
        ]
        pack = packed(mode=mode)
        options: dict[str, Any] = {"weights": [1, 2], "stop": "all_exhausted", "pack": pack}
        whole = rows_of(tio.mix(parts, batch_size=2, **options))
        shares = []
        for rank in range(2):
            ranked = [part.replace(rank=rank, world_size=2) for part in parts]
            dataset = tio.mix(
                ranked, batch_size=2, uneven="drop", rank=rank, world_size=2, **options
            )
            shares.append(batches_of(DataLoader(dataset, batch_size=None, num_workers=2)))
        assigned = [row for step in zip(*shares, strict=True) for batch in step for row in batch]
        assert assigned == whole[: len(assigned)]
        assert len(whole) - len(assigned) < 2

    def test_equal_numbers_of_rows_in_one_epoch_are_no_promise(self, paths: list[str]) -> None:
        dataset = make(paths, batch_size=1, uneven=None, rank=0, world_size=1, shuffle=True)
        world = next(each for each in range(2, 60) if len(dataset) % each == 0)
        ranked = dataset.replace(rank=0, world_size=world)
        with pytest.raises(ValueError, match="ranks may get different numbers of steps in other"):
            list(ranked)
        rows = len(make(paths, batch_size=1))
        world = next(each for each in range(2, 60) if rows % each == 0)
        unshuffled = make(paths, batch_size=1, uneven=None, rank=0, world_size=world)
        assert len(list(unshuffled)) == rows // world

    def test_uneven_ranks_are_refused(self, paths: list[str]) -> None:
        rows = len(make(paths, batch_size=1))
        world = next(world for world in (2, 3, 5) if rows % world)
        with pytest.raises(ValueError, match="ranks would get different numbers of batches"):
            list(make(paths, batch_size=1, uneven=None, rank=0, world_size=world))


class TestResuming:
    @pytest.mark.slow
    @pytest.mark.parametrize("method", ["forkserver", "fork"])
    def test_resuming_in_workers(self, paths: list[str], method: str) -> None:
        dataset = make(paths, shuffle=True)
        whole = batches_of(dataset)
        other = make(paths, shuffle=True)
        other.resume(epoch=0, batches=4)
        loader = DataLoader(other, batch_size=None, num_workers=2, multiprocessing_context=method)
        assert batches_of(loader) == whole[4:]

    @pytest.mark.parametrize("mode", MODES)
    @pytest.mark.parametrize("shuffle", SHUFFLES[:2], ids=str)
    def test_resuming_at_every_step(self, paths: list[str], mode: Any, shuffle: Any) -> None:
        options: dict[str, Any] = {"shuffle": shuffle, "epochs": 2}
        pack = packed(mode=mode)
        dataset = make(paths, pack, **options)
        dataset.set_epoch(2)
        whole, following = batches_of(dataset), batches_of(dataset)
        dataset.set_epoch(2)
        for given_, state in states_of(dataset):
            other = make(paths, pack, **options)
            other.load_state_dict(state)
            assert batches_of(other) == rest_of(whole, following, given_)

    @pytest.mark.parametrize("mode", MODES)
    def test_samples_resume_at_every_row(self, paths: list[str], mode: Any) -> None:
        pack = packed(mode=mode)
        dataset = make(paths, pack, batch_size=None, shuffle=True)
        whole = [sample["tokens"].tolist() for sample in dataset]
        dataset.set_epoch(0)
        for given_, state in [*states_of(dataset)][:-1:3]:
            other = make(paths, pack, batch_size=None, shuffle=True)
            other.load_state_dict(state)
            assert [sample["tokens"].tolist() for sample in other] == whole[given_:]

    @pytest.mark.slow
    @given(
        before=st.integers(1, 4),
        after=st.integers(1, 4),
        mode=st.sampled_from(MODES),
        data=st.data(),
    )
    def test_another_world_size_continues_with_the_same_rows(
        self, paths: list[str], before: int, after: int, mode: Any, data: st.DataObject
    ) -> None:
        pack = packed(mode=mode)
        whole = rows_of(make(paths, pack, shuffle=True))
        saver = data.draw(st.integers(0, before - 1))
        # Steps of 12 rows, in whatever number of processes.
        dataset = make(
            paths, pack, shuffle=True, rank=saver, world_size=before, batch_size=12 // before
        )
        steps = data.draw(st.integers(0, len(dataset) - 1))
        state = dict(states_of(dataset))[steps]
        shares = []
        for rank in range(after):
            other = make(
                paths, pack, shuffle=True, rank=rank, world_size=after, batch_size=12 // after
            )
            other.load_state_dict(state)
            shares.append(batches_of(other))
        assigned = [
            row for step in itertools.zip_longest(*shares, fillvalue=[]) for b in step for row in b
        ]
        assert assigned == whole[12 * steps :]

    @pytest.mark.parametrize("mode", MODES)
    def test_resuming_reads_no_data_twice(
        self, paths: list[str], mode: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pack = packed(mode=mode)
        dataset = make(paths, pack, num_threads=1)
        states = dict(states_of(dataset))
        fetched: list[int] = []
        plan = RecordReader.plan

        def watched(self: RecordReader, numbers: Any) -> Any:
            fetched.extend(numbers.tolist())
            return plan(self, numbers)

        other = make(paths, pack, num_threads=1)
        other.load_state_dict(states[5])
        monkeypatch.setattr(RecordReader, "plan", watched)
        batches = list(other)
        assert fetched == [
            n for b in batches for n in dict.fromkeys(b["record_numbers"].flat_values.tolist())
        ]

    @pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning")
    @pytest.mark.parametrize("workers", [0, 2])
    def test_stateful_loaders(self, paths: list[str], workers: int) -> None:
        dataset = make(paths, shuffle=True)
        whole = batches_of(dataset)
        for stop in range(0, len(whole), 6):
            dataset.set_epoch(0)
            loader: Any = StatefulDataLoader(dataset, batch_size=None, num_workers=workers)
            seen = batches_of(itertools.islice(iter(loader), stop))
            other: Any = StatefulDataLoader(
                make(paths, shuffle=True), batch_size=None, num_workers=workers
            )
            other.load_state_dict(through_json(loader.state_dict()))
            assert seen + batches_of(other) == whole

    def test_counted_batches(self, paths: list[str]) -> None:
        dataset = make(paths, shuffle=True)
        dataset.set_epoch(1)
        whole, following = batches_of(dataset), batches_of(dataset)
        for used in [0, 4, len(whole)]:
            dataset.resume(epoch=1, batches=used)
            assert batches_of(dataset) == rest_of(whole, following, used)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"length": 17}, "pack.length is 17 here and 16 in the state"),
            ({"mode": "chunk"}, "pack.mode is 'chunk' here and 'fit' in the state"),
            ({"window": 21}, "pack.window is 21 here and 20 in the state"),
            ({"separator": 1}, "pack.separators is 1 here and 0 in the state"),
            ({"long": "drop"}, "pack.splits is False here and True in the state"),
        ],
        ids=str,
    )
    def test_another_packing_is_refused(
        self, paths: list[str], change: dict[str, Any], message: str
    ) -> None:
        state = dict(states_of(make(paths)))[3]
        with pytest.raises(tio.StateMismatchError, match=re.escape(message)):
            make(paths, packed(**change)).load_state_dict(state)

    def test_what_rows_look_like_may_change(self, paths: list[str]) -> None:
        state = dict(states_of(make(paths)))[3]
        other = make(paths, packed(pad_id=3, labels="next", also=["weights"]))
        other.load_state_dict(state)
        whole = make(paths, packed(pad_id=3))
        assert batches_of(other) == batches_of(whole)[3:]
