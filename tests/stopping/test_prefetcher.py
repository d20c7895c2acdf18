"""Prefetcher: results in order, and threads that always end."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.threads import wait_until_no_thread_loads
from torchrec_io._datasets.job_queue import JobQueue
from torchrec_io._datasets.prefetch import Prefetcher

SECONDS = 30  # deadline for actions that should be immediate
LARGE = 4 << 20  # bytes of a job that is a run on its own


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.002)


def open_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("torchrec_io")]


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    wait_until_no_thread_loads()


class Numbers:
    """A source of numbers as jobs.

    Args:
        count: Number of jobs.
        size: Bytes of each job.
    """

    def __init__(self, count: int, size: int) -> None:
        self._left = iter(range(count))
        self._size = size

    def take(self, most: int, most_bytes: int) -> list[int]:
        return [*itertools.islice(self._left, max(1, min(most, most_bytes // self._size)))]


def prefetcher_of(
    work: Callable[[int], Any],
    count: int = 20,
    threads: int = 2,
    ahead: int = 4,
    *,
    size: int = LARGE,
    runs: list[list[int]] | None = None,
) -> Any:
    def load(run: Any) -> Any:
        if runs is not None:
            runs.append([*run])
        return [result_of(work, number) for number in run]

    return Prefetcher(load, cast("JobQueue", Numbers(count, size)), threads, ahead, 16)


def result_of(work: Callable[[int], Any], number: int) -> Any:
    try:
        return work(number)
    except BaseException as error:  # noqa: BLE001  # as an iteration does
        return error


def itself(number: int) -> int:
    return number


class Gate:
    """Work that waits until a gate opens, except for the first number."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.opened = threading.Event()

    def __call__(self, number: int) -> int:
        self.begun.append(number)
        if number:
            assert self.opened.wait(SECONDS)
        return number


class TestResults:
    @given(
        count=st.integers(0, 30),
        threads=st.integers(0, 5),
        ahead=st.integers(1, 6),
        bad=st.sets(st.integers(0, 29)),
        size=st.sampled_from([1, LARGE]),
    )
    def test_come_in_order_once(
        self, *, count: int, threads: int, ahead: int, bad: set[int], size: int
    ) -> None:
        def work(number: int) -> int:
            if number in bad:
                raise ValueError(number)
            return number

        found = [*prefetcher_of(work, count, threads, ahead, size=size)]
        assert open_threads() == []
        assert [job for job, _ in found] == [*range(count)]
        for job, result in found:
            assert isinstance(result, ValueError) if job in bad else result == job

    def test_objects_of_an_exception_are_released(self) -> None:
        """A cycle would keep buffers and open files until garbage is collected."""
        held: list[weakref.ref[Gate]] = []

        def work(_: int) -> None:
            big = Gate()
            held.append(weakref.ref(big))
            raise ValueError

        gc.disable()
        try:
            results = iter(prefetcher_of(work, count=3, ahead=1))
            for _ in range(3):
                assert isinstance(next(results)[1], ValueError)
            assert [ref() for ref in held] == [None] * 3
        finally:
            gc.enable()

    @pytest.mark.parametrize("which", [1, 2, 3])
    def test_caller_does_the_work_without_threads(
        self, monkeypatch: pytest.MonkeyPatch, which: int
    ) -> None:
        start, asked = threading.Thread.start, []

        def start_some(thread: threading.Thread) -> None:
            asked.append(thread)
            if len(asked) % which == 0:
                raise RuntimeError("can't start new thread")
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", start_some)
        prefetcher = prefetcher_of(itself, threads=3)
        assert [result for _, result in prefetcher] == [*range(20)]
        assert len(asked) >= which


class TestRuns:
    def sizes_of(self, size: int, threads: int) -> list[int]:
        runs: list[list[int]] = []
        prefetcher = prefetcher_of(itself, 200, threads, ahead=2, size=size, runs=runs)
        assert [result for _, result in prefetcher] == [*range(200)]
        return [len(run) for run in sorted(runs)]

    def test_small_jobs_are_grouped_after_a_few(self) -> None:
        sizes = self.sizes_of(1, threads=2)
        assert sizes[:2] == [1, 1]
        assert max(sizes) == 16
        assert sizes[:-1] == sorted(sizes[:-1])

    def test_others_are_not_grouped(self) -> None:
        assert self.sizes_of(LARGE, threads=2) == [1] * 200
        assert self.sizes_of(1, threads=0) == [1] * 200


class TestThreadsEnd:
    def test_close_starts_no_more(self) -> None:
        gate = Gate()
        prefetcher = prefetcher_of(gate, ahead=10)
        assert next(iter(prefetcher)) == (0, 0)
        wait_for(lambda: len(gate.begun) == 3)
        prefetcher.close()
        gate.opened.set()
        wait_until_no_thread_loads()
        assert sorted(gate.begun) == [0, 1, 2]

    def test_when_dropped_without_close(self) -> None:
        prefetcher = prefetcher_of(itself)
        next(iter(prefetcher))
        del prefetcher
        wait_until_no_thread_loads()

    def test_a_loading_thread_can_close(self) -> None:
        """This happens if the garbage collector frees an iterator in that thread."""
        left = prefetcher_of(itself)
        assert next(iter(left)) == (0, 0)
        assert [*prefetcher_of(lambda _: left.close(), count=1)] == [(0, None)]

    def test_after_an_interrupt(self) -> None:
        gate = Gate()

        def work(number: int) -> int:
            os.kill(os.getpid(), signal.SIGINT)
            return gate(number + 1)

        prefetcher = prefetcher_of(work, count=1)
        with pytest.raises(KeyboardInterrupt):
            next(iter(prefetcher))
        gate.opened.set()
        prefetcher.close()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
class TestForks:
    def test_a_forked_child_continues(self) -> None:
        gate = Gate()
        prefetcher = prefetcher_of(gate, ahead=10)
        results = iter(prefetcher)
        assert next(results) == (0, 0)
        wait_for(lambda: len(gate.begun) == 3)
        child = os.fork()
        if child == 0:
            gate.opened.set()
            good = [result for _, result in results] == [*range(1, 20)]
            os._exit(not good or bool(open_threads()))
        gate.opened.set()
        assert [result for _, result in results] == [*range(1, 20)]
        assert exit_code_of(child) == 0

    def test_child_can_close_immediately(self) -> None:
        gate = Gate()
        prefetcher = prefetcher_of(gate, ahead=10)
        next(iter(prefetcher))
        wait_for(lambda: len(gate.begun) == 3)
        child = os.fork()
        if child == 0:
            prefetcher.close()
            os._exit(7)
        gate.opened.set()
        assert exit_code_of(child) == 7
        prefetcher.close()


def exit_code_of(child: int) -> int:
    codes: list[int] = []

    def ended() -> bool:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            codes.append(os.waitstatus_to_exitcode(status))
        return bool(pid)

    try:
        wait_for(ended)
    except AssertionError:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    return codes[0]
