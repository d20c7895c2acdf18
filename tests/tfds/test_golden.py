"""Tests of directories that TFDS wrote, against the values that TFDS reads from them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.tfds_golden import (
    GOLDEN,
    GoldenSplit,
    at,
    compare,
    golden_split,
    golden_splits,
    tensor_of,
)

SPLITS = list(golden_splits())
# Of these directories what is read otherwise, and has tests of its own.
OTHERWISE = {
    "encoded": ["rgb_as_gray"],
    "shapes": [f"{at}_{dtype}_none" for at in ("middle", "last") for dtype in ("int32", "float32")],
}


def asked(golden: GoldenSplit) -> dict[str, Any]:
    """The options that leave out what is read otherwise."""
    names = OTHERWISE.get(golden.directory.parent.name)
    return {"features": dict.fromkeys(names)} if names else {}


def records_of(golden: GoldenSplit) -> list[Any]:
    """The records without what is read otherwise."""
    names = OTHERWISE.get(golden.directory.parent.name, [])
    return [{k: v for k, v in record.items() if k not in names} for record in golden.records]


@pytest.mark.parametrize("golden", SPLITS, ids=str)
def test_samples_and_batches(golden: GoldenSplit) -> None:
    dataset = tio.TFRecordDataset.from_tfds(golden.directory, golden.split, **asked(golden))
    samples, records = list(dataset), records_of(golden)
    assert len(samples) == len(dataset) == len(records)
    for number, (sample, record) in enumerate(zip(samples, records, strict=True)):
        compare(sample, record, f"[{number}]")
    for batches in (dataset.replace(batch_size=2), DataLoader(dataset, batch_size=2)):
        for number, batch in enumerate(batches):
            rows = records[2 * number : 2 * number + 2]
            assert len(batch.samples()) == len(rows)
            for place, record in enumerate(rows):
                compare(at(dict(batch), place), record, f"[{number}][{place}]")
        assert number == (len(records) - 1) // 2


def test_colors_as_gray() -> None:
    """TensorFlow's formula rounds otherwise than Pillow's; TFDS's reader in NumPy leaves colors."""
    golden = golden_split("encoded/1.0.0")
    dataset = tio.TFRecordDataset.from_tfds(golden.directory, "train", features=["rgb_as_gray"])
    for sample, record in zip(dataset, golden.records, strict=True):
        _, theirs, _ = record["rgb_as_gray"]
        assert apart(sample["rgb_as_gray"], theirs) <= 1


def apart(found: torch.Tensor, expected: Any) -> int:
    """By how much pixels differ at most."""
    theirs = tensor_of(*expected)
    assert (found.dtype, found.shape) == (theirs.dtype, theirs.shape)
    return int((found.int() - theirs.int()).abs().max())


def test_unknown_dimensions_that_are_not_the_first() -> None:
    """Rows whose number is known and whose length is not: a Ragged, whose rows are equally long."""
    names = OTHERWISE["shapes"]
    dataset = tio.TFRecordDataset.from_tfds(GOLDEN / "shapes", "train", features=names)
    for sample, record in zip(dataset, golden_split("shapes/1.0.0").records, strict=True):
        for name in names:
            assert isinstance(sample[name], tio.Ragged)
            compare(torch.stack(sample[name].rows()), record[name], name)


def test_known_lengths_in_lists() -> None:
    """What neither of TFDS's readers reads rightly: the values that were written."""
    dataset = tio.TFRecordDataset.from_tfds(GOLDEN / "ragged_fixed", "train")
    for n, sample in enumerate(dataset):
        assert sample["inner"].tolist() == [[n, n + i] for i in range(n)]
        assert sample["both"].tolist() == [[n, 1, 2], [3, 4, n]]
        assert sample["both_words"].tolist() == [[b"a" * n], [b"b"]]
        assert sample["inner_dict"]["n"].tolist() == list(range(n))
        assert sample["inner_dict"]["xy"].tolist() == [[0.5, i] for i in range(n)]
    assert n == 2
    episodes = tio.TFRecordDataset.from_tfds(GOLDEN / "datasets", "train", features=["pairs"])
    pairs = [sample["pairs"]["pair"].tolist() for sample in episodes]
    assert pairs == [[[i, n] for i in range(n)] for n in (2, 0, 3)]


def test_names_of_classes() -> None:
    def names_in(where: str) -> dict[str, Any]:
        schema: Any = tio.Schema.from_tfds(GOLDEN / where)
        return {name: schema[name].names for name in schema}

    names = {
        "label": ("zero", "one two", "drei/ü"),
        "numbered": ("0", "1", "2", "3", "4"),
        "listed": ("ant", "bee", "cat"),
        "meta/kind": ("x", "y"),
        "meta/deep/kind": ("p", "q", "r"),
        "tags": ("red", "green"),
        "objects/label": ("car", "bus"),
    }
    assert names_in("labels") == names
    masks = names_in("labeled")
    assert masks["mask"] == ("sky", "road", "car")
    assert masks["numbered"] == tuple("0123456")


def test_the_newest_version_of_a_config() -> None:
    golden = golden_split("configs/small/1.10.0")
    dataset = tio.TFRecordDataset.from_tfds(GOLDEN / "configs", "train", config="small")
    for sample, record in zip(dataset, golden.records, strict=True):
        compare(sample, record)
    older = tio.TFRecordDataset.from_tfds(
        GOLDEN / "configs", "train", config="small", version="1.9.0"
    )
    assert [int(sample["id"]) for sample in older] == [9]
    with pytest.raises(ValueError, match=r"large.*small"):
        tio.TFRecordDataset.from_tfds(GOLDEN / "configs", "train")


def test_by_number() -> None:
    golden = golden_split("episodes/1.0.0")
    dataset = tio.TFRecordMapDataset.from_tfds(golden.directory, "train")
    assert len(dataset) == len(golden.records)
    for number in (3, 0, 1):
        compare(dataset[number], golden.records[number])
    for sample, record in zip(dataset.__getitems__([2, 3]), golden.records[2:], strict=True):
        compare(sample, record)
