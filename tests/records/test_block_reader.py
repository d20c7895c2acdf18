"""BlockReader: the records of RecordReader, from few large reads of whole blocks."""

from __future__ import annotations

import functools
import os
import pickle
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tfrecord import write_tfrecord
from torchrec_io import RecordIndex, StaleIndexError, _core
from torchrec_io._records.block_reader import BlockReader
from torchrec_io._records.record_reader import ReadPlan, RecordReader
from torchrec_io._storage.chunk_cache import process_cache

Numbers = npt.NDArray[np.int64]

FILES: list[list[bytes]] = [
    [bytes([i]) * (i * 3) for i in range(50)],
    [],
    [os.urandom(20_000) for _ in range(20)],
    [bytes([i]) * 5 for i in range(25)],
    [b"", b"one"],
]
TOTAL = sum(map(len, FILES))
COMPRESSIONS = (None, None, None, "gzip", "zlib")


def block_of(size: int, numbers: Numbers) -> Numbers:
    return numbers // size


def numbers_of(size: int, total: int, block: int) -> Numbers:
    return np.arange(block * size, min((block + 1) * size, total))


def in_blocks(reader: RecordReader, size: int, keep: int) -> BlockReader:
    return BlockReader(
        reader,
        functools.partial(block_of, size),
        functools.partial(numbers_of, size, len(reader)),
        keep,
    )


class WatchedReader(RecordReader):
    """A reader that records its reads, and the buffers that are still in memory."""

    def __init__(self, indexes: Sequence[RecordIndex]) -> None:
        super().__init__(indexes)
        self.reads: list[list[tuple[int, list[list[int]]]]] = []
        self.buffers: list[weakref.ref[Any]] = []
        self.most_alive = 0
        self.before: Callable[[], None] = lambda: None

    def read(self, plan: ReadPlan) -> npt.NDArray[np.uint8]:
        self.reads.append([(file, ranges[:, :2].tolist()) for file, ranges in plan.by_file()])
        self.before()
        buffer = super().read(plan)
        self.buffers.append(weakref.ref(buffer))
        self.most_alive = max(self.most_alive, sum(ref() is not None for ref in self.buffers))
        return buffer


@pytest.fixture(scope="module")
def indexes(tmp_path_factory: pytest.TempPathFactory) -> list[RecordIndex]:
    folder = tmp_path_factory.mktemp("blocks")
    for number, (records, kind) in enumerate(zip(FILES, COMPRESSIONS, strict=True)):
        write_tfrecord(folder / f"{number}", records, kind)
    return [RecordIndex.build(folder / f"{number}") for number in range(len(FILES))]


@pytest.fixture
def watched(indexes: list[RecordIndex]) -> WatchedReader:
    return WatchedReader(indexes)


def fetch(reader: RecordReader | BlockReader, numbers: Sequence[int]) -> Any:
    """Return all results of fetching as plain values."""
    wanted = np.array(numbers, np.int64)
    if isinstance(reader, BlockReader):
        block, errors = reader.fetch(reader.plan(wanted))
    else:
        block, errors = reader.fetch(reader.plan(wanted))
    assert block.starts.dtype == block.lengths.dtype == block.numbers.dtype == np.int64
    told = [(type(e), e.path, e.record, e.offset, str(e)) for e in errors]
    return block.numbers.tolist(), [block[i] for i in range(len(block))], told


# ---- results ----


@given(
    batches=st.lists(st.lists(st.integers(0, TOTAL - 1), max_size=60), max_size=5),
    size=st.integers(1, TOTAL + 3),
    keep=st.integers(1, 5),
)
def test_results_equal_those_of_the_plain_reader(
    indexes: list[RecordIndex], batches: list[list[int]], size: int, keep: int
) -> None:
    plain = RecordReader(indexes)
    blocks = in_blocks(plain, size, keep)
    for numbers in batches:
        assert fetch(blocks, numbers) == fetch(plain, numbers)


def test_at_least_one_block_is_kept(watched: WatchedReader) -> None:
    with pytest.raises(ValueError, match=r"^keep must be a positive integer, got 0"):
        in_blocks(watched, 10, 0)


# ---- reads ----


def test_least_recently_used_block_is_evicted(watched: WatchedReader) -> None:
    blocks = in_blocks(watched, 10, 2)
    for block, reads in ((0, 1), (1, 2), (0, 2), (2, 3), (0, 3), (1, 4), (2, 5), (1, 5)):
        fetch(blocks, [block * 10])
        assert len(watched.reads) == reads, block


@pytest.mark.parametrize("keep", [1, 2, 5])
def test_number_of_blocks_in_memory_is_limited(watched: WatchedReader, keep: int) -> None:
    blocks = in_blocks(watched, 7, keep)
    for numbers in np.random.default_rng(0).integers(0, TOTAL, (40, 12)):
        fetch(blocks, numbers.tolist())
    assert watched.most_alive == keep


