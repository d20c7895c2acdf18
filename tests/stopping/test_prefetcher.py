"""Prefetcher: results in order, and threads that always end."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from torchrec_io._datasets.job_queue import JobQueue, LoadJob
from torchrec_io._datasets.prefetch import Outcome, Prefetcher

SECONDS = 30  # deadline for actions that should be immediate


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.002)


def open_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "torchrec_io"]


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    yield
    wait_for(lambda: not open_threads())


class Number(int):
    """A job, by default so large that it is a run on its own."""

    buffer_bytes = 4 << 20


class SmallNumber(Number):
    buffer_bytes = 1


class Numbers:
    """Source of numbered jobs."""

    def __init__(self, count: int, kind: type[Number]) -> None:
        self._left = deque(map(kind, range(count)))

    def peek(self) -> Number | None:
        return self._left[0] if self._left else None

    def pop(self) -> Number | None:
        return self._left.popleft() if self._left else None

    def abandon(self, jobs: object) -> None: ...

    def put_back(self, jobs: list[Number]) -> None:
        self._left.extendleft(reversed(jobs))


def prefetcher_of(
    work: Callable[[int], Any],
    count: int = 20,
    threads: int = 2,
    ahead: int = 4,
    kind: type[Number] = Number,
) -> Any:
    def do(run: Any) -> Any:
        assert [*run] == [*range(run[0], run[-1] + 1)]
        return [outcome_of(work, number) for number in run]

    return Prefetcher(do, cast("JobQueue", Numbers(count, kind)), threads, ahead, 16)


def outcome_of(work: Callable[[int], Any], number: int) -> Outcome:
    try:
        return Outcome(work(number))
    except BaseException as error:  # noqa: BLE001  # as an iteration does
        return Outcome(None, error)


def rest_of(prefetcher: Any) -> list[Any]:
    results = []
    while (done := prefetcher.next()) is not None:
        assert done[0] == done[1]
        results.append(done[1])
    return results


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
        threads=st.integers(1, 5),
        ahead=st.integers(1, 6),
        bad=st.sets(st.integers(0, 29)),
        recalls=st.sets(st.integers(0, 30)),
        kind=st.sampled_from([Number, SmallNumber]),
    )
    def test_come_in_order_once_despite_errors_and_recalls(
        self,
        *,
        count: int,
        threads: int,
        ahead: int,
        bad: set[int],
        recalls: set[int],
        kind: type[Number],
    ) -> None:
        closed_at = min(recalls, default=count) + 2

        def work(number: int) -> int:
            if number in bad:
                raise ValueError(number)
            return number

        prefetcher = prefetcher_of(work, count, threads, ahead, kind)
        for number in range(count):
            if number in recalls:
                prefetcher.requeue()
            if number == closed_at:
                prefetcher.close()
                assert open_threads() == []
            if number in bad:
                with pytest.raises(ValueError, match=f"^{number}$"):
                    prefetcher.next()
            else:
                assert prefetcher.next() == (number, number)
        assert prefetcher.next() is None
        assert prefetcher.next() is None
        prefetcher.close()
        assert open_threads() == []

    @pytest.mark.parametrize("kind", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit])
    def test_any_exception_is_passed_on_unchanged(self, kind: type[BaseException]) -> None:
        error = kind("of a thread")

        def work(_: int) -> None:
            raise error

        prefetcher = prefetcher_of(work)
        with pytest.raises(kind) as caught:
            prefetcher.next()
        assert caught.value is error
        prefetcher.close()

    @pytest.mark.parametrize("consumed", [True, False])
    def test_objects_of_an_exception_are_released(self, consumed: bool) -> None:
        """A cycle would keep buffers and open files until garbage is collected."""
        held: list[weakref.ref[Gate]] = []

        def work(_: int) -> None:
            big = Gate()
            held.append(weakref.ref(big))
            raise ValueError

        gc.disable()
        try:
            prefetcher = prefetcher_of(work, ahead=1)
            if consumed:
                with contextlib.suppress(ValueError):
                    prefetcher.next()
            else:
                prefetcher._start(_run_of(0))
            wait_for(lambda: len(held) > 0)
            prefetcher.close()
            del prefetcher
            assert [ref() for ref in held] == [None] * len(held)
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
        prefetcher = prefetcher_of(lambda number: number, threads=3)
        assert rest_of(prefetcher) == list(range(20))
        assert len(asked) >= which
        prefetcher.close()


def _run_of(number: int) -> Any:
    from torchrec_io._datasets.prefetch import _Run  # noqa: PLC0415  # private, for one test

    return _Run([cast("LoadJob", Number(number))])


class TestRuns:
    def runs_of(self, kind: type[Number], threads: int) -> list[list[int]]:
        runs: list[list[int]] = []

        def do(run: Any) -> Any:
            runs.append([*run])
            return [Outcome(number) for number in run]

        prefetcher: Prefetcher[int] = Prefetcher(
            do, cast("JobQueue", Numbers(200, kind)), threads, 2, 16
        )
        assert rest_of(prefetcher) == list(range(200))
        prefetcher.close()
        return sorted(runs)

    def test_small_jobs_are_grouped_after_a_few(self) -> None:
        sizes = [len(run) for run in self.runs_of(SmallNumber, 2)]
        assert sizes[:2] == [1, 1]
        assert max(sizes) == 16
        assert sizes[:-1] == sorted(sizes[:-1])

    def test_large_jobs_are_not_grouped(self) -> None:
        assert self.runs_of(Number, 2) == [[number] for number in range(200)]

    def test_jobs_are_not_grouped_with_one_thread(self) -> None:
        assert self.runs_of(SmallNumber, 1) == [[number] for number in range(200)]


class TestThreadsEnd:
    def test_close_waits_for_running_jobs(self) -> None:
        gate = Gate()
        prefetcher = prefetcher_of(gate, ahead=10)
        assert prefetcher.next() == (0, 0)
        wait_for(lambda: len(gate.begun) == 3)
        closing = threading.Thread(target=prefetcher.close)
        closing.start()
        wait_for(lambda: prefetcher._waiting.qsize() == 2)  # only wake-up calls
        assert closing.is_alive()  # it waits for the running jobs
        gate.opened.set()
        closing.join(SECONDS)
        assert open_threads() == []
        assert gate.begun == [0, 1, 2]

    def test_the_consuming_thread_has_ended(self) -> None:
        gate = Gate()
        prefetcher = prefetcher_of(gate, ahead=10)
        asker = threading.Thread(target=prefetcher.next)
        asker.start()
        asker.join(SECONDS)
        wait_for(lambda: len(gate.begun) == 3)
        gate.opened.set()
        wait_for(lambda: not open_threads())
        assert sorted(gate.begun) == [0, 1, 2]
        assert rest_of(prefetcher) == list(range(1, 20))  # another thread continues
        prefetcher.close()

    def test_threads_end_without_jobs(self) -> None:
        prefetcher = prefetcher_of(lambda number: number)
        first = prefetcher.next()
        wait_for(lambda: not open_threads())
        assert [first, prefetcher.next()] == [(0, 0), (1, 1)]
        wait_for(lambda: not open_threads())
        assert rest_of(prefetcher) == list(range(2, 20))
        prefetcher.close()

    def test_threads_end_when_dropped_without_close(self) -> None:
        prefetcher = prefetcher_of(lambda number: number)
        prefetcher.next()
        del prefetcher
        wait_for(lambda: not open_threads())

    @pytest.mark.skipif(
        not hasattr(threading, "_maintain_shutdown_locks"), reason="this Python has no such lock"
    )
    def test_a_thread_that_starts_can_close(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The garbage collector may free an iterator while a lock of all threads is held."""
        gate = Gate()
        prefetcher = prefetcher_of(gate, ahead=10)
        assert prefetcher.next() == (0, 0)
        wait_for(lambda: len(gate.begun) == 3)
        maintain = threading._maintain_shutdown_locks  # type: ignore[attr-defined]

        def collect() -> None:
            prefetcher.close()
            maintain()

        monkeypatch.setattr(threading, "_maintain_shutdown_locks", collect)
        started = threading.Thread(target=gate.opened.set)
        started.start()
        started.join(SECONDS)
        assert not started.is_alive()

    def test_worker_thread_can_close(self) -> None:
        """This happens if the garbage collector frees an iterator in that thread."""
        prefetcher = prefetcher_of(lambda number: prefetcher.close() or number)
        assert rest_of(prefetcher) == list(range(20))

    def test_no_thread_waits_after_another_thread_closes(self) -> None:
        gate = Gate()
        prefetcher = prefetcher_of(gate, ahead=10)
        results: list[Any] = []
        asker = threading.Thread(target=lambda: results.extend(rest_of(prefetcher)))
        asker.start()
        wait_for(lambda: len(gate.begun) == 3)
        closing = threading.Thread(target=prefetcher.close)
        closing.start()
        gate.opened.set()
        for thread in (closing, asker):
            thread.join(SECONDS)
        assert results == list(range(20))
        assert sorted(gate.begun) == list(range(20))


