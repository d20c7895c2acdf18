"""Mixtures of packed datasets: a model of their rows, resuming, new weights, ranks and errors."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.documents import MODES, SCHEMA, make, packed, rows_of, write_documents
from tests.support.states import states_of, through_json

STOPS = ["first_exhausted", "all_exhausted", "each_once", "endless"]
WEIGHTS = [3, 1]
SEED = 4


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    first = write_documents(tmp_path_factory.mktemp("first"))
    return [first[:1], first[2:]]


def parts_of(paths: list[list[str]], pack: Any = None, **options: Any) -> list[Any]:
    options = {"pack": pack or packed(), "shuffle": True, **options}
    return [make(own, seed=seed, **options) for seed, own in enumerate(paths)]


def mixed(parts: list[Any], stop: Any = "endless", **options: Any) -> Any:
    return tio.mix(parts, **{"weights": WEIGHTS, "seed": SEED, "stop": stop, **options})


def turns(paths: list[list[str]]) -> Iterator[int]:
    """Yield the part of each unit of an endless mixture, which its units do not change."""
    parts = [tio.TFRecordDataset(own, SCHEMA, batch_size=1) for own in paths]
    return (int(batch["part"]) for batch in mixed(parts, source="part"))


def epochs_of(part: Any, first: int = 0) -> Iterator[list[list[int]]]:
    """Yield the rows of each epoch of a packed dataset."""
    for epoch in itertools.count(first):
        part.set_epoch(epoch)
        yield rows_of(part)


def endless_rows(paths: list[list[str]], parts: list[Any]) -> Iterator[list[int]]:
    own = [itertools.chain.from_iterable(epochs_of(part)) for part in parts]
    return (next(own[part]) for part in turns(paths))


@pytest.mark.parametrize("mode", MODES)
def test_parts_start_again_with_their_next_epoch(paths: list[list[str]], mode: Any) -> None:
    parts = parts_of(paths, packed(mode=mode))
    found = rows_of(itertools.islice(mixed(parts), 100))
    assert found == [*itertools.islice(endless_rows(paths, parts), 300)]


@pytest.mark.parametrize("epoch", [0, 3])
def test_an_epoch_ends_with_the_rows_of_a_part(paths: list[list[str]], epoch: int) -> None:
    parts = parts_of(paths)
    each = [next(epochs_of(part, epoch)) for part in parts]
    expected = []
    for part in turns(paths):
        if not each[part]:
            break
        expected.append(each[part].pop(0))
    dataset = mixed(parts, "first_exhausted")
    dataset.set_epoch(epoch)
    assert rows_of(dataset) == expected
    assert dataset.num_records == len(rows_of(mixed(parts, "first_exhausted")))


@pytest.mark.parametrize("repeat", [None, [1, 3]])
def test_each_row_comes_as_often_as_asked(paths: list[list[str]], repeat: Any) -> None:
    parts = parts_of(paths)
    times = repeat or [1, 1]
    options: Any = {"weights": None, "stop": None, "repeat": repeat} if repeat else {}
    dataset = mixed(parts, **{"stop": "each_once", **options})
    for epoch in range(2):
        own = [
            [
                *itertools.chain.from_iterable(
                    itertools.islice(epochs_of(part, epoch * count), count)
                )
            ]
            for part, count in zip(parts, times, strict=True)
        ]
        length = len(dataset)
        found = [*dataset]
        assert len(found) == length
        assert sorted(rows_of(found)) == sorted(own[0] + own[1])


def test_all_parts_are_exhausted(paths: list[list[str]]) -> None:
    parts = parts_of(paths)
    left = [len(next(epochs_of(part))) for part in parts]
    turn = turns(paths)
    taken = 0
    while max(left) > 0:
        left[next(turn)] -= 1
        taken += 1
    found = rows_of(mixed(parts, "all_exhausted"))
    assert found == [*itertools.islice(endless_rows(paths, parts), taken)]


@pytest.mark.parametrize("stop", STOPS)
def test_resuming_with_other_ranks(paths: list[list[str]], stop: Any) -> None:
    parts = parts_of(paths, batch_size=4)

    def opened(rank: int = 0, world: int = 1) -> Any:
        layout: Any = {"batch_size": 4 // world, "rank": rank, "world_size": world}
        return mixed(parts, stop, **layout, drop_last=True, uneven="drop", epochs=2)

    expected = rows_of(itertools.islice(opened(), 30))
    for taken, state in itertools.islice(states_of(opened(1, 2)), 13):
        ranks = []
        for rank in range(2):
            resumed = opened(rank, 2)
            resumed.load_state_dict(through_json(state))
            ranks.append([batch["tokens"].tolist() for batch in itertools.islice(resumed, 16)])
        found = [row for step in zip(*ranks, strict=True) for own in step for row in own]
        assert found[:40] == expected[4 * taken :][:40]
        rows = expected[: 4 * taken]
        if stop == "endless":
            assert sum(state["sources"]) == len(rows)


@pytest.mark.parametrize("workers", [1, 2])
def test_workers(paths: list[list[str]], workers: int) -> None:
    dataset = mixed(parts_of(paths), "each_once")
    expected = rows_of(dataset)
    dataset.set_epoch(0)
    assert rows_of(DataLoader(dataset, batch_size=None, num_workers=workers)) == expected


@pytest.mark.parametrize("steps", [None, 7])
def test_new_weights(paths: list[list[str]], steps: int | None) -> None:
    parts = parts_of(paths)
    own = [
        [*itertools.islice(itertools.chain.from_iterable(epochs_of(each)), 200)] for each in parts
    ]
    before = mixed(parts, steps_per_epoch=steps)
    for _ in range(2 if steps else 0):
        rows_of(before)
    rows_of(itertools.islice(before, 5))
    state = through_json(before.state_dict())
    count = 3 * (5 + 2 * (steps or 0))
    assert sum(state["sources"]) == count
    changed = mixed(parts, weights=[1, 4], steps_per_epoch=steps)
    changed.load_state_dict(state, weights="new")
    iterations = [changed] * 3 if steps else [itertools.islice(changed, 21)]
    rest = [row for each in iterations for row in rows_of(each)]
    for part, (rows, taken) in enumerate(zip(own, state["sources"], strict=True)):
        following = rows[taken:]
        mine = [row for row in rest if row in following]
        assert mine == following[: len(mine)], part
    assert len(rest) == (3 * (2 + 7 + 7) if steps else 63)


def test_mixtures_of_mixtures(paths: list[list[str]]) -> None:
    parts = parts_of(paths)
    inner = mixed(parts, "each_once")
    outer = tio.mix([inner, parts[1]], weights=[1, 1], stop="endless", seed=1)
    own = [
        [*itertools.islice(itertools.chain.from_iterable(epochs_of(part)), 40)]
        for part in (inner, parts[1])
    ]
    turn = [int(batch["part"]) for batch in itertools.islice(choice_of(paths), 40)]
    found = rows_of(itertools.islice(outer, 14))[:40]
    assert found == [own[part].pop(0) for part in turn]
    sources = outer.state_dict()["sources"]
    assert len(sources) == 3
    assert sum(sources) == 42
    assert outer.stats().sources == tuple(sources)


def choice_of(paths: list[list[str]]) -> Any:
    parts = [tio.TFRecordDataset(own, SCHEMA, batch_size=1) for own in paths]
    return tio.mix(parts, weights=[1, 1], stop="endless", seed=1, source="part")


def test_packing_again(paths: list[list[str]]) -> None:
    parts = parts_of(paths)
    again = mixed(parts, "each_once", pack=packed(length=20))
    assert {len(row) for row in rows_of(again)} == {20}
    again.set_epoch(0)
    plain = [part.replace(pack=None) for part in parts]
    assert rows_of(again) == rows_of(mixed(plain, "each_once", pack=packed(length=20)))
    with pytest.raises(ValueError, match="packed rows can be mixed with rows of the same pack"):
        tio.mix([mixed(parts), parts[0]], weights=[1, 1], pack=packed())


def test_what_is_refused(paths: list[list[str]]) -> None:
    first, second = parts_of(paths)
    with pytest.raises(ValueError, match="datasets differ in pack"):
        mixed([first, second.replace(pack=packed(length=20))])
    with pytest.raises(ValueError, match="datasets differ in pack"):
        mixed([first, second.replace(pack=None)])
    with pytest.raises(ValueError, match=r"a mixture with source, .* has no packed rows"):
        mixed([first, second], source="part")
    with pytest.raises(ValueError, match="rows whose length changes cannot be mixed"):
        mixed(parts_of(paths, packed(length=tio.Ramp({0: 8, 3: 16}))))
    with pytest.raises(ValueError, match="must have records, part 1 has none"):
        mixed([first, second.take(0)])


def test_lost_documents_are_told_with_their_file(tmp_path: Path, paths: list[list[str]]) -> None:
    damaged = tmp_path / "damaged"
    data = bytearray(Path(paths[1][0]).read_bytes())
    data[-10] ^= 1  # the last document
    damaged.write_bytes(data)
    dataset = mixed(parts_of([paths[0], [str(damaged)]], shuffle=False), "each_once")
    with pytest.raises(tio.CorruptRecordError, match=str(damaged)):
        rows_of(dataset)


@pytest.mark.parametrize("has_rows", [True, False])
def test_states_that_are_refused_change_nothing(paths: list[list[str]], has_rows: bool) -> None:
    parts = parts_of(paths, **({} if has_rows else {"batch_size": 4}))
    if not has_rows:
        parts = [part.replace(pack=None) for part in parts]
    before, dataset = (mixed(parts, steps_per_epoch=5) for _ in range(2))
    for _ in range(2):
        list(before)
    state = before.state_dict()
    own = dataset.state_dict()
    for origin in (10**6, -1):
        damaged = {**state, "parts": {**state["parts"], "origin": origin}}
        with pytest.raises(tio.StateMismatchError, match="this is not a state of"):
            dataset.load_state_dict(damaged, weights="new")
        assert dataset.state_dict() == own
    dataset.load_state_dict(state, weights="new")
    dataset.set_epoch(0)
    with pytest.raises(ValueError, match="records of epoch 0 are not known: it begins before"):
        list(dataset)
    dataset.set_epoch(3)
    assert len(list(dataset)) == 5
