"""A warning about features that none of the first 1,000 records has."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.examples import example_of, sequence_example_of
from tests.support.tfrecord import write_tfrecord

INT = tio.FixedLenFeature([], "int64")
MISSPELT = {"id": INT, "prise": tio.VarLenFeature("float32")}
WARNING = (
    "none of the first {} has the feature 'prise' of the schema; did you mean 'price'? "
    "The record has: 'id', 'price'"
)


def write(path: Path, count: int, late: int | None = None) -> Path:
    """Write records of which all have "id" and "price", and one also has "late"."""
    records = [
        example_of(id=[number], price=[0.5], **({"late": [1]} if number == late else {}))
        for number in range(count)
    ]
    write_tfrecord(path, records)
    return path


@pytest.fixture
def warnings(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.WARNING, "torchrec_io")
    return lambda: [record.message for record in caplog.records]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("watch") / "a.tfrecord", 1500, late=900)


SPECS: dict[str, Any] = {
    "variable": tio.VarLenFeature("float32"),
    "default": tio.FixedLenFeature([], "float32", 0.0),
    "images": tio.SequenceFeature(tio.ImageFeature(size=(4, 4))),
}


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS.keys())
@pytest.mark.parametrize("batch_size", [None, 64])
def test_a_misspelt_feature_is_logged_once(
    path: Path, warnings: Callable[[], list[str]], spec: Any, batch_size: int | None
) -> None:
    ds = tio.TFRecordDataset(path, {"id": INT, "prise": spec}, batch_size=batch_size)
    for _ in range(2):
        list(ds)
    assert warnings() == [WARNING.format("1,000 records")]


def test_each_stored_feature_of_a_sparse_feature_is_looked_for(
    path: Path, warnings: Callable[[], list[str]]
) -> None:
    sparse = tio.SparseFeature("idd", "price", "float32", 10)
    with pytest.raises(tio.DecodeError):
        list(tio.TFRecordDataset(path, {"x": sparse}, batch_size=8))
    list(tio.TFRecordDataset(path, {"x": sparse}, batch_size=8, on_error="skip"))
    assert "has the feature 'idd' of the schema; did you mean 'id'" in warnings()[0]


@pytest.mark.parametrize(
    ("made", "options"),
    [
        (tio.TFRecordDataset, {"batch_size": 64}),
        (tio.TFRecordDataset, {}),
        # Record 900 comes after 1,224 others.
        (tio.TFRecordDataset, {"batch_size": 64, "shuffle": True, "seed": 0}),
        (tio.TFRecordStream, {"batch_size": 64}),
        (tio.TFRecordDataset, {"batch_size": 8, "pack": tio.Pack(4, "id")}),
        (tio.TFRecordMapDataset, {}),
    ],
)
def test_a_feature_of_one_of_the_first_records_is_no_mistake(
    path: Path, warnings: Callable[[], list[str]], made: Any, options: dict[str, Any]
) -> None:
    """Each kind of dataset finds record 900, and misses a feature that no record has."""
    for name, count in (("late", 0), ("latte", 1)):
        ids = tio.VarLenFeature("int64") if "pack" in options else INT
        ds = made(path, {"id": ids, name: tio.VarLenFeature("int64")}, **options)
        for item in ds if hasattr(ds, "__iter__") else range(len(ds)):
            _ = item if hasattr(ds, "__iter__") else ds[item]
        assert len(warnings()) == count
    assert "the feature 'latte' of the schema" in warnings()[0]


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("is_map", [False, True])
def test_workers_warn_once(tmp_path: Path, log: Path, workers: int, is_map: bool) -> None:
    """Worker 1 has the records of the second half; worker 0 must not warn of their features."""
    path = write(tmp_path / "b.tfrecord", 40, late=39)
    schema = {**MISSPELT, "late": tio.VarLenFeature("int64")}
    ds: Any = tio.TFRecordMapDataset(path, schema) if is_map else tio.TFRecordDataset(path, schema)
    for _ in range(3):
        assert sum(1 for _ in DataLoader(ds, batch_size=None, num_workers=workers)) == 40
    lines = log.read_text().splitlines()
    [line] = [each for each in lines if "has the feature" in each]  # trainers may have others
    assert line.startswith("none of the first 40 records has the feature 'prise' of the schema;")


def test_ranks_warn_once(tmp_path: Path, warnings: Callable[[], list[str]]) -> None:
    path = write(tmp_path / "b.tfrecord", 40, late=39)
    schema = {**MISSPELT, "late": tio.VarLenFeature("int64")}
    for rank in range(2):
        list(tio.TFRecordDataset(path, schema, batch_size=4, rank=rank, world_size=2))
    assert warnings() == [
        WARNING.format("40 records").replace("'id', 'price'", "'id', 'late', 'price'")
    ]


def test_a_sequence_example_read_as_an_example(
    tmp_path: Path, warnings: Callable[[], list[str]]
) -> None:
    record = sequence_example_of({"id": [1]}, {"frames": [[1.0], [2.0]]})
    path = write_tfrecord(tmp_path / "s.tfrecord", [record] * 3)
    spec = tio.VarLenFeature("float32")
    assert len(list(tio.TFRecordDataset(path, {"frames": spec}))) == 3
    expected = (
        "none of the first 3 records has the feature 'frames' of the schema; the record looks "
        "like a tf.train.SequenceExample: use Schema(context=..., sequence=...)"
    )
    assert warnings() == [expected]
    list(tio.TFRecordDataset(path, tio.Schema(context={"id": INT}, sequence={"frames": spec})))
    assert len(warnings()) == 1


def test_features_in_the_examples_of_lists(
    tmp_path: Path, warnings: Callable[[], list[str]]
) -> None:
    one = example_of(id=[1], price=[0.5])
    path = write_tfrecord(tmp_path / "l.tfrecord", [b"\x0a" + bytes([len(one)]) + one] * 2)
    for name, count in (("price", 0), ("prise", 1)):
        spec = tio.FixedLenFeature([], "float32", 0.0)
        list(tio.TFRecordDataset(path, tio.ranking.Schema(examples={name: spec})))
        assert len(warnings()) == count
