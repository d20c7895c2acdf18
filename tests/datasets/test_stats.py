"""Statistics of datasets: exact counts of what was loaded, and possible times."""

from __future__ import annotations

import copy
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

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
from tests.support.tfrecord import frame
from torchrec_io import _core

SIZES = [13, 0, 7, 10]
COUNT = sum(SIZES)
RECORDS = [record(number) for number in range(COUNT)]
STORED = sum(map(frame_bytes, RECORDS))
NOTHING = expected(0, 0)
BLOCKS = tio.Shuffle(block=5, window=10)


def take(count: int, items: Any) -> list[Any]:
    return [item for _, item in zip(range(count), items, strict=False)]


# ---- counts ----


def test_the_times_of_one_thread(paths: list[str]) -> None:
    dataset = tio.TFRecordDataset(paths, SCHEMA, batch_size=4, num_threads=1)
    list(dataset)
    stats = dataset.stats()
    check_times(stats)
    assert min(stats.reading, stats.checking, stats.parsing, stats.waiting_for_data) > 0
    assert stats.decoding == stats.copying == stats.waiting_for_consumer == 0
    assert stats.records_per_second == stats.records / stats.seconds
    assert stats.as_dict()["records_per_second"] == stats.records_per_second
    others = {"records_per_second", "consumer", "consumer_share"}
    assert stats.as_dict().keys() == {*counts_of(stats), *TIMES, *others}
    assert stats.consumer_share == 0  # it is that of a loader


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


# ---- lost records ----


def write_bad(folder: Path) -> str:
    """Write a file of 30 records: two are not Examples, one is damaged."""
    frames = [frame(each) for each in RECORDS]
    frames[5] = frame(b"\xff")
    frames[6] = frame(b"\xff" * 30)
    frames[20] = frames[20][:-5] + bytes([frames[20][-5] ^ 1]) + frames[20][-4:]
    path = folder / "bad"
    path.write_bytes(b"".join(frames))
    return str(path)


def mixture(paths: list[str], **options: Any) -> Any:
    parts = [tio.TFRecordDataset(some, SCHEMA) for some in (paths[0], paths[1:])]
    return tio.mix(parts, weights=[1, 1], stop="each_once", **options)


BATCHES: dict[str, Any] = {"batch_size": 4}
SKIP: dict[str, Any] = {"batch_size": 4, "on_error": "skip"}
# The files, a class, its options, and the numbers of records, batches, skipped and repeated ones.
KINDS: dict[str, tuple[str, Any, dict[str, Any], tuple[int, int, int, int]]] = {
    "epochs": ("plain", tio.TFRecordDataset, {**BATCHES, "epochs": 3}, (90, 24, 0, 0)),
    "with keys": ("plain", tio.TFRecordDataset, {"with_key": True}, (COUNT, 0, 0, 0)),
    "bytes": ("plain", tio.TFRecordDataset, {**BATCHES, "schema": None}, (COUNT, 8, 0, 0)),
    "a function": ("plain", tio.TFRecordDataset, {**BATCHES, "schema": len}, (COUNT, 8, 0, 0)),
    "by length": ("plain", tio.TFRecordDataset, {**BATCHES, "length_key": "tokens"}, (30, 8, 0, 0)),
    "blocks": ("plain", tio.TFRecordDataset, {**BATCHES, "shuffle": BLOCKS}, (COUNT, 8, 0, 0)),
    "a stream": ("plain", tio.TFRecordStream, BATCHES, (COUNT, 8, 0, 0)),
    "a shuffled stream": ("plain", tio.TFRecordStream, {"shuffle": 9}, (COUNT, 0, 0, 0)),
    "a mixture": ("plain", mixture, BATCHES, (COUNT, 8, 0, 0)),
    "gzip": ("gzip", tio.TFRecordDataset, {}, (COUNT, 0, 0, 0)),
    "a stream of gzip": ("gzip", tio.TFRecordStream, {}, (COUNT, 0, 0, 0)),
    "skipping": ("bad", tio.TFRecordDataset, SKIP, (27, 7, 3, 0)),
    "skipping samples": ("bad", tio.TFRecordDataset, {"on_error": "skip"}, (27, 0, 3, 0)),
    "repeating": ("bad", tio.TFRecordDataset, {**SKIP, "uneven": "drop"}, (COUNT, 8, 3, 3)),
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("threads", [1, 2])
def test_kinds_of_datasets(tmp_path: Path, name: str, threads: int) -> None:
    form, made, options, numbers = KINDS[name]
    if form == "bad":
        paths: Any = [write_bad(tmp_path)]
        stored = file_bytes(paths)
    else:
        paths = write_files(tmp_path, SIZES, None if form == "plain" else form)
        stored = STORED * options.get("epochs", 1)  # of what is decompressed
    if made is not mixture:
        options = {"schema": SCHEMA, "rank": 0, "world_size": 1, **options}
    dataset = made(paths, num_threads=threads, **options)
    records, batches, skipped, repeated = numbers
    for _ in range(2):
        assert len(list(dataset)) == (batches or records)
        stats = dataset.stats()
        assert counts_of(stats) == expected(records, stored, batches, skipped, repeated)
    check_times(stats, threads=2)
    assert (stats.decoding > 0) == (name == "a function")


def test_an_error_that_is_raised(tmp_path: Path) -> None:
    dataset = tio.TFRecordDataset(write_bad(tmp_path), SCHEMA, batch_size=4, num_threads=1)
    with pytest.raises(tio.DecodeError):
        list(dataset)
    assert counts_of(dataset.stats()) == expected(4, sum(map(frame_bytes, RECORDS[:4])), 1)
    assert not _core.Meter.is_running()


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


def test_ranges_of_steps_in_python(tmp_path: Path) -> None:
    path = Path(write_images(tmp_path / "a", [encoded(noise(8, 8))] * 6))
    path.write_bytes(path.read_bytes()[:-1] + b"!")  # native code leaves damaged batches to Python
    dataset = tio.TFRecordStream(
        path, {"image": tio.ImageFeature()}, batch_size=3, num_threads=1, on_error="skip"
    )
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        list(dataset)
    steps = {"reading", "checking", "parsing", "decoding", "waiting_for_data"}
    ranges = {each.key for each in profiler.key_averages() if "torchrec_io::" in each.key}
    assert {f"torchrec_io::{step}" for step in steps} == ranges
    assert dataset.stats().decoding > 0
