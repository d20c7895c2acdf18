"""Mixtures of datasets: weights, order, resuming and errors."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from torchdata.stateful_dataloader import StatefulDataLoader

import torchrec_io as tio
from tests.support.datasets import SCHEMA, ids_of, numbers_of, record, write_files
from tests.support.states import through_json
from tests.support.tfrecord import write_tfrecord

FIRST, SECOND = 90, 30  # ids 0..89 and 1000..1029


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], str]:
    folder = tmp_path_factory.mktemp("mix")
    second = str(folder / "second.tfrecord")
    write_tfrecord(second, [record(1000 + i) for i in range(SECOND)])
    return write_files(folder, [40, 50]), second


def pair(
    paths: tuple[list[str], str], **options: Any
) -> tuple[tio.TFRecordDataset, tio.TFRecordDataset]:
    options = {"batch_size": 8, **options}
    first, second = (tio.TFRecordDataset(some, SCHEMA, **options) for some in paths)
    return first, second


def mixed(paths: tuple[list[str], str], stop: Any = "each_once", **options: Any) -> Any:
    first, second = pair(paths, **options)
    return tio.mix([first, second], weights=[3, 1], seed=2, stop=stop)


# ---- order ----


def test_each_record_once_in_each_datasets_order(paths: Any) -> None:
    dataset = mixed(paths)
    seen = numbers_of(dataset)
    assert [n for n in seen if n < 1000] == list(range(FIRST))
    assert [n for n in seen if n >= 1000] == list(range(1000, 1000 + SECOND))
    assert dataset.num_records == FIRST + SECOND
    assert len(dataset) == len(ids_of(dataset)) == 15
    both = [batch for batch in ids_of(dataset) if min(batch) < 1000 <= max(batch)]
    assert len(both) > 5  # within batches, not batch by batch


def test_shuffles_splits_and_epochs_of_the_datasets(paths: Any) -> None:
    first, second = pair(paths)
    first = first.split(0.5, 0.5)[0].replace(shuffle=True, seed=7)
    dataset = tio.mix([first, second], weights=[1, 1], stop="each_once")
    for epoch in (0, 3):
        first.set_epoch(epoch)
        dataset.set_epoch(epoch)
        seen = numbers_of(dataset)
        assert [n for n in seen if n < 1000] == numbers_of(first)
        assert [n for n in seen if n >= 1000] == numbers_of(second)


def test_endless_repeats(paths: Any) -> None:
    first, second = pair(paths, shuffle=True)
    dataset = tio.mix([first, second], weights=[3, 1], stop="endless")
    with pytest.raises(TypeError, match="endless"):
        len(dataset)
    seen = numbers_of(itertools.islice(dataset, 60))
    for own, low, size in ((first, 0, FIRST), (second, 1000, SECOND)):
        mine = [n for n in seen if low <= n < low + 1000]
        for cycle in range(len(mine) // size):
            own.set_epoch(cycle)
            assert mine[cycle * size : (cycle + 1) * size] == numbers_of(own)
    assert 0.65 < sum(n < 1000 for n in seen) / len(seen) < 0.85
    dataset.resume(epoch=0, batches=30)
    assert numbers_of(itertools.islice(dataset, 30)) == seen[30 * 8 :]


def test_keys_name_the_files(paths: Any) -> None:
    for keys, batch in mixed(paths, with_key=True):
        for key, number in zip(keys, batch["id"].tolist(), strict=True):
            assert key.startswith(paths[1] if number >= 1000 else paths[0][number >= 40])


def test_state_of_another_mixture_is_rejected(paths: Any) -> None:
    state = mixed(paths).state_dict()
    first, second = pair(paths)
    others = {
        r"weights is \[1.0, 1.0\] here": tio.mix([first, second], weights=[1, 1], seed=2),
        "parts.1.files is": tio.mix([first, first.replace()], weights=[3, 1], seed=2),
        "parts.0.shuffle is 'True'": tio.mix([first.replace(shuffle=True), second], weights=[3, 1]),
    }
    for reason, dataset in others.items():
        with pytest.raises(tio.StateMismatchError, match=reason):
            dataset.load_state_dict(state)


# ---- repeated records, weights that change, mixtures of mixtures ----


def test_repeated_datasets_end_an_epoch_together(paths: Any) -> None:
    first, second = pair(paths, shuffle=True)
    dataset = tio.mix([first, second], repeat=[1, 4], seed=2)
    assert "repeat=[1, 4]" in repr(dataset)
    assert len(dataset) == -(-dataset.num_records // 8)
    orders = []
    for _ in range(2):
        seen = numbers_of(dataset)
        counts = collections.Counter(seen)
        assert counts == {n: 4 if n >= 1000 else 1 for n in {*numbers_of(first), *counts}}
        assert len(seen) == dataset.num_records == FIRST + 4 * SECOND
        own = [n for n in seen if n >= 1000]
        orders += [tuple(own[at : at + SECOND]) for at in range(0, len(own), SECOND)]
    assert len({*orders}) == 8
    second.set_epoch(5)
    assert list(orders[5]) == numbers_of(second)


def test_all_exhausted_restarts_until_each_dataset_was_exhausted(paths: Any) -> None:
    counts = collections.Counter(numbers_of(mixed(paths, "all_exhausted")))
    assert counts.keys() == {*range(FIRST), *range(1000, 1000 + SECOND)}
    # The datasets have as many records as their weights: both are exhausted at about that time.
    first, second = pair(paths)
    seen = numbers_of(tio.mix([first, second], weights=[1, 1], stop="all_exhausted"))
    assert [n for n in seen if n < 1000] == list(range(FIRST))
    assert seen[-1] == FIRST - 1
    own = [n for n in seen if n >= 1000]
    assert own[: 2 * SECOND] == [*range(1000, 1000 + SECOND)] * 2


def test_weights_by_the_number_of_records(paths: Any) -> None:
    first, second = pair(paths)
    sizes = [float(FIRST), float(SECOND)]
    for stop in ("each_once", "endless"):
        named = tio.mix([first, second], weights="records", stop=stop)
        given = tio.mix([first, second], weights=sizes, stop=stop)
        assert numbers_of(itertools.islice(named, 9)) == numbers_of(itertools.islice(given, 9))


def test_weights_change_at_a_number_of_records(paths: Any) -> None:
    changing = {0: [1, 0], 40: [0, 1], 60: [1, 1]}
    dataset = tio.mix(pair(paths), weights=changing, stop="endless")
    seen = [sorted(batch) for batch in ids_of(itertools.islice(dataset, 20))]
    numbers = [*itertools.chain(*seen)]
    assert numbers[:56] == [*range(40), *range(1000, 1016)]
    assert {number >= 1000 for number in numbers[64:]} == {True, False}


@pytest.mark.parametrize("source", [None, "part"])
def test_a_mixture_in_a_mixture(paths: Any, tmp_path: Path, source: str | None) -> None:
    third = tio.TFRecordDataset(write_files(tmp_path, [25]), SCHEMA, batch_size=8, shuffle=True)
    third = third.replace(seed=3)
    inner = mixed(paths, shuffle=True)
    for outer, of_third in (
        (tio.mix([third, inner], weights=[1, 2], stop="each_once", source=source), 0),
        (tio.mix([inner, third], weights=[1, 2], stop="each_once", source=source), 2),
    ):
        dataset = tio.mix([outer], weights=[1]) if source is None else outer
        batches = list(dataset)
        numbers = [number for batch in batches for number in batch["id"].tolist()]
        assert len(numbers) == dataset.num_records == FIRST + SECOND + 25
        if source is None:
            continue
        found = [number for batch in batches for number in batch["part"].tolist()]
        pairs = list(zip(found, numbers, strict=True))
        third.set_epoch(0)
        inner.set_epoch(0)
        assert [n for part, n in pairs if part == of_third] == numbers_of(third)
        assert [n for part, n in pairs if part != of_third] == numbers_of(inner)
        first = 0 if of_third else 1
        assert all((part == first) == (n < 1000) for part, n in pairs if part != of_third)


# ---- other weights and datasets after a checkpoint ----


def of_part(numbers: list[int], low: int) -> list[int]:
    return [number for number in numbers if low <= number < low + 1000]


@pytest.mark.parametrize("loader", [None, 0, 2])
def test_datasets_continue_with_new_weights(paths: Any, tmp_path: Path, loader: int | None) -> None:
    first, second = pair(paths, shuffle=True)
    third = str(tmp_path / "third")
    write_tfrecord(third, [record(2000 + i) for i in range(20)])
    added = tio.TFRecordDataset(third, SCHEMA, batch_size=8)

    def opened(parts: Any, weights: Any, world: int = 1, rank: int = 0) -> Any:
        size: Any = {"batch_size": 8 // world, "rank": rank, "world_size": world}
        made = tio.mix(parts, weights=weights, stop="endless", seed=2, **size)
        return made if loader is None else tio.make_loader(made, num_workers=loader)

    def taken(items: Any, count: int) -> list[int]:
        return numbers_of(itertools.islice(items, count))

    before = opened([first, second], [3, 1])
    seen = taken(before, 9)
    state = through_json(before.state_dict())
    assert state["sources"] == [sum(n < 1000 for n in seen), sum(n >= 1000 for n in seen)]
    changed = opened([added, second, first], [1, 1, 1])
    taken(changed, 1)  # its workers are running when the state is loaded
    with pytest.raises(
        tio.StateMismatchError, match=r"weights is .* use load_state_dict\(state, w"
    ):
        changed.load_state_dict(state)
    changed.load_state_dict(state, weights="new")
    rest = taken(changed, 12)
    for low, own in ((0, first), (1000, second), (2000, added)):
        mine = of_part(seen, low) + of_part(rest, low)
        assert mine == [*orders_of(own, 3)][: len(mine)]
        assert len(of_part(rest, low)) > 20
    # The new run is resumed without the argument, by other numbers of ranks, and changed again.
    for count in (0, 5):
        again = opened([added, second, first], [1, 1, 1])
        again.load_state_dict(state, weights="new")
        assert taken(again, count) == rest[: 8 * count]
        saved = through_json(again.state_dict())
        assert saved["sources"][2] == sum(n < 1000 for n in seen + rest[: 8 * count])
        for world in (1, 2):
            ranks = []
            for rank in range(world):
                resumed = opened([added, second, first], [1, 1, 1], world, rank)
                resumed.load_state_dict(saved)
                ranks.append(ids_of(itertools.islice(resumed, 12 - count)))
            steps = zip(*ranks, strict=True)
            found = [number for step in steps for batch in step for number in batch]
            assert found == rest[8 * count :]
        last = opened([second], [1])
        last.load_state_dict(saved, weights="new")
        used = of_part(seen, 1000) + of_part(rest[: 8 * count], 1000)
        assert used + taken(last, 5) == [*orders_of(second, 4)][: len(used) + 40]


def orders_of(dataset: Any, epochs: int) -> Iterator[int]:
    for epoch in range(epochs):
        dataset.set_epoch(epoch)
        yield from numbers_of(dataset)


@pytest.mark.parametrize("sets_epoch", [False, True])
def test_new_weights_at_the_end_of_an_epoch(paths: Any, sets_epoch: bool) -> None:
    before = mixed(paths, shuffle=True)
    list(before)
    parts = pair(paths, shuffle=True)
    changed, other = (tio.mix(parts, weights=[1, 1], stop="each_once") for _ in range(2))
    other.set_epoch(1)
    following = numbers_of(other)
    changed.load_state_dict(before.state_dict(), weights="new")
    if sets_epoch:
        changed.set_epoch(0)
        assert numbers_of(changed) == []
    assert numbers_of(changed) == following


def test_an_epoch_with_new_weights_has_the_rest_of_its_records(paths: Any) -> None:
    before = mixed(paths, shuffle=True)
    seen = numbers_of(itertools.islice(before, 5))
    changed = tio.mix(pair(paths, shuffle=True), weights=[1, 1], stop="each_once", epochs=2)
    regular = len(changed)
    changed.load_state_dict(before.state_dict(), weights="new")
    assert len(changed) == regular - 5
    both = numbers_of(changed)
    rest = both[: FIRST + SECOND - len(seen)]
    assert sorted(seen + rest) == [*range(FIRST), *range(1000, 1000 + SECOND)]
    assert sorted(both[len(rest) :]) == sorted(seen + rest)


def test_virtual_epochs_go_on_after_an_epoch_in_which_nothing_is_left(paths: Any) -> None:
    first, second = pair(paths, batch_size=1)
    before = tio.mix([first, second], weights=[3, 1], steps_per_epoch=500)
    for _ in before:
        if before.state_dict()["sources"][1] == SECOND:
            break
    changed = tio.mix([second], weights=[1], steps_per_epoch=500)
    changed.load_state_dict(before.state_dict(), weights="new")
    following = [*range(1000, 1000 + SECOND)]
    assert numbers_of(itertools.islice(changed, 2 * SECOND)) == 2 * following


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated:UserWarning")
def test_a_stateful_loader_continues_a_dataset_with_new_weights(paths: Any) -> None:
    parts = pair(paths, shuffle=True)
    before = mixed(paths, shuffle=True)
    next(itertools.islice(before, 4, None))

    def opened() -> Any:
        return tio.mix(parts, weights=[1, 1], stop="each_once")

    def loader_of(dataset: Any) -> StatefulDataLoader[Any]:
        return StatefulDataLoader(dataset, batch_size=None, num_workers=2)

    changed, other = opened(), opened()
    for dataset in (changed, other):
        dataset.load_state_dict(before.state_dict(), weights="new")
    expected = ids_of(other)
    begun = loader_of(changed)
    assert ids_of(itertools.islice(begun, 3)) == expected[:3]
    resumed = loader_of(opened())  # knows nothing of the mixture before
    resumed.load_state_dict(begun.state_dict())
    assert ids_of(resumed) == expected[3:]


def test_states_from_which_datasets_cannot_continue(paths: Any) -> None:
    first, second = pair(paths)
    dataset = mixed(paths)
    with pytest.raises(tio.StateMismatchError, match="needs a state of a mixture that tells where"):
        dataset.load_state_dict(first.state_dict(), weights="new")
    with pytest.raises(ValueError, match="weights must be one of 'new', got 'other'"):
        dataset.load_state_dict(dataset.state_dict(), weights="other")
    with pytest.raises(TypeError, match="weights='new' needs a mixture"):
        tio.make_loader(first).load_state_dict(dataset.state_dict(), weights="new")
    state = dataset.state_dict()
    for damaged in ({}, {**state["parts"], "taken": [-1, 0]}, {**state["parts"], "epochs": 3}):
        with pytest.raises(tio.StateMismatchError, match="this is not a state of a mixture"):
            dataset.load_state_dict({**state, "parts": damaged}, weights="new")
    virtual = tio.mix([first, second], weights=[1, 1], steps_per_epoch=4)
    for loaded, saved, sizes in (
        (virtual, dataset, "all .* not 32"),
        (dataset, virtual, "32 .* all"),
    ):
        with pytest.raises(tio.StateMismatchError, match=f"needs the steps_per_epoch.* {sizes}"):
            loaded.load_state_dict(saved.state_dict(), weights="new")
    nested = tio.mix([mixed(paths), second], weights=[1, 1])
    next(iter(nested))
    other = tio.mix([tio.mix([first, second], weights=[1, 1]), second], weights=[1, 1])
    with pytest.raises(tio.StateMismatchError, match="a mixture in it must be as it was"):
        other.load_state_dict(nested.state_dict(), weights="new")
    alike = tio.mix([second, mixed(paths)], weights=[1, 1])
    alike.load_state_dict(nested.state_dict(), weights="new")
    next(iter(alike))
    assert sum(alike.state_dict()["sources"]) == 16


# ---- what is refused ----


@pytest.mark.parametrize(
    ("options", "error", "reason"),
    [
        ({"weights": [1]}, ValueError, "weights must have one number for each of 2 datasets"),
        ({"weights": [1, 0]}, ValueError, "weight 1 must be positive"),
        ({"weights": [1, float("nan")]}, ValueError, "weight 1 must be positive"),
        ({"weights": [1, float("inf")]}, ValueError, "weight 1 must be positive"),
        ({"weights": {1: [1, 1]}}, ValueError, "the first key of weights must be 0, got 1"),
        ({"weights": {0: [1, 0]}}, ValueError, "weight 1 must be positive"),
        ({"weights": {0: [0, 0], 9: [1, 1]}}, ValueError, "weights must hold a positive number"),
        (
            {"weights": {0: [1, 1], 9: [1, 0]}, "stop": "each_once"},
            ValueError,
            "the last weights must be positive with stop='each_once', .* weight 1 is 0",
        ),
        ({"weights": "sizes"}, ValueError, "weights must be numbers or 'records', got 'sizes'"),
        ({"weights": None}, TypeError, "takes either weights or repeat"),
        ({"repeat": [1, 1]}, TypeError, "takes either weights or repeat"),
        ({"weights": None, "repeat": [1]}, ValueError, "repeat must have one number for each of 2"),
        (
            {"weights": None, "repeat": [1, 0]},
            ValueError,
            r"repeat\[1\] must be a positive integer",
        ),
        ({"weights": None, "repeat": [1, 1], "stop": "endless"}, ValueError, "stop must not be"),
        ({"stop": "never"}, ValueError, r"first_exhausted.*each_once.*endless"),
        ({"shuffle": True}, TypeError, "unexpected keyword argument 'shuffle'"),
        ({"batch_tokens": 9}, TypeError, "unexpected keyword argument 'batch_tokens'"),
    ],
)
def test_options_that_are_refused(paths: Any, options: Any, error: Any, reason: str) -> None:
    with pytest.raises(error, match=reason):
        tio.mix(pair(paths), **{"weights": [1, 1], **options})


def test_other_objects_than_datasets(paths: Any) -> None:
    first, second = pair(paths)
    with pytest.raises(ValueError, match="must hold at least one dataset"):
        tio.mix([], weights=[])
    with pytest.raises(TypeError, match=r"datasets must be a list: mix\(\[a, b\], weights="):
        tio.mix({first: 1, second: 1}, weights=[1, 1])
    other: Any
    for other in ("other", tio.TFRecordStream(paths[1], SCHEMA, batch_size=8)):
        with pytest.raises(TypeError, match="must be datasets of indexed files"):
            tio.mix([first, other], weights=[1, 1])
    with pytest.raises(ValueError, match="must have records, part 1 has none"):
        tio.mix([first, second.take(0)], weights=[1, 1], stop="endless")
    with pytest.raises(ValueError, match="'all_exhausted' every part must have records, part 1"):
        tio.mix([first, second.take(0)], weights=[1, 1], stop="all_exhausted")
    with pytest.raises(ValueError, match="part 1 is endless: stop must be"):
        tio.mix([first, mixed(paths, "endless")], weights=[1, 1], stop="each_once")
    with pytest.raises(ValueError, match=r"weights='records' needs .* but one is endless"):
        tio.mix([first, mixed(paths, "endless")], weights="records")
    with pytest.raises(ValueError, match="a mixture with source cannot be mixed"):
        tio.mix([tio.mix([first, second], weights=[1, 1], source="part")], weights=[1])
    samples = pair(paths, batch_size=None)
    with pytest.raises(ValueError, match="a mixture of samples with a transform cannot be mixed"):
        tio.mix([tio.mix(samples, weights=[1, 1], transform=len)], weights=[1])
    lines = tio.TextLineDataset(paths[1], bytes)
    with pytest.raises(ValueError, match="differ in schema"):
        tio.mix([tio.TFRecordDataset(paths[0], None), lines], weights=[1, 1])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"schema": {"id": SCHEMA["id"]}}, "differ in schema"),
        ({"batch_size": 4}, "differ in batch_size: 8 and 4"),
        ({"on_error": "skip"}, "differ in on_error: 'raise' and 'skip'"),
    ],
)
def test_incompatible_datasets(paths: Any, options: Any, reason: str) -> None:
    first, _ = pair(paths)
    options = {"schema": SCHEMA, "batch_size": 8, **options}
    with pytest.raises(ValueError, match=reason):
        tio.mix([first, tio.TFRecordDataset(paths[1], **options)], weights=[1, 1])


def test_schema_equals_its_dict(paths: Any) -> None:
    """For example a TFDS directory and a hand-written schema."""
    first, second = pair(paths)
    alike = tio.mix([first, second.replace(schema=tio.Schema(SCHEMA))], weights=[1, 1])
    assert ids_of(alike) == ids_of(tio.mix([first, second], weights=[1, 1]))


def test_different_class_names(paths: Any) -> None:
    first, second = (
        tio.TFRecordDataset(path, {"id": tio.FixedLenFeature([], "int64", names=names)})
        for path, names in zip(paths, (["a", "b"], ["b", "a"]), strict=True)
    )
    with pytest.raises(ValueError, match="differ in the spec of 'id'"):
        tio.mix([first, second], weights=[1, 1])


def test_options_of_the_mixture_take_precedence(paths: Any) -> None:
    first, second = pair(paths)
    dataset = tio.mix([first, second.replace(batch_size=4)], weights=[1, 1], batch_size=5)
    assert dataset.batch_size == 5


def test_an_empty_dataset(paths: Any, tmp_path: Path) -> None:
    first, _ = pair(paths)
    empty = tio.TFRecordDataset(write_files(tmp_path, [0]), SCHEMA, batch_size=8)
    whole = tio.mix([first, empty], weights=[1, 1], stop="each_once")
    assert numbers_of(whole) == list(range(FIRST))


# ---- damage ----


def test_damage_names_the_file(paths: Any, tmp_path: Path) -> None:
    bad = str(tmp_path / "bad.tfrecord")
    write_tfrecord(bad, [record(2000), b"\xff", record(2002)])
    first, _ = pair(paths, on_error="skip")
    errors: list[tio.TorchRecIOError] = []
    other = tio.TFRecordDataset(bad, SCHEMA)
    dataset = tio.mix(
        [first, other], weights=[1, 1], stop="each_once", on_error=errors.append, batch_size=9
    )
    seen = numbers_of(dataset)
    assert sorted(seen) == [*range(FIRST), 2000, 2002]
    assert [(error.path, error.record) for error in errors] == [(bad, 1)]


# ---- statistics ----


@pytest.mark.parametrize("size", [8, None])
@pytest.mark.parametrize("workers", [0, 2])
def test_records_of_each_dataset_are_counted(paths: Any, size: int | None, workers: int) -> None:
    first, second = pair(paths, batch_size=size)
    inner = tio.mix([first, second], weights=[3, 1], stop="each_once", batch_size=size)
    dataset = tio.mix([second, inner], weights=[1, 1], stop="each_once")
    loader = tio.make_loader(dataset, batch_size=None, num_workers=workers)
    assert len(numbers_of(loader)) == FIRST + 2 * SECOND
    stats = loader.stats()
    assert stats.sources == (SECOND, FIRST, SECOND)
    assert stats.as_dict()["source_1"] == FIRST
    assert loader.stats().sources == (0, 0, 0)
    assert dataset.stats().sources == (SECOND, FIRST, SECOND)
    taken = numbers_of(itertools.islice(dataset, 3))
    assert dataset.stats().sources[1] == sum(number < 1000 for number in taken)
    assert tio.make_loader(first, batch_size=None).stats().sources == ()