def test_each_block_not_in_memory_is_prefetched_once(
    watched: WatchedReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead: list[int] = []
    monkeypatch.setattr(
        watched, "prefetch", lambda plans: ahead.extend(int(plan.numbers[0]) for plan in plans)
    )
    blocks = in_blocks(watched, 10, 3)
    fetch(blocks, [0])
    first = blocks.plan(np.array([5, 15, 25, 11]))
    blocks.prefetch([first])
    blocks.prefetch([blocks.plan(np.array([12, 22]))])
    assert ahead == [10, 20]
    assert len(watched.reads) == 1
    del first  # what was read for it is dropped
    blocks.prefetch([blocks.plan(np.array([12, 22]))])
    assert ahead == [10, 20, 10, 20]
    assert fetch(blocks, [12, 22]) == fetch(RecordReader(watched.indexes), [12, 22])
    blocks.prefetch([blocks.plan(np.array([12, 22]))])
    assert ahead == [10, 20, 10, 20]


def test_what_is_prefetched_is_dropped_with_its_plan(indexes: list[RecordIndex]) -> None:
    reader = RecordReader(indexes)
    prefetcher = reader._prefetcher_of_process
    assert prefetcher is not None
    plans = [reader.plan(np.arange(at, at + 10)) for at in (0, 10, 20)]
    reader.prefetch(plans[:2])
    reader.prefetch(plans[2:])
    sizes = [plan.buffer_bytes for plan in plans]
    assert prefetcher.held_bytes == sum(sizes)
    assert reader.read(plans[0]).tobytes() == RecordReader(indexes).read(plans[0]).tobytes()
    del plans[2]
    assert prefetcher.held_bytes == sum(sizes[:2])  # of one buffer
    plans.clear()
    assert prefetcher.held_bytes == 0


# ---- threads and processes ----

THREADS = 6


def all_at_once(work: Callable[[], Any]) -> list[Any]:
    """Run work in threads that start together. Return each result or exception."""
    ready = threading.Barrier(THREADS)

    def run(_: int) -> Any:
        ready.wait()
        try:
            return work()
        except BaseException as error:  # noqa: BLE001  # returned to the test
            return error

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(run, range(THREADS)))


def test_concurrent_threads_read_a_block_once(watched: WatchedReader) -> None:
    expected = fetch(RecordReader(watched.indexes), [3, 1, 55])
    watched.before = lambda: time.sleep(0.1)  # so that all threads wait
    blocks = in_blocks(watched, 100, 1)
    assert all_at_once(lambda: fetch(blocks, [3, 1, 55])) == [expected] * THREADS
    assert len(watched.reads) == 1


class Interrupted(BaseException):  # as KeyboardInterrupt
    """An exception that does not derive from Exception."""


@pytest.mark.parametrize("kind", [OSError, Interrupted])
def test_read_error_reaches_every_waiting_thread(
    watched: WatchedReader, kind: type[BaseException]
) -> None:
    error = kind("gone")

    def fail() -> None:
        time.sleep(0.1)
        raise error

    watched.before = fail
    blocks = in_blocks(watched, 100, 1)
    assert all_at_once(lambda: fetch(blocks, [3])) == [error] * THREADS
    assert len(watched.reads) == 1
    # The failed read leaves no state.
    watched.before = lambda: None
    assert fetch(blocks, [3]) == fetch(RecordReader(watched.indexes), [3])


def test_pickled_readers_contain_no_blocks(indexes: list[RecordIndex]) -> None:
    blocks = in_blocks(RecordReader(indexes), 30, 2)
    expected = fetch(blocks, [60, 1])
    plain_size = len(pickle.dumps(in_blocks(RecordReader(indexes), 30, 2)))
    assert len(pickle.dumps(blocks)) == plain_size
    assert fetch(pickle.loads(pickle.dumps(blocks)), [60, 1]) == expected


def test_forked_child_shares_no_locks_or_blocks(watched: WatchedReader) -> None:
    blocks = in_blocks(watched, 30, 2)
    expected = fetch(blocks, [60, 1])
    reads = len(watched.reads)
    with blocks._lock:  # as if another thread held it
        child = os.fork()
        if child == 0:
            ok = fetch(blocks, [60, 1]) == expected and len(watched.reads) == 2 * reads
            blocks.prefetch([blocks.plan(np.array([40]))])
            os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert fetch(blocks, [60, 1]) == expected
    assert len(watched.reads) == reads


# ---- damage ----


def test_file_changed_between_epochs_is_found_despite_kept_blocks(
    tmp_path: Path,
) -> None:
    path = write_tfrecord(tmp_path / "x", [b"aaaa", b"bbbb"])
    blocks = in_blocks(RecordReader([RecordIndex.build(path)]), 2, 1)
    assert fetch(blocks, [1])[1] == [b"bbbb"]
    write_tfrecord(path, [b"aaaaaa", b"bbbb", b"cc"])
    blocks.begin_epoch()
    with pytest.raises(StaleIndexError):
        fetch(blocks, [1])


# ---- gathering ----


def rows(*ranges: tuple[int, int, int]) -> Numbers:
    return np.array(ranges, np.int64).reshape(-1, 3)


@pytest.mark.parametrize(
    "bad",
    [
        (0, 11, 0),
        (5, 6, 0),
        (11, 0, 0),
        (-1, 1, 0),
        (0, -1, 0),
        (0, 1, -1),
        (0, 5, 16),
        (0, 0, 21),
        (2**63 - 1, 1, 0),
        (1, 2**63 - 1, 0),
        (0, 1, 2**63 - 1),
    ],
)
def test_gathering_rejects_ranges_outside(bad: tuple[int, int, int]) -> None:
    source, target = np.arange(10, dtype=np.uint8), np.zeros(20, np.uint8)
    with pytest.raises(ValueError, match="ranges must"):
        _core.gather(source, rows((0, 1, 0), bad), target)
    assert not target.any()
    with pytest.raises(ValueError, match="three columns"):
        _core.gather(source, np.zeros((1, 2), np.int64), target)


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_blocks_count_within_the_memory_of_decoded_data(
    tmp_path: Path, compression: str | None
) -> None:
    path = write_tfrecord(tmp_path / "x", [b"0123456789"] * 20, compression)
    reader = RecordReader([RecordIndex.build(path)], cache_bytes=12345)
    blocks = in_blocks(reader, 5, 2)
    for first in (0, 5, 10, 0, 15):
        blocks.fetch(blocks.plan(np.arange(first, first + 5)))
    assert blocks.held_bytes == 2 * 5 * 26
    assert (blocks in process_cache(12345)._holders) == (compression is not None)
