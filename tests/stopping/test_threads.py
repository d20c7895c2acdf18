"""Threads that do not start or end by themselves; iterators in forked children and threads."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path
from typing import Any

import pytest

import torchrec_io as tio
from tests.support.datasets import SCHEMA, write_files
from tests.support.tfrecord import frame
from tests.support.threads import threads_of_other_tests, wait_until_threads_end
from tests.support.web import web_server

COUNT = 4000
WHOLE = list(range(COUNT))


@pytest.fixture
def path(tmp_path: Path) -> str:
    return write_files(tmp_path, [COUNT])[0]


def open_batches(path: str, **options: Any) -> Any:
    return tio.TFRecordDataset(path, SCHEMA, batch_size=2, num_threads=3, **options)


def ids_of(batches: Any) -> list[int]:
    return [number for batch in batches for number in batch["id"].tolist()]


@pytest.mark.parametrize("which", [1, 2, 3])
def test_the_caller_loads_if_threads_cannot_start(
    path: str, monkeypatch: pytest.MonkeyPatch, which: int
) -> None:
    """One of ``which`` threads fails to start."""
    start, asked = threading.Thread.start, []

    def start_some(thread: threading.Thread) -> None:
        asked.append(thread)
        if len(asked) % which == 0:
            raise RuntimeError("can't start new thread")
        start(thread)

    dataset = open_batches(path)
    monkeypatch.setattr(threading.Thread, "start", start_some)
    assert ids_of(dataset) == WHOLE
    assert len(asked) >= which


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("is_closed", [False, True])
def test_a_forked_child_continues(path: str, is_closed: bool) -> None:
    """It has none of its parent's threads, although these are loading."""
    batches = iter(open_batches(path))
    first = next(batches)["id"].tolist()
    child = os.fork()
    if child == 0:
        if is_closed:
            batches.close()
        rest = [] if is_closed else WHOLE[2:]
        os._exit(ids_of(batches) != rest)
    assert [*first, *ids_of(batches)] == WHOLE
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_loading_thread_can_close(path: str) -> None:
    """This happens if the garbage collector frees an iterator in that thread."""
    others = threads_of_other_tests()
    left = iter(open_batches(path))
    next(left)
    calls = iter([left.close])

    def close(batch: Any) -> Any:
        for call in calls:
            call()
        return batch

    assert ids_of(open_batches(path, transform=close)) == WHOLE
    assert next(left, None) is None
    wait_until_threads_end(others)


def test_threads_end_after_an_error_without_the_garbage_collector() -> None:
    """Else they, and what they have read ahead, would be left for long."""
    data = b"".join(frame(b"%07d" % number * 1000) for number in range(300))
    options: dict[str, Any] = {"storage_options": {"max_attempts": 3, "timeout": 5}}
    with web_server() as web:
        url = web.put("/a", data)
        dataset = tio.TFRecordDataset(
            url, batch_size=10, num_threads=2, cache_bytes=1 << 20, **options
        )
        web.lost_from = len(data) // 2
        others = threads_of_other_tests()
        gc.disable()
        try:
            for _ in range(2):
                with pytest.raises(ConnectionError, match="after 3 attempts"):
                    list(dataset)
                wait_until_threads_end(others)
            web.lost_from = None
            for _ in range(2):
                web.put("/a", data, etag='"v2"')
                with pytest.raises(tio.StaleIndexError):
                    list(dataset)
                wait_until_threads_end(others)
        finally:
            gc.enable()


def test_raised_errors_keep_no_file_open(path: str) -> None:
    damaged = Path(path)
    damaged.write_bytes(damaged.read_bytes()[:-10] + bytes(10))
    others = threads_of_other_tests()
    gc.disable()  # objects are only freed by their reference counts
    try:
        files = len(os.listdir("/proc/self/fd"))
        dataset: Any = open_batches(path)
        mapped = tio.TFRecordMapDataset(path, SCHEMA)
        with pytest.raises(tio.CorruptRecordError):
            list(dataset)
        with pytest.raises(tio.CorruptRecordError):
            mapped[COUNT - 1]
        del dataset, mapped
        wait_until_threads_end(others)  # they were reading ahead
        assert len(os.listdir("/proc/self/fd")) <= files
    finally:
        gc.enable()
