"""Plans of packed rows, compared with a plain model."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.support.examples import example_of
from tests.support.packing import Row, Token, model_rows
from torchrec_io import _core
from torchrec_io._order.mixture import MixedOrder
from torchrec_io._order.orders import ENDLESS, RecordOrder
from torchrec_io._order.packed_rows import PackedOrder, WholeDocuments, pack_rows
from torchrec_io._order.plan import EpochPlan
from torchrec_io._order.selection import Span, Subset
from torchrec_io._order.windows import Lengths

lengths_of_documents = st.lists(st.one_of(st.integers(0, 12), st.integers(0, 60)), max_size=60)

# The documents of the rows of an epoch, and their number in each row.
GOLDEN = [10, 19, 4, 9, 8, 1, 17, 7, 12, 5, 2, 3, 6, 18, 11, 15, 13, 16, 14, 0]
GOLDEN_SIZES = [6, 1, 2, 2, 2, 3, 2, 2]


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
    @given(lengths=lengths_of_documents, pack=packs())
    def test_stored_order(self, lengths: list[int], pack: tio.Pack) -> None:
        order = order_of(lengths, pack)
        rows = [row for window in expected(order, lengths) for row in window]
        assert order.count(0) == len(rows)
        if rows:
            assert all_rows(order) == rows

    @given(
        lengths=lengths_of_documents.filter(len),
        pack=packs(),
        shuffle=st.sampled_from([True, 7, tio.Shuffle(block=3, window=10)]),
        epoch=st.integers(0, 3),
    )
    def test_shuffled(self, lengths: list[int], pack: tio.Pack, shuffle: Any, epoch: int) -> None:
        order = order_of(lengths, pack, shuffle=shuffle, seed=4)
        windows = expected(order, lengths, epoch)
        count = order.count(epoch)
        assert count == sum(map(len, windows))
        if count:
            assert all_rows(order, epoch) == [row for window in windows for row in window]

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

    @given(lengths=lengths_of_documents, pack=packs(), world=st.integers(1, 4), data=st.data())
    def test_ranks_and_workers_share_all_rows(
        self, lengths: list[int], pack: tio.Pack, world: int, data: st.DataObject
    ) -> None:
        order = order_of(lengths, pack, shuffle=True)
        rows = all_rows(order) if order.count(0) else []
        size, workers = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
        found: list[Row] = []
        for rank in range(world):
            for worker in range(workers):

                def plan_of(count: int, rank: int = rank, worker: int = worker) -> EpochPlan:
                    return EpochPlan(count, size, 0, rank, world, worker, workers)

                # Of a copy, which counts no more windows than it needs.
                batches = pickle.loads(pickle.dumps(order)).batches(0, plan_of, 0)
                found += [row for some in batches for row in rows_of(some)]
        assert sorted(found) == sorted(rows)

    def test_golden_rows(self) -> None:
        """These rows must never change: runs are resumed with other releases."""
        lengths = np.random.default_rng(3).integers(1, 9, 20).tolist()
        order = order_of(lengths, tio.Pack(10, "tokens", window=7), shuffle=True, seed=2)
        plan = order.plan_units(np.arange(order.count(1)), 1)
        assert plan.numbers[plan.documents].tolist() == GOLDEN
        assert np.diff(plan.row_begins).tolist() == GOLDEN_SIZES

    def test_a_row_that_does_not_exist(self) -> None:
        order = order_of([3, 3], tio.Pack(4, "tokens"))
        with pytest.raises(IndexError, match=r"epoch 0 has no units 0\.\.2"):
            order.plan_units(np.arange(3), 0)
        with pytest.raises(IndexError, match=r"epoch 0 has no units -1\.\.0"):
            order.plan_units(np.arange(-1, 1), 0)

    def test_windows_are_planned_when_they_are_needed(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lengths = [3] * 1000
        order = order_of(lengths, tio.Pack(6, "tokens", window=10))
        seen: list[int] = []
        measure = WholeDocuments._measure

        def watched(self: Any, begin: int, end: int, epoch: int) -> Any:
            seen.append(end)
            return measure(self, begin, end, epoch)

        monkeypatch.setattr(WholeDocuments, "_measure", watched)
        batches = order.batches(0, lambda count: EpochPlan(count, 2), 0)
        assert len(next(batches)) == 2
        assert seen == [1]
        assert len(list(batches)) == 249


class TestMixtures:
    @given(
        sizes=st.lists(st.integers(1, 30), min_size=1, max_size=3),
        pack=packs(),
        is_shuffled=st.booleans(),
    )
    def test_rows_of_the_mixed_order(
        self, sizes: list[int], pack: tio.Pack, is_shuffled: bool
    ) -> None:
        total = sum(sizes)
        lengths = [(7 * number) % 11 for number in range(total)]
        parts = [RecordOrder(Span(0, size, size), is_shuffled) for size in sizes]
        bases = (np.cumsum(sizes) - sizes).tolist()
        whole = MixedOrder(parts, [1.0] * len(sizes), 0, "all_exhausted", bases=bases)
        order = pack_rows(whole, Lengths(np.array(lengths)), pack)
        windows = expected(order, lengths)
        rows = [row for window in windows for row in window]
        assert order.count(0) == len(rows)
        if rows:
            assert all_rows(order) == rows

    def test_endless_mixtures(self) -> None:
        parts = [RecordOrder(Span(0, size, size), shuffle=True) for size in (3, 50)]
        whole = MixedOrder(parts, [1, 1], 0, "endless", bases=[0, 3])
        order = pack_rows(whole, Lengths(np.arange(53)), tio.Pack(64, "tokens", window=100))
        assert order.count(0) == ENDLESS
        batches = order.batches(0, lambda count: EpochPlan(count, 8), 0)
        plans = [next(batches) for _ in range(30)]
        later = next(order.batches(0, lambda count: EpochPlan(count, 8), 29 * 8))
        assert list(rows_of(later)) == list(rows_of(plans[-1]))

    def test_contained_records(self) -> None:
        parts = [
            RecordOrder(Span(1, 2, 4)),
            RecordOrder(Subset.from_mask(np.array([True, False, True]))),
        ]
        order = MixedOrder(parts, [1, 1], 0, "all_exhausted", bases=[0, 4])
        assert order.contains(np.arange(7)).tolist() == [
            False, True, True, False, True, False, True,
        ]  # fmt: skip


class TestCore:
    """The bindings check what they are given."""

    LENGTHS = np.array([3, 4], np.int32)

    @pytest.mark.parametrize("numbers", [[2], [-1], [0, 5]])
    def test_unknown_records(self, numbers: list[int]) -> None:
        with pytest.raises(IndexError, match="outside of the lengths"):
            _core.pack_window(self.LENGTHS, np.array(numbers), 4, 0, True)
        cuts = np.array([0, len(numbers)])
        with pytest.raises(IndexError, match="outside of the lengths"):
            _core.count_packed_rows(self.LENGTHS, np.array(numbers), cuts, 4, 0, True)

    @pytest.mark.parametrize("cuts", [[], [0, 3], [1, 0], [-1, 1]])
    def test_wrong_cuts(self, cuts: list[int]) -> None:
        with pytest.raises(ValueError, match="cuts must ascend"):
            _core.count_packed_tokens(self.LENGTHS, np.array([0, 1]), np.array(cuts, np.int64), 0)

    @pytest.mark.parametrize(("length", "extra"), [(0, 0), (2**24 + 1, 0), (4, 2), (4, -1)])
    def test_wrong_rules(self, length: int, extra: int) -> None:
        with pytest.raises(ValueError, match="must be"):
            _core.pack_window(self.LENGTHS, np.array([0]), length, extra, True)

    def test_rows_that_do_not_exist(self) -> None:
        plan = _core.pack_window(self.LENGTHS, np.array([0, 1]), 4, 0, True)
        for rows in ([2], [-1], [0, 2**62]):
            with pytest.raises(IndexError, match="the plan has no such row"):
                plan.take(np.array(rows))

    @pytest.mark.parametrize("starts", [[], [5], [0, 3], [-1]])
    def test_rows_outside_of_the_documents(self, starts: list[int]) -> None:
        one = np.array([1])
        if starts == [-1]:
            with pytest.raises(ValueError, match="must begin in the documents"):
                _core.cut_rows(one, one, np.array(starts), -1, 8, 4)
        else:
            with pytest.raises(ValueError, match="must begin in the documents"):
                _core.cut_rows(one, one, np.array(starts, np.int64), 4, 8, 4)

    @pytest.mark.parametrize(
        ("length", "records", "sources"),
        [(4, 1, None), (3, 2, None), (0, 2, None), (4, 2, [0]), (4, 2, [0, 2])],
        ids=str,
    )
    def test_plans_that_do_not_fit(self, length: int, records: int, sources: Any) -> None:
        plan = _core.pack_window(self.LENGTHS, np.array([0, 1]), 4, 0, True)
        rows = None if sources is None else np.array(sources)
        with pytest.raises(ValueError, match="the plan must fit the length and the documents"):
            _core.row_writer(plan, length, records, rows)

    @pytest.mark.parametrize(
        "change",
        [
            {"at": 136},
            {"at": 2},
            {"feature": 1},
            {"padding": b""},
            {"separator": bytes(4)},
            {"labels": 136},
            {"segments": 196},
            {"positions": 194},
        ],
        ids=str,
    )
    def test_formats_that_do_not_fit(self, change: dict[str, Any]) -> None:
        plan = _core.pack_window(self.LENGTHS, np.array([0, 1]), 4, 0, True)
        writer = _core.row_writer(plan, 4, 2, None)
        documents = self._located("int64")
        assert writer.write(documents, _format(len(plan)), np.zeros(24 * 4 * len(plan), np.uint8))
        with pytest.raises(ValueError, match="the format must fit the documents"):
            writer.write(documents, _format(len(plan), **change), np.zeros(192, np.uint8))

    @pytest.mark.parametrize("rows", [[0, 1], [1, 0]])
    def test_a_separator_alone_has_the_same_document(self, rows: list[int]) -> None:
        plan = _core.pack_window(self.LENGTHS, np.array([1]), 4, 1, True)
        taken = plan.take(np.array(rows))
        assert taken.numbers.tolist() == [1]
        assert taken.documents.tolist() == [0, 0]
        assert taken.begins.tolist() == [4 * row for row in rows]

    def test_labels_of_floats(self) -> None:
        plan = _core.pack_window(self.LENGTHS, np.array([0, 1]), 4, 0, True)
        writer = _core.row_writer(plan, 4, 2, None)
        item = bytes(4)
        with pytest.raises(ValueError, match="the format must fit the documents"):
            writer.write(
                self._located("float32"),
                _format(len(plan), padding=item, separator=item),
                np.zeros(192, np.uint8),
            )

    def test_pieces_in_an_arena_that_is_too_small(self) -> None:
        plan = _core.pack_window(self.LENGTHS, np.array([0, 1]), 4, 0, True)
        writer = _core.row_writer(plan, 4, 2, None)
        for at in (4, 64):
            with pytest.raises(ValueError, match="an array must be aligned and lie inside of its"):
                writer.write_pieces(np.zeros(64, np.uint8), at, 0, 0, 0)

    def _located(self, dtype: str) -> _core.LocatedBatch:
        """Return the located values of documents of the lengths."""
        kind = float if dtype == "float32" else int
        records = [example_of(t=[kind(n) for n in range(length)]) for length in self.LENGTHS]
        spec = _core.FeatureSpec(b"t", _core.Dtype[dtype], _core.ColumnType.ragged)
        parser = _core.ExampleParser([spec.without_column()])
        return parser.locate(_core.Records(tuple(records)))


def _format(rows: int, **change: Any) -> _core.RowFormat:
    """Return the format of rows of 4 int64 tokens, with some changes."""
    size = 4 * rows
    made = {
        "feature": 0,
        "at": 0,
        "padding": bytes(8),
        "separator": None,
        "labels": 8 * size,
        "segments": 16 * size,
        "positions": 20 * size,
        **change,
    }
    tokens = _core.PackedColumn(made["feature"], made["at"], made["padding"], made["separator"])
    return _core.RowFormat(
        [tokens],
        segments_at=made["segments"],
        positions_at=made["positions"],
        continues=False,
        labels=_core.Labels.same,
        labels_at=made["labels"],
        separator=None,
    )
