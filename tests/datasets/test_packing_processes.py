"""Datasets with packed rows: process layouts and states."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.documents import (
    LENGTH,
    MODES,
    batches_of,
    make,
    packed,
    rows_of,
    write_documents,
)
from tests.support.examples import example_of
from tests.support.states import states_of
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
    def test_a_document_in_many_batches(self, tmp_path: Path, mode: Any) -> None:
        """Each batch decodes its part of the document, also in batches that share a window."""
        tokens = [*range(LENGTH * 40)]
        path = write_tfrecord(tmp_path / "long", [example_of(tokens=tokens)])
        schema = {"tokens": tio.VarLenFeature("int64")}
        dataset = tio.TFRecordDataset(path, schema, pack=packed(mode=mode), batch_size=1)
        assert [*itertools.chain(*rows_of(dataset))] == tokens

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
        assert fetched.pop(0) == 0  # the record in which features are looked for
        assert fetched == [
            n for b in batches for n in dict.fromkeys(b["record_numbers"].flat_values.tolist())
        ]

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
