"""Arguments of IndexSet, and indexes that are read by pages; tests/native has the other tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.support.tfrecord import write_tfrecord
from torchrec_io import RecordIndex, _core

PAGE_RECORDS = 1024


@pytest.fixture
def index(tmp_path: Path) -> _core.Index:
    return RecordIndex.build(write_tfrecord(tmp_path / "x", [b"a", b"bc"])).file.core


def counts(*of: int) -> npt.NDArray[np.int64]:
    return np.array(of, np.int64)


def encode(starts: Sequence[int], end: int, *, format: int = 0) -> npt.NDArray[np.uint8]:  # noqa: A002
    header = _core.IndexHeader(
        format=format,
        compression=_core.Compression.none,
        data_bytes=end,
        data_mtime_ns=0,
        data_fingerprint=0,
        stream_end=end,
    )
    content = _core.encode_index(header, np.array(starts, np.uint64), [], np.empty(0, np.uint8))
    return np.frombuffer(content, np.uint8)


def scanned(content: npt.NDArray[np.uint8]) -> _core.Index:
    """Return an index whose offsets are not in memory."""
    scan = _core.IndexScan(len(content))
    scan.add(content)
    return scan.finish()


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


def test_index_lives_as_long_as_it_is_used(tmp_path: Path) -> None:
    content = RecordIndex.build(write_tfrecord(tmp_path / "x", [b"a", b"bc"])).file_bytes
    indexes = _core.IndexSet(counts(2))
    indexes.mark_checked(0, _core.Index(content.copy()), 1)
    np.full(1 << 16, 255, np.uint8)  # would take its place
    lookup = _core.FrameLookup(counts(1, 0))
    assert indexes.find(lookup, 1)
    assert [part.tolist() for part in lookup.locations()] == [[0, 0], [17, 0], [35, 17]]
    lookup = _core.FrameLookup(counts(1, 0, 1))
    assert indexes.find(lookup, 1)
    plan = lookup.plan(0)
    assert plan.numbers.tolist() == [1, 0, 1]
    assert (plan.files, plan.range_bounds) == ([0], [0, 1])
    assert plan.frame_sizes.tolist() == [18, 17, 18]
    assert plan.frame_starts.tolist() == [17, 0, 17]
    assert plan.ranges.tolist() == [[0, 35, 0]]
    assert [(file, ranges.tolist()) for file, ranges in plan.by_file()] == [(0, [[0, 35, 0]])]
    assert plan.buffer_bytes == 35


class TestPages:
    COUNT = 10 * PAGE_RECORDS + 7
    STARTS = np.arange(COUNT, dtype=np.int64) * 20

    @pytest.fixture
    def content(self) -> npt.NDArray[np.uint8]:
        return encode(self.STARTS.tolist(), self.COUNT * 20)

    @staticmethod
    def read(content: npt.NDArray[np.uint8], missing: _core.MissingPages) -> npt.NDArray[np.uint8]:
        buffer = np.zeros(missing.bytes, np.uint8)
        _core.gather(content, missing.ranges, buffer)
        return buffer

    def find(
        self, indexes: _core.IndexSet, content: npt.NDArray[np.uint8], numbers: Sequence[int]
    ) -> tuple[_core.FrameLookup, int]:
        """Find records; return the number of pages that were read."""
        lookup = _core.FrameLookup(counts(*numbers))
        pages = 0
        while not indexes.find(lookup, 1):
            for missing in lookup.missing:
                pages += -(-missing.bytes // (4 * PAGE_RECORDS))
                assert indexes.add_pages(missing, self.read(content, missing))
        return lookup, pages

    def opened(self, content: npt.NDArray[np.uint8], most: int = 100) -> _core.IndexSet:
        indexes = _core.IndexSet(counts(self.COUNT), most)
        indexes.mark_checked(0, scanned(content), 1)
        return indexes

    def test_only_needed_pages_are_read_and_neighbors_at_once(
        self, content: npt.NDArray[np.uint8]
    ) -> None:
        indexes = self.opened(content)
        lookup = _core.FrameLookup(counts(1, 1024, 2047, 9000, 0))
        assert not indexes.find(lookup, 1)
        [missing] = lookup.missing
        # The end of record 2047 is the start of the next one, in the third page.
        table = len(content) - (self.COUNT * 4 + 7) // 8 * 8
        page = 4 * PAGE_RECORDS
        ranges = [[table, 3 * page, 0], [table + 8 * page, page, 3 * page]]
        assert (missing.file, missing.ranges.tolist(), missing.bytes) == (0, ranges, 4 * page)
        assert self.find(indexes, content, [1, 2047, 9000])[1] == 4
        assert self.find(indexes, content, [5, 9001, 1500])[1] == 0
        assert self.find(indexes, content, [self.COUNT - 1])[1] == 1

    def test_all_records_with_few_pages_in_memory(self, content: npt.NDArray[np.uint8]) -> None:
        numbers = np.random.default_rng(0).permutation(self.COUNT)
        for most in (4, 5, 100):
            indexes = self.opened(content, most)
            lookup, pages = self.find(indexes, content, numbers.tolist())
            _, starts, ends = lookup.locations()
            assert starts.tolist() == (numbers * 20).tolist()
            assert ends.tolist() == (numbers * 20 + 20).tolist()
            assert pages <= 22

    def test_changed_pages_are_refused(self, content: npt.NDArray[np.uint8]) -> None:
        indexes = self.opened(content)
        lookup = _core.FrameLookup(counts(1500))
        assert not indexes.find(lookup, 1)
        [missing] = lookup.missing
        page = self.read(content, missing)
        for at in (0, 2000, len(page) - 1):
            changed = page.copy()
            changed[at] ^= 1
            assert not indexes.add_pages(missing, changed)
        assert not indexes.add_pages(missing, page[:-1])
        assert not indexes.find(lookup, 1)
        assert indexes.add_pages(missing, page)
        assert indexes.find(lookup, 1)

    @pytest.mark.parametrize("piece", [1, 7, 104, 4096, 1 << 20])
    def test_files_are_scanned_in_pieces_of_any_size(
        self, content: npt.NDArray[np.uint8], piece: int
    ) -> None:
        scan = _core.IndexScan(len(content))
        for begin in range(0, len(content), piece):
            assert scan.add(content[begin : begin + piece])
        indexes = _core.IndexSet(counts(self.COUNT))
        indexes.mark_checked(0, scan.finish(), 1)
        found = self.find(indexes, content, [0, 5000, self.COUNT - 1])[0].locations()[1]
        assert found.tolist() == [0, 100_000, (self.COUNT - 1) * 20]

    @pytest.mark.parametrize("at", [1, 1023, 1024, 5000, COUNT - 2])
    def test_entries_out_of_order_are_refused(self, at: int) -> None:
        for change in (-20, -5, 5):  # at or inside the record before, or with too little room
            starts = self.STARTS.tolist()
            starts[at] += change
            content = encode(starts, self.COUNT * 20)
            with pytest.raises(ValueError, match="its records are out of order"):
                scanned(content)
            with pytest.raises(ValueError, match="its records are out of order"):
                _core.Index(content)
        content = encode(self.STARTS.tolist(), self.COUNT * 20 - 5)
        with pytest.raises(ValueError, match="the end of its records is wrong"):
            scanned(content)
