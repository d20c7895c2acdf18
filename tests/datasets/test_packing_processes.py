"""Datasets with packed rows: process layouts and states."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

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


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return write_documents(tmp_path_factory.mktemp("packing"))


class TestProcesses:
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


def test_what_rows_look_like_may_change(paths: list[str]) -> None:
    state = dict(states_of(make(paths)))[3]
    other = make(paths, packed(pad_id=3, labels="next", also=["weights"]))
    other.load_state_dict(state)
    whole = make(paths, packed(pad_id=3))
    assert batches_of(other) == batches_of(whole)[3:]
