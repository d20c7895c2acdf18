"""Fetching of ranges in bounded memory, with a client that keeps objects in memory."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from torchrec_io.storage.cache import folder
from torchrec_io.storage.cache.object_blocks import ObjectBlocks
from torchrec_io.storage.remote import fetcher as fetcher_module
from torchrec_io.storage.remote.areas import Areas
from torchrec_io.storage.remote.client import Client, OpenObject, Ticket
from torchrec_io.storage.remote.failures import Failure, Kind
from torchrec_io.storage.remote.fetcher import Fetcher, FetchError
from torchrec_io.storage.remote.messages import Fetch, ObjectInfo

CONTENT = np.random.default_rng(0).integers(0, 256, 100_000, dtype=np.uint8)
OBJECT = OpenObject(0, ObjectInfo("a", len(CONTENT), '"1"', "", 0))
BLOCK = 300
CACHED = OBJECT._replace(blocks=ObjectBlocks("", 0, BLOCK, "", len(CONTENT)))


@pytest.fixture(autouse=True, scope="module")
def _gap() -> Iterator[None]:
    """Join neighbors across gaps that are small beside the content."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetcher_module, "_GAP_BYTES", 62_500)
        yield


class MemoryClient(Client):
    """Answers a request when somebody waits for it, and those before it."""

    def __init__(self, memory_bytes: int) -> None:
        super().__init__(memory_bytes)
        self.memory = np.zeros(memory_bytes, np.uint8)
        self.fetches: list[Fetch] = []
        self.cancelled: list[int] = []
        self.failure: Failure | None = None
        self.trouble = ""
        self._open: dict[int, tuple[Ticket, Fetch | None]] = {}
        self._lock = threading.Lock()

    def send(self, messages: Sequence[tuple[Any, ...]]) -> None:
        with self._lock:
            for name, *arguments in messages:
                if name == "fetch":
                    fetch = Fetch(*arguments)
                    self._check_areas(fetch)
                    self.fetches.append(fetch)
                    self._open[fetch.ticket] = (self._waiting[fetch.ticket], fetch)
                else:
                    assert name == "cancel"
                    self.cancelled += arguments[0]

    def grow(self, memory_bytes: int) -> None:
        memory = np.zeros(memory_bytes, np.uint8)
        memory[: len(self.memory)] = self.memory
        self.memory = memory

    def wait(self, tickets: Iterable[Ticket]) -> None:
        for ticket in tickets:
            with self._lock:
                if not ticket.is_done:
                    self._answer_ticket(ticket)

    def answer_all(self) -> None:
        with self._lock:
            for ticket, _ in list(self._open.values()):
                self._answer_ticket(ticket)

    def _answer_ticket(self, ticket: Ticket) -> None:
        _, fetch = self._open.pop(ticket.number)
        assert fetch is not None
        if self.failure is not None:
            ticket.result = self.failure
        elif ticket.number not in self.cancelled:
            body = CONTENT[fetch.begin : fetch.begin + fetch.size]
            for offset, size, target in fetch.pieces:
                self.memory[target : target + size] = body[offset : offset + size]
            ticket.result = self.trouble
        ticket.is_done = True

    def _check_areas(self, new: Fetch) -> None:
        """Check that no two requests write to the same memory."""
        fetches = [new, *(fetch for _, fetch in self._open.values() if fetch is not None)]
        areas = sorted((target, size) for fetch in fetches for _, size, target in fetch.pieces)
        for (start, size), (following, _) in itertools.pairwise(areas):
            assert start + size <= following

    def forget(self) -> None: ...

    def close(self) -> None: ...


def ranges_of(*pairs: tuple[int, int]) -> Any:
    """Return ranges of offsets and sizes, one after another in a buffer."""
    sizes = np.array([size for _, size in pairs], np.int64)
    offsets = np.array([offset for offset, _ in pairs], np.int64)
    return np.stack((offsets, sizes, np.cumsum(sizes) - sizes), axis=1)


def expect_read(fetcher: Fetcher, *pairs: tuple[int, int], target: OpenObject = OBJECT) -> None:
    out = np.zeros(sum(size for _, size in pairs), np.uint8)
    fetcher.read(target, ranges_of(*pairs), out)
    expected = [CONTENT[offset : offset + size] for offset, size in pairs]
    assert out.tobytes() == b"".join(part.tobytes() for part in expected)


def requests_of(client: MemoryClient) -> list[tuple[int, int]]:
    return [(fetch.begin, fetch.size) for fetch in client.fetches]


def test_neighbors_share_requests_and_gaps_are_not_kept() -> None:
    client = MemoryClient(800_000)
    fetcher = Fetcher(client)
    pairs = [(30_000, 10), (0, 10), (99_000, 10), (15_000, 10), (20_000, 0), (15_005, 2000)]
    expect_read(fetcher, *pairs)
    assert requests_of(client) == [(0, 30_010), (99_000, 10)]
    assert client.fetches[0].pieces == [(0, 10, 0), (15_000, 2005, 10), (30_000, 10, 2015)]
    assert fetcher.bytes_in_memory == 0


