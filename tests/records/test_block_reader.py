"""BlockReader: the records of RecordReader, from few large reads of whole blocks."""

from __future__ import annotations

import functools
import os
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
from torchrec_io import RecordIndex
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


class WatchedReader(BlockReader):
    """A reader that records its reads, and the buffers that are still in memory."""

    def __init__(self, indexes: Sequence[RecordIndex], size: int, keep: int) -> None:
        self.reads: list[list[tuple[int, list[list[int]]]]] = []
        self.buffers: list[weakref.ref[Any]] = []
        self.most_alive = 0
        self.before: Callable[[], None] = lambda: None
        reader = RecordReader(indexes)
        blocks = functools.partial(numbers_of, size, len(reader))
        super().__init__(reader, functools.partial(block_of, size), blocks, keep)

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


def fetch(reader: RecordReader, numbers: Sequence[int]) -> Any:
    """Return all results of fetching as plain values."""
    block, errors = reader.fetch(reader.plan(np.array(numbers, np.int64)))
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


# ---- reads ----


@pytest.mark.parametrize("keep", [1, 2, 5])
def test_number_of_blocks_in_memory_is_limited(indexes: list[RecordIndex], keep: int) -> None:
    blocks = WatchedReader(indexes, 7, keep)
    for number in np.random.default_rng(0).integers(0, TOTAL, 200).tolist():
        fetch(blocks, [number])
    assert sum(ref() is not None for ref in blocks.buffers) == keep
    assert blocks.most_alive == keep


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


def test_concurrent_threads_read_a_block_once(indexes: list[RecordIndex]) -> None:
    expected = fetch(RecordReader(indexes), [3, 1, 55])
    blocks = WatchedReader(indexes, 100, 1)
    blocks.before = lambda: time.sleep(0.1)  # so that all threads wait
    assert all_at_once(lambda: fetch(blocks, [3, 1, 55])) == [expected] * THREADS
    assert len(blocks.reads) == 1


class Interrupted(BaseException):  # as KeyboardInterrupt
    """An exception that does not derive from Exception."""


@pytest.mark.parametrize("kind", [OSError, Interrupted])
def test_read_error_reaches_every_waiting_thread(
    indexes: list[RecordIndex], kind: type[BaseException]
) -> None:
    error = kind("gone")

    def fail() -> None:
        time.sleep(0.1)
        raise error

    blocks = WatchedReader(indexes, 100, 1)
    blocks.before = fail
    assert all_at_once(lambda: fetch(blocks, [3])) == [error] * THREADS
    assert len(blocks.reads) == 1
    # The failed read leaves no state.
    blocks.before = lambda: None
    assert fetch(blocks, [3]) == fetch(RecordReader(indexes), [3])


def test_forked_child_shares_no_locks_or_blocks(indexes: list[RecordIndex]) -> None:
    blocks = WatchedReader(indexes, 30, 2)
    expected = fetch(blocks, [60, 1])
    reads = len(blocks.reads)
    with blocks._lock:  # as if another thread held it
        child = os.fork()
        if child == 0:
            ok = fetch(blocks, [60, 1]) == expected and len(blocks.reads) == 2 * reads
            blocks.prefetch([blocks.plan(np.array([40]))])
            os._exit(0 if ok else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert fetch(blocks, [60, 1]) == expected
    assert len(blocks.reads) == reads


# ---- damage ----


def test_only_a_damaged_block_is_read_again(indexes: list[RecordIndex]) -> None:
    class BadAnswer(WatchedReader):
        """A reader whose second block is damaged when it is first read."""

        def read(self, plan: ReadPlan) -> npt.NDArray[np.uint8]:
            buffer = super().read(plan)
            if len(self.reads) == 2:
                buffer[-1] ^= 1
            return buffer

    numbers = [3, 25, 19, 31]
    blocks = BadAnswer(indexes, 10, 4)
    assert fetch(blocks, numbers) == fetch(RecordReader(indexes), numbers)
    assert len(blocks.reads) == 5
    assert blocks.reads[4] == blocks.reads[1]


# ---- memory ----


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
