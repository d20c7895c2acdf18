"""Datasets with packed rows: their contents, and datasets made from them."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.documents import (
    LENGTH,
    LENGTHS,
    MODES,
    SCHEMA,
    SHUFFLES,
    batches_of,
    documents_of,
    expected_windows,
    make,
    packed,
    record,
    rows_of,
    write_documents,
)
from tests.support.examples import example_of, sequence_example_of
from tests.support.states import states_of
from tests.support.tfrecord import write_tfrecord


def check_rows(batches: list[Any], documents: list[int], pack: tio.Pack) -> None:
    """Compare all columns with those of the model, which gets the documents in their order."""
    rows = itertools.chain(*expected_windows(documents, pack))
    assert {len(batch["tokens"]) for batch in batches[:-1]} <= {3}
    for batch in batches:
        some = [*itertools.islice(rows, len(batch["tokens"]))]
        assert batch["tokens"].tolist() == [row.tokens for row in some]
        assert batch["segment_ids"].tolist() == [row.segment_ids for row in some]
        assert batch["position_ids"].tolist() == [row.position_ids for row in some]
        assert batch["segment_lengths"].tolist() == [row.segment_lengths for row in some]
        numbers = [[documents[place] for place in row.documents] for row in some]
        assert batch["id"].tolist() == numbers
        if pack.also:
            assert batch["weights"].tolist() == [row.also for row in some]
        if pack.labels:
            assert batch["labels"].tolist() == [getattr(row, pack.labels) for row in some]
        sizes = [size for row in some for size in row.segment_lengths]
        assert batch.cu_seqlens.tolist() == [*itertools.accumulate(sizes, initial=0)]
        assert batch.cu_seqlens.dtype == torch.int32
        assert batch.max_seqlen == max(sizes)
    assert next(rows, None) is None


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return write_documents(tmp_path_factory.mktemp("packing"))


# ---- rows ----


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("separator", [None, -7])
@pytest.mark.parametrize("positions", ["restart", "continue"])
@pytest.mark.parametrize("labels", ["same", "next"])
def test_every_column_of_every_row(
    paths: list[str], mode: Any, separator: int | None, positions: Any, labels: Any
) -> None:
    options = {"mode": mode, "separator": separator, "positions": positions, "labels": labels}
    pack = packed(**options, also=["weights"], pad_id=-1, last="pad")
    check_rows(list(make(paths, pack)), [*range(len(LENGTHS))], pack)


@pytest.mark.parametrize("shuffle", SHUFFLES, ids=str)
@pytest.mark.parametrize("mode", MODES)
def test_rows_follow_the_order_of_the_epoch(paths: list[str], mode: Any, shuffle: Any) -> None:
    pack = packed(mode=mode, separator=-7)
    dataset = make(paths, pack, shuffle=shuffle)
    epochs = []
    for epoch in range(3):
        count = len(dataset)
        batches = list(dataset)
        assert len(batches) == count
        check_rows(batches, documents_of(dataset, epoch), pack)
        epochs += batches_of(batches)
    several = make(paths, pack, shuffle=shuffle, epochs=3)
    assert len(several) == len(epochs)
    assert batches_of(several) == epochs
    endless = make(paths, pack, shuffle=shuffle, epochs=None)
    assert batches_of(itertools.islice(endless, len(epochs))) == epochs


@pytest.mark.parametrize("mode", MODES)
def test_samples_are_rows(paths: list[str], mode: Any) -> None:
    pack = packed(mode=mode, labels="same")
    dataset = make(paths, pack, batch_size=None, shuffle=True)
    rows = rows_of(make(paths, pack, shuffle=True))
    samples = list(dataset)
    assert len(samples) == len(dataset.replace())
    assert [sample["tokens"].tolist() for sample in samples] == rows
    assert all(isinstance(sample, tio.Sample) for sample in samples)
    dataset.set_epoch(0)
    check_rows(list(DataLoader(dataset, batch_size=3)), documents_of(dataset), pack)
    dataset.set_epoch(0)
    loaded = rows_of(DataLoader(dataset, batch_size=4, num_workers=2))
    assert sorted(loaded) == sorted(rows)


def test_long_documents(paths: list[str]) -> None:
    long = {number for number, length in enumerate(LENGTHS) if length > LENGTH}
    dataset = make(paths, packed(long="drop"))
    seen = [n for b in dataset for n in b["record_numbers"].flat_values.tolist()]
    assert sorted(seen) == sorted(set(range(len(LENGTHS))) - long)
    assert dataset.skipped == 0
    message = f"{len(long)} of 60 records have more than 16 tokens, the length of a row"
    with pytest.raises(ValueError, match=message):
        make(paths, packed(long="error"))
    errors: list[Any] = []
    skipping = make(paths, packed(long="error"), on_error=errors.append)
    assert batches_of(skipping) == batches_of(make(paths, packed(long="drop")))
    assert skipping.skipped == len(errors) == 1
    assert errors[0].record == min(long)
    with pytest.raises(ValueError, match="more than 15 tokens, the length of a row less a sep"):
        make(paths, packed(long="error", separator=0))


def test_dtypes_padded_features_and_feature_lists(tmp_path: Path) -> None:
    path = write_tfrecord(
        tmp_path / "steps",
        [
            sequence_example_of({"id": [n]}, {"t": [[n + 1]] * (n + 1), "w": [[0.5]] * (n + 1)})
            for n in range(4)
        ],
    )
    schema = tio.Schema(
        context={"id": SCHEMA["id"]},
        sequence={
            "t": tio.FixedLenSequenceFeature([], "int32"),
            "w": tio.FixedLenSequenceFeature([], "float32"),
        },
    )
    pack = tio.Pack(5, "t", also=["w"], labels="next", separator=9)
    [batch] = tio.TFRecordDataset(path, schema, pack=pack, batch_size=8)
    assert batch["t"].dtype == torch.int32
    assert batch["t"].tolist() == [[1, 9, 2, 2, 9], [3, 3, 3, 9, 0], [4, 4, 4, 4, 9]]
    assert batch["w"].tolist() == [[0.5] * 5, [0.5] * 4 + [0], [0.5] * 5]
    assert batch["labels"].dtype == torch.int64
    assert batch["labels"].tolist() == [
        [9, -100, 2, 9, -100],
        [3, 3, 9, -100, -100],
        [4, 4, 4, 9, -100],
    ]


def test_other_features_by_document(tmp_path: Path) -> None:
    path = write_tfrecord(
        tmp_path / "others",
        [
            example_of(tokens=[n] * (n + 1), url=[b"u%d" % n], tags=[n, n], box=[n] * 4)
            for n in range(4)
        ],
    )
    schema: dict[str, Any] = {
        "tokens": tio.VarLenFeature("int64"),
        "meta": {
            "url": tio.RaggedFeature("string", value_key="url"),
            "tags": tio.RaggedFeature("int64", value_key="tags"),
        },
        "box": tio.FixedLenFeature([2, 2], "int64"),
    }
    [batch] = tio.TFRecordDataset(path, schema, pack=tio.Pack(3, "tokens"), batch_size=9)
    numbers = [[0, 1], [2], [3], [3]]
    assert batch["record_numbers"].tolist() == numbers
    assert batch["meta"]["url"].tolist() == [[[b"u%d" % n] for n in row] for row in numbers]
    assert batch["meta"]["tags"].tolist() == [[[n, n] for n in row] for row in numbers]
    assert batch["box"].tolist() == [[[[n, n], [n, n]] for n in row] for row in numbers]


@pytest.mark.parametrize("mode", MODES)
def test_a_document_in_many_batches(tmp_path: Path, mode: Any) -> None:
    """Each batch decodes its part of the document, also in batches that share a window."""
    tokens = [*range(LENGTH * 40)]
    path = write_tfrecord(tmp_path / "long", [example_of(tokens=tokens)])
    schema = {"tokens": tio.VarLenFeature("int64")}
    dataset = tio.TFRecordDataset(path, schema, pack=packed(mode=mode), batch_size=1)
    assert [*itertools.chain(*rows_of(dataset))] == tokens


def test_no_records(tmp_path: Path) -> None:
    empty = make(write_tfrecord(tmp_path / "empty", []))
    assert (len(empty), list(empty)) == (0, [])


# ---- datasets made from others ----


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("stop", ["first_exhausted", "each_once"])
def test_mixtures_are_packed_after_mixing(paths: list[str], mode: Any, stop: Any) -> None:
    pack = packed(mode=mode)
    parts = [
        tio.TFRecordDataset(paths[0], SCHEMA, shuffle=True, uneven="keep", seed=1),
        tio.TFRecordDataset(paths[2], SCHEMA, uneven="keep"),
    ]
    options: dict[str, Any] = {"weights": [1, 2], "stop": stop, "batch_size": 3}
    documents = [n for batch in tio.mix(parts, **options) for n in batch["id"].tolist()]
    dataset = tio.mix(parts, **options, pack=pack)
    assert dataset.num_records == len(documents)
    count = len(dataset)
    batches = list(dataset)
    assert len(batches) == count
    check_rows(batches, documents, pack)


def test_endless_mixture(paths: list[str]) -> None:
    parts = [tio.TFRecordDataset(path, SCHEMA, shuffle=True) for path in paths[::2]]
    options: dict[str, Any] = {"weights": [1, 2], "stop": "endless", "uneven": "keep"}
    dataset = tio.mix(parts, **options, batch_size=3, pack=packed())
    batches = batches_of(itertools.islice(dataset, 100))
    documents = [int(sample["id"]) for sample in itertools.islice(tio.mix(parts, **options), 200)]
    rows = [row.tokens for window in expected_windows(documents, packed()) for row in window]
    assert [*itertools.chain(*batches)][: len(rows)] == rows
    dataset.resume(epoch=0, batches=60)
    assert batches_of(itertools.islice(dataset, 40)) == batches[60:]
    with pytest.raises(TypeError, match="endless"):
        len(dataset)


def test_ranks_may_get_different_numbers_of_steps_in_other_epochs(paths: list[str]) -> None:
    options: dict[str, Any] = {"uneven": None, "rank": 0, "world_size": 2, "batch_size": 100}
    assert len([*make(paths, **options)]) == 1
    with pytest.raises(ValueError, match="different numbers of steps in other epochs"):
        next(iter(make(paths, shuffle=True, **options)))


def test_splits_and_selections(paths: list[str]) -> None:
    dataset = make(paths, shuffle=True)
    parts = dataset.split(0.5, 0.5)
    seen = [{n for b in part for n in b["record_numbers"].flat_values.tolist()} for part in parts]
    assert not seen[0] & seen[1]
    assert sorted(seen[0] | seen[1]) == [*range(len(LENGTHS))]
    even = dataset.where(lambda batch: batch["id"] % 2 == 0)
    documents = {n for b in even for n in b["record_numbers"].flat_values.tolist()}
    assert documents == {*range(0, len(LENGTHS), 2)}
    few = dataset.take(7)
    assert {n for b in few for n in b["id"].flat_values.tolist()} == {*range(7)}


def test_record_numbers_count_the_records_of_all_files(paths: list[str]) -> None:
    records = tio.TFRecordMapDataset(paths, SCHEMA)
    part = make(paths, split="[20:]", shuffle=True)
    for batch in part:
        numbers = batch["record_numbers"].flat_values.tolist()
        assert [int(records[n]["id"]) for n in numbers] == batch["id"].flat_values.tolist()


def test_more_files_than_the_core_reads_together(tmp_path: Path) -> None:
    for number in range(20):
        write_tfrecord(tmp_path / f"{number:02}.tfrecord", [record(number)])
    pack = packed(labels="next", also=["weights"])
    check_rows(list(make(tmp_path, pack)), [*range(20)], pack)


def test_the_name_of_the_tokens_is_kept(tmp_path: Path) -> None:
    """Two features may have the same stored values."""
    path = write_tfrecord(tmp_path / "two", [example_of(t=[1, 2, 3])])
    schema = {
        "first": tio.RaggedFeature("int32", value_key="t"),
        "second": tio.RaggedFeature("int64", value_key="t"),
        "third": tio.RaggedFeature("int64", value_key="t"),
    }
    for key in ("second", "third"):
        pack = tio.Pack(4, key)
        [batch] = tio.TFRecordDataset(path, schema, pack=pack, batch_size=1)
        assert batch[key].tolist() == [[1, 2, 3, 0]]
        assert batch["first"].tolist() == [[[1, 2, 3]]]


def test_transforms_get_rows(paths: list[str]) -> None:
    ends = make(paths, transform=lambda batch: batch.cu_seqlens.tolist())
    plain = list(make(paths))
    assert list(ends) == [batch.cu_seqlens.tolist() for batch in plain]
    rows = make(paths, batch_size=None, transform=lambda row: row["tokens"].tolist())
    assert list(rows) == rows_of(plain)


def test_the_description_of_a_loader(paths: list[str]) -> None:
    assert "packed rows of 16" in tio.make_loader(make(paths)).describe()


def test_batches_keep_their_segments(paths: list[str]) -> None:
    batch = next(iter(make(paths)))
    part = batch[1:]
    assert part.cu_seqlens.tolist() == [
        *itertools.accumulate(part["segment_lengths"].values.tolist(), initial=0)
    ]
    assert part.max_seqlen == int(part["segment_lengths"].values.max())
    meta = batch.to("meta")
    assert meta.max_seqlen == batch.max_seqlen
    plain = next(iter(make(paths).replace(pack=None)))
    with pytest.raises(ValueError, match="the batch has no packed rows"):
        _ = plain.cu_seqlens
    with pytest.raises(ValueError, match="the batch has no packed rows"):
        _ = plain.max_seqlen


def test_what_rows_look_like_may_change_when_a_run_is_resumed(paths: list[str]) -> None:
    state = dict(states_of(make(paths)))[3]
    other = make(paths, packed(pad_id=3, labels="next", also=["weights"]))
    other.load_state_dict(state)
    whole = make(paths, packed(pad_id=3))
    assert batches_of(other) == batches_of(whole)[3:]
