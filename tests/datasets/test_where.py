"""Datasets of records that a predicate chooses, compared with a list of the same records."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.support.datasets import SCHEMA, numbers_of, record
from tests.support.examples import example_of
from tests.support.tfrecord import write_tfrecord
from tests.support.threads import threads_of_other_tests, wait_until_threads_end
from torchrec_io._datasets import record_scan

SIZES = [30, 0, 7, 13]
COUNT = sum(SIZES)

residues = st.sets(st.integers(0, 6))


def make(paths: Any, **options: Any) -> tio.TFRecordDataset:
    return tio.TFRecordDataset(paths, SCHEMA, **{"batch_size": 3, **options})


def where(dataset: Any, kept: set[int], **options: Any) -> Any:
    """Choose the records whose ids have some remainders of 7."""
    wanted = torch.tensor(sorted(kept), dtype=torch.int64)
    return dataset.where(lambda batch: torch.isin(batch["id"] % 7, wanted), **options)


def chosen(kept: set[int], numbers: Any = range(COUNT)) -> list[int]:
    return [number for number in numbers if number % 7 in kept]


# ---- records ----


@given(residues)
def test_chosen_records_have_the_order_of_the_parent(paths: list[str], kept: set[int]) -> None:
    part = where(make(paths), kept)
    assert numbers_of(part) == chosen(kept)
    assert part.num_records == len(chosen(kept))
    assert len(part) == -(-len(chosen(kept)) // 3)
    assert numbers_of(where(make(paths, batch_size=None), kept)) == chosen(kept)


@given(residues, residues, st.integers(0, COUNT - 1))
def test_records_of_a_part(paths: list[str], kept: set[int], then: set[int], begin: int) -> None:
    part, _ = make(paths).split(0.6, 0.4, seed=begin)
    for parent in (make(paths, split=f"[{begin}:]"), make(paths).take(begin), part):
        numbers = numbers_of(parent)
        assert numbers_of(where(parent, kept)) == chosen(kept, numbers)
        assert numbers_of(where(where(parent, kept), then)) == chosen(kept & then, numbers)


@given(residues)
def test_random_access(paths: list[str], kept: set[int]) -> None:
    dataset = tio.TFRecordMapDataset(paths, SCHEMA, with_key=True)
    part = where(dataset, kept)
    expected = chosen(kept)
    assert len(part) == len(expected)
    found = [part[i] for i in range(len(part))]
    assert [int(sample["id"]) for _, sample in found] == expected
    assert [key for key, _ in found] == [dataset[number][0] for number in expected]
    assert len(dataset) == COUNT


def test_options_and_schema_are_kept(paths: list[str]) -> None:
    dataset = make(paths, shuffle=True, seed=5, with_key=True, drop_last=True, num_threads=1)
    part = where(dataset, {2}, features=["id"])
    assert repr(part) == repr(dataset).replace("50 records", "7 of 50 records")
    keys, batch = next(iter(part))
    assert list(batch) == list(SCHEMA)
    assert len(keys) == 3


def test_no_record_is_chosen(paths: list[str], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "torchrec_io"):
        part = where(make(paths), set())
    assert caplog.messages == ["where() chose none of 50 records"]
    assert list(part) == []
    assert len(part) == 0
    assert len(where(part, {1})) == 0


# ---- the pass ----


@pytest.mark.parametrize("threads", [1, 2, None])
def test_each_record_is_seen_once_in_order(
    paths: list[str], threads: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_scan, "_BLOCK_BYTES", 4 * len(record(40)))
    seen: list[int] = []

    def keep(batch: Any) -> Any:
        assert isinstance(batch, tio.Batch)
        assert threading.current_thread() is threading.main_thread()
        seen.extend(batch["id"].tolist())
        return batch["id"] >= 0

    dataset = make(
        paths, shuffle=True, epochs=3, rank=1, world_size=3, uneven="pad", num_threads=threads
    )
    assert dataset.where(keep).num_records == COUNT
    assert seen == list(range(COUNT))


def test_only_named_features_are_parsed(tmp_path: Path) -> None:
    records = [
        example_of(label=[i], image=[b"not an image"], **{"box/x": [i], "boxes": [1]})
        for i in range(5)
    ]
    path = write_tfrecord(tmp_path / "data", records)
    schema: dict[str, Any] = {
        "label": tio.FixedLenFeature([], "int64"),
        "image": tio.ImageFeature(),
        "box": {"x": tio.FixedLenFeature([], "int64")},
        "boxes": tio.FixedLenFeature([], "int64"),
    }
    seen: list[list[str]] = []

    def keep(batch: Any) -> Any:
        seen.append(list(batch))
        return batch["label"] > 2

    dataset = tio.TFRecordDataset(path, schema)
    assert len(dataset.where(keep, features=["label"])) == 2
    assert len(dataset.where(keep, features=("box", "label"))) == 2
    assert len(dataset.where(keep, features=["label", "box/x"])) == 2
    assert seen == [["label"], ["label", "box"], ["label", "box"]]
    with pytest.raises(tio.DecodeError):
        dataset.where(keep)


def test_items_without_columns(paths: list[str]) -> None:
    dataset = tio.TFRecordDataset(paths)
    part = dataset.where(lambda records: [len(each) > len(record(3)) for each in records])
    assert list(part) == [each for each in dataset if len(each) > len(record(3))]
    lengths = tio.TFRecordDataset(paths, len)
    part = lengths.where(lambda items: np.array(items) > 40, cache_key="long")
    assert list(part) == [item for item in lengths if item > 40]


# ---- answers of the predicate ----


@pytest.mark.parametrize(
    "convert", [torch.tensor, np.array, list, tuple, lambda flags: [*map(np.bool_, flags)]]
)
def test_kinds_of_answers(paths: list[str], convert: Any) -> None:
    part = make(paths).where(lambda batch: convert([n > 46 for n in batch["id"].tolist()]))
    assert numbers_of(part) == [47, 48, 49]


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (lambda ids: ids, TypeError, r", got int64 \[50\]"),
        (lambda ids: ids.numpy(), TypeError, r", got int64 \[50\]"),
        (lambda ids: (ids > 3)[1:], ValueError, r", got bool \[49\]"),
        (lambda ids: (ids > 3)[:, None], ValueError, r", got bool \[50, 1\]"),
        (lambda ids: (ids > 3).all(), ValueError, r", got bool \[\]"),
        (lambda ids: (ids > 3).numpy()[:0], ValueError, r", got bool \[0\]"),
        (lambda ids: [True] * (len(ids) - 1), ValueError, r", got bool \[49\]"),
        (lambda ids: [1] * len(ids), TypeError, r", got int64 \[50\]"),
        (lambda _: None, TypeError, ": a bool Tensor, a bool array or a list, got None"),
        (lambda _: True, TypeError, ": a bool Tensor, a bool array or a list, got True"),
    ],
)
def test_other_answers(paths: list[str], answer: Any, error: type[Exception], message: str) -> None:
    wanted = "the predicate must return one bool for each of 50 records"
    for dataset in (make(paths), tio.TFRecordMapDataset(paths, SCHEMA)):
        with pytest.raises(error, match=wanted + message):
            dataset.where(lambda batch: answer(batch["id"]))


def test_an_error_of_the_predicate(paths: list[str]) -> None:
    others = threads_of_other_tests()
    with pytest.raises(ZeroDivisionError):
        make(paths).where(lambda _: 1 / 0)
    wait_until_threads_end(others)


# ---- arguments ----


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"features": ["none"]}, ValueError, "must be names of the schema, got 'none'"),
        ({"features": []}, ValueError, "must have at least one name, got none"),
        ({"features": "id"}, TypeError, "must be a list of names, got 'id'"),
        ({"features": [1]}, TypeError, r"must be a list of names, got \[1\]"),
        ({"cache_key": ""}, ValueError, "must be a non-empty str or None, got ''"),
        ({"cache_key": 1}, ValueError, "must be a non-empty str or None, got 1"),
    ],
)
def test_invalid_arguments(
    paths: list[str], options: Any, error: type[Exception], message: str
) -> None:
    def never(_: Any) -> Any:
        raise AssertionError

    [name] = options
    with pytest.raises(error, match=f"^{name} {message}"):
        make(paths).where(never, **options)
    predicate: Any = "id"
    with pytest.raises(TypeError, match="predicate must be a function of a Batch, got 'id'"):
        make(paths).where(predicate)
    with pytest.raises(ValueError, match="features must be None for a dataset without"):
        tio.TFRecordDataset(paths).where(never, features=["id"])


def test_a_feature_that_is_not_named(paths: list[str]) -> None:
    with pytest.raises(KeyError, match="the predicate uses 'id', which features does not name"):
        where(make(paths), {1}, features=["name"])
    with pytest.raises(KeyError, match=r"^'nothing': the batch has: 'name'$"):
        make(paths).where(lambda batch: batch["nothing"], features=["name"])
    with pytest.raises(KeyError, match=r"^'nothing'$"):
        make(paths).where(lambda _: {"a": 1}["nothing"])


# ---- bad records ----


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Write records of which 2 is no Example, 4 lacks a feature, and 6 is damaged."""
    records = [record(number) for number in range(8)]
    records[2] = b"\xff"
    records[4] = example_of(id=[4])
    path = write_tfrecord(tmp_path / "data", records)
    path.write_bytes(path.read_bytes().replace(b"record 6", b"record 5"))
    return str(path)


def test_a_bad_record_raises(path: str) -> None:
    for dataset in (make(path), tio.TFRecordMapDataset(path, SCHEMA)):
        with pytest.raises(tio.TorchRecIOError) as raised:
            where(dataset, {1})
        assert getattr(raised.value, "record", None) in {2, 6}


@pytest.mark.parametrize("keyed", [False, True])
def test_skipped_records_are_not_chosen(
    path: str, keyed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    dataset = make(path, on_error="skip")
    part = where(dataset, {1, 2, 3, 4, 5, 6}, cache_key="some" if keyed else None)
    assert dataset.skipped == 3
    assert "skipped 3 errors, the first one:" in caplog.text
    assert numbers_of(part) == [1, 3, 5]
    assert part.skipped == 0
    assert part.num_records == 3
    errors: list[Any] = []
    assert numbers_of(where(make(path, on_error=errors.append), {3, 6})) == [3]
    assert sorted(error.record for error in errors) == [2, 4, 6]


def test_features_that_are_not_named_are_not_checked(path: str) -> None:
    part = where(make(path, on_error="skip"), set(range(7)), features=["id"])
    assert part.num_records == 6
    assert numbers_of(part) == [0, 1, 3, 5, 7]
