"""Partitions of a RaggedFeature against a model in plain Python that goes record by record."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import torchrec_io as tio
from tests.support.examples import example_of
from torchrec_io._parsing.parser import ExampleParser
from torchrec_io._records.record_block import RecordList
from torchrec_io._tensors.parse import parse_block

Feature = tio.RaggedFeature
KEYED: dict[str, Any] = {
    "splits": Feature.RowSplits,
    "lengths": Feature.RowLengths,
    "starts": Feature.RowStarts,
    "limits": Feature.RowLimits,
    "ids": Feature.ValueRowIds,
}


# ---- the model: one unit (a record or a step) at a time ----


def stored_as(kind: str, lengths: list[int]) -> list[int]:
    """Row lengths as a partition of some kind has them."""
    ends = list(itertools.accumulate(lengths, initial=0))
    return {
        "splits": ends,
        "lengths": lengths,
        "starts": ends[:-1],
        "limits": ends[1:],
        "ids": [row for row, length in enumerate(lengths) for _ in range(length)],
    }[kind]


def lengths_of(kind: str | int, stored: list[int], count: int) -> list[int] | None:
    """The row lengths that stored numbers stand for; None if they are no rows of the values."""
    if isinstance(kind, int):
        return None if count % kind else [kind] * (count // kind)
    if kind == "ids":
        if len(stored) != count or stored != sorted(stored) or (stored and stored[0] < 0):
            return None
        return [stored.count(row) for row in range(max(stored, default=-1) + 1)]
    if kind == "lengths":
        return None if min(stored, default=0) < 0 or sum(stored) != count else stored
    if kind == "starts":
        splits = [*stored, count]
    elif kind == "limits":
        splits = [0, *stored]
    else:
        splits = stored or [0]
    lengths = [after - before for before, after in itertools.pairwise(splits)]
    is_whole = splits[0] == 0 and splits[-1] == count
    return lengths if is_whole and min(lengths, default=0) >= 0 else None


def nest(values: list[Any], levels: list[list[int]]) -> list[Any]:
    """Values in rows, and these in rows; ``levels`` has row lengths, outermost first."""
    for lengths in reversed(levels):
        left = iter(values)
        values = [list(itertools.islice(left, length)) for length in lengths]
        assert next(left, None) is None
    return values


class Unit(NamedTuple):
    """Values, and what each partition has stored for them: None for a uniform one."""

    values: list[int]
    stored: list[list[int] | None]

    def nested(self, kinds: list[str | int]) -> list[Any] | None:
        """The values in their rows; None if these do not tally."""
        levels: list[list[int]] = []
        count = len(self.values)
        for kind, stored in zip(reversed(kinds), reversed(self.stored), strict=True):
            lengths = lengths_of(kind, stored or [], count)
            if lengths is None:
                return None
            levels.insert(0, lengths)
            count = len(lengths)
        return nest(self.values, levels)


kinds_of_partitions = st.lists(
    st.one_of(st.sampled_from(list(KEYED)), st.integers(1, 3)), min_size=1, max_size=3
)


@st.composite
def sound_units(draw: st.DrawFn, kinds: list[str | int]) -> tuple[Unit, list[Any]]:
    """A unit and the nested lists that it was made from."""
    levels: list[list[int]] = []
    rows = draw(st.integers(0, 3))
    for kind in kinds:
        if isinstance(kind, int):
            lengths = [kind] * rows
        else:
            lengths = draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows))
        if kind == "ids" and lengths:
            lengths[-1] = max(lengths[-1], 1)  # no id stands for empty rows at the end
        levels.append(lengths)
        rows = sum(lengths)
    values = list(range(rows))
    stored = [
        None if isinstance(kind, int) else stored_as(kind, lengths)
        for kind, lengths in zip(kinds, levels, strict=True)
    ]
    return Unit(values, stored), nest(values, levels)


@st.composite
def any_units(draw: st.DrawFn, kinds: list[str | int]) -> Unit:
    """A unit of which some numbers may have been changed, added or taken."""
    unit, _ = draw(sound_units(kinds))
    values = unit.values[: draw(st.integers(max(0, len(unit.values) - 1), len(unit.values)))]
    stored: list[list[int] | None] = []
    for numbers in unit.stored:
        changed = None if numbers is None else list(numbers)
        if changed is not None and draw(st.integers(0, 3)) == 0:
            place = draw(st.integers(0, len(changed)))
            changed[place : place + draw(st.integers(0, 1))] = draw(
                st.lists(st.integers(-2, 5), max_size=1)
            )
        stored.append(changed)
    return Unit(values, stored)


def partitions_of(kinds: list[str | int]) -> list[Any]:
    return [
        Feature.UniformRowLength(kind) if isinstance(kind, int) else KEYED[kind](f"p{number}")
        for number, kind in enumerate(kinds)
    ]


def feature_of(kinds: list[str | int], dtype: Any = "int64", **options: Any) -> Feature:
    return Feature(dtype, "values", partitions_of(kinds), **options)


def parts_of(unit: Unit) -> dict[str, list[Any]]:
    """A unit as stored features; empty ones are left out."""
    stored = {f"p{number}": numbers for number, numbers in enumerate(unit.stored) if numbers}
    return {**({"values": unit.values} if unit.values else {}), **stored}


# ---- rows that tally, and rows that do not ----


@given(
    kinds_of_partitions.flatmap(
        lambda kinds: st.tuples(st.just(kinds), st.lists(any_units(kinds), max_size=4))
    ),
    st.sampled_from(["int64", "uint8", "float16"]),
    st.sampled_from(["int32", "int64"]),
)
def test_each_record_is_judged_by_itself(batch: Any, dtype: str, splits_dtype: str) -> None:
    kinds, units = batch
    feature = feature_of(kinds, dtype, row_splits_dtype=splits_dtype, validate=True)
    nested = [unit.nested(kinds) for unit in units]
    records = [
        tio.encode_example(parts_of(unit), {"values": dtype, "p0": "int64"}) for unit in units
    ]
    parser = ExampleParser.of(tio.Schema({"x": feature}))
    found, failures = parse_block(parser, RecordList.of(records))
    assert [failure.position for failure in failures] == [
        position for position, rows in enumerate(nested) if rows is None
    ]
    assert all(failure.feature == "x" and failure.reason for failure in failures)
    assert found["x"].tolist() == [rows for rows in nested if rows is not None]
    level: Any = found["x"]
    while isinstance(level, tio.Ragged):
        assert level.offsets.dtype == getattr(torch, splits_dtype)
        level = level.values
    assert level.dtype == getattr(torch, dtype)


def test_ids_may_leave_rows_empty_up_to_a_limit() -> None:
    record = example_of(values=[7, 8], p0=[1, 4095])
    rows = tio.parse_example(record, {"x": feature_of(["ids"])})["x"].tolist()
    assert len(rows) == 4096
    assert {place: row for place, row in enumerate(rows) if row} == {1: [7], 4095: [8]}


def test_one_partition_may_serve_two_features() -> None:
    record = example_of(a=[1, 2, 3], b=[4.0, 5.0, 6.0], n=[2, 0, 1])
    rows = [Feature.RowLengths("n")]
    schema = {
        "x": Feature("int64", "a", rows),
        "y": Feature("float32", "b", rows),
        "n": Feature("int64"),
        "a": Feature("int64"),
    }
    batch = tio.parse_examples([record] * 2, schema)
    assert batch["x"].tolist() == [[[1, 2], [], [3]]] * 2
    assert batch["y"].tolist() == [[[4.0, 5.0], [], [6.0]]] * 2
    assert batch["n"].tolist() == [[2, 0, 1]] * 2
    assert batch["a"].tolist() == [[1, 2, 3]] * 2


# ---- rows whose number is known, not their length ----


def parsed(values: list[list[int]], *partitions: Any) -> list[Any]:
    schema = tio.Schema({"values": Feature("int64", None, partitions, "int64")})
    records = [tio.encode_example({"values": np.array(numbers, np.int64)}) for numbers in values]
    found: list[Any] = tio.parse_examples(records, schema)["values"].tolist()
    return found


def test_rows_of_a_known_number() -> None:
    counted = Feature.UniformRowCount(3)
    assert parsed([[1, 2, 3, 4, 5, 6], [], [7, 8, 9]], counted) == [
        [[1, 2], [3, 4], [5, 6]],
        [[], [], []],
        [[7], [8], [9]],
    ]


def test_rows_of_a_known_number_among_other_partitions() -> None:
    # Shapes (2, n, 3) and (2, 2, n).
    inner = (Feature.UniformRowCount(2), Feature.UniformRowLength(3))
    assert parsed([[*range(12)]], *inner) == [[[[0, 1, 2], [3, 4, 5]], [[6, 7, 8], [9, 10, 11]]]]
    outer = (Feature.UniformRowLength(2), Feature.UniformRowCount(4))
    assert parsed([[*range(8)], []], *outer) == [
        [[[0, 1], [2, 3]], [[4, 5], [6, 7]]],
        [[[], []], [[], []]],
    ]


def test_values_that_make_no_such_rows_are_refused() -> None:
    with pytest.raises(
        tio.DecodeError, match="cannot be divided into 3 rows of one length"
    ) as caught:
        parsed([[1, 2, 3], [1, 2, 3, 4]], Feature.UniformRowCount(3))
    assert caught.value.record == 1
    with pytest.raises(tio.DecodeError, match="far more than there are values"):
        parsed([[]], Feature.UniformRowCount(10**12))
    wrong: list[Any] = [0, -1, True, 1.5]
    for rows in wrong:
        with pytest.raises(tio.SchemaError, match="rows must be a positive integer"):
            Feature.UniformRowCount(rows)
