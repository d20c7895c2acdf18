"""Fetching ahead in bounded memory, with a client that keeps objects in memory."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from torchrec_io.storage.cache import filling
from torchrec_io.storage.cache.object_blocks import ObjectBlocks
from torchrec_io.storage.remote import fetcher as fetcher_module
from torchrec_io.storage.remote.areas import Areas
from torchrec_io.storage.remote.client import Client, OpenObject, Ticket
from torchrec_io.storage.remote.failures import Failure, Kind
from torchrec_io.storage.remote.fetcher import Fetcher, FetchError
from torchrec_io.storage.remote.messages import Fetch, ObjectInfo
from torchrec_io.storage.remote.parts import (
    PartsOfObject,
    Request,
    Span,
    group_spans,
    join_ranges,
)

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
        self.hurried: list[int] = []
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
                    getattr(self, {"hurry": "hurried", "cancel": "cancelled"}[name]).extend(
                        arguments[0]
                    )

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


def test_announced_ranges_are_fetched_once() -> None:
    client = MemoryClient(50_000)
    fetcher = Fetcher(client)
    fetcher.announce(OBJECT, ranges_of((100, 50), (150, 50), (90_000, 10)))
    assert [(fetch.begin, fetch.size) for fetch in client.fetches] == [(100, 100), (90_000, 10)]
    assert not any(fetch.is_urgent for fetch in client.fetches)
    fetcher.announce(OBJECT, ranges_of((100, 50)))
    assert len(client.fetches) == 2
    expect_read(fetcher, (150, 50), (100, 50))
    assert len(client.fetches) == 2
    assert client.hurried == [client.fetches[0].ticket]
    assert fetcher.bytes_in_memory == 10
    expect_read(fetcher, (90_000, 10))
    assert fetcher.bytes_in_memory == 0


def test_what_is_needed_now_comes_before_what_is_needed_later() -> None:
    client = MemoryClient(50_000)
    fetcher = Fetcher(client)
    fetcher.announce(OBJECT, ranges_of((0, 10), (80_000, 10)))
    fetcher.announce(OBJECT, ranges_of((80_000, 10), (90_000 + 8_000, 10)), is_urgent=True)
    assert client.hurried == [client.fetches[1].ticket]
    assert [fetch.is_urgent for fetch in client.fetches] == [False, False, True]
    expect_read(fetcher, (80_000, 10))
    assert client.hurried == [client.fetches[1].ticket]


@pytest.mark.parametrize("before_it_is_read", [False, True])
def test_a_cache_that_cannot_be_written_is_logged(
    before_it_is_read: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filling, "_logged", {})
    client = MemoryClient(50_000)
    client.trouble = "No space left on device"
    fetcher = Fetcher(client)
    fetcher.announce(CACHED, ranges_of((100, 50)))
    if before_it_is_read:
        client.answer_all()
    expect_read(fetcher, (100, 50), target=CACHED)
    assert [record.getMessage() for record in caplog.records] == [
        "the cache  cannot be written (No space left on device): data is read without it"
    ]


def test_ranges_that_were_not_announced() -> None:
    client = MemoryClient(50_000)
    fetcher = Fetcher(client)
    fetcher.announce(OBJECT, ranges_of((1000, 100)))
    expect_read(fetcher, (900, 300), (5, 0), (1050, 10))
    assert fetcher.bytes_in_memory == 100  # what was announced is still to be read
    expect_read(fetcher, (1000, 100))
    assert fetcher.bytes_in_memory == 0


def test_neighbors_are_joined_across_small_gaps_in_the_order_of_need() -> None:
    assert join_ranges(ranges_of((500, 10), (0, 10), (14, 10), (515, 5), (5, 2)), 5) == [
        Span(500, 520),
        Span(0, 24),
    ]
    assert join_ranges(ranges_of((7, 0)), 5) == []
    assert join_ranges(np.empty((0, 3), np.int64), 5) == []


@hypothesis.given(st.lists(st.integers(0, 200), unique=True, max_size=20), st.data())
def test_spans_that_are_near_each_other_share_a_request(
    begins: list[int], data: st.DataObject
) -> None:
    bounds = [*sorted(begins), 250]
    sizes = [data.draw(st.integers(1, after - at)) for at, after in itertools.pairwise(bounds)]
    spans = [Span(at, at + size) for at, size in zip(bounds, sizes, strict=False)]
    spans = data.draw(st.permutations(spans))
    gap, most = data.draw(st.integers(0, 20)), data.draw(st.integers(1, 100))
    groups = group_spans(spans, gap, most)
    assert sorted(span for group in groups for span in group) == sorted(spans)
    firsts = [min(map(spans.index, group)) for group in groups]
    assert firsts == sorted(firsts)
    for group in groups:
        assert all(after.begin - at.end <= gap for at, after in itertools.pairwise(group))
        assert len(group) == 1 or group[-1].end - group[0].begin <= most
    for before, after in itertools.pairwise(sorted(groups)):
        is_far = after[0].begin - before[-1].end > gap
        assert is_far or after[0].end - before[0].begin > most


@hypothesis.given(st.data())
def test_what_is_kept_of_a_range_that_comes_in_chunks(data: st.DataObject) -> None:
    pieces, at, target = [], 0, 7
    for gap, size in data.draw(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)))):
        pieces.append((at + gap, size, target))
        at, target = at + gap + size, target + size + 1
    fetch = Fetch(0, *OBJECT, 1000, at, pieces, is_urgent=False)
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


def test_scattered_ranges_take_little_memory_and_few_requests() -> None:
    client = MemoryClient(200_000)
    fetcher = Fetcher(client)
    pairs = [(30_000, 10), (0, 10), (90_000, 10), (60_000, 10), (15_000, 10)]
    fetcher.announce(OBJECT, ranges_of(*pairs))
    # Up to an eighth of the memory in one request.
    requests = [(fetch.begin, fetch.size) for fetch in client.fetches]
    assert requests == [(30_000, 10), (0, 15_010), (90_000, 10), (60_000, 10)]
    assert client.fetches[1].pieces == [(0, 10, 10), (15_000, 10, 20)]
    assert fetcher.bytes_in_memory == 50
    expect_read(fetcher, *pairs)
    assert fetcher.bytes_in_memory == 0
    assert len(client.fetches) == 4


def test_a_request_is_cancelled_once_none_of_its_parts_is_needed() -> None:
    client = MemoryClient(200_000)
    fetcher = Fetcher(client)
    fetcher.announce(OBJECT, ranges_of((0, 10), (10_000, 10), (20_000, 10)))
    [fetch] = client.fetches
    fetcher.forget(OBJECT, ranges_of((0, 10), (20_000, 10)))
    assert client.cancelled == []
    fetcher.announce(OBJECT, ranges_of((0, 10)))  # its memory may still be written
    assert len(client.fetches) == 2
    fetcher.forget(OBJECT, ranges_of((10_000, 10)))
    assert client.cancelled == [fetch.ticket]
    expect_read(fetcher, (0, 10), (10_000, 10))


def test_scattered_ranges_where_the_memory_is_scattered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetcher_module, "_KEPT_GAP_BYTES", 0)
    client = MemoryClient(800)
    fetcher = Fetcher(client)
    taken = [fetcher._areas.take(50) for _ in range(16)]
    for start in taken[::2]:
        assert start is not None
        fetcher._areas.give_back(start, 50)
    fetcher.announce(OBJECT, ranges_of((0, 30), (40, 30)))
    assert [(fetch.begin, fetch.size) for fetch in client.fetches] == [(0, 30), (40, 30)]
    expect_read(fetcher, (40, 30), (0, 30))


def test_announcements_leave_memory_for_others() -> None:
    client = MemoryClient(1000)
    fetcher = Fetcher(client)
    fetcher.announce(OBJECT, ranges_of((0, 5000)))
    assert 500 <= fetcher.bytes_in_memory <= 750
    expect_read(fetcher, (50_000, 200))
    expect_read(fetcher, (0, 5000))
    assert fetcher.bytes_in_memory == 0


def test_what_is_not_read_gives_way() -> None:
    client = MemoryClient(1000)
    fetcher = Fetcher(client)
    fetcher.announce(OBJECT, ranges_of((0, 700)))
    client.answer_all()
    expect_read(fetcher, (50_000, 3000))
    fetcher.forget(OBJECT, ranges_of((0, 700)))
    assert fetcher.bytes_in_memory == 0


def test_forgotten_ranges_are_cancelled() -> None:
    client = MemoryClient(10_000)
    fetcher = Fetcher(client)
    fetcher.announce(OBJECT, ranges_of((0, 100), (90_000, 100)))
    fetcher.forget(OBJECT, ranges_of((0, 100)))
    assert client.cancelled == [client.fetches[0].ticket]
    assert fetcher.bytes_in_memory == 200  # until the client says that it does not write there
    expect_read(fetcher, (0, 100))
    expect_read(fetcher, (90_000, 100))


def test_old_announcements_do_not_stop_new_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    client = MemoryClient(1000)
    fetcher = Fetcher(client)
    fetcher.announce(OBJECT, ranges_of((0, 700)))
    client.answer_all()
    monkeypatch.setattr(fetcher_module, "_STALE_SECONDS", -1.0)
    fetcher.announce(OBJECT, ranges_of((50_000, 700)))
    assert client.fetches[-1].begin >= 50_000


def test_a_failure_is_raised_until_asked_again() -> None:
    client = MemoryClient(10_000)
    fetcher = Fetcher(client)
    fetcher.announce(OBJECT, ranges_of((0, 100)))
    client.failure = Failure(Kind.temporary, "HTTP 503", 3)
    with pytest.raises(FetchError) as caught:
        expect_read(fetcher, (0, 100), (200, 100))
    assert caught.value.failure == client.failure
    client.failure = None
    client.answer_all()
    before = len(client.fetches)
    for ranges in ([(0, 100)], [(50, 1)], [(250, 400)], [(90, 300), (500, 10)]):
        fetcher.announce(OBJECT, ranges_of(*ranges), is_urgent=True)
        with pytest.raises(FetchError) as caught:
            expect_read(fetcher, *ranges)
        assert caught.value.failure.reason == "HTTP 503"
    assert len(client.fetches) == before
    expect_read(fetcher, (100, 100), (300, 100))  # next to what failed
    # What comes before it is read first: it may fail in another way.
    with pytest.raises(FetchError):
        expect_read(fetcher, (400, 100), (0, 100), (600, 100))
    assert [(fetch.begin, fetch.size) for fetch in client.fetches[before + 2 :]] == [(400, 100)]
    fetcher.ask_again(OBJECT)
    expect_read(fetcher, (0, 100), (200, 100))
    fetcher._drop_cancelled()
    assert fetcher.bytes_in_memory == 0


def test_whole_blocks_are_fetched_for_a_cache() -> None:
    client = MemoryClient(50_000)
    fetcher = Fetcher(client)
    fetcher.announce(CACHED, ranges_of((700, 10), (850, 100), (99_950, 50)))
    assert [(fetch.begin, fetch.size) for fetch in client.fetches] == [(600, 600), (99_900, 100)]
    assert fetcher.bytes_in_memory == 700
    expect_read(fetcher, (850, 100), (700, 10), (99_950, 50), (5, 1), target=CACHED)
    assert (client.fetches[-1].begin, client.fetches[-1].size) == (0, BLOCK)
    assert fetcher.bytes_in_memory == 0


def test_the_limit_of_the_memory_is_changed() -> None:
    client = MemoryClient(1000)
    fetcher = Fetcher(client)
    fetcher.announce(OBJECT, ranges_of((0, 700)))
    fetcher.set_limit(10_000)
    fetcher.announce(OBJECT, ranges_of((50_000, 5000)))
    assert fetcher.bytes_in_memory == 5700
    expect_read(fetcher, (0, 700), (50_000, 5000))
    fetcher.set_limit(500)
    fetcher.announce(OBJECT, ranges_of((0, 5000)))
    assert fetcher.bytes_in_memory <= 500
    expect_read(fetcher, (0, 5000))
    assert fetcher.bytes_in_memory == 0
    assert len(client.memory) == 10_000


@pytest.mark.parametrize("target", [OBJECT, CACHED])
@pytest.mark.parametrize("kept_gap", [0, 100])
@hypothesis.given(st.data())
def test_any_announcements_and_reads(
    target: OpenObject, kept_gap: int, data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fetcher_module, "_KEPT_GAP_BYTES", kept_gap)
        announce_and_read(target, data)


def announce_and_read(target: OpenObject, data: st.DataObject) -> None:
    size = data.draw(st.integers(1 if target.blocks is None else BLOCK, 3000))
    client = MemoryClient(size)
    fetcher = Fetcher(client)
    pairs = st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 2000)), min_size=1, max_size=6)
    pairs |= st.lists(st.tuples(st.integers(0, 900), st.integers(0, 30)), min_size=1, max_size=9)
    announced = []
    for _ in range(data.draw(st.integers(1, 12))):
        action = data.draw(st.sampled_from(["announce", "read", "forget", "answer"]))
        if action == "answer":
            client.answer_all()
            continue
        chosen = data.draw(pairs)
        if action == "announce":
            fetcher.announce(target, ranges_of(*chosen))
            announced.append(chosen)
        elif action == "forget":
            fetcher.forget(target, ranges_of(*chosen))
        else:
            expect_read(fetcher, *chosen, target=target)
        assert fetcher.bytes_in_memory <= size
    if target.blocks is not None:
        assert all(fetch.begin % BLOCK == 0 for fetch in client.fetches)
        assert all(fetch.size % BLOCK in (0, 100) for fetch in client.fetches)
    for chosen in announced:
        fetcher.forget(target, ranges_of(*chosen))
    client.answer_all()
    fetcher.announce(OBJECT, ranges_of((0, 1)))
    fetcher._drop_cancelled()
    assert fetcher.bytes_in_memory <= 1


def test_many_threads_in_little_memory() -> None:
    fetcher = Fetcher(MemoryClient(4000))
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
        try:
            for _ in range(30):
                pairs = [(int(at), 1500) for at in random.integers(0, 90_000, 4)]
                if random.random() < 0.5:
                    fetcher.announce(OBJECT, ranges_of(*pairs))
                expect_read(fetcher, *pairs)
        except BaseException as error:  # noqa: BLE001
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,), daemon=True) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failures == []
    assert not any(thread.is_alive() for thread in threads)


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


def test_missing_pieces() -> None:
    parts = PartsOfObject()
    for begin, end in ((10, 20), (30, 40)):
        [part] = Request([Span(begin, end)], 0, is_ahead=True).parts
        parts.add(part)
    assert list(parts.missing(Span(0, 50))) == [Span(0, 10), Span(20, 30), Span(40, 50)]
    assert list(parts.missing(Span(12, 18))) == []
    assert list(parts.missing(Span(15, 35))) == [Span(20, 30)]
    assert [(part.begin if part else None) for part in map(parts.at, (9, 10, 19, 20))] == [
        None, 10, 10, None,
    ]  # fmt: skip
