"""Arguments that the native module refuses where it packs and gathers rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.support.examples import example_of
from torchrec_io import _core


class TestPacking:
    LENGTHS = np.array([3, 4], np.int32)

    @pytest.mark.parametrize("numbers", [[2], [-1], [0, 5]])
    def test_unknown_records(self, numbers: list[int]) -> None:
        with pytest.raises(IndexError, match="outside of the lengths"):
            _core.pack_window(self.LENGTHS, np.array(numbers), 4, 0)
        cuts = np.array([0, len(numbers)])
        with pytest.raises(IndexError, match="outside of the lengths"):
            _core.count_packed_rows(self.LENGTHS, np.array(numbers), cuts, 4, 0)

    @pytest.mark.parametrize("cuts", [[], [0, 3], [1, 0], [-1, 1]])
    def test_wrong_cuts(self, cuts: list[int]) -> None:
        with pytest.raises(ValueError, match="cuts must ascend"):
            _core.count_packed_tokens(self.LENGTHS, np.array([0, 1]), np.array(cuts, np.int64), 0)

    @pytest.mark.parametrize(("length", "extra"), [(0, 0), (2**24 + 1, 0), (4, 2), (4, -1)])
    def test_wrong_rules(self, length: int, extra: int) -> None:
        with pytest.raises(ValueError, match="must be"):
            _core.pack_window(self.LENGTHS, np.array([0]), length, extra)

    def test_rows_that_do_not_exist(self) -> None:
        plan = _core.pack_window(self.LENGTHS, np.array([0, 1]), 4, 0)
        for rows in ([2], [-1], [0, 2**62]):
            with pytest.raises(IndexError, match="the plan has no such row"):
                plan.take(np.array(rows))

    def test_rows_that_cannot_be_packed_again(self) -> None:
        plan = _core.pack_window(self.LENGTHS, np.array([0, 1]), 4, 0)
        assert plan.repack(2, 9).sizes.tolist() == plan.sizes.tolist()
        assert plan.repack(0, 9).row_begins.tolist() == [0, 2]
        with pytest.raises(IndexError, match="the plan has fewer rows"):
            plan.repack(3, 9)
        with pytest.raises(ValueError, match="length must be from 1 to"):
            plan.repack(0, 0)

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
        plan = _core.pack_window(self.LENGTHS, np.array([0, 1]), 4, 0)
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
        plan = _core.pack_window(self.LENGTHS, np.array([0, 1]), 4, 0)
        writer = _core.row_writer(plan, 4, 2, None)
        documents = self._located("int64")
        assert writer.write(documents, _format(len(plan)), np.zeros(24 * 4 * len(plan), np.uint8))
        with pytest.raises(ValueError, match="the format must fit the documents"):
            writer.write(documents, _format(len(plan), **change), np.zeros(192, np.uint8))

    @pytest.mark.parametrize("rows", [[0, 1], [1, 0]])
    def test_a_separator_alone_has_the_same_document(self, rows: list[int]) -> None:
        plan = _core.pack_window(self.LENGTHS, np.array([1]), 4, 1)
        taken = plan.take(np.array(rows))
        assert taken.numbers.tolist() == [1]
        assert taken.documents.tolist() == [0, 0]
        assert taken.begins.tolist() == [4 * row for row in rows]

    def test_labels_of_floats(self) -> None:
        plan = _core.pack_window(self.LENGTHS, np.array([0, 1]), 4, 0)
        writer = _core.row_writer(plan, 4, 2, None)
        item = bytes(4)
        with pytest.raises(ValueError, match="the format must fit the documents"):
            writer.write(
                self._located("float32"),
                _format(len(plan), padding=item, separator=item),
                np.zeros(192, np.uint8),
            )

    def test_pieces_in_an_arena_that_is_too_small(self) -> None:
        plan = _core.pack_window(self.LENGTHS, np.array([0, 1]), 4, 0)
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


class TestGather:
    """Arrays and rows outside of the arenas."""

    sources = (np.arange(64, dtype=np.uint8),)
    items = _core.ArrayKind.items.value
    offsets = _core.ArrayKind.offsets.value
    padded = _core.ArrayKind.padded.value
    arrays = np.array([[items, 1, 0, 8, 1, 8, 0, 0]])
    places = np.array([[0, 8, 0, 8]])
    rows = (np.array([[0, 2, 3]]),)

    @pytest.mark.parametrize(
        "changed",
        [
            {"places": np.array([[1, 8, 0, 8]])},
            {"places": np.array([[-1, 7, 0, 8]])},
            {"places": np.array([[0, -1, 0, 8]])},
            {"places": np.array([[0, 8, 0, -1]])},
            {"places": np.array([[0, 8, 0, 9]])},
            {"places": np.array([[0, 4, 0, 8]])},  # the rows are not there
            {"places": np.zeros((2, 4), np.int64)},
            {"places": np.zeros((1, 3), np.int64)},
            {"rows": [np.array([[0, -1, 2]])]},
            {"rows": [np.array([[0, 7, 2]])]},
            {"rows": [np.array([[0, 7, -2]])]},
            {"rows": [np.array([[1, 0, 1]])]},
            {"rows": [np.array([[-2, 0, 1]])]},
            {"rows": [np.array([[-1, 0, -1]])]},
            {"rows": []},
            {"arrays": np.array([[items, 0, 0, 8, 1, 8, 0, 0]])},
            {"arrays": np.array([[items, 17, 0, 8, 1, 8, 0, 0]])},
            {"arrays": np.array([[items, 1, 0, 8, 1, -1, 0, 0]])},
            {
                "arrays": np.array([[items, 1, 0, 8, 2, 8, 0, 0]]),
                "places": np.array([[0, 8, 1, 8]]),
            },
            {
                "arrays": np.array([[offsets, 8, 0, 1, 1, 1, 0, 0]]),
                "places": np.array([[0, 7, 0, 1]]),
            },
            {
                "arrays": np.array([[padded, 8, 0, 1, 1, 1, 0, 0]]),
                "places": np.array([[0, 7, 0, 1]]),
            },
            {"arrays": np.array([[offsets, 2, 0, 1, 1, 1, 0, 0]])},
            {"arrays": np.array([[padded, 2, 0, 1, 1, 1, 0, 0]])},
            {"arrays": np.array([[9, 1, 0, 8, 1, 8, 0, 0]])},
            {"alignment": -1},
            {"alignment": 1 << 60},
            {  # a value of padding that is not there
                "arrays": np.array([[offsets, 8, 0, 1, 1, 1, 4, 9], [items, 1, 0, 1, 1, 1, 0, 0]]),
                "places": np.array([[0, 7, 0, 1], [0, 8, 0, 1]]),
            },
        ],
    )
    def test_plans(self, changed: dict[str, Any]) -> None:
        given_: dict[str, Any] = {"arrays": self.arrays, "places": self.places, "rows": self.rows}
        given_ |= {"alignment": 64, **changed}
        with pytest.raises(ValueError, match=r"must|needs|number of columns"):
            _core.RowGather(self.sources, *given_.values())

    def test_arenas(self) -> None:
        gather = _core.RowGather(self.sources, self.arrays, self.places, self.rows, 64)
        assert (gather.arena_bytes, gather.arrays.tolist()) == (64, [3, 0, 64])
        out = np.zeros(64, np.uint8)
        with pytest.raises(ValueError, match="inside of its arena"):
            gather.write(self.sources, out[:63])
        with pytest.raises(ValueError, match="those of the plan"):
            gather.write([np.zeros(63, np.uint8)], out)
        assert not out.any()
        gather.write(self.sources, out)
        assert out[:24].tolist() == [*range(16, 40)]

    def test_copies_that_no_memory_holds(self) -> None:
        arrays = np.array([[self.items, 16, 0, 1 << 57, 9, 0, 0, 0]] * 3)
        gather = _core.RowGather(self.sources, arrays, np.array([[0, 8, 0, 0]] * 3), self.rows, 64)
        assert gather.arena_bytes == 1 << 58
