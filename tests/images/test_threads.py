"""Threads that decode the images of a batch, and end with the call."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.images import column_of, encoded, noise, write_images
from torchrec_io._parsing import threads
from torchrec_io._parsing.columns import base as parse
from torchrec_io._parsing.threads import default_threads, run_each


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    before = threading.active_count()
    yield
    for _ in range(500):  # the thread of a DataLoader's queue takes a moment
        if threading.active_count() <= before:
            return
        time.sleep(0.01)
    pytest.fail(f"a thread is left: {threading.enumerate()}")


@pytest.fixture
def four(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate a machine with four CPUs."""
    monkeypatch.setattr(parse, "default_threads", lambda: 4)


def test_calling_thread_does_all_work_if_no_thread_can_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Refused(threading.Thread):
        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading, "Thread", Refused)
    seen: list[int] = []
    run_each(seen.append, 20, 4)
    assert seen == list(range(20))


def test_ctrl_c_waits_for_the_threads() -> None:
    """The interrupt occurs in this thread's own work."""
    under_way = threading.Event()
    ended: list[int] = []

    def work(number: int) -> None:
        if threading.current_thread() is threading.main_thread():
            under_way.wait(60)
            raise KeyboardInterrupt
        under_way.set()
        time.sleep(0.05)
        ended.append(number)

    with pytest.raises(KeyboardInterrupt):
        run_each(work, 100, 2)
    assert len(ended) == 1


# ---- batches ----

ARRAYS = [noise(9, 8 + number % 3, seed=number) for number in range(40)]
IMAGES = [encoded(array) for array in ARRAYS]


@pytest.mark.usefixtures("four")
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"size": (5, 6), "augment": tio.RandomResizedCrop()},
        {"mixed": "pad", "augment": tio.RandomCrop((3, 4))},
        {"dtype": "float32", "size": (5, 6)},
    ],
)
def test_batches_equal_those_of_one_thread(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    by_four = column_of(IMAGES, **options)
    monkeypatch.setattr(parse, "default_threads", lambda: 1)
    by_one = column_of(IMAGES, **options)
    for some, others in zip(by_four, by_one, strict=True):
        assert torch.equal(some, others)


@pytest.mark.usefixtures("four")
@pytest.mark.parametrize("options", [{}, {"size": (5, 6)}])
def test_several_threads_decode_a_batch(options: dict[str, Any]) -> None:
    meeting = threading.Barrier(4, timeout=60)

    def wait(height: int, width: int, _: np.random.Generator) -> tio.Crop:
        meeting.wait()  # forty images: four threads meet ten times
        return tio.Crop(0, 0, height, width)

    assert len(column_of(IMAGES, augment=wait, **options)) == 40


@pytest.mark.usefixtures("four")
def test_first_invalid_record_is_reported() -> None:
    images = [b"none" if number in (7, 8, 30) else image for number, image in enumerate(IMAGES)]
    for size in [None, (5, 6)] * 3:
        with pytest.raises(tio.DecodeError) as caught:
            column_of(images, size=size)
        assert caught.value.record == 7


def names_of_threads() -> Callable[[int, int, np.random.Generator], tio.Crop]:
    def refuse(*_: Any) -> tio.Crop:
        raise ValueError(f"pid {os.getpid()} thread {threading.current_thread().name}")

    return refuse


@pytest.mark.usefixtures("four")
def test_dataloader_worker_decodes_in_one_thread(tmp_path: Any) -> None:
    path = write_images(tmp_path / "x.tfrecord", IMAGES)
    schema = {"image": tio.ImageFeature(size=(2, 2), augment=names_of_threads())}
    told: list[str] = []

    def note(error: Exception) -> None:
        told.append(str(error))
        log = tmp_path / f"{os.getpid()}.log"
        log.write_text("\n".join(told))

    for _ in range(2):
        dataset = tio.TFRecordDataset(path, schema, batch_size=40, on_error=note)
        list(DataLoader(dataset, batch_size=None, num_workers=1))
    logs = [file.read_text() for file in tmp_path.glob("*.log")]
    assert len(logs) == 2
    for log in logs:
        lines = log.splitlines()
        assert len(lines) == 40
        assert all("thread MainThread" in line for line in lines)
        assert f"pid {os.getpid()}" not in log


def test_as_many_threads_as_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3, 5}, raising=False)
    assert default_threads() == 3
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(200)), raising=False)
    assert default_threads() == 200
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    assert default_threads() == 25
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "500")
    assert default_threads() == 1
    monkeypatch.delenv("LOCAL_WORLD_SIZE")
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert default_threads() == 1
    monkeypatch.setattr(os, "cpu_count", lambda: 5)
    assert default_threads() == 5
    assert threads.default_threads is default_threads


@pytest.mark.usefixtures("four")
def test_forked_process_decodes() -> None:
    column_of(IMAGES)
    pid = os.fork()
    if pid == 0:  # the child must not raise
        os._exit(0 if len(column_of(IMAGES)) == 40 else 1)
    assert os.waitpid(pid, 0)[1] == 0
