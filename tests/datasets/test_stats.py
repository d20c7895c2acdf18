"""Statistics of datasets: exact counts of what was loaded, and possible times."""

from __future__ import annotations

import copy
import logging
import math
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader

import torchrec_io as tio
from tests.support.datasets import SCHEMA, record, write_files
from tests.support.images import encoded, noise, write_images
from tests.support.statistics import (
    TIMES,
    check_times,
    counts_of,
    expected,
    file_bytes,
    frame_bytes,
    total,
)
from tests.support.tfrecord import frame, write_tfrecord
from torchrec_io import _core

SIZES = [13, 0, 7, 10]
COUNT = sum(SIZES)
RECORDS = [record(number) for number in range(COUNT)]
STORED = sum(map(frame_bytes, RECORDS))
NOTHING = expected(0, 0)


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return write_files(tmp_path_factory.mktemp("stats"), SIZES)


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "torchrec_io")


def take(count: int, items: Any) -> list[Any]:
    return [item for _, item in zip(range(count), items, strict=False)]


# ---- counts ----


@pytest.mark.parametrize("threads", [1, 2])
def test_batches(paths: list[str], threads: int) -> None:
    dataset = tio.TFRecordDataset(paths, SCHEMA, batch_size=4, num_threads=threads)
    assert dataset.stats() == tio.LoadingStats()
    items = iter(dataset)
    first = 0
    for _ in items:
        records = RECORDS[first : first + 4]
        first += 4
        stats = dataset.stats()
        assert counts_of(stats) == expected(len(records), sum(map(frame_bytes, records)), 1)
        check_times(stats, threads)
    assert counts_of(dataset.stats()) == NOTHING
    assert first == 32


def test_the_times_of_one_thread(paths: list[str]) -> None:
    dataset = tio.TFRecordDataset(paths, SCHEMA, batch_size=4, num_threads=1)
    list(dataset)
    stats = dataset.stats()
    check_times(stats)
    assert stats.reading > 0
    assert stats.checking > 0
    assert stats.parsing > 0
    assert stats.waiting_for_data > 0
    assert stats.decoding == stats.copying == stats.waiting_for_consumer == 0


def test_one_call_for_all_is_the_sum(paths: list[str]) -> None:
    dataset = tio.TFRecordDataset(paths, SCHEMA, batch_size=4, shuffle=True, epochs=3)
    list(dataset)
    stats = dataset.stats()
    assert counts_of(stats) == expected(3 * COUNT, 3 * STORED, 3 * 8)
    assert stats.records_per_second == stats.records / stats.seconds
    assert stats.as_dict()["records_per_second"] == stats.records_per_second
    assert stats.as_dict().keys() == {*counts_of(stats), *TIMES, "records_per_second"}


@pytest.mark.parametrize("batch_size", [None, 4])
@pytest.mark.parametrize("threads", [1, 2])
def test_an_iteration_that_is_left_early(
    paths: list[str], batch_size: int | None, threads: int
) -> None:
    dataset = tio.TFRecordDataset(paths, SCHEMA, batch_size=batch_size, num_threads=threads)
    take(3, dataset)
    stats = dataset.stats()
    assert (stats.records, stats.batches) == ((3, 0) if batch_size is None else (12, 3))
    list(dataset)
    stats = dataset.stats()
    batches = 0 if batch_size is None else 8
    assert counts_of(stats) == expected(COUNT, STORED, batches)


def test_the_last_batch_that_is_dropped(paths: list[str]) -> None:
    dataset = tio.TFRecordDataset(paths, SCHEMA, batch_size=8, drop_last=True)
    assert len(list(dataset)) == 3
    stored = sum(map(frame_bytes, RECORDS[:24]))
    assert counts_of(dataset.stats()) == expected(24, stored, 3)


