"""The ordered pool of threads or processes, and the report of a job."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from torchrec_io._storage.ordered_pool import THREAD_NAME, OrderedPool
from torchrec_io.errors import DecodeError


def refuse_seven(number: int) -> int:
    if number >= 7:
        raise DecodeError("it is seven or more", path=f"{number}")
    return number


def die(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.mark.parametrize(("jobs", "processes"), [(1, False), (3, False), (2, True)])
def test_first_error_in_order_is_raised(jobs: int, processes: bool) -> None:
    found: list[int] = []
    with (
        pytest.raises(DecodeError, match="seven or more") as raised,
        OrderedPool(refuse_seven, jobs, processes=processes) as pool,
    ):
        found.extend(pool.map(range(50)))
    assert found == list(range(7))
    assert raised.value.path == "7"


def test_exit_drops_waiting_items_and_ends_the_threads() -> None:
    done: list[int] = []

    def work(number: int) -> int:
        while number and not pool.is_stopped:  # as work that takes long should
            time.sleep(0.001)
        done.append(number)
        return number

    with OrderedPool(work, 2) as pool:
        assert next(pool.map(range(50))) == 0
    assert len(done) < 10
    assert not [thread for thread in threading.enumerate() if THREAD_NAME in thread.name]


def test_killed_process_is_an_error() -> None:
    with (
        pytest.raises(RuntimeError, match="was killed"),
        OrderedPool(die, 2, processes=True) as pool,
    ):
        list(pool.map(range(4)))


PROGRAM = """
import os, sys, time
from torchrec_io._storage.ordered_pool import THREAD_NAME, OrderedPool
from tests.tools.waiting import wait

if __name__ == "__main__":
    with OrderedPool(wait, 2, processes=True) as pool:
        for pid in pool.map([0, 0] + [0.1] * 600):
            print(pid, flush=True)
"""


def running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="looks for processes under /proc")
@pytest.mark.parametrize("by", [signal.SIGKILL, signal.SIGINT])
def test_processes_end_with_their_parent(tmp_path: Path, by: signal.Signals) -> None:
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    root = str(Path(__file__).parents[2])
    process = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, env={**os.environ, "PYTHONPATH": root},
    )  # fmt: skip
    assert process.stdout is not None
    pids = {int(process.stdout.readline()) for _ in range(5)}
    assert pids
    if by == signal.SIGINT:
        os.killpg(process.pid, by)  # like a terminal
    else:
        process.send_signal(by)
    _, errors = process.communicate(timeout=30)
    assert process.returncode in (-by, 1)
    assert errors.count("Traceback") == (by == signal.SIGINT), errors
    for _ in range(500):
        if not any(map(running, pids)):
            return
        time.sleep(0.01)
    pytest.fail("a process goes on")
