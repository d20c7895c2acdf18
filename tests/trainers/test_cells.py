"""The choice of cells, and what is expected of them."""

from __future__ import annotations

import dataclasses

import pytest

from tests.support.cover import cover, pairs_of
from tests.trainers.cells import TRAINERS, all_cells, covering_cells, named_cells
from tests.trainers.expected import Expected, expected
from tests.trainers.launch import Outcome, judge


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: int
    z: int


def test_a_cover_has_every_pair_of_values() -> None:
    points = [Point(x, y, z) for x in range(3) for y in range(3) for z in range(3) if x != y]
    chosen = cover(points)
    assert set().union(*map(pairs_of, chosen)) == set().union(*map(pairs_of, points))
    assert len(chosen) < len(points) - 5
    assert chosen == cover(points)


def test_a_cover_begins_with_the_chosen_cells() -> None:
    points = [Point(x, y, 0) for x in range(3) for y in range(3)]
    assert cover(points, [Point(2, 1, 0), Point(2, 1, 0)])[0] == Point(2, 1, 0)
    assert len(cover(points, [Point(2, 1, 0)])) == 9  # each has a pair that no other has


@pytest.mark.parametrize("trainer", TRAINERS)
def test_the_cells_of_a_trainer(trainer: str) -> None:
    cells = all_cells(trainer)
    chosen = covering_cells(trainer)
    assert len(set(cells)) == len(cells) > len(chosen)
    assert set(named_cells(trainer)) <= set(chosen) <= set(cells)
    missing = set().union(*map(pairs_of, cells)).difference(*map(pairs_of, chosen))
    assert all(("workers", "2 spawn") in pair for pair in missing)


SOUND = Outcome(lost=(0, 0), repeated=(1, 1), new_order=True)


@pytest.mark.parametrize(
    ("found", "wrong"),
    [
        (SOUND, None),
        (Outcome(lost=(0, 5), repeated=(1, 1), new_order=True), "5 records lost"),
        (Outcome(lost=(0, 0), repeated=(1, 3), new_order=True), "3 records repeated, not 1"),
        (Outcome(lost=(0, 0), repeated=(1, 1)), "the second epoch has the order of the first"),
        (
            dataclasses.replace(SOUND, equal_steps=False),
            "ranks have different numbers of steps",
        ),
        (Outcome(error="ValueError: no"), "an error: ValueError: no"),
        (Outcome(problem="a rank did not end"), "a rank did not end"),
    ],
)
def test_an_outcome_is_compared_with_what_is_expected(found: Outcome, wrong: str | None) -> None:
    assert Expected(repeated=1).check(found) == wrong


def test_an_error_is_compared_with_its_text() -> None:
    must_fail = Expected(error="make_loader")
    assert must_fail.check(Outcome(error="ValueError: use make_loader")) is None
    assert must_fail.check(Outcome(error="ValueError: no")) == "another error: ValueError: no"
    assert must_fail.check(SOUND) == (
        "no error about 'make_loader': each once, 1 repeated, new order"
    )


def test_ranks_are_judged_together() -> None:
    [cell] = [c for c in named_cells("lightning") if c.loader == "DataLoader"]
    half = {"epochs": [[[*range(0, 2193, 2)]]] * 2}
    other = {"epochs": [[[*range(1, 2193, 2)]], [[*range(1, 1000, 2)], [*range(1001, 2191, 2)]]]}
    assert judge(cell, [half, other]) == Outcome(
        lost=(0, 1), repeated=(0, 0), new_order=True, equal_steps=False
    )
    failed = {"epochs": [[]], "error": "ValueError: a\n  b"}
    assert judge(cell, [failed, {"stopped": True}]) == Outcome(error="ValueError: a b")
    assert judge(cell, [half, failed]).problem == "after the first step: ValueError: a b"
    assert judge(cell, [half, {"stopped": True}]).problem == "a rank did not end"


def test_some_expectations() -> None:
    cells = {cell.name: expected(cell) for trainer in TRAINERS for cell in all_cells(trainer)}

    def of(name: str) -> Expected:
        return cells[name]

    assert of("accelerate / shard / DataLoader / iterable / loader / 2 / none").repeated == 111
    assert of("accelerate / dispatch / DataLoader / iterable / loader / 2 / none").repeated == 1
    assert of("accelerate / shard / DataLoader / iterable / loader / 1 / none").repeated == 0
    batches = "accelerate / dispatch / DataLoader / iterable / dataset / 2 / none"
    assert of(batches).error == "make_loader"
    assert of("lightning / limit / DataLoader / map / loader / 2 / none") == Expected()
