"""Ranges of objects in bounded memory: which requests fetch them, and what is freed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from torchrec_io._storage.remote import ranges as ranges_module
from torchrec_io._storage.remote import slots as slots_module
from torchrec_io._storage.remote.connection import HelperConnection
from torchrec_io._storage.remote.failures import Failure, FetchError, Kind, RequestError
from torchrec_io._storage.remote.messages import StoreAddress
from torchrec_io._storage.remote.ranges import plan_requests
from torchrec_io._storage.remote.slots import Slots
from torchrec_io._storage.stamp import Stamp

CONTENT = np.random.default_rng(0).integers(0, 256, 100_000, dtype=np.uint8)
STORE = StoreAddress("s3://b", "", {})
FAILED = Failure(Kind.temporary, "HTTP 503", 3)
UNIT = 10


@pytest.fixture(autouse=True, scope="module")
def _small() -> Iterator[None]:
    """Use slots and gaps that are small beside the content."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranges_module, "_LEAST_PARTS_OF_GAPS", 2)
        patch.setattr(slots_module, "_UNIT_BYTES", UNIT)
        yield


class MemoryClient(HelperConnection):
    """Answers requests for ranges of one object without a helper, unless they are held back."""

    def __init__(self, memory_bytes: int) -> None:
        self.memory = np.zeros(memory_bytes, np.uint8)
        self.slots = Slots(memory_bytes)
        self.sizes: list[int] = []
        self.held: list[Future[None]] | None = None

    def _start(self, name: str, store: StoreAddress, *arguments: Any) -> Future[None]:
        assert (name, store) == ("fetch", STORE)
        _, _, begin, size, slot = arguments
        self.memory[slot : slot + size] = CONTENT[begin : begin + size]
        self.sizes.append(size)
        answer: Future[None] = Future()
        if self.held is None:
            answer.set_result(None)
        else:
            self.held.append(answer)
        return answer


def expect_read(client: MemoryClient, *pairs: tuple[int, int], gap: int = 100) -> None:
    """Read ranges, given as offsets and sizes."""
    offsets, sizes = np.array(pairs, np.int64).T
    ranges = np.column_stack([offsets, sizes, np.cumsum(sizes) - sizes])
    out = np.zeros(int(sizes.sum()), np.uint8)
    requests = plan_requests(ranges, len(client.memory), gap)
    client.fetch(STORE, "a", Stamp(('"1"', ""), len(CONTENT), 0), requests, out)
    expected = [CONTENT[offset : offset + size] for offset, size in pairs]
    assert out.tobytes() == b"".join(part.tobytes() for part in expected)


@hypothesis.given(st.data())
def test_any_reads(data: st.DataObject) -> None:
    client = MemoryClient(UNIT * data.draw(st.integers(8, 3000)))
    pairs = st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 2000)), min_size=1, max_size=6)
    pairs |= st.lists(st.tuples(st.integers(0, 900), st.integers(0, 30)), min_size=1, max_size=9)
    for chosen in data.draw(st.lists(pairs, min_size=1, max_size=4)):
        client.sizes.clear()
        gap = data.draw(st.sampled_from([0, 100]))
        expect_read(client, *chosen, gap=gap)
        assert client.slots.count == 0
        if gap == 0:  # nothing is fetched that is not needed, and nothing twice
            wanted = {n for at, size in chosen for n in range(at, at + size)}
            assert sum(client.sizes) == len(wanted)


def test_memory_is_free_once_the_helper_does_not_write_to_it_anymore() -> None:
    client = MemoryClient(4000)
    client.held = []
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(expect_read, client, (50_000, 1200))
        while len(client.held) < 3:
            time.sleep(0.001)
        client.held[0].set_exception(RequestError(FAILED))
        error = reading.exception(30)
    assert isinstance(error, FetchError)
    assert (error.failure, error.begin, error.end) == (FAILED, 50_000, 50_500)
    for answer in client.held[1:]:
        assert client.slots.count > 0
        answer.set_result(None)
    assert client.slots.count == 0
