"""Programs that tests run in other processes: ``main`` takes the name of a function and options.

``main`` takes the name of a function and its options. This module is imported and never the main
module, which spawned workers would run again.
"""

from __future__ import annotations

import contextlib
import gc
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from multiprocessing import forkserver, resource_tracker
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.datasets import write_files
from tests.support.messages import Example
from torchrec_io._datasets import iteration

SECONDS = 20  # deadline for actions that should be immediate
COUNT = 40
BATCH = 4
BAD = 17  # record that can be made to fail
FINE, RAISE, HOLD = range(3)


class Reading:
    """A schema function that fails or blocks on request, in any process."""

    def __init__(self) -> None:
        self.mode = torch.zeros(1, dtype=torch.int64)
        self.mode.share_memory_()  # type: ignore[no-untyped-call]

    def __call__(self, record: bytes) -> int:
        number: int = Example.FromString(record).features.feature["id"].int64_list.value[0]
        if number == BAD and self.mode[0] == RAISE:
            raise ValueError(f"{number} is no good")
        while self.mode[0] == HOLD:
            time.sleep(0.005)
        return number


class Slow:
    """A schema function that is slow from the third batch on, and logs the start of each batch."""

    def __init__(self, log: str, seconds: float) -> None:
        self.log = log
        self.seconds = seconds

    def __call__(self, record: bytes) -> int:
        number: int = Example.FromString(record).features.feature["id"].int64_list.value[0]
        if number % BATCH == 0:
            self.mark("begun")
        if number >= 2 * BATCH:
            time.sleep(self.seconds)
        return number

    def mark(self, what: str) -> None:
        """Append a line to the log, from any process."""
        log = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(log, f"{what}\n".encode())
        os.close(log)


def make_loader(dataset: Any, workers: int, method: str, *, persistent: bool) -> Any:
    if workers == 0:
        return DataLoader(dataset, batch_size=None)
    return DataLoader(
        dataset,
        batch_size=None,
        num_workers=workers,
        multiprocessing_context=method,
        persistent_workers=persistent,
    )


def say(what: Any) -> None:
    print(json.dumps(what), flush=True)


# ---- many rounds in one process, with a check for leaks after each ----


def census() -> dict[str, Any]:
    """Return the resources of this process."""
    tasks = os.listdir("/proc/self/task")
    children = [children_of(task) for task in tasks]
    # Listing the directory always opens one descriptor.
    return {
        "threads": len(tasks),
        "python threads": sorted(thread.name for thread in threading.enumerate()),
        "children": sorted(" ".join(children).split()),
        "files": len(os.listdir("/proc/self/fd")),
        "shared memory": Path("/proc/self/maps").read_text("ascii").count(" /dev/shm/"),
    }


def children_of(task: str) -> str:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/self/task/{task}/children").read_text("ascii")
    return "?"  # the thread has ended


def wait_for(now: Callable[[], Any], wanted: Any) -> Any:
    """Call ``now`` until it returns the wanted value or time is up. Return the last value."""
    deadline = time.monotonic() + SECONDS
    while (got := now()) != wanted and time.monotonic() < deadline:
        time.sleep(0.01)
    return got


def rounds(folder: str, method: str, combinations: list[list[Any]]) -> None:
    gc.disable()
    (path,) = write_files(Path(folder), [COUNT])
    # Start the processes that multiprocessing keeps running.
    if method == "forkserver":
        multiprocessing.set_forkserver_preload([__name__])
        forkserver.ensure_running()
    if method in ("spawn", "forkserver"):
        resource_tracker.ensure_running()
    live(path, method, [0, False, 1, ["whole"]])
    wait_for(lambda: census()["threads"], 1)
    before = census()
    for combination in combinations:
        live(path, method, combination)
        if "function raises" in combination[-1]:
            gc.collect()  # exceptions and their frames are in reference cycles
        after = wait_for(census, before)
        assert after == before, (before, after, combination)
    say("good")