def test_large_ranges_take_several_requests() -> None:
    client = MemoryClient(8000)
    fetcher = Fetcher(client)
    expect_read(fetcher, (100, 3500))
    assert requests_of(client) == [(100, 1000), (1100, 1000), (2100, 1000), (3100, 500)]


def test_whole_blocks_are_fetched_for_a_cache() -> None:
    client = MemoryClient(50_000)
    fetcher = Fetcher(client)
    expect_read(fetcher, (700, 10), (850, 100), (99_950, 50), (5, 1), target=CACHED)
    assert requests_of(client) == [(0, BLOCK), (600, 600), (99_900, 100)]


def test_a_failure_is_raised_and_the_rest_is_cancelled() -> None:
    client = MemoryClient(4000)
    fetcher = Fetcher(client)
    client.failure = Failure(Kind.temporary, "HTTP 503", 3)
    with pytest.raises(FetchError) as caught:
        expect_read(fetcher, (50_000, 1200))
    assert caught.value.failure == client.failure
    assert (caught.value.begin, caught.value.end) == (50_000, 50_500)
    assert client.cancelled == [fetch.ticket for fetch in client.fetches[1:]]
    client.failure = None
    expect_read(fetcher, (50_000, 3900))
    expect_read(fetcher, (0, 4000))
    client.answer_all()
    fetcher._drop_cancelled()
    assert fetcher.bytes_in_memory == 0


def test_a_cache_that_cannot_be_written_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(folder, "_logged", {})
    client = MemoryClient(50_000)
    client.trouble = "No space left on device"
    fetcher = Fetcher(client)
    for _ in range(2):
        expect_read(fetcher, (0, 10), target=CACHED)
    [record] = caplog.records
    assert record.getMessage().endswith("(No space left on device): data is read without it")


def test_the_limit_of_the_memory_is_changed() -> None:
    client = MemoryClient(1000)
    fetcher = Fetcher(client)
    for limit in (10_000, 500):
        fetcher.set_limit(limit)
        expect_read(fetcher, (0, 5000), (50_000, 700))
        assert fetcher.bytes_in_memory == 0
    assert len(client.memory) == 10_000


@pytest.mark.parametrize("target", [OBJECT, CACHED])
@pytest.mark.parametrize("kept_gap", [0, 100])
@hypothesis.given(st.data())
def test_any_reads(target: OpenObject, kept_gap: int, data: st.DataObject) -> None:
    size = data.draw(st.integers(1 if target.blocks is None else BLOCK, 3000))
    client = MemoryClient(size)
    fetcher = Fetcher(client)
    pairs = st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 2000)), min_size=1, max_size=6)
    pairs |= st.lists(st.tuples(st.integers(0, 900), st.integers(0, 30)), min_size=1, max_size=9)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetcher_module, "_KEPT_GAP_BYTES", kept_gap)
        for chosen in data.draw(st.lists(pairs, min_size=1, max_size=4)):
            expect_read(fetcher, *chosen, target=target)
            assert fetcher.bytes_in_memory == 0
    if target.blocks is not None:
        assert all(fetch.begin % BLOCK == 0 for fetch in client.fetches)
        assert all(fetch.size % BLOCK in (0, 100) for fetch in client.fetches)


def test_many_threads_in_little_memory() -> None:
    fetcher = Fetcher(MemoryClient(4000))

    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
        for _ in range(30):
            expect_read(fetcher, *((int(at), 1500) for at in random.integers(0, 90_000, 4)))

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(work, seed) for seed in range(8)]:
            done.result(60)
    assert fetcher.bytes_in_memory == 0


@hypothesis.given(st.data())
def test_what_is_kept_of_a_range_that_comes_in_chunks(data: st.DataObject) -> None:
    pieces, at, target = [], 0, 7
    for gap, size in data.draw(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)))):
        pieces.append((at + gap, size, target))
        at, target = at + gap + size, target + size + 1
    fetch = Fetch(0, *OBJECT, 1000, at, pieces)
    memory = np.zeros(target, np.uint8)
    done = 0
    while done < at:
        size = data.draw(st.integers(1, 30))
        chunk = CONTENT[1000 + done : 1000 + min(at, done + size)]
        for begin, end, goal in fetch.places(done, len(chunk)):
            memory[goal : goal + end - begin] = chunk[begin:end]
        done += len(chunk)
    expected = np.zeros(target, np.uint8)
    for offset, size, goal in pieces:
        expected[goal : goal + size] = CONTENT[1000 + offset : 1000 + offset + size]
    assert memory.tobytes() == expected.tobytes()


@hypothesis.given(st.lists(st.integers(-20, 40), max_size=60))
def test_areas(steps: list[int]) -> None:
    areas = Areas(100)
    taken: list[tuple[int, int]] = []
    for step in steps:
        if step <= 0 and taken:
            areas.give_back(*taken.pop(-step % len(taken)))
        elif step > 0 and (start := areas.take(step)) is not None:
            taken.append((start, step))
        used = [byte for start, size in taken for byte in range(start, start + size)]
        assert len(used) == len(set(used)) == areas.used
        assert all(0 <= byte < 100 for byte in used)
    for area in taken:
        areas.give_back(*area)
    assert areas.take(100) == 0
