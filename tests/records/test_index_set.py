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
def test_invalid_counts(bad: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="no so many records"):
        _core.IndexSet(counts(*bad))


def test_missing_files_and_indexes(index: npt.NDArray[np.uint8]) -> None:
    indexes = _core.IndexSet(counts(2, 3))
    for file in (-1, 2, 2**62):
        with pytest.raises(IndexError, match="no such file"):
            indexes.take(file, index, 1)
        with pytest.raises(IndexError, match="no such file"):
            indexes.unseen([0, file], 1)
    with pytest.raises(ValueError, match="another number of records"):
        indexes.take(1, index, 1)
    with pytest.raises(ValueError, match="shorter"):
        indexes.take(0, index[:10], 1)
    assert indexes.unseen([1, 0], 1) == [1, 0]
    with pytest.raises(ValueError, match="gap"):
        indexes.plan(counts(0), 1, -1)


def test_index_lives_as_long_as_it_is_used(index: npt.NDArray[np.uint8]) -> None:
    indexes = _core.IndexSet(counts(2))
    indexes.take(0, index.copy(), 1)
    np.full(1 << 16, 255, np.uint8)  # would reuse freed memory
    assert indexes.locate(counts(1, 0), 1) == ([], [0, 0], [17, 0])
    unseen, sizes, placed, files, cuts, ranges, size = indexes.plan(counts(1, 0, 1), 1, 0)
    assert (unseen, files, cuts, size) == ([], [0], [0, 1], 35)
    assert (sizes.tolist(), placed.tolist()) == ([18, 17, 18], [17, 0, 17])
    assert ranges.tolist() == [[0, 35, 0]]
