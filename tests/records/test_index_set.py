"""Arguments of IndexSet; tests/native has the other tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.tfrecord import write_tfrecord
from torchrec_io import RecordIndex, _core


@pytest.fixture
def index(tmp_path: Path) -> _core.Index:
    return RecordIndex.build(write_tfrecord(tmp_path / "x", [b"a", b"bc"])).file.core


def counts(*of: int) -> npt.NDArray[np.int64]:
    return np.array(of, np.int64)


@pytest.mark.parametrize("bad", [(-1,), (1, -1), (2**63 - 1, 1)])
def test_counts_that_cannot_be(bad: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="counts must not be negative"):
        _core.IndexSet(counts(*bad))


def test_missing_files_and_indexes(index: _core.Index) -> None:
    indexes = _core.IndexSet(counts(2, 3))
    for file in (-1, 2, 2**62):
        with pytest.raises(IndexError, match="the file does not exist"):
            indexes.mark_checked(file, index, 1)
        with pytest.raises(IndexError, match="the file does not exist"):
            indexes.unchecked([0, file], 1)
    with pytest.raises(ValueError, match="another number of records"):
        indexes.mark_checked(1, index, 1)
    with pytest.raises(ValueError, match="shorter"):
        _core.Index(np.zeros(10, np.uint8))
    assert indexes.unchecked([1, 0], 1) == [1, 0]
    with pytest.raises(ValueError, match="most_pages must be at least 4"):
        _core.IndexSet(counts(2), 3)


def test_lookups_that_are_not_complete(index: _core.Index) -> None:
    indexes = _core.IndexSet(counts(2))
    lookup = _core.FrameLookup(counts(0))
    assert not indexes.find(lookup, 1)
    assert lookup.unchecked_files == [0]
    for use in (lookup.locations, lambda: lookup.plan(0)):
        with pytest.raises(ValueError, match="the frames must be found first"):
            use()
    indexes.mark_checked(0, index, 1)
    assert indexes.find(lookup, 1)
    with pytest.raises(ValueError, match="gap must not be negative"):
        lookup.plan(-1)
