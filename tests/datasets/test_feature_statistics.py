"""Statistics of features: their values, their cache, and what has none."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.support.examples import example_of
from tests.support.tfds_golden import GOLDEN
from tests.support.tfrecord import frame, write_tfrecord
from torchrec_io._datasets import feature_statistics

SCHEMA = tio.Schema(
    {
        "pair": tio.FixedLenFeature([2], "float32"),
        "half": tio.FixedLenFeature([], "bfloat16", key="number"),
        "count": tio.FixedLenFeature([], "int32"),
        "flag": tio.FixedLenFeature([1], "bool"),
        "text": tio.FixedLenFeature([], "string", b""),
        "any": tio.VarLenFeature("float32"),
        "padded": tio.FixedLenSequenceFeature([], "float32", allow_missing=True),
        "large": tio.FixedLenFeature([1 << 17], "float32", [0.0] * (1 << 17)),
    }
)


def example(pair: Any, number: int = 0) -> bytes:
    pair = [float(each) for each in pair]
    return example_of(pair=pair, number=[number / 2], count=[number], flag=[number % 2])


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("TORCHREC_IO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def check(found: tio.FeatureStatistics, values: Any) -> None:
    """Compare statistics with those of NumPy."""
    values = np.asarray(values, np.float64)
    expected = {
        "mean": values.mean(axis=0),
        "std": values.std(axis=0),
        "min": values.min(axis=0),
        "max": values.max(axis=0),
        "q01": np.quantile(values, 0.01, axis=0),
        "q99": np.quantile(values, 0.99, axis=0),
    }
    assert found.count == len(values)
    for name, value in expected.items():
        array = getattr(found, name)
        assert (array.dtype, array.shape) == (np.float64, values.shape[1:])
        if name in ("mean", "std"):
            np.testing.assert_allclose(array, value, rtol=1e-9, atol=1e-12)
        else:
            assert array.tolist() == value.tolist()


# Values far from 0, which a sum of squares would lose.
_floats = st.floats(-9, 9, width=32) | st.just(0.0) | st.floats(2**20, 2**20 + 1, width=32)


@given(
    st.lists(st.tuples(_floats, _floats), min_size=1, max_size=60),
    st.integers(1, 9),
    st.integers(0, 300),
)
def test_summaries(rows: list[Any], size: int, more: int) -> None:
    """Blocks of any sizes, and fewer samples than planned."""
    values = np.array(rows, np.float64)
    summary = feature_statistics._Summary(len(values) + more)
    for begin in range(0, len(values), size):
        summary.add(values[begin : begin + size])
    check(summary.finish(), values)


def test_a_long_dataset(tmp_path: Path) -> None:
    """Only the extreme values are kept."""
    values = np.random.default_rng(0).normal(3.0, 0.1, (70_001, 2)).astype(np.float32)
    path = write_tfrecord(tmp_path / "x", [example_of(pair=row.tolist()) for row in values])
    dataset = tio.TFRecordDataset(path, SCHEMA.narrow(["pair"]), batch_size=9, shuffle=True)
    check(tio.statistics(dataset, ["pair"])["pair"], values)


def test_numbers_of_any_dtype(tmp_path: Path) -> None:
    numbers = list(range(-3, 50))
    path = write_tfrecord(tmp_path / "x", [example([n, 0.5 * n], n) for n in numbers])
    for open_as in (tio.TFRecordDataset, tio.TFRecordMapDataset):
        found = tio.statistics(open_as(path, SCHEMA), ["pair", "half", "count", "flag"])
        assert list(found) == ["pair", "half", "count", "flag"]
        check(found["pair"], [[n, 0.5 * n] for n in numbers])
        check(found["half"], [n / 2 for n in numbers])
        check(found["count"], numbers)
        check(found["flag"], [[n % 2] for n in numbers])
    dataset = tio.TFRecordDataset(path, SCHEMA)
    check(tio.statistics(dataset.select([3, 9]), "count")["count"], [0, 6])
    check(tio.statistics(dataset.take(1), "count")["count"], [-3])


def test_steps_of_tfds() -> None:
    steps = tio.TFRecordDataset.from_tfds(GOLDEN / "episodes", "train", steps="each")
    names = [
        n for n in steps.schema if n.startswith("steps/") and steps.schema[n].dtype != "string"
    ]
    samples = list(steps)

    def at(sample: Any, name: str) -> Any:
        for key in name.split("/"):
            sample = sample[key]
        return sample

    numeric = [n for n in names if hasattr(at(samples[0], n), "dim") and "image" not in n]
    assert len(numeric) > 1
    found = tio.statistics(steps, numeric)
    for name in numeric:
        check(found[name], [at(sample, name).tolist() for sample in samples])


def test_steps_of_large_episodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large record is read for each block of its samples, not for each sample."""
    values: Any = [[float(i) for i in range(40 * k)] for k in (1, 3, 0, 10)]
    images: Any = [[b"x" * 40_000] * len(v) for v in values]
    stored = zip(values, images, strict=True)
    records = [example_of(**{"steps/a": v, "steps/b": b}) for v, b in stored]
    schema = {"steps": {"a": tio.VarLenFeature("float32"), "b": tio.VarLenFeature("string")}}
    steps = tio.TFRecordDataset(write_tfrecord(tmp_path / "x", records), schema).steps()
    reads: list[int] = []
    fetch = type(steps._pipeline.loader.reader).fetch

    def counted(self: Any, plan: Any) -> Any:
        reads.append(len(plan.numbers))
        return fetch(self, plan)

    monkeypatch.setattr(type(steps._pipeline.loader.reader), "fetch", counted)
    check(tio.statistics(steps, "steps/a")["steps/a"], [x for v in values for x in v])
    assert sum(reads) == 560
    assert len(reads) < 20


