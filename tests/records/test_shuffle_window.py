"""ShuffleWindow compared with a list from which records are picked one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tfrecord import frame
from torchrec_io._records.record_block import RecordBlock
from torchrec_io._records.shuffle_window import ShuffleWindow

NUMBERS = np.dtype(np.int64)


def block_of(records: list[bytes], first: int) -> RecordBlock:
    sizes = np.array([len(record) + 16 for record in records], np.int64)
    return RecordBlock(
        np.frombuffer(b"".join(map(frame, records)), np.uint8),
        np.cumsum(sizes) - sizes + 12,
        sizes - 16,
        np.arange(first, first + len(records)),
    )


def check(block: RecordBlock) -> list[tuple[int, bytes]]:
    """Return the records of a block, and check that its buffer has no gaps."""
    records = [block[i] for i in range(len(block))]
    assert block.buffer.tobytes() == b"".join(map(frame, records))
    return list(zip(block.numbers.tolist(), records, strict=True))


@given(
    parts=st.lists(st.lists(st.binary(max_size=60), max_size=15), max_size=15),
    size=st.integers(1, 25),
    seed=st.integers(0, 100),
)
def test_picks_like_from_a_list(parts: list[list[bytes]], size: int, seed: int) -> None:
    window = ShuffleWindow(size, [seed], NUMBERS)
    bits = np.random.PCG64([seed])
    held: list[tuple[int, bytes]] = []
    first = 0
    for part in parts:
        picked = []
        for number, record in enumerate(part, first):
            if len(held) < size:
                held.append((number, record))
            else:
                at = int(bits.random_raw()) % size
                picked.append(held[at])
                held[at] = (number, record)
        assert check(window.push(block_of(part, first))) == picked
        first += len(part)
    rest = [pair for block in window.drain() for pair in check(block)]
    assert sorted(rest) == sorted(held)
    assert check(window.push(block_of([], 0))) == []


def test_memory_is_proportional_to_the_window() -> None:
    window = ShuffleWindow(100, [0], NUMBERS)
    count = 0
    for first in range(0, 20_000, 50):
        count += len(window.push(block_of([bytes(1000)] * 50, first)))
        assert len(window._store) < 3 * 150 * 1016
        assert len(window._rows) <= 200
    assert count == 19_900
    assert sum(map(len, window.drain())) == 100
