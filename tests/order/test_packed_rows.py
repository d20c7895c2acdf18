"""Plans of packed rows, compared with a plain model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.support.packing import Row, Token, model_rows
from torchrec_io import _core
from torchrec_io._order.orders import RecordOrder
from torchrec_io._order.packed_rows import PackedOrder, pack_rows
from torchrec_io._order.selection import Span
from torchrec_io._order.windows import Lengths

lengths_of_documents = st.lists(st.one_of(st.integers(0, 12), st.integers(0, 60)), max_size=60)


@st.composite
def packs(draw: st.DrawFn) -> tio.Pack:
    return tio.Pack(
        draw(st.integers(1, 20)),
        "tokens",
        mode=draw(st.sampled_from(["fit", "chunk"])),
        window=draw(st.integers(1, 40)),
        separator=draw(st.sampled_from([None, 0])),
        long=draw(st.sampled_from(["split", "drop"])),
        last=draw(st.sampled_from(["drop", "pad"])),
    )


def order_of(lengths: list[int], pack: tio.Pack, **options: Any) -> PackedOrder:
    count = len(lengths)
    whole = RecordOrder(Span(0, count, count), **options)
    return pack_rows(whole, Lengths(np.array(lengths, np.int64)), pack)


def rows_of(plan: _core.RowPlan) -> Iterator[Row]:
    """Yield the rows of a plan with record numbers as documents."""
    for begin, end in zip(plan.row_begins[:-1], plan.row_begins[1:], strict=True):
        yield [
            [
                Token(int(plan.numbers[plan.documents[at]]), int(plan.begins[at]) + place)
                for place in range(int(plan.sizes[at]))
            ]
            for at in range(begin, end)
        ]


def all_rows(order: PackedOrder, epoch: int = 0) -> list[Row]:
    return list(rows_of(order.plan_units(np.arange(order.count(epoch)), epoch)))


def expected(order: PackedOrder, lengths: list[int], epoch: int = 0) -> list[list[Row]]:
    numbers = order.record_order.at(np.arange(len(order)), epoch).tolist()
    windows = model_rows([lengths[number] for number in numbers], order.pack)
    return [
        [[[Token(numbers[at], place) for at, place in piece] for piece in row] for row in window]
        for window in windows
    ]


class TestRows:
    @given(
        lengths=lengths_of_documents,
        pack=packs(),
        shuffle=st.sampled_from([False, True, 7, tio.Shuffle(block=3, window=10)]),
        epoch=st.integers(0, 3),
    )
    def test_all_rows_in_order(
        self, lengths: list[int], pack: tio.Pack, shuffle: Any, epoch: int
    ) -> None:
        order = order_of(lengths, pack, shuffle=shuffle, seed=4)
        rows = [row for window in expected(order, lengths, epoch) for row in window]
        assert order.count(epoch) == len(rows)
        if rows:
            assert all_rows(order, epoch) == rows

    @given(lengths=lengths_of_documents.filter(any), pack=packs(), data=st.data())
    def test_any_rows_in_any_order(
        self, lengths: list[int], pack: tio.Pack, data: st.DataObject
    ) -> None:
        order = order_of(lengths, pack, shuffle=True)
        if not (count := order.count(0)):
            return
        whole = all_rows(order)
        units = data.draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=9))
        plan = order_of(lengths, pack, shuffle=True).plan_units(np.array(units), 0)
        assert list(rows_of(plan)) == [whole[unit] for unit in units]
        assert plan.lengths.tolist() == [lengths[number] for number in plan.numbers]