OTHERS: dict[str, Callable[[list[str]], tuple[Any, int]]] = {
    "with keys": lambda paths: (tio.TFRecordDataset(paths, SCHEMA, with_key=True), 0),
    "bytes": lambda paths: (tio.TFRecordDataset(paths, batch_size=4), 8),
    "a function": lambda paths: (tio.TFRecordDataset(paths, len, batch_size=4), 8),
    "by length": lambda paths: (
        tio.TFRecordDataset(paths, SCHEMA, batch_size=4, length_key="tokens"),
        8,
    ),
    "blocks": lambda paths: (
        tio.TFRecordDataset(paths, SCHEMA, batch_size=4, shuffle=tio.Shuffle(block=5, window=10)),
        8,
    ),
    "a stream": lambda paths: (tio.TFRecordStream(paths, SCHEMA, batch_size=4), 8),
    "a shuffled stream": lambda paths: (tio.TFRecordStream(paths, SCHEMA, shuffle=9), 0),
    "a mixture": lambda paths: (
        tio.mix(
            [tio.TFRecordDataset(paths[0], SCHEMA), tio.TFRecordDataset(paths[1:], SCHEMA)],
            weights=[1, 1],
            stop="all_exhausted",
            batch_size=4,
        ),
        8,
    ),
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("threads", [1, 2])
def test_other_datasets(paths: list[str], name: str, threads: int) -> None:
    dataset, batches = OTHERS[name](paths)
    dataset = dataset.replace(num_threads=threads) if hasattr(dataset, "replace") else dataset
    assert len(list(dataset)) == (batches or COUNT)
    stats = dataset.stats()
    assert counts_of(stats) == expected(COUNT, STORED, batches)
    check_times(stats, threads=2)
    assert (stats.decoding > 0) == (name == "a function")


def test_compressed_bytes_are_counted_decompressed(tmp_path: Path) -> None:
    path = write_tfrecord(tmp_path / "a.gz", RECORDS, "gzip")
    for dataset in (tio.TFRecordDataset(path, SCHEMA), tio.TFRecordStream(path, SCHEMA)):
        list(dataset)
        stats = dataset.stats()
        assert counts_of(stats) == expected(COUNT, STORED)
        assert stats.reading > 0


@pytest.mark.parametrize("size", [None, (8, 8)])
def test_decoded_images(tmp_path: Path, size: tuple[int, int] | None) -> None:
    path = write_images(tmp_path / "a", [encoded(noise(8, 8))] * 6)
    schema = {"image": tio.ImageFeature(size=size)}
    dataset = tio.TFRecordDataset(path, schema, batch_size=2, num_threads=1)
    list(dataset)
    stats = dataset.stats()
    assert stats.decoding > stats.checking
    check_times(stats)


# ---- lost records ----


def write_bad(folder: Path) -> str:
    """Write a file of 40 records: two are not Examples, one is damaged."""
    frames = [frame(record(number)) for number in range(40)]
    frames[5] = frame(b"\xff")
    frames[6] = frame(b"\xff" * 30)
    damaged = bytearray(frames[20])
    damaged[-5] ^= 1
    frames[20] = bytes(damaged)
    path = folder / "bad"
    path.write_bytes(b"".join(frames))
    return str(path)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("batch_size", [None, 3])
def test_skipped_records(tmp_path: Path, threads: int, batch_size: int | None) -> None:
    path = write_bad(tmp_path)
    dataset = tio.TFRecordDataset(
        path, SCHEMA, batch_size=batch_size, on_error="skip", num_threads=threads
    )
    list(dataset)
    batches = 0 if batch_size is None else math.ceil(37 / batch_size)
    stats = dataset.stats()
    assert counts_of(stats) == expected(37, file_bytes([path]), batches, skipped=3)
    list(dataset)
    assert counts_of(dataset.stats()) == counts_of(stats)


@pytest.mark.parametrize("batch_size", [None, 4])
def test_repeated_records(tmp_path: Path, batch_size: int | None) -> None:
    path = write_bad(tmp_path)
    dataset = tio.TFRecordDataset(
        path, SCHEMA, batch_size=batch_size, on_error="skip", uneven="drop", rank=0, world_size=1
    )
    list(dataset)
    batches = 0 if batch_size is None else 10
    stored = file_bytes([path])
    assert counts_of(dataset.stats()) == expected(40, stored, batches, skipped=3, repeated=3)


def test_an_error_that_is_raised(tmp_path: Path) -> None:
    dataset = tio.TFRecordDataset(write_bad(tmp_path), SCHEMA, batch_size=4, num_threads=1)
    with pytest.raises(tio.DecodeError):
        list(dataset)
    stored = sum(frame_bytes(record(number)) for number in range(4))
    assert counts_of(dataset.stats()) == expected(4, stored, 1)
    assert not _core.Meter.is_running()


# ---- workers ----


class Killer:
    """A schema that kills its process at a record."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, data: bytes) -> int:
        if data == RECORDS[20] and not self.path.exists():
            self.path.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return len(data)


def test_a_worker_that_is_killed(paths: list[str], tmp_path: Path) -> None:
    dataset = tio.TFRecordDataset(paths, Killer(tmp_path / "killed"), batch_size=1)
    loader = DataLoader(dataset, batch_size=None, num_workers=2)
    with pytest.raises(RuntimeError, match=r"killed by signal|exited unexpectedly"):
        list(loader)
    stats = dataset.stats()
    assert 0 <= stats.records == stats.batches < COUNT
    list(loader)
    stats = dataset.stats()
    assert counts_of(stats) == expected(COUNT, STORED, COUNT)


# ---- several who ask ----


def test_nothing_is_lost_between_threads(paths: list[str]) -> None:
    dataset = tio.TFRecordDataset(paths, SCHEMA, batch_size=1, epochs=20)
    found: list[tio.LoadingStats] = []
    has_ended = threading.Event()

    def ask() -> None:
        while not has_ended.is_set():
            found.append(dataset.stats())

    askers = [threading.Thread(target=ask) for _ in range(2)]
    for thread in askers:
        thread.start()
    list(dataset)
    has_ended.set()
    for thread in askers:
        thread.join()
    found.append(dataset.stats())
    assert total(found) == expected(20 * COUNT, 20 * STORED, 20 * COUNT)
    assert all(number >= 0 for stats in found for number in counts_of(stats).values())


def test_copies_start_at_zero(paths: list[str]) -> None:
    dataset = tio.TFRecordDataset(paths, SCHEMA, batch_size=4)
    take(2, dataset)
    others = [copy.copy(dataset), dataset.replace(batch_size=5), *dataset.split(0.5, 0.5)]
    for other in others:
        assert counts_of(other.stats()) == NOTHING
        list(other)
        assert other.stats().records == other.num_records
    assert dataset.stats().records == 8


# ---- by number ----


def test_map_style(paths: list[str]) -> None:
    dataset = tio.TFRecordMapDataset(paths, SCHEMA)
    assert dataset.stats() == tio.LoadingStats()
    _ = dataset[3]
    assert counts_of(dataset.stats()) == expected(1, frame_bytes(RECORDS[3]))
    _ = dataset[-2:]
    stats = dataset.stats()
    assert counts_of(stats) == expected(2, sum(map(frame_bytes, RECORDS[-2:])), 1)
    check_times(stats)
    with pytest.raises(IndexError):
        _ = dataset[COUNT]
    assert counts_of(dataset.stats()) == NOTHING


# ---- profilers ----


def ranges_of(profiler: torch.profiler.profile) -> dict[str, int]:
    """Return the number of ranges of each name."""
    events = profiler.key_averages()
    return {each.key: each.count for each in events if each.key.startswith("torchrec_io::")}


def test_ranges_of_steps_in_python(tmp_path: Path) -> None:
    path = Path(write_images(tmp_path / "a", [encoded(noise(8, 8))] * 6))
    path.write_bytes(path.read_bytes()[:-1] + b"!")  # native code leaves damaged batches to Python
    dataset = tio.TFRecordStream(
        path, {"image": tio.ImageFeature()}, batch_size=3, num_threads=1, on_error="skip"
    )
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        list(dataset)
    steps = {"reading", "checking", "parsing", "decoding", "waiting_for_data"}
    assert {f"torchrec_io::{step}" for step in steps} == ranges_of(profiler).keys()
    assert dataset.stats().decoding > 0
