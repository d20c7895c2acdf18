"""Invalid arguments of IndexSet; tests/native has the other tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.tfrecord import write_tfrecord
from torchrec_io import RecordIndex, _core


@pytest.fixture
def index(tmp_path: Path) -> npt.NDArray[np.uint8]:
    return RecordIndex.build(write_tfrecord(tmp_path / "x", [b"a", b"bc"])).file_bytes


def counts(*of: int) -> npt.NDArray[np.int64]:
    return np.array(of, np.int64)


@pytest.mark.parametrize("bad", [(-1,), (1, -1), (2**63 - 1, 1)])
def test_counts_that_cannot_be(bad: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="counts must not be negative"):
        _core.IndexSet(counts(*bad))


def test_missing_files_and_indexes(index: npt.NDArray[np.uint8]) -> None:
    indexes = _core.IndexSet(counts(2, 3))
    for file in (-1, 2, 2**62):
        with pytest.raises(IndexError, match="the file does not exist"):
            indexes.mark_checked(file, index, 1)
        with pytest.raises(IndexError, match="the file does not exist"):
            indexes.unchecked([0, file], 1)
    with pytest.raises(ValueError, match="another number of records"):
        indexes.mark_checked(1, index, 1)
    with pytest.raises(ValueError, match="shorter"):
        indexes.mark_checked(0, index[:10], 1)
    assert indexes.unchecked([1, 0], 1) == [1, 0]
    with pytest.raises(ValueError, match="gap"):
        indexes.plan(counts(0), 1, -1)


def test_index_lives_as_long_as_it_is_used(index: npt.NDArray[np.uint8]) -> None:
    indexes = _core.IndexSet(counts(2))
    indexes.mark_checked(0, index.copy(), 1)
    np.full(1 << 16, 255, np.uint8)  # would take its place
    found = indexes.locate(counts(1, 0), 1)
    assert (found.unchecked_files, found.files, found.starts) == ([], [0, 0], [17, 0])
    numbers = counts(1, 0, 1)
    plan = indexes.plan(numbers, 1, 0)
    assert plan.numbers.tolist() == [1, 0, 1]
    assert (plan.unchecked_files, plan.files, plan.range_bounds) == ([], [0], [0, 1])
    assert plan.frame_sizes.tolist() == [18, 17, 18]
    assert plan.frame_starts.tolist() == [17, 0, 17]
    assert plan.ranges.tolist() == [[0, 35, 0]]
    assert [(file, ranges.tolist()) for file, ranges in plan.by_file()] == [(0, [[0, 35, 0]])]
    assert plan.buffer_bytes == 35
