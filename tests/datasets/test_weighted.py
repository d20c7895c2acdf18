"""Datasets that draw records by weight: ranks, parts, passes over the data, and other formats."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.support.datasets import SCHEMA, ids_of, numbers_of, open_records, record
from tests.support.episodes import step_ids, steps_of, write_episodes
from tests.support.examples import example_of
from tests.support.orders import chi_square_is_plausible
from tests.support.tfds import numbered, write_tfds
from tests.support.tfrecord import write_tfrecord

SIZES = [23, 0, 17, 20]
COUNT = sum(SIZES)
WEIGHTS = [number % 5 for number in range(COUNT)]


def make(paths: Any, **options: Any) -> Any:
    weights = {"weights": WEIGHTS, **options.pop("draws", {})}
    shuffle = tio.Shuffle(**{name: value for name, value in weights.items() if value is not None})
    return open_records(paths, **{"shuffle": shuffle, "seed": 5, "uneven": "keep", **options})


def drawable(numbers: Any) -> list[int]:
    return [number for number in numbers if WEIGHTS[number] > 0]


# ---- ranks and workers ----


@given(
    world=st.integers(1, 5),
    size=st.integers(1, 9),
    count=st.one_of(st.none(), st.integers(1, 150)),
    uneven=st.sampled_from(["keep", "drop", "pad"]),
)
def test_ranks_share_the_draws(
    paths: list[str], world: int, size: int, count: int | None, uneven: str
) -> None:
    options = {"draws": {"num_samples": count}}
    whole = make(paths, **options)
    draws = numbers_of(whole)
    assert len(draws) == len(whole) == whole.num_records == (count or COUNT)
    ranks = [
        make(paths, **options, rank=rank, world_size=world, batch_size=size, uneven=uneven)
        for rank in range(world)
    ]
    found = [ids_of(rank) for rank in ranks]
    assert [len(rank) for rank in ranks] == [len(batches) for batches in found]
    steps = itertools.zip_longest(*found, fillvalue=[])
    together = [number for step in steps for batch in step for number in batch]
    end = len(draws) - (len(draws) % world if uneven == "drop" else 0)
    assert together[:end] == draws[:end]
    padding = [draws[i % len(draws)] for i in range(-len(draws) % world)]
    assert together[end:] == (padding if uneven == "pad" else [])


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers(paths: list[str], method: str) -> None:
    for replacement in (True, False):
        draws = {"weights": lambda batch: batch["id"] % 5, "replacement": replacement}
        dataset = make(paths, batch_size=4, draws=draws)
        expected = [ids_of(dataset), ids_of(dataset)]
        dataset.set_epoch(0)
        loader = tio.make_loader(dataset, num_workers=2, multiprocessing_context=method)
        assert [ids_of(loader), ids_of(loader)] == expected
        assert expected[0] != expected[1]


# ---- parts ----


def test_parts_keep_the_weights_of_their_records(paths: list[str]) -> None:
    whole = make(paths, draws={"replacement": False})
    assert sorted(numbers_of(whole)) == drawable(range(COUNT))
    parts: list[tuple[Any, Any]] = [
        (whole.where(lambda batch: batch["id"] % 3 == 0, features=["id"]), range(0, COUNT, 3)),
        (whole.select([*range(50, 60), 4]), [4, *range(50, 60)]),
        (whole.take(31), range(31)),
        (make(paths, draws={"replacement": False}, split="[20:40]"), range(20, 40)),
        (whole.replace(batch_size=3, seed=2), range(COUNT)),
    ]
    for part, numbers in parts:
        assert sorted(numbers_of(part)) == drawable(numbers)
        assert part.num_records == len(drawable(numbers))
    left, right = whole.split(0.7, 0.3, seed=1)
    assert sorted(numbers_of(left) + numbers_of(right)) == drawable(range(COUNT))
    plain = whole.replace(shuffle=False)
    assert numbers_of(plain) == [*range(COUNT)]
    again = plain.replace(shuffle=tio.Shuffle(weights=WEIGHTS, replacement=False))
    assert numbers_of(again) == numbers_of(whole.replace())


def test_a_part_without_any_weight(paths: list[str]) -> None:
    with pytest.raises(ValueError, match="weight must be positive, but those of 2 records are"):
        make(paths).select([0, 5])
    assert len(make(paths).take(0)) == 0


def test_classes_are_balanced_in_each_part(tmp_path: Path) -> None:
    labels = [b"cat"] * 40 + [b"dog"] * 7 + [b"ant"] * 13
    records = [example_of(id=[i], name=[name]) for i, name in enumerate(labels)]
    path = write_tfrecord(tmp_path / "data", records)
    schema = {name: SCHEMA[name] for name in ("id", "name")}
    shuffle = tio.Shuffle(balance="name", num_samples=6_000)
    whole = tio.TFRecordDataset(path, schema, shuffle=shuffle, batch_size=500, seed=1)
    for part in (whole, whole.take(50), whole.where(lambda batch: batch["id"] % 2 == 1)):
        numbers = numbers_of(part)
        counts = Counter(labels[number] for number in numbers)
        assert chi_square_is_plausible(np.array([*counts.values()]))
        assert len(counts) == 3
        dogs = Counter(number for number in numbers if labels[number] == b"dog")
        assert chi_square_is_plausible(np.array([*dogs.values()]))
    assert {labels[number] for number in numbers_of(whole.take(45))} == {b"cat", b"dog"}


# ---- the pass ----


@pytest.mark.parametrize(
    "weights",
    [
        "weight",
        lambda batch: batch["weight"],
        lambda batch: batch["weight"].double().requires_grad_(),
        lambda batch: batch["weight"].numpy(),
        lambda batch: batch["weight"].tolist(),
        lambda batch: batch["id"] % 5,
    ],
)
def test_weights_that_are_found_in_the_records(tmp_path: Path, weights: Any) -> None:
    records = [example_of(id=[i], weight=[float(i % 5)]) for i in range(COUNT)]
    path = write_tfrecord(tmp_path / "data", records)
    schema = {"id": SCHEMA["id"], "weight": tio.FixedLenFeature([], "float32")}
    kinds: list[dict[str, Any]] = [{}, {"replacement": False}, {"num_samples": 90}]
    for split, draws in itertools.product([None, "[10:30]"], kinds):
        given = tio.Shuffle(weights=WEIGHTS, **draws)
        expected = tio.TFRecordDataset(path, schema, split=split, shuffle=given)
        shuffle = tio.Shuffle(weights=weights, **draws)
        found = tio.TFRecordDataset(path, schema, split=split, shuffle=shuffle)
        assert numbers_of(found) == numbers_of(expected)


def test_a_function_is_called_once_for_each_record(paths: list[str]) -> None:
    seen: list[tuple[str, int]] = []

    def weigh(batch: Any) -> Any:
        seen.extend(zip(["".join(batch)] * batch.num_records, batch["id"].tolist(), strict=True))
        return batch["id"] % 5

    draws = {"weights": weigh, "features": ["id"]}
    dataset = make(paths, draws=draws, batch_size=4, split="[5:50]")
    assert seen == [("id", number) for number in range(5, 50)]
    dataset.replace(seed=3).split(0.5, 0.5)[0].take(9)
    list(dataset)
    assert len(seen) == 45


def test_the_pass_is_cached(
    paths: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHREC_IO_CACHE", str(tmp_path))
    calls: list[int] = []

    def weigh(batch: Any) -> Any:
        calls.append(batch.num_records)
        return batch["id"] % 5

    draws = {"weights": weigh, "cache_key": "rare"}
    expected = numbers_of(make(paths))
    for _ in range(2):
        assert numbers_of(make(paths, draws=draws)) == expected
    assert sum(calls) == COUNT
    for same in ({"balance": "id"}, {"weights": "id"}):  # results of other names and kinds
        other = {"weights": None, **same, "cache_key": "rare"}
        found = [
            numbers_of(make(paths, draws={**other, "cache_key": key})) for key in ("rare", None)
        ]
        assert found[0] == found[1] == numbers_of(make(paths, draws=other))
    make(paths).where(lambda batch: batch["id"] > 3, cache_key="rare")
    assert numbers_of(make(paths, draws=draws)) == expected
    calls.clear()
    numbers_of(make(paths, draws=draws, split="[:30]"))
    assert sum(calls) == 30
    with pytest.raises(ValueError, match="cache_key must be a non-empty str or None, got 1"):
        make(paths, draws={"weights": weigh, "cache_key": 1})


@pytest.mark.parametrize(
    ("draws", "kind", "message"),
    [
        ({"weights": "id_"}, ValueError, "weights must be names of the schema, got 'id_'"),
        ({"weights": "name"}, ValueError, "'name' of weights must have one number for each"),
        ({"weights": "tokens"}, ValueError, "'tokens' of weights must have .*, got Ragged"),
        ({"balance": "tokens"}, ValueError, "of balance must have one integer or string in each"),
        ({"weights": lambda _: None}, ValueError, "must return one number for each of 60 .*None"),
        ({"weights": lambda batch: batch["id"][1:]}, ValueError, r"got int64 \[59\]"),
        (
            {"weights": lambda batch: batch["id"] - 3},
            ValueError,
            "not negative, got -3.0 for record 0",
        ),
        (
            {"weights": lambda batch: batch["id"] * 0},
            ValueError,
            "but those of 60 records are all 0",
        ),
        (
            {"weights": lambda batch: batch["name"], "features": ["id"]},
            KeyError,
            "the weights function uses 'name', which features does not name",
        ),
    ],
)
def test_values_that_are_no_weights(
    paths: list[str], draws: Any, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        make(paths, draws={"weights": None, **draws})


def test_records_without_a_schema(paths: list[str]) -> None:
    by_size = tio.Shuffle(weights=lambda records: [len(each) for each in records])
    assert len(list(tio.TFRecordDataset(paths, shuffle=by_size))) == COUNT
    with pytest.raises(ValueError, match="balance='id' needs a schema of features"):
        tio.TFRecordDataset(paths, shuffle=tio.Shuffle(balance="id"))


@pytest.mark.parametrize("draws", [{"weights": "id"}, {"balance": "id"}])
def test_bad_records_are_not_drawn(tmp_path: Path, draws: Any) -> None:
    records = [record(number) for number in range(1, 20)]
    records[4] = records[9] = b"\xff"
    path = write_tfrecord(tmp_path / "data", records)
    with pytest.raises(tio.DecodeError):
        make(path, draws={"weights": None, **draws})
    options = {"draws": {"weights": None, "replacement": False, **draws}}
    skipping = make(path, **options, on_error="skip")
    assert skipping.skipped == 2
    assert sorted(numbers_of(skipping)) == [n for n in range(1, 20) if n not in (5, 10)]
    assert skipping.skipped == 2
    errors: list[Any] = []
    assert len(make(path, **options, on_error=errors.append)) == 17
    assert [error.record for error in errors] == [4, 9]


# ---- other datasets ----


def test_mixtures(paths: list[str]) -> None:
    parts = [make(paths, draws={"num_samples": 200}), make(paths, draws={"replacement": False})]
    mixed = tio.mix(parts, weights=[3, 1], batch_size=5, source="part", stop="each_once")
    for epoch in range(2):
        found: list[list[int]] = [[], []]
        for batch in mixed:
            for part, number in zip(batch["part"].tolist(), batch["id"].tolist(), strict=True):
                found[part].append(number)
        for part, own in zip(parts, found, strict=True):
            part.set_epoch(epoch)
            assert own == numbers_of(part)
    assert mixed.num_records == 200 + len(drawable(range(COUNT)))


def test_weights_of_steps(tmp_path: Path) -> None:
    paths = write_episodes(tmp_path, [[3, 4], [5]])
    steps = steps_of(paths)
    stored = [number for each in step_ids(steps) for number in np.ravel(each).tolist()]
    weights = [number % 3 for number in range(len(stored))]
    shuffle = tio.Shuffle(weights=weights, replacement=False)
    drawn = step_ids(steps.replace(shuffle=shuffle))
    found = [number for each in drawn for number in np.ravel(each).tolist()]
    assert sorted(found) == [n for n, weight in zip(stored, weights, strict=True) if weight]
    assert found != sorted(found)
    with pytest.raises(ValueError, match=r"one value for each of 12 records .*, got 3"):
        steps.replace(shuffle=tio.Shuffle(weights=[1, 2, 3]))
    with pytest.raises(ValueError, match="weights of records are not weights of their steps"):
        steps_of(paths, shuffle=tio.Shuffle(weights=[1, 2, 3]))


def test_other_formats(paths: list[str], tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("".join(f"{number}\n" for number in range(30)))
    lines = tio.TextLineDataset(
        tmp_path / "lines", int, shuffle=tio.Shuffle(weights=lambda items: np.array(items) > 27)
    )
    assert set(lines) == {28, 29}
    shuffle = tio.Shuffle(weights=torch.tensor([0, 1, 0, 0]), num_samples=3)
    whole = tio.WholeFileDataset(paths, shuffle=shuffle)
    assert len(list(whole)) == 3
    assert "3 of 4 records" in repr(whole)
    assert "70 draws from 60 records" in repr(make(paths, draws={"num_samples": 70}))


def test_tfds(tmp_path: Path) -> None:
    write_tfds(tmp_path, {"train": [numbered(*range(6)), numbered(*range(6, 10))]})
    shuffle = tio.Shuffle(weights=lambda batch: batch["id"] % 2, replacement=False)
    for split, count in (("train", 10), ("train[:60%]", 6)):
        dataset = tio.TFRecordDataset.from_tfds(tmp_path, split, batch_size=2, shuffle=shuffle)
        assert sorted(numbers_of(dataset)) == [*range(1, count, 2)]


def test_batches_by_length_and_rows(paths: list[str]) -> None:
    draws = numbers_of(make(paths))
    by_length = make(paths, batch_tokens=20, length_key="tokens")
    assert sorted(numbers_of(by_length)) == sorted(draws)
    rows = make(paths, batch_size=2, pack=tio.Pack(8, key="tokens"), on_error="skip")
    expected = Counter(token for number in draws for token in range(number % 5))
    found: Counter[int] = Counter()
    for batch in rows:
        for tokens, segments in zip(
            batch["tokens"].tolist(), batch["segment_ids"].tolist(), strict=True
        ):
            found.update(t for t, s in zip(tokens, segments, strict=True) if s)
    assert found == expected
