"""Plans of epochs, compared with a model that walks through all steps, and their guarantees.

The batch size is constant or changes from step to step.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.orders import batches_of, ranks_of
from torchrec_io._order.batch_sizes import BatchSizes
from torchrec_io._order.plan import EpochPlan, Uneven
from torchrec_io._order.ramp import Ramp

ramps = st.builds(
    lambda first, others: Ramp({0: first, **others}),
    st.integers(1, 6),
    st.dictionaries(st.integers(1, 12), st.integers(1, 9), max_size=4),
)


def size_of(ramp: Ramp, step: int) -> int:
    """Return the batch size of a step of the training."""
    return ramp.sizes[max(at for at in ramp.sizes if at <= step)]


@given(ramps, st.integers(0, 20), st.integers(0, 5), st.integers(1, 4))
def test_sizes_and_begins(ramp: Ramp, first: int, worker: int, every: int) -> None:
    sizes = BatchSizes.of(ramp).from_batch(first).from_batch(worker, every)
    begin = 0
    for batch in range(20):
        size = size_of(ramp, first + worker + batch * every)
        assert (sizes.begin(batch), sizes.size(batch)) == (begin, size)
        assert [sizes.find(begin + record) for record in range(size)] == [batch] * size
        assert sizes.num_batches(begin) == batch
        assert sizes.num_batches(begin + 1) == batch + 1
        begin += size


@given(ramps, st.integers(0, 20))
def test_batches_before_the_first_one(ramp: Ramp, first: int) -> None:
    sizes = BatchSizes.of(ramp).from_batch(first)
    begin = 0
    for batch in range(-1, -first - 1, -1):
        begin -= size_of(ramp, first + batch)
        assert (sizes.begin(batch), sizes.find(begin)) == (begin, batch)


def test_other_ranks_have_other_sizes() -> None:
    ramp = Ramp({0: 4, 3: 6, 9: 10})
    assert BatchSizes.of(ramp, 2).sizes == (2, 3, 5)
    assert BatchSizes.of(ramp, 8).sizes == (8, 12, 20)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Ramp, int, EpochPlan]:
    """Draw a ramp, the number of steps before an epoch, and a plan of that epoch for rank 0."""
    ramp, first = draw(ramps), draw(st.integers(0, 10))
    num_records = draw(st.integers(0, 150))
    is_constant = len(ramp.sizes) == 1 and draw(st.booleans())
    plan = EpochPlan(
        num_records=num_records,
        batch_size=ramp.sizes[0] if is_constant else BatchSizes.of(ramp).from_batch(first),
        begin=draw(st.one_of(st.just(0), st.integers(0, num_records))),
        world_size=draw(st.integers(1, 4)),
        num_workers=draw(st.integers(1, 4)),
        drop_last=draw(st.booleans()),
        uneven=draw(st.sampled_from(["keep", "drop", "pad"])),
    )
    return ramp, first, plan


def expected_batches(ramp: Ramp, first: int, plan: EpochPlan) -> list[list[int]]:
    """Return the expected batches of a rank, sliced from the whole order."""
    world = plan.world_size
    step, passed = first, 0
    while passed + world * size_of(ramp, step) <= plan.begin:  # the step in which it begins
        passed += world * size_of(ramp, step)
        step += 1
    order = list(range(plan.begin, plan.num_records))
    batches: list[list[int]] = []
    while len(order) >= world * (size := size_of(ramp, step)):
        whole, order = order[: world * size], order[world * size :]
        batches.append(whole[plan.rank * size : (plan.rank + 1) * size])
        step += 1
    if plan.uneven == "drop":
        order = order[: len(order) // world * world]
    elif plan.uneven == "pad" and len(order) % world:
        repeated = itertools.cycle(range(plan.num_records))
        order = order + list(itertools.islice(repeated, -len(order) % world))
    last = [part.tolist() for part in np.array_split(np.array(order, np.int64), world)][plan.rank]
    if last and not (plan.drop_last and len(last) < size):
        batches.append(last)
    return batches


@given(cases())
def test_every_rank_gets_its_slices_of_the_global_order(case: tuple[Ramp, int, EpochPlan]) -> None:
    ramp, first, plan = case
    for rank in ranks_of(plan):
        expected = expected_batches(ramp, first, rank)
        assert batches_of(rank) == expected
        assert rank.num_rank_batches == len(expected)
        assert rank.num_rank_records == sum(map(len, expected))
        for number, batch in enumerate(expected):
            assert rank.batch(number).tolist() == batch


@given(cases(), st.integers(0, 3), st.integers(0, 200))
def test_consumed_records_are_skipped(
    case: tuple[Ramp, int, EpochPlan], worker: int, consumed: int
) -> None:
    plan = dataclasses.replace(case[2], worker=worker % case[2].num_workers)
    batches = [batch.tolist() for batch in plan.batches()]
    whole = [*itertools.chain(*batches)]
    rest = [batch.tolist() for batch in plan.batches(consumed)]
    assert [*itertools.chain(*rest)] == whole[consumed:]
    assert plan.num_worker_records == len(whole)
    if isinstance(plan.batch_size, int):
        assert all(len(batch) == plan.batch_size for batch in rest[1:-1])
    if consumed <= len(whole):
        begins = [sum(map(len, batches[:number])) for number in range(len(batches))]
        assert plan.num_begun(consumed) == sum(begin < consumed for begin in begins)


@given(cases(), st.integers(0, 12))
def test_a_resumed_run_has_the_same_positions_before(
    case: tuple[Ramp, int, EpochPlan], steps: int
) -> None:
    plan = dataclasses.replace(case[2], begin=0)
    for rank in ranks_of(plan):
        batches = expected_batches(case[0], case[1], rank)
        done = [*itertools.chain(*batches[:steps])]
        begin = len(done) * plan.world_size
        if steps > len(batches) or begin > plan.num_records or rank.num_before(steps) != len(done):
            continue
        resumed = dataclasses.replace(rank, begin=begin)
        assert batches_of(resumed) == batches[steps:]
        before = [batch[::-1].tolist() for batch in resumed.before(0)]
        assert [*itertools.chain(*before)] == done[::-1]


WRONG: list[tuple[Any, str]] = [
    ({}, r"dict of steps and sizes, from step 0 on, such as \{0: 256, 1_000: 512\}, got {}"),
    ({1: 4}, r"from step 0 on, .* got \{1: 4\}"),
    ([4], r"must be a dict .* got \[4\]"),
    ({0: 0}, "a size of a Ramp must be a positive integer, got 0"),
    ({0: 4, -1: 5}, "a step of a Ramp must be a non-negative integer, got -1"),
    ({0: 4, 1.5: 5}, "a step of a Ramp must be a non-negative integer, got 1.5"),
]


@pytest.mark.parametrize(("sizes", "reason"), WRONG)
def test_ramps_that_are_refused(sizes: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Ramp(sizes)


def test_steps_are_sorted() -> None:
    assert str(Ramp({9: 4, 0: 2})) == "Ramp({0: 2, 9: 4})"
    assert Ramp({9: 4, 0: 2}) == Ramp({0: 2, 9: 4})


@pytest.mark.parametrize("uneven", ["keep", "drop", "pad"])
@pytest.mark.parametrize("begin", [0, 3 * 10**9])
def test_ten_thousand_million_records(uneven: Uneven, begin: int) -> None:
    seen: list[int] = []
    for rank in (0, 6):
        plan = EpochPlan(10**10, 256, begin, rank=rank, world_size=7, uneven=uneven)
        assert plan.num_rank_records in ((10**10 - begin) // 7, (10**10 - begin) // 7 + 1)
        last = plan.num_rank_batches - 1
        for number in (0, 1, last // 2, last - 1, last):
            batch = plan.batch(number)
            assert len(batch) == 256 or number == last
            seen.extend(batch.tolist())
    assert min(seen) >= (0 if uneven == "pad" else begin)
    assert max(seen) < 10**10
    if uneven != "pad":
        assert len(set(seen)) == len(seen)
