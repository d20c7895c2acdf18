"""Statistics of loaders: what their datasets count, and how long the loop waits."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import ConcatDataset, Dataset, Subset

import torchrec_io as tio
from tests.support.datasets import SCHEMA, record
from tests.support.images import encoded, noise, write_images
from tests.support.statistics import check_times, counts_of, expected, frame_bytes, total

SIZES = [13, 0, 7, 10]
COUNT = sum(SIZES)
STORED = sum(frame_bytes(record(number)) for number in range(COUNT))
WORKERS = [(0, None), (2, "fork"), (2, "forkserver")]


@pytest.mark.parametrize(("workers", "start"), WORKERS)
@pytest.mark.parametrize("batch_size", [None, 4])
def test_counts(paths: list[str], workers: int, start: str | None, batch_size: int | None) -> None:
    dataset = tio.TFRecordDataset(paths, SCHEMA, batch_size=batch_size)
    loader = tio.make_loader(dataset, num_workers=workers, multiprocessing_context=start)
    assert loader.stats() == tio.LoadingStats()
    batches = 0 if batch_size is None else 8
    found = []
    for _ in range(2):
        for _ in loader:
            found.append(loader.stats())
        found.append(loader.stats())
    assert total(found) == expected(2 * COUNT, 2 * STORED, 2 * batches)
    for stats in found:
        check_times(stats, threads=2)
    assert sum(stats.waiting_for_data for stats in found) > 0
    assert sum(stats.parsing for stats in found) > 0
    assert counts_of(dataset.stats()) == expected(2 * COUNT, 2 * STORED, 2 * batches)


def test_loaders_count_from_their_start(paths: list[str]) -> None:
    dataset = tio.TFRecordDataset(paths, SCHEMA, batch_size=4)
    list(tio.make_loader(dataset))
    loader = tio.make_loader(dataset)
    assert loader.stats() == tio.LoadingStats()
    list(loader)
    assert loader.stats().records == COUNT


def test_the_device_takes_no_waiting_time(paths: list[str]) -> None:
    dataset = tio.TFRecordDataset(paths, {"id": SCHEMA["id"]}, batch_size=4)
    loader = tio.make_loader(dataset, device="meta")
    assert all(batch["id"].device.type == "meta" for batch in loader)
    stats = loader.stats()
    assert stats.copying > 0
    check_times(stats, threads=2)
    assert "copies batches for" in loader.describe()


@pytest.mark.parametrize("batch_size", [4, None])
def test_processor_time_of_the_loop(paths: list[str], batch_size: int | None) -> None:
    dataset = tio.TFRecordDataset(paths, SCHEMA, num_threads=1)
    loader = tio.make_loader(dataset, batch_size=batch_size)
    assert loader.stats().consumer == 0
    before = time.thread_time()
    list(loader)
    used = time.thread_time() - before
    found = loader.stats().consumer
    assert 0 < found < used if batch_size else found == 0
    assert dataset.stats().consumer == 0


# ---- map-style datasets ----


@pytest.mark.parametrize("workers", [0, 2])
def test_map_style(paths: list[str], workers: int) -> None:
    dataset = tio.TFRecordMapDataset(paths, SCHEMA)
    parts: Dataset[Any] = ConcatDataset(
        [Subset(dataset, range(8)), tio.TFRecordMapDataset(paths[0], SCHEMA)]
    )
    loader = tio.make_loader(parts, batch_size=4, num_workers=workers)
    list(loader)
    stats = loader.stats()
    stored = sum(frame_bytes(record(number)) for number in [*range(8), *range(13)])
    assert (stats.records, stats.bytes) == (21, stored)
    assert stats.parsing > 0
    assert stats.waiting_for_data > 0


class Numbers(Dataset[Any]):
    def __len__(self) -> int:
        return 10

    def __getitem__(self, number: int) -> dict[str, Any]:
        return {"number": torch.tensor(number)}


def test_datasets_of_others_have_batches_and_times() -> None:
    loader = tio.make_loader(Numbers(), batch_size=4)
    list(loader)
    stats = loader.stats()
    assert counts_of(stats) == expected(0, 0, 3)
    assert stats.waiting_for_data > 0
    assert re.search(r"\nthe training loop waits \d+ % of the time$", loader.describe())


# ---- the sentence ----


def test_describe_ends_with_the_bottleneck(tmp_path: Path) -> None:
    path = write_images(tmp_path / "a", [encoded(noise(64, 64))] * 20)
    dataset = tio.TFRecordDataset(path, {"image": tio.ImageFeature(size=(64, 64))}, batch_size=5)
    loader = tio.make_loader(dataset)
    before = loader.describe()
    assert "waits" not in before
    iter(loader)
    assert loader.describe() == before
    list(loader)
    *lines, last = loader.describe().split("\n")
    assert lines == before.split("\n")
    assert re.fullmatch(
        r"the training loop waits \d+ % of the time; decoding images takes \d+ % of loading", last
    )
    assert loader.describe().endswith(last)  # of the loop, which is over
    assert loader.stats().records == 20


# ---- profilers ----


@pytest.mark.parametrize("workers", [0, 2])
def test_ranges_of_a_profiler(paths: list[str], workers: int) -> None:
    dataset = tio.TFRecordDataset(paths, {"id": SCHEMA["id"]}, batch_size=4, num_threads=1)
    loader = tio.make_loader(dataset, num_workers=workers, device="meta")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        list(loader)
    events = {each.key: each.count for each in profiler.key_averages()}
    assert events["torchrec_io::waiting_for_data"] == 9  # the last one finds the end
    assert events["torchrec_io::copying"] == 8
    assert events.get("torchrec_io::parsing", 0) == (8 if workers == 0 else 0)
