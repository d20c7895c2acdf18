"""Normalization while parsing: each value once, whatever reads it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.documents import SCHEMA as DOCUMENTS
from tests.support.documents import packed, record
from tests.support.example_lists import ExampleListWithContext
from tests.support.examples import example_of, sequence_example_of
from tests.support.tfrecord import write_tfrecord

PAIR = tio.Normalize([1.0, -1.0], [2.0, 4.0])
NUMBER = tio.Normalize(0.5, 2.0, clip=1.0)
COUNT = 12
ROWS = tio.RaggedFeature.UniformRowLength(2)
SCHEMA = tio.Schema(
    {
        "fixed": tio.FixedLenFeature([2], "float32", valid_range=(0.0, 1000.0)),
        "default": tio.FixedLenFeature([3, 2], "float64", [9.0] * 6),
        "steps": {
            "ragged": tio.RaggedFeature("float32", partitions=[ROWS]),
            "various": tio.VarLenFeature("float64"),
            "padded": tio.FixedLenSequenceFeature([2], "float32", True, 5.0),
        },
    }
)
NORMALIZED = SCHEMA.normalized(
    {
        "fixed": PAIR,
        "default": PAIR,
        "steps/ragged": PAIR,
        "steps/various": NUMBER,
        "steps/padded": PAIR,
    }
)


def example(number: int) -> bytes:
    count = 1 + number % 4
    pairs = [float(number + i) for i in range(2 * count)]
    values: dict[str, Any] = {
        "fixed": pairs[:2],
        "steps/ragged": pairs,
        "steps/various": pairs[:count],
        "steps/padded": pairs,
    }
    if number % 2:
        values["default"] = [float(i) for i in range(6)]
    return example_of(**values)


def expected(number: int) -> dict[str, Any]:
    """The values of a record, computed from those that are read without normalization."""
    sample = tio.parse_example(example(number), SCHEMA)
    return {
        "fixed": PAIR(sample["fixed"]),
        "default": PAIR(sample["default"]),
        "ragged": PAIR(sample["steps"]["ragged"]),
        "various": NUMBER(sample["steps"]["various"]),
        "padded": PAIR(sample["steps"]["padded"]),
    }


def check_sample(sample: Any, number: int) -> None:
    values = expected(number)
    for name in ("fixed", "default"):
        assert torch.equal(sample[name], values[name])
    for name in ("ragged", "various", "padded"):
        assert torch.equal(sample["steps"][name], values[name])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_tfrecord(tmp_path / "x.tfrecord", [example(i) for i in range(COUNT)])


def test_the_formula() -> None:
    sample = tio.parse_example(example(1), NORMALIZED)
    assert sample["fixed"].tolist() == [0.0, 0.75]  # of 1 and 2
    assert sample["fixed"].dtype == torch.float32
    assert sample["steps"]["various"].tolist() == [0.25, 0.75]  # of 1 and 2
    assert tio.parse_example(example(3), NORMALIZED)["steps"]["various"].tolist() == [1.0] * 4
    assert sample["steps"]["various"].dtype == torch.float64


READERS: list[Callable[[Any], Any]] = [
    lambda path: tio.TFRecordDataset(path, NORMALIZED),
    lambda path: tio.TFRecordDataset(path, NORMALIZED, shuffle=True).where(
        lambda b: b["fixed"][:, 0] >= -0.5
    ),
    lambda path: tio.TFRecordMapDataset(path, NORMALIZED),
    lambda path: tio.TFRecordStream(path, NORMALIZED),
    lambda path: DataLoader(tio.TFRecordDataset(path, NORMALIZED), batch_size=None, num_workers=2),
]


@pytest.mark.parametrize("read", READERS)
def test_samples(path: Path, read: Any) -> None:
    samples = sorted(read(path), key=lambda sample: float(sample["fixed"][0]))
    assert len(samples) == COUNT
    for number, sample in enumerate(samples):
        check_sample(sample, number)


@pytest.mark.parametrize("open_as", [tio.TFRecordDataset, tio.TFRecordStream])
def test_batches(path: Path, open_as: Any) -> None:
    examples = [example(i) for i in range(COUNT)]
    for batch in [
        *open_as(path, NORMALIZED, batch_size=COUNT),
        tio.parse_examples(examples, NORMALIZED),
    ]:
        for number, row in enumerate(batch.samples()):
            check_sample(row, number)
        padded, lengths = batch["steps"]["padded"], batch.lengths["steps/padded"]
        assert padded[0, lengths[0] :].unique().tolist() == [5.0]  # padding stays


def test_batches_of_the_native_core_alone(path: Path) -> None:
    schema = NORMALIZED.narrow(["fixed"])
    found = [
        row
        for b in tio.TFRecordDataset(path, schema, batch_size=5, uneven="keep")
        for row in b["fixed"]
    ]
    for number, row in enumerate(found):
        assert torch.equal(row, expected(number)["fixed"])


@pytest.mark.parametrize("batch_size", [None, 4])
def test_steps(path: Path, batch_size: int | None) -> None:
    dataset: Any = tio.TFRecordDataset(path, SCHEMA).steps()
    dataset = dataset.replace(schema=dataset.schema.normalized({"steps/ragged": PAIR}))
    found = [
        each["steps"]["ragged"] for each in dataset.replace(batch_size=batch_size, uneven="keep")
    ]
    rows = torch.stack(found) if batch_size is None else torch.cat(found)
    assert torch.equal(rows, torch.cat([expected(i)["ragged"] for i in range(COUNT)]))


def test_steps_outside_of_an_episode(tmp_path: Path) -> None:
    schema = {
        "steps": {
            "action": tio.RaggedFeature("float32", partitions=[ROWS], normalize=PAIR),
            "image": tio.SequenceFeature(tio.RawFeature("uint8", [300])),
        }
    }
    values: dict[str, Any] = {
        "steps/action": [1.0, -1.0, 3.0, 3.0],
        "steps/image": [b"a" * 300, b"b" * 300],
    }
    path = write_tfrecord(tmp_path / "x", [example_of(**values)])
    for outside, last in (("zeros", [0.0, 0.0]), ("repeat", [1.0, 1.0])):
        dataset: Any = tio.TFRecordDataset(path, schema)
        offsets = {"action": range(3), "image": 0}
        first, _ = dataset.steps(offsets, outside=outside)
        assert first["steps"]["action"].tolist() == [[0.0, 0.0], [1.0, 1.0], last]


def test_valid_ranges_are_of_stored_values() -> None:
    # 0 to 1000 become -0.5 to 499.5 and 0.25 to 250.25.
    assert tio.parse_example(example_of(fixed=[0.0, 0.0]), NORMALIZED)["fixed"].tolist() == [
        -0.5,
        0.25,
    ]
    with pytest.raises(tio.DecodeError, match=r"the value -0.25 is outside the valid range"):
        tio.parse_example(example_of(fixed=[1.0, -0.25]), NORMALIZED)


def test_feature_lists() -> None:
    specs = {
        "pair": tio.FixedLenSequenceFeature([2], "float32", normalize=PAIR),
        "number": tio.VarLenFeature("float32", normalize=NUMBER),
    }
    schema = tio.Schema(
        context={"x": tio.FixedLenFeature([], "float32", normalize=NUMBER)}, sequence=specs
    )
    steps = {"pair": [[1.0, -1.0], [3.0, 3.0]], "number": [[1.0], [], [9.0, 0.5]]}
    parsed = tio.parse_sequence_example(sequence_example_of({"x": [1.5]}, steps), schema)
    assert parsed["x"].tolist() == 0.5
    assert parsed["pair"].tolist() == [[0.0, 0.0], [1.0, 1.0]]
    assert parsed["number"].tolist() == [[0.25], [], [1.0, 0.0]]


def test_lists_of_examples(tmp_path: Path) -> None:
    message = ExampleListWithContext()
    message.context.ParseFromString(example_of(query=[2.5]))
    for pair in ([1.0, -1.0], [3.0, 3.0]):
        message.examples.add().ParseFromString(example_of(pair=pair))
    schema = tio.ranking.Schema(
        {"query": tio.FixedLenFeature([], "float32", normalize=NUMBER)},
        {"pair": tio.FixedLenFeature([2], "float32", normalize=PAIR)},
    )
    path = write_tfrecord(tmp_path / "lists", [message.SerializeToString()])
    [sample] = tio.TFRecordDataset(path, schema)
    assert sample["query"].tolist() == 1.0
    assert sample["pair"].tolist() == [[0.0, 0.0], [1.0, 1.0]]


def test_csv(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("1.0\n9.0\n")
    column = tio.FixedLenFeature([], "float32", 0.5, valid_range=(0, 9), normalize=NUMBER)
    dataset = tio.TextLineDataset(tmp_path / "x.csv", tio.csv.Schema({"x": column}), batch_size=2)
    assert next(iter(dataset))["x"].tolist() == [0.25, 1.0]


def test_what_cannot_be_combined_with_it(tmp_path: Path) -> None:
    sample = tio.parse_example(example(1), NORMALIZED)
    for values, kinds in ((sample, None), ({"fixed": [1.0, 2.0]}, NORMALIZED)):
        with pytest.raises(TypeError, match="with normalize does not keep the values"):
            tio.encode_example(values, kinds)
    path = write_tfrecord(tmp_path / "documents", [record(1)])
    schema = tio.Schema(DOCUMENTS).normalized({"weights": NUMBER})
    with pytest.raises(ValueError, match="'weights' cannot be packed and normalized"):
        tio.TFRecordDataset(path, schema, pack=packed(also=["weights"]), batch_size=2)


def test_no_records() -> None:
    batch = tio.parse_examples([], NORMALIZED)
    assert batch["fixed"].shape == (0, 2)
    assert np.asarray(batch["steps"]["padded"]).size == 0
