"""Shuffles with lanes, compared with plain models of the rules in docs/order.md."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.orders import (
    Numbers,
    batches_of,
    chi_square_is_plausible,
    ranks_of,
    whole_order,
)
from torchrec_io._order.lanes import Blocks, check_lanes
from torchrec_io._order.plan import EpochPlan
from torchrec_io._order.selection import Selection, Span, Subset
from torchrec_io._order.shuffle import Shuffle

sizes = st.one_of(st.integers(1, 60), st.integers(1, 3000))
blocks = st.one_of(st.integers(1, 12), st.integers(1, 3500))
lane_counts = st.one_of(st.integers(1, 9), st.integers(1, 200))
seeds = st.integers(-(2**70), 2**70)
epochs = st.integers(0, 2**40)


def units_of(size: int, block: int, lanes: int) -> list[list[int]]:
    """Return the whole blocks that lanes get equally many of, and a piece for each lane."""
    records = list(range(size))
    rounds = size // block // lanes
    whole, rest = records[: rounds * lanes * block], records[rounds * lanes * block :]
    pieces = [part.tolist() for part in np.array_split(np.array(rest, np.int64), lanes)]
    return [whole[i : i + block] for i in range(0, len(whole), block)] + pieces


def lanes_of(order: Numbers, lanes: int) -> list[list[int]]:
    """Return the records of each lane in their order."""
    return [order[lane::lanes].tolist() for lane in range(lanes)]


# ---- the order ----


@given(sizes, blocks, lane_counts, seeds, epochs)
def test_each_lane_has_whole_blocks_and_a_piece(
    size: int, block: int, lanes: int, seed: int, epoch: int
) -> None:
    # Windows of one record do not shuffle, so they show the order of blocks.
    order = whole_order(size, Shuffle(block=block, window=1, lanes=lanes), seed, epoch)
    units = {unit[0]: unit for unit in units_of(size, min(block, size), lanes) if unit}
    rounds = size // min(block, size) // lanes
    for records in lanes_of(order, lanes):
        found = []
        at = 0
        while at < len(records):
            unit = units.pop(records[at])
            assert records[at : at + len(unit)] == unit
            found.append(len(unit))
            at += len(unit)
        assert len(found) in (rounds, rounds + 1)
    assert not units
    counts = [len(records) for records in lanes_of(order, lanes)]
    assert counts == sorted(counts, reverse=True)
    assert max(counts) - min(counts) <= 1


@given(sizes, blocks, blocks, lane_counts, seeds)
def test_windows_of_each_lane_are_mixed(
    size: int, block: int, window: int, lanes: int, seed: int
) -> None:
    plain = whole_order(size, Shuffle(block=block, window=1, lanes=lanes), seed)
    mixed = whole_order(size, Shuffle(block=block, window=window, lanes=lanes), seed)
    for before, after in zip(lanes_of(plain, lanes), lanes_of(mixed, lanes), strict=True):
        for begin in range(0, len(before), window):
            part = slice(begin, begin + window)
            assert sorted(before[part]) == sorted(after[part])


def test_blocks_come_to_any_lane_at_any_time() -> None:
    # 24 blocks and 4 pieces of one record, in 4 lanes.
    counts = np.zeros((24, 4, 7), np.int64)
    for epoch in range(3000):
        plain = whole_order(24 * 2 + 4, Shuffle(block=2, window=1, lanes=4), 1, epoch)
        for lane, records in enumerate(lanes_of(plain, 4)):
            for at, record in enumerate(records):
                if record < 48 and record % 2 == 0:
                    counts[record // 2, lane, (at + 1) // 2] += 1
    assert chi_square_is_plausible(counts.sum(axis=2).reshape(-1), 23 * 3)
    assert (counts.sum(axis=0) > 0).all()


# ---- blocks for reading ----


@st.composite
def selections(draw: st.DrawFn) -> Selection:
    """Draw some of up to 200 records."""
    total = draw(st.integers(1, 200))
    if draw(st.booleans()):
        begin = draw(st.integers(0, total))
        return Span(begin, draw(st.integers(0, total - begin)), total)
    return Subset.from_mask(np.array(draw(st.lists(st.booleans(), min_size=1, max_size=200))))


@given(selections(), st.integers(1, 50), st.integers(1, 12))
def test_blocks_are_those_of_the_order(selection: Selection, block: int, lanes: int) -> None:
    size = len(selection)
    block = min(block, max(1, size))
    found = Blocks(selection, block, lanes)
    numbers = selection.numbers_at(np.arange(size))
    units = units_of(size, block, lanes)
    assert [found.numbers_of(i).tolist() for i in range(len(units))] == [
        numbers[unit].tolist() for unit in units
    ]
    wanted = [number for number, unit in enumerate(units) for _ in unit]
    assert found.block_of(numbers).tolist() == wanted


# ---- the plan ----


@st.composite
def plans(draw: st.DrawFn, /, **fixed: Any) -> EpochPlan:
    """Draw plans of lanes with any arguments, for rank 0 and worker 0."""
    num_records = draw(st.integers(0, 150))
    world_size = draw(st.integers(1, 4))
    own = draw(st.integers(1, 4))
    lanes = world_size * own
    arguments: dict[str, Any] = {
        "num_records": num_records,
        "batch_size": own * draw(st.integers(1, 4)),
        "begin": draw(st.sampled_from([0, num_records, *range(0, num_records, lanes)])),
        "world_size": world_size,
        "num_workers": draw(st.integers(1, 4)),
        "drop_last": draw(st.booleans()),
        "uneven": draw(st.sampled_from(["keep", "drop", "pad"])),
        "lanes": lanes,
    }
    return EpochPlan(**{**arguments, **fixed})


def rows_of(plan: EpochPlan) -> list[list[int]]:
    """Return the positions of each lane, without those left out and with those repeated."""
    assert plan.lanes is not None
    rows = [list(range(lane, plan.num_records, plan.lanes)) for lane in range(plan.lanes)]
    least, most = min(map(len, rows)), max(map(len, rows))
    if plan.uneven == "drop":
        return [row[:least] for row in rows]
    if plan.uneven == "pad" and least < most:
        repeated = [row[-1] if row else lane % plan.num_records for lane, row in enumerate(rows)]
        return [
            row if len(row) == most else [*row, again]
            for row, again in zip(rows, repeated, strict=True)
        ]
    return rows


def expected_batches(plan: EpochPlan) -> list[list[int]]:
    """Return the expected batches of a rank, taken from its lanes."""
    assert plan.lanes is not None
    assert isinstance(plan.batch_size, int)
    if plan.begin == plan.num_records:
        return []
    own = plan.lanes // plan.world_size
    rows = rows_of(plan)[plan.rank * own : (plan.rank + 1) * own]
    done, of_lane = plan.begin // plan.lanes, plan.batch_size // own
    batches = []
    for begin in range(done, max(map(len, rows)), of_lane):
        steps = range(begin, begin + of_lane)
        batch = [row[step] for step in steps for row in rows if step < len(row)]
        if batch and not (plan.drop_last and len(batch) < plan.batch_size):
            batches.append(batch)
    return batches


@given(plans())
def test_every_rank_gets_its_lanes(plan: EpochPlan) -> None:
    for rank in ranks_of(plan):
        expected = expected_batches(rank)
        assert batches_of(rank) == expected
        assert rank.num_rank_batches == len(expected)
        assert rank.num_rank_records == sum(map(len, expected))


@given(plans(begin=0), st.integers(0, 60))
def test_positions_before_and_after(plan: EpochPlan, consumed: int) -> None:
    for rank in ranks_of(dataclasses.replace(plan, num_workers=1, drop_last=False)):
        whole = [n for batch in batches_of(rank) for n in batch]
        consumed = min(consumed, len(whole))
        before = [n for batch in rank.before(consumed) for n in batch[::-1].tolist()]
        after = [n for batch in rank.after(consumed) for n in batch.tolist()]
        assert before[::-1] == whole[:consumed]
        assert after == whole[consumed:]


@given(plans(begin=0, uneven="keep", drop_last=False), st.integers(0, 9), st.integers(0, 60))
def test_resumed_plans_find_the_positions_before(
    plan: EpochPlan, steps: int, consumed: int
) -> None:
    assert isinstance(plan.batch_size, int)
    begin = steps * plan.world_size * plan.batch_size
    if begin > plan.num_records:
        return
    for rank in ranks_of(dataclasses.replace(plan, num_workers=1)):
        resumed = dataclasses.replace(rank, begin=begin)
        consumed = min(consumed, resumed.num_rank_records)
        before = [n for batch in resumed.before(consumed) for n in batch[::-1].tolist()]
        whole = [n for batch in batches_of(rank) for n in batch]
        assert before[::-1] == whole[: steps * plan.batch_size + consumed]


def test_a_begin_inside_a_round_of_lanes_is_rejected() -> None:
    with pytest.raises(ValueError, match="begin must be a multiple of 4, got 6"):
        EpochPlan(20, 2, 6, world_size=2, lanes=4)
    assert EpochPlan(20, 4, 6, lanes=4).num_rank_records == 14  # one rank has all lanes


# ---- arguments ----


@pytest.mark.parametrize(
    ("lanes", "world_size", "batch_size", "message"),
    [
        (64, 3, 8, "got 64 lanes for 3 ranks: use lanes=63 or 66, or world_size=2 or 4"),
        (4, 8, 8, "got 4 lanes for 8 ranks: use lanes=8, or world_size=4"),
        (6, 4, None, "got 6 lanes for 4 ranks: use lanes=4 or 8, or world_size=3 or 6"),
        (64, 4, 40, "got 4 x 40 records: use batch_size=32 or 48, or lanes=40"),
        (64, 1, 7, "got 1 x 7 records: use batch_size=64, or lanes=7"),
        (6, 2, 4, "got 2 x 4 records: use batch_size=3 or 6, or lanes=4"),
    ],
)
def test_errors_name_the_values_that_fit(
    lanes: int, world_size: int, batch_size: int | None, message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)) as raised:
        check_lanes(lanes, world_size, batch_size)
    for name, values in re.findall(r"(\w+)=(\d+(?: or \d+)?)", str(raised.value)):
        for value in map(int, values.split(" or ")):
            fits = {"lanes": lanes, "world_size": world_size, "batch_size": batch_size}
            if "ranks" in message:
                fits["batch_size"] = None
            check_lanes(**{**fits, name: value})  # type: ignore[arg-type]


def test_invalid_lanes_are_rejected() -> None:
    lanes: list[Any] = [0, -1, 1.5, "yes", True, 2**20 + 1]
    for bad in lanes:
        with pytest.raises(ValueError, match=r"^lanes must be an integer from 1 to 1048576, got"):
            Shuffle(block=2, window=2, lanes=bad)