def live(path: str, method: str, combination: list[Any]) -> None:
    """Create a loader, run some rounds, and drop the loader."""
    workers, persistent, threads, names = combination
    reading = Reading()
    dataset = tio.TFRecordDataset(path, reading, batch_size=BATCH, num_threads=threads)
    loader = make_loader(dataset, workers, method, persistent=persistent)
    for name in names:
        ROUNDS[name](loader, reading)


def ends_early(loader: Any, _: Reading) -> None:
    for batch in loader:
        assert batch == list(range(BATCH))
        return


def whole(loader: Any, _: Reading) -> None:
    assert [number for batch in loader for number in batch] == list(range(COUNT))


def is_closed(loader: Any, _: Reading) -> None:
    """Close an iterator of this process in another thread."""
    batches = iter(loader.dataset)
    next(batches)
    closing = threading.Thread(target=batches.close)
    closing.start()
    closing.join()
    assert next(batches, None) is None


def beside_another(loader: Any, reading: Reading) -> None:
    """Start workers, also by fork, while threads of this process are running."""
    batches = iter(loader.dataset)
    first = next(batches)
    whole(loader, reading)
    assert [*first, *(number for batch in batches for number in batch)] == list(range(COUNT))


def loop_raises(loader: Any, _: Reading) -> None:
    with contextlib.suppress(InterruptedError):
        for _batch in loader:
            raise InterruptedError


def function_raises(loader: Any, reading: Reading) -> None:
    reading.mode[0] = RAISE
    with raised(tio.DecodeError, loader) as error:
        assert (error.path, error.record) == (loader.dataset.paths[0], BAD)
        if loader.num_workers == 0:
            assert isinstance(error.__cause__, ValueError)
            assert error.__cause__.__traceback__ is not None
        else:
            assert f"ValueError: {BAD} is no good" in str(error)
            assert 'raise ValueError(f"{number} is no good")' in str(error)  # from the traceback
    reading.mode[0] = FINE


def worker_is_killed(loader: Any, reading: Reading) -> None:
    batches = iter(loader)
    next(batches)
    reading.mode[0] = HOLD
    os.kill(multiprocessing.active_children()[0].pid or 0, signal.SIGKILL)
    with raised(RuntimeError, batches) as error:
        assert str(error).startswith("DataLoader worker (pid"), error
    reading.mode[0] = FINE


@contextlib.contextmanager
def raised(kind: type[Any], loader: Any) -> Iterator[Any]:
    """Iterate up to the expected exception, and yield it."""
    try:
        for _ in loader:
            pass
    except kind as error:
        del loader
        yield error
        # The frames hold iterators. PyTorch's take 5 s to end if they are garbage collected.
        traceback.clear_frames(error.__traceback__)
        return
    raise AssertionError(f"no {kind.__name__}")


ROUNDS: dict[str, Callable[[Any, Reading], None]] = {
    "ends early": ends_early,
    "whole": whole,
    "is closed": is_closed,
    "beside another": beside_another,
    "loop raises": loop_raises,
    "function raises": function_raises,
    "worker is killed": worker_is_killed,
}


# ---- one epoch that Ctrl-C interrupts ----


def interrupted(folder: str, method: str, combination: list[Any]) -> None:
    """Wait for batches of a slow function until the process is interrupted."""
    workers, persistent, threads = combination
    paths = write_files(Path(folder), [50 * BATCH])
    slow = Slow(str(Path(folder) / "log"), 0.2)
    iteration._LEAST_RUNS_AHEAD = 40  # so that many batches wait for a thread
    dataset = tio.TFRecordDataset(paths, slow, batch_size=BATCH, num_threads=threads)
    iterator = iter(make_loader(dataset, workers, method, persistent=persistent))
    first = [next(iterator), next(iterator)]
    assert first == [list(range(BATCH)), list(range(BATCH, 2 * BATCH))]
    try:
        say("ready")
        for _ in iterator:
            pass
    finally:
        slow.mark("end")


def main() -> None:
    functions: dict[str, Callable[..., None]] = {"rounds": rounds, "interrupted": interrupted}
    functions[sys.argv[1]](**json.loads(sys.argv[2]))
