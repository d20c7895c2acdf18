"""Programs for ``test_kills.py``: loaders whose workers are killed."""

from __future__ import annotations

import functools
import gc
import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterator
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.stopping.program import census, raised, say, wait_for
from tests.support.examples import example_of
from tests.support.tfrecord import write_tfrecord
from torchrec_io._tensors import transport

COUNT = 40
BATCH = 4
VALUES = 6000  # values per record, so that batches are sent in slots
SCHEMA = {
    "id": tio.FixedLenFeature([], "int64"),
    "x": tio.FixedLenFeature([VALUES], "int64"),
}


def dataset_in(folder: str, epochs: int | None) -> tio.TFRecordDataset:
    path = Path(folder) / "data"
    records = [example_of(id=[number], x=[number] * VALUES) for number in range(COUNT)]
    write_tfrecord(path, records)
    return tio.TFRecordDataset(path, SCHEMA, batch_size=BATCH, epochs=epochs)


# ---- in a worker ----


def kill_at(_: int, moment: str) -> None:
    """Make this worker kill itself while it sends its fifth batch."""
    send, take = transport._Sender.send, transport._Sender._take_slot
    sent: list[Any] = []

    def sending(sender: Any, batch: Any) -> Any:
        sent.append(None)
        message = send(sender, batch)
        if len(sent) == 5 and moment == "message is made":
            die()
        return message

    def taking(sender: Any, size: int) -> Any:
        slot = take(sender, size)
        if len(sent) == 5 and moment == "slot is taken":
            die()
        return slot

    patched: Any = transport._Sender
    patched.send, patched._take_slot = sending, taking


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


# ---- in the training process ----


def mappings() -> dict[str, Any]:
    """Return the resources of this process."""
    gc.collect()
    slots = Path("/proc/self/maps").read_text("ascii").count("memfd:torchrec_io_slot")
    return {**census(), "slots": slots}


def killed(folder: str, method: str, lives: list[list[Any]]) -> None:
    """Run loaders whose workers are killed.

    Each life is a number of workers, persistent_workers, and the moment of the kill.
    """
    dataset = dataset_in(folder, None)
    if method == "spawn":
        resource_tracker.ensure_running()
    wait_for(lambda: mappings()["threads"], 1)
    before = mappings()
    for workers, persistent, moment in lives:
        options: Any = {
            "batch_size": None,
            "num_workers": workers,
            "multiprocessing_context": method,
            "persistent_workers": persistent,
        }
        dies = functools.partial(kill_at, moment=moment)
        end(DataLoader(dataset, worker_init_fn=dies, **options), moment)
        after = wait_for(mappings, before)
        assert after == before, (before, after, workers, moment)
        # The dataset still works.
        batches = iter(DataLoader(dataset, **options))
        for number in range(12):
            check(next(batches), number)
        del batches
        after = wait_for(mappings, before)
        assert after == before, (before, after, workers)
    say("good")


def end(loader: Any, moment: str) -> None:
    """Iterate a loader until the expected error."""
    began = time.monotonic()
    with raised(RuntimeError, doomed(loader, moment)) as error:
        assert "DataLoader worker (pid" in str(error), error
    assert time.monotonic() - began < 30


def doomed(loader: Any, moment: str) -> Iterator[None]:
    """Iterate batches until the error, which may occur as soon as a worker is killed."""
    batches = iter(loader)
    if moment == "before a batch is taken over":
        assert batches._worker_result_queue._reader.poll(30)
        for worker in multiprocessing.active_children():
            os.kill(worker.pid or 0, signal.SIGKILL)
    else:
        check(next(batches), 0)
    if moment == "at any time":
        os.kill(multiprocessing.active_children()[0].pid or 0, signal.SIGKILL)
    for _ in batches:
        yield


def check(batch: Any, number: int) -> None:
    """Check a batch by its number, counted over all epochs."""
    first = number * BATCH % COUNT
    assert batch["id"].tolist() == list(range(first, first + BATCH))
    assert batch["x"].tolist() == [[record] * VALUES for record in batch["id"].tolist()]


# ---- killed training process ----


def orphaned(folder: str, method: str, held: int) -> None:
    """Read batches and hold some of them, until this process is killed."""
    loader: Any = DataLoader(
        dataset_in(folder, None),
        batch_size=None,
        num_workers=2,
        multiprocessing_context=method,
        persistent_workers=True,
    )
    batches = iter(loader)
    # Wait until each worker has started. A worker that starts after its parent's end misses it.
    window = [next(batches) for _ in range(max(held, 4))]
    say("ready")
    if held:
        time.sleep(60)
    for batch in batches:
        window = [batch]
    del window


def main() -> None:
    functions: dict[str, Any] = {"killed": killed, "orphaned": orphaned}
    functions[sys.argv[1]](**json.loads(sys.argv[2]))
