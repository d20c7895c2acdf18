"""Virtual epochs, compared with slices of all epochs of an order in a row."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.order.test_mixture import Shuffled
from tests.order.test_plan import ramps, size_of
from tests.support.orders import RECORD
from torchrec_io._order.batch_sizes import BatchSizes
from torchrec_io._order.ramp import Ramp
from torchrec_io._order.virtual import VirtualRecords


@given(st.integers(1, 40), ramps, st.integers(1, 6), st.integers(1, 3), st.data())
def test_epochs_continue_one_another(
    size: int, ramp: Ramp, steps: int, world: int, data: st.DataObject
) -> None:
    whole = Shuffled(size)
    order = VirtualRecords(whole, steps, BatchSizes.of(ramp), world)
    counts = [
        sum(world * size_of(ramp, epoch * steps + step) for step in range(steps))
        for epoch in range(4)
    ]
    each = (whole.at(np.arange(size), number).tolist() for number in itertools.count())
    endless = ((number, record) for number, records in enumerate(each) for record in records)
    for epoch, count in enumerate(counts):
        assert order.count(epoch) == count
        pairs = [*itertools.islice(endless, count)]
        expected = [(number - pairs[0][0]) * RECORD + record for number, record in pairs]
        assert order.at(np.arange(count), epoch).tolist() == expected
        some = data.draw(st.lists(st.integers(0, count - 1)))
        found = order.at(np.array(some, np.int64), epoch)
        assert found.tolist() == [expected[position] for position in some]
    assert len(order) == counts[0]
