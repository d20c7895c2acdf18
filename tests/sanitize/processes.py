"""Scenarios with several processes: workers, and interpreters that exit while threads load."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import torchrec_io as tio
from tests.support.datasets import SCHEMA

from .files import COUNT, Files, write_all
from .scenarios import ids_of, open_small

EXIT_SECONDS = 600  # under a sanitizer, on a busy machine


def forked_workers(files: Files) -> None:
    """Iterate with forked workers while this process has threads that load."""
    in_background = iter(open_small(files, epochs=None))
    next(in_background)
    use_workers(files, "fork")
    next(in_background)


def spawned_workers(files: Files) -> None:
    """Iterate with spawned workers, to the end and halfway."""
    use_workers(files, "spawn")


def use_workers(files: Files, method: str) -> None:
    dataset = open_small(files, uneven="keep")
    loader = tio.make_loader(dataset, num_workers=2, multiprocessing_context=method)
    assert ids_of(loader) == list(range(COUNT))
    for number, _ in enumerate(loader):
        if number == 3:
            break
    assert ids_of(loader) == list(range(COUNT))


def exits(files: Files) -> None:
    """Exit the interpreter in each way of :data:`WAYS`: the exit code is 0."""
    for way in WAYS:
        command = [sys.executable, *python_flags(), "-m", __name__, way, str(files.folder)]
        run = subprocess.run(command, check=False, timeout=EXIT_SECONDS)
        assert run.returncode == 0, f"exit {way!r} ended with code {run.returncode}"


def python_flags() -> list[str]:
    """Return the flags of this interpreter, which decide where the package is found."""
    return subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined,no-any-return]


# ---- the programs that exit ----


def iterate_forever(files: Files, begun: threading.Semaphore) -> None:
    for batch in open_small(files, epochs=None):
        assert len(batch["id"]) > 0
        begun.release()


def collate_forever(files: Files, begun: threading.Semaphore) -> None:
    dataset = tio.TFRecordMapDataset(files.small, SCHEMA)
    while True:
        samples: Any = dataset.__getitems__(list(range(50)))
        tio.collate(samples)
        begun.release()


def start_daemons(work: Callable[[Files, threading.Semaphore], None], files: Files) -> None:
    """Start two daemon threads, and wait until both are at work."""
    begun = [threading.Semaphore(0) for _ in range(2)]
    for semaphore in begun:
        threading.Thread(target=work, args=(files, semaphore), daemon=True).start()
    for semaphore in begun:
        for _ in range(20):
            semaphore.acquire()


def exit_with_iterators(files: Files) -> None:
    held = [iter(open_small(files)) for _ in range(4)]
    for batches in held:
        next(batches)
    globals()["held"] = held


def exit_with_daemon_iteration(files: Files) -> None:
    start_daemons(iterate_forever, files)


def exit_with_daemon_collation(files: Files) -> None:
    start_daemons(collate_forever, files)


def exit_with_thread(files: Files) -> None:
    """Exit while a thread that is no daemon takes the rest of its batches."""
    batches = iter(open_small(files))
    next(batches)
    threading.Thread(target=list, args=(batches,)).start()


def exit_with_workers(files: Files) -> None:
    loader = tio.make_loader(open_small(files, uneven="keep"), num_workers=2)
    batches = iter(loader)
    next(batches)
    globals()["held"] = batches


WAYS: dict[str, Callable[[Files], None]] = {
    "with iterators": exit_with_iterators,
    "with daemon iteration": exit_with_daemon_iteration,
    "with daemon collation": exit_with_daemon_collation,
    "with thread": exit_with_thread,
    "with workers": exit_with_workers,
}


if __name__ == "__main__":
    from pathlib import Path

    WAYS[sys.argv[1]](write_all(Path(sys.argv[2])))
