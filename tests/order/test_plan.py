"""The plan of an epoch, compared with a simple model, and its guarantees."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.orders import batches_of, ranks_of
from torchrec_io._order.plan import EpochPlan, Uneven

uneven_choices = st.sampled_from(["keep", "drop", "pad"])


@st.composite
def plans(draw: st.DrawFn, /, **fixed: Any) -> EpochPlan:
    """Draw plans with any arguments, for rank 0 and worker 0."""
    num_records = draw(st.integers(0, 150))
    arguments: dict[str, Any] = {
        "num_records": num_records,
        "batch_size": draw(st.integers(1, 8)),
        "begin": draw(st.one_of(st.just(0), st.integers(0, num_records))),
        "world_size": draw(st.integers(1, 5)),
        "num_workers": draw(st.integers(1, 4)),
        "drop_last": draw(st.booleans()),
        "uneven": draw(uneven_choices),
    }
    return EpochPlan(**{**arguments, **fixed})


def expected_batches(plan: EpochPlan) -> list[list[int]]:
    """Return the expected batches of a rank, sliced from the whole order."""
    size, world = plan.batch_size, plan.world_size
    assert isinstance(size, int)
    order = list(range(plan.begin, plan.num_records))
    batches = []
    while len(order) >= world * size:
        step, order = order[: world * size], order[world * size :]
        batches.append(step[plan.rank * size : (plan.rank + 1) * size])
    if plan.uneven == "drop":
        order = order[: len(order) // world * world]
    elif plan.uneven == "pad" and len(order) % world:
        whole = itertools.cycle(range(plan.num_records))
        order = order + list(itertools.islice(whole, -len(order) % world))
    last = [part.tolist() for part in np.array_split(np.array(order, np.int64), world)][plan.rank]
    if last and not (plan.drop_last and len(last) < size):
        batches.append(last)
    return batches


@given(plans())
def test_every_rank_gets_its_slices_of_the_global_order(plan: EpochPlan) -> None:
    for rank in ranks_of(plan):
        expected = expected_batches(rank)
        assert batches_of(rank) == expected
        assert rank.num_rank_batches == len(expected)
        assert rank.num_rank_records == sum(map(len, expected))


@given(plans(), st.integers(0, 3), st.integers(0, 200))
def test_consumed_records_are_skipped(plan: EpochPlan, worker: int, consumed: int) -> None:
    one = dataclasses.replace(plan, worker=worker % plan.num_workers)
    whole = [position for batch in one.batches() for position in batch.tolist()]
    rest = list(one.batches(consumed))
    assert [position for batch in rest for position in batch.tolist()] == whole[consumed:]
    assert one.num_worker_records == len(whole)
    assert all(len(batch) == plan.batch_size for batch in rest[1:-1])


@given(plans(), st.integers(0, 50))
def test_batches_can_be_computed_independently(plan: EpochPlan, number: int) -> None:
    batches = expected_batches(plan)
    if number < len(batches):
        assert plan.batch(number).tolist() == batches[number]


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