class TestInterrupts:
    def test_while_waiting_for_a_result(self) -> None:
        gate = Gate()

        def work(number: int) -> int:
            os.kill(os.getpid(), signal.SIGINT)
            return gate(number + 1)

        prefetcher = prefetcher_of(work, count=1)
        with pytest.raises(KeyboardInterrupt):
            prefetcher.next()
        gate.opened.set()
        prefetcher.close()
        assert open_threads() == []

    def test_while_closing(self) -> None:
        gate = Gate()
        prefetcher = prefetcher_of(gate, ahead=10)
        prefetcher.next()
        wait_for(lambda: len(gate.begun) == 3)

        def interrupt() -> None:
            wait_for(lambda: prefetcher._waiting.qsize() == 2)
            os.kill(os.getpid(), signal.SIGINT)

        interrupting = threading.Thread(target=interrupt)
        interrupting.start()
        with pytest.raises(KeyboardInterrupt):  # the interrupt may be delivered late
            prefetcher.close()
            time.sleep(SECONDS)
        interrupting.join(SECONDS)
        gate.opened.set()
        wait_for(lambda: not open_threads())
        assert gate.begun == [0, 1, 2]
        prefetcher.close()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
class TestForks:
    @pytest.mark.parametrize("held", [False, True], ids=["", "with its lock held"])
    def test_a_forked_child_continues(self, held: bool) -> None:
        gate = Gate()
        prefetcher = prefetcher_of(gate, ahead=10)
        assert prefetcher.next() == (0, 0)
        wait_for(lambda: len(gate.begun) == 3)
        with prefetcher._lock if held else contextlib.nullcontext():
            child = os.fork()
            if child == 0:
                gate.opened.set()
                good = rest_of(prefetcher) == list(range(1, 20))
                prefetcher.close()
                os._exit(not good or bool(open_threads()))
        gate.opened.set()
        assert rest_of(prefetcher) == list(range(1, 20))
        prefetcher.close()
        assert exit_code_of(child) == 0

    def test_child_can_close_immediately(self) -> None:
        gate = Gate()
        prefetcher = prefetcher_of(gate, ahead=10)
        prefetcher.next()
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
