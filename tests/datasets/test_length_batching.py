"""Datasets with batches by length: contents, process layouts, states and invalid options."""

from __future__ import annotations

import itertools
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import torchrec_io as tio
from tests.support.datasets import ids_of
from tests.support.examples import example_of, sequence_example_of
from tests.support.tfrecord import frame, write_tfrecord
from torchrec_io._order import length_batches as module
from torchrec_io._records.record_reader import RecordReader

SCHEMA = {"id": tio.FixedLenFeature([], "int64"), "tokens": tio.VarLenFeature("int64")}
LENGTHS = np.random.default_rng(0).integers(0, 20, 70).tolist()
SHUFFLES = [False, True, 10, tio.Shuffle(block=4, window=9)]
MOST = 40


@pytest.fixture
def _small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use windows of a few records, also in forked workers."""
    monkeypatch.setattr(module, "_LEAST_WINDOW", 6)
    monkeypatch.setattr(module, "_WINDOW_BATCHES", 3)


pytestmark = pytest.mark.usefixtures("_small_windows")


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("batching")
    records = [record(number) for number in range(len(LENGTHS))]
    parts = {"a": records[:30], "b": [], "c": records[30:]}
    return [str(write_tfrecord(folder / name, some)) for name, some in parts.items()]


def record(number: int) -> bytes:
    return example_of(id=[number], tokens=[number] * LENGTHS[number])


def make(paths: Any, **options: Any) -> tio.TFRecordDataset:
    defaults = {"batch_tokens": MOST, "length_key": "tokens", "seed": 5, "uneven": "keep"}
    return tio.TFRecordDataset(paths, SCHEMA, **{**defaults, **options})


def keys_of(path: Path, records: list[bytes]) -> list[str]:
    ends = itertools.accumulate((len(frame(each)) for each in records), initial=0)
    return [f"{path}:{end}" for end in ends]


# ---- batches ----


@pytest.mark.parametrize("shuffle", SHUFFLES, ids=str)
@pytest.mark.parametrize("batch_size", [None, 3])
def test_each_record_once_within_the_budget(
    paths: list[str], shuffle: Any, batch_size: int | None
) -> None:
    dataset = make(paths, shuffle=shuffle, batch_size=batch_size)
    count = len(dataset)
    batches = list(dataset)
    assert sorted(itertools.chain(*ids_of(batches))) == list(range(len(LENGTHS)))
    assert count == len(batches)
    assert dataset.num_records == len(LENGTHS)
    assert dataset.batch_size == batch_size
    for batch in batches:
        padded = batch["tokens"].to_padded()
        assert padded.numel() <= MOST
        assert len(padded) <= (batch_size or len(padded))
        lengths = batch["tokens"].lengths.tolist()
        assert lengths == sorted(lengths, reverse=True)
        assert lengths == [LENGTHS[number] for number in batch["id"].tolist()]


def test_plain_bucketing(paths: list[str]) -> None:
    batches = list(make(paths, batch_tokens=None, batch_size=4, shuffle=True))
    sizes = [len(batch["id"]) for batch in batches]
    assert sorted(sizes) == [2, *[4] * 17]
    wasted = sum(batch["tokens"].to_padded().numel() for batch in batches) - sum(LENGTHS)
    unsorted = list(make(paths, batch_tokens=None, length_key=None, batch_size=4, shuffle=True))
    as_it_comes = sum(b["tokens"].to_padded().numel() for b in unsorted) - sum(LENGTHS)
    assert 2 * wasted < as_it_comes


def test_given_lengths(paths: list[str]) -> None:
    expected = ids_of(make(paths, shuffle=True))
    for convert in (torch.tensor, list):
        assert ids_of(make(paths, shuffle=True, length_key=convert(LENGTHS))) == expected
    lengths = np.array(LENGTHS, np.uint8)
    raw = make(paths, shuffle=True, length_key=lengths).replace(schema=None)
    lengths[:] = 1  # it is not used any more
    assert list(raw) == [[record(number) for number in batch] for batch in expected]


@pytest.mark.parametrize(
    "schema",
    [
        {"x": tio.VarLenFeature("int32")},
        {"x": tio.RaggedFeature("int64", value_key="stored")},
        {"x": tio.FixedLenSequenceFeature([2], "int64", allow_missing=True)},
        tio.Schema(context={"x": tio.VarLenFeature("int64")}),
        tio.Schema(sequence={"x": tio.FixedLenSequenceFeature([2], "int64")}),
    ],
)
def test_features_with_lengths(tmp_path: Path, schema: Any) -> None:
    counts = (0, 6, 2, 4)
    records = [example_of(x=[1] * count, stored=[2] * count) for count in counts]
    if isinstance(schema, tio.Schema) and schema.sequence:
        records = [sequence_example_of({}, {"x": [[1, 1]] * count}) for count in counts]
    path = write_tfrecord(tmp_path / "data", records)
    batches = tio.TFRecordDataset(path, schema, batch_size=2, length_key="x", with_key=True)
    numbers = [[keys_of(path, records).index(key) for key in keys] for keys, _ in batches]
    assert numbers == [[1, 3], [2, 0]]


def test_steps_of_several_values_count_once(tmp_path: Path) -> None:
    records = [sequence_example_of({}, {"x": [[1, 1]] * count}) for count in (1, 2, 3, 4)]
    path = write_tfrecord(tmp_path / "data", records)
    schema = tio.Schema(sequence={"x": tio.FixedLenSequenceFeature([2], "int64")})
    batches = [*tio.TFRecordDataset(path, schema, batch_tokens=4, length_key="x")]
    assert sorted(sorted(b.lengths["x"].tolist()) for b in batches) == [[1, 2], [3], [4]]


def test_epochs_differ_and_may_have_different_numbers_of_batches(paths: list[str]) -> None:
    dataset = make(paths, shuffle=True)
    counts, epochs = [], []
    for _ in range(6):
        counts.append(len(dataset))
        epochs.append(ids_of(dataset))
    assert counts == [*map(len, epochs)]
    assert len(set(counts)) > 1
    assert len({str(epoch) for epoch in epochs}) == 6
    several = make(paths, shuffle=True, epochs=3)
    several.set_epoch(2)
    assert len(several) == sum(counts[2:5])
    assert ids_of(several) == list(itertools.chain(*epochs[2:5]))
    with pytest.raises(TypeError, match="endless"):
        len(several.replace(epochs=None))


@pytest.mark.parametrize("uneven", ["keep", "drop"])
def test_epoch_with_fewer_batches_than_ranks_does_not_end_iteration(
    paths: list[str], uneven: Any
) -> None:
    # With this shuffle, the first epoch has fewer batches than some later ones.
    shuffle = {"shuffle": True, "seed": 3}
    dataset = make(paths, **shuffle)
    counts = []
    for epoch in range(10):
        dataset.set_epoch(epoch)
        counts.append(len(dataset))
    world = max(counts)
    assert counts[0] < world
    last = {"rank": world - 1, "world_size": world, "uneven": uneven, **shuffle}
    rank = make(paths, epochs=10, **last)
    assert len(rank) == counts.count(world)
    assert len(list(rank)) == counts.count(world)
    endless = iter(make(paths, epochs=None, **last))
    assert len(next(endless)["id"]) > 0


def test_records_longer_than_the_budget(paths: list[str], caplog: pytest.LogCaptureFixture) -> None:
    long = [number for number, length in enumerate(LENGTHS) if length > 15]
    message = f"{len(long)} of 70 records are longer than batch_tokens=15"
    with pytest.raises(ValueError, match=f"{message}. The first .* {LENGTHS[long[0]]}"):
        make(paths, batch_tokens=15)
    with pytest.raises(ValueError, match=message):
        make(paths).replace(batch_tokens=15)
    errors: list[tio.TorchRecIOError] = []
    dataset = make(paths, batch_tokens=15, on_error=errors.append, shuffle=True)
    assert dataset.skipped == len(errors) == 1
    assert errors[0].record == long[0]
    assert f"{len(long)} records longer than batch_tokens=15 left out" in errors[0].reason
    assert dataset.num_records == 70 - len(long)
    seen = sorted(itertools.chain(*ids_of(dataset)))
    assert seen == sorted(set(range(70)) - set(long))
    again = dataset.replace(on_error="skip")
    assert len(caplog.records) == again.skipped == 1
    # A larger budget includes them again, and splits do not depend on the budget.
    assert dataset.replace(batch_tokens=MOST).num_records == 70
    parts, all_ = dataset.split(0.5, 0.5), make(paths).split(0.5, 0.5)
    for part, whole in zip(parts, all_, strict=True):
        expected = set(itertools.chain(*ids_of(whole))) - set(long)
        assert sorted(itertools.chain(*ids_of(part))) == sorted(expected)


def test_replace(paths: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = make(paths, shuffle=True)
    expected = ids_of(make(paths, shuffle=True, batch_tokens=60, batch_size=5))
    # The lengths are known.
    with monkeypatch.context() as patch:
        patch.setenv("TORCHREC_IO_CACHE", os.devnull)
        patch.setattr(RecordReader, "fetch", None)
        other = dataset.replace(batch_tokens=60, batch_size=5)
    assert ids_of(other) == expected
    plain = dataset.replace(batch_tokens=None, batch_size=4, length_key=None)
    usual = tio.TFRecordDataset(paths, SCHEMA, batch_size=4, shuffle=True, seed=5)
    assert ids_of(plain) == ids_of(usual)
    back = plain.replace(batch_tokens=MOST, batch_size=None, length_key="tokens")
    assert ids_of(back) == ids_of(dataset)


def test_several_features_need_a_length_key(paths: list[str]) -> None:
    schema = {"tokens": tio.VarLenFeature("int64"), "id": tio.VarLenFeature("int64")}
    with pytest.raises(ValueError, match=re.escape("of the schema ('tokens', 'id')")):
        tio.TFRecordDataset(paths, schema, batch_tokens=MOST)
    batches = list(tio.TFRecordDataset(paths, schema, batch_tokens=MOST, length_key="id"))
    assert [len(batch["id"]) for batch in batches] == [40, 30]