def test_steps_with_offsets(tmp_path: Path) -> None:
    """Each step counts once, as the sample that it is the own step of."""
    values = [[float(i * k) for i in range(3 * k)] for k in range(5)]
    path = write_tfrecord(tmp_path / "x", [example_of(**{"steps/a": v}) for v in values])
    episodes = tio.TFRecordDataset(path, {"steps": {"a": tio.VarLenFeature("float32")}})
    repeated = episodes.steps(range(4), outside="repeat")
    check(tio.statistics(repeated, "steps")["steps/a"], [x for v in values for x in v])
    dropped = tio.statistics(episodes.steps(range(4)), "steps")["steps/a"]
    check(dropped, [x for v in values for x in v[:-3]])


# ---- the cache ----


def entries(cache: Path) -> list[Path]:
    return [path for path in cache.iterdir() if path.suffix == ".tfpass"]


def test_the_cache(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "torchrec_io")
    path = write_tfrecord(tmp_path / "x", [example([n, n], n) for n in range(9)])
    passes = []
    evaluate = feature_statistics._evaluate

    def counted(*arguments: Any) -> Any:
        passes.append(1)
        return evaluate(*arguments)

    monkeypatch.setattr(feature_statistics, "_evaluate", counted)

    def find(part: slice = slice(None), names: Any = ("pair", "count")) -> Any:
        dataset = tio.TFRecordMapDataset(path, SCHEMA)
        return tio.statistics(dataset.select(range(9)[part]), names)

    first = find()
    again = find()
    assert len(passes) == 1
    for name, each in first.items():
        for field, value in dataclasses.asdict(each).items():
            assert np.array_equal(getattr(again[name], field), value)
    find(slice(5))
    find(names=["pair"])
    find(slice(5))
    find()
    assert (len(passes), len(entries(cache))) == (3, 3)
    # tests/datasets/test_where_cache.py has files and entries that change.
    write_tfrecord(path, [example([n, n], n + 1) for n in range(9)])
    check(find()["count"], range(1, 10))
    assert "statistics of 'pair', 'count' is evaluated again: the files changed" in caplog.text


def test_lost_records(tmp_path: Path) -> None:
    records = [example([float(n), 0.0], n) for n in range(300)]
    records[7] = example([1.0])
    data = bytearray(b"".join(map(frame, records)))
    data[-1] ^= 1
    path = tmp_path / "x"
    path.write_bytes(data)
    schema = SCHEMA.narrow(["pair"])
    dataset = tio.TFRecordDataset(path, schema, on_error="skip")
    found = tio.statistics(dataset, "pair")["pair"]
    check(found, [[float(n), 0.0] for n in range(299) if n != 7])
    assert dataset.skipped == 2
    with pytest.raises(tio.TorchRecIOError, match=r"record (7|299)"):
        tio.statistics(tio.TFRecordDataset(path, schema), "pair")
    with pytest.raises(ValueError, match="need samples, got none of 1 sample"):
        tio.statistics(dataset.select([7]), "pair")
    with pytest.raises(ValueError, match="need samples, got none of 0 samples"):
        tio.statistics(dataset.take(0), "pair")


# ---- what has no statistics ----


@pytest.mark.parametrize(
    ("names", "error", "message"),
    [
        (["pairs"], ValueError, "names of the schema, got 'pairs': did you mean 'pair'"),
        ([], ValueError, "names must have at least one name, got none"),
        ([1], TypeError, r"names must be a list of names, got \[1\]"),
        (["pair", "text"], ValueError, "the feature 'text' must have numbers, not strings"),
        ("any", ValueError, r"the feature 'any' must have one shape in every sample: .*steps\(\)"),
        ("padded", ValueError, "the feature 'padded' must have one shape in every sample"),
        ("large", ValueError, r"at most 65,536 real numbers in a sample, got float32 \[131072\]"),
    ],
)
def test_invalid_names(tmp_path: Path, names: Any, error: Any, message: str) -> None:
    path = write_tfrecord(tmp_path / "x", [example([1, 2])])
    with pytest.raises(error, match=message):
        tio.statistics(tio.TFRecordDataset(path, SCHEMA), names)


@pytest.mark.parametrize("bad", [float("nan"), float("-inf")])
def test_values_that_are_not_finite(tmp_path: Path, bad: float) -> None:
    path = write_tfrecord(tmp_path / "x", [example([1, 2]), example([1, bad]), example([3, 4])])
    with pytest.raises(ValueError, match=r"'pair' must have finite values, which .*x:\d+ does not"):
        tio.statistics(tio.TFRecordDataset(path, SCHEMA), "pair")
    spec = tio.FixedLenFeature([2], "float32", valid_range=(-9, 9))
    dataset = tio.TFRecordDataset(path, {"pair": spec}, on_error="skip")
    check(tio.statistics(dataset, "pair")["pair"], [[1, 2], [3, 4]])


def test_invalid_datasets(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "x", [example([1, 2])])
    dataset = tio.TFRecordDataset(path, SCHEMA)
    mixture: Any = tio.mix([dataset, dataset], weights=[1, 1])
    with pytest.raises(TypeError, match=r"dataset of indexed files, got .*; for a mixture, call"):
        tio.statistics(mixture, "pair")
    with pytest.raises(ValueError, match="statistics need a dataset with a schema of features"):
        tio.statistics(tio.TFRecordDataset(path), "pair")
    normalize = tio.statistics(dataset, "pair")["pair"].by("min", "max")
    normalized = dataset.replace(schema=SCHEMA.normalized({"pair": normalize}))
    with pytest.raises(ValueError, match="the feature 'pair' must not be normalized already"):
        tio.statistics(normalized, "pair")
