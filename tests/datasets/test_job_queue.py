"""Jobs that are planned ahead, where the reader fetches ahead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from torchrec_io._datasets.job_queue import JobQueue
from torchrec_io._datasets.record_loader import RecordLoader
from torchrec_io._records.reader import PrefetchLimits
from torchrec_io._tensors.block_parser import parser_of_bytes


@dataclass
class NumbersPlan:
    """A plan that has one byte for each record."""

    numbers: Any

    @property
    def buffer_bytes(self) -> int:
        return len(self.numbers)


class AheadReader:
    """Remembers what is announced."""

    def __init__(self, most_bytes: int, first_bytes: int | None = None) -> None:
        first = most_bytes if first_bytes is None else first_bytes
        self.prefetch_limits = PrefetchLimits(most_bytes, first) if most_bytes else None
        self.announced: list[list[int]] = []

    def plan(self, numbers: Any) -> NumbersPlan:
        return NumbersPlan(numbers)

    def prefetch(self, plans: Sequence[NumbersPlan]) -> None:
        self.announced.append([number for plan in plans for number in plan.numbers.tolist()])


def queue_of(count: int, reader: AheadReader, size: int = 4) -> JobQueue:
    numbers = [np.arange(at, min(at + size, count)) for at in range(0, count, size)]
    given: Any = reader
    loader = RecordLoader(given, parser_of_bytes(None))
    return JobQueue([(0, each) for each in numbers], loader, seed=0)


def rest_of(queue: JobQueue) -> list[int]:
    numbers: list[int] = []
    while jobs := queue.take(1, 0):
        numbers += jobs[0].units.tolist()
    return numbers


@pytest.mark.parametrize("ahead", [0, 1, 10, 50, 1000])
def test_jobs_come_in_their_order(ahead: int) -> None:
    assert rest_of(queue_of(102, AheadReader(ahead))) == [*range(102)]


def test_jobs_are_announced_once_and_several_at_a_time() -> None:
    reader = AheadReader(20)
    queue = queue_of(102, reader)
    assert rest_of(queue) == [*range(102)]
    assert reader.announced[0] == [*range(20)]
    assert [number for each in reader.announced for number in each] == [*range(102)]
    # Again once less than half is ahead: after 3 jobs of 4 records.
    assert [len(each) for each in reader.announced] == [20, *[12] * 6, 10]


def test_first_announcements_are_short() -> None:
    reader = AheadReader(160, first_bytes=4)
    queue = queue_of(400, reader)
    assert rest_of(queue) == [*range(400)]
    assert reader.announced[0] == [*range(4)]
    # Eight times as many as were taken are ahead, up to all.
    assert [len(each) for each in reader.announced][:4] == [4, 32, 36, 72]
    assert max(map(len, reader.announced)) <= 88
    assert [number for each in reader.announced for number in each] == [*range(400)]


def test_local_readers_get_no_announcements() -> None:
    reader = AheadReader(0)
    queue = queue_of(40, reader)
    rest_of(queue)
    assert reader.announced == []
