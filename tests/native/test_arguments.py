"""Sequences as arguments of the native core: any sequence is taken, and no wrong item."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from torchrec_io import _core

ROWS = np.array([[0, 1, 0]])
ONE = np.array([0])


def new_plan() -> _core.ReadPlan:
    lookup = _core.FrameLookup(np.empty(0, np.int64))
    assert _core.IndexSet(ONE).find(lookup, 1)
    return lookup.plan(0)


def new_parser(specs: Any = ()) -> _core.ExampleParser:
    return _core.ExampleParser(specs)


CALLS: dict[str, Callable[[Any], Any]] = {
    "descriptors": lambda items: _core.read_ranges(items, [0, 1], ROWS, np.zeros(1, np.uint8)),
    "bounds": lambda items: _core.read_ranges([], items, ROWS, np.zeros(1, np.uint8)),
    "watches": _core.find_changed_file,
    "blocks": lambda items: _core.gather_frames(items, ONE, new_plan(), ONE, np.zeros(1, np.uint8)),
    "files": lambda items: _core.IndexSet(ONE).unchecked(items, 1),
    "specs": new_parser,
    "sizes": lambda items: _core.FeatureSpec(
        b"a", _core.Dtype.string, _core.ColumnType.fixed, default_sizes=items
    ),
    "reads": lambda items: _core.load_batches(new_parser(), items, False),
    "reads of fixed columns": lambda items: _core.load_fixed_batches(
        new_parser(), items, [], [], False
    ),
    "located": lambda items: _core.fill_batches(items, [], []),
    "targets": lambda items: _core.fill_batches([], items, []),
    "arenas": lambda items: _core.fill_batches([], [], items),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_wrong_sequences(call: Callable[[Any], Any]) -> None:
    wrong: list[Any] = [[None], ("text",), [object()], "text"]
    for items in wrong:
        with pytest.raises(TypeError, match="an item of a sequence has the wrong type"):
            call(items)
    for items in (None, 1, {1: 2}, iter(())):
        with pytest.raises(TypeError, match="incompatible function arguments"):
            call(items)


class Numbers:
    """A sequence that is neither a list nor a tuple."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, at: int) -> int:
        return [0, 0][at]


def test_any_sequence() -> None:
    assert _core.IndexSet(ONE).unchecked(Numbers(), 1) == [0, 0]  # type: ignore[arg-type]
    assert _core.IndexSet(ONE).unchecked(range(1), 1) == [0]
    assert _core.IndexSet(ONE).unchecked(ONE, 1) == [0]  # type: ignore[arg-type]
