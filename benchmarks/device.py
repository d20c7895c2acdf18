"""Copies of batches to a GPU: whole arenas or columns, page-locked or not, during computation.

Prints a message if there is no CUDA device. Batches are created in advance, so only copies and
computation are measured. With torchcodec, JPEGs are decoded on the GPU, too.
"""

from __future__ import annotations

import functools
import importlib.util
import io
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import torch
from PIL import Image
from sklearn.datasets import load_sample_images
from torch import Tensor

import torchrec_io as tio
from benchmarks.common import arguments, spread, table

_COLUMNS = 40
_SIZES = (256, 4096, 65536)  # records per batch
_BATCHES = 32
_PHOTOS, _REPEATS = 256, 16
_HEIGHT, _WIDTH = 375, 500
_MOST_DIFFERENCE = 2.0  # levels, on average; nvJPEG computes colors in another way


def _make_batch(records: int) -> tio.Batch:
    """Return a batch of 40 int64 columns and a Ragged."""
    names = [f"f{i:02}" for i in range(_COLUMNS)]
    schema: dict[str, tio.VarLenFeature | tio.FixedLenFeature] = {
        name: tio.FixedLenFeature([], "int64") for name in names
    }
    schema["tokens"] = tio.VarLenFeature("int64")
    some = [
        tio.encode_example({**{name: i + n for n, name in enumerate(names)}, "tokens": [i] * 20})
        for i in range(256)
    ]
    return tio.parse_examples(some * (records // 256), schema)


def _columns_of(batch: tio.Batch) -> list[Tensor]:
    """Return the tensors of a batch, each in its own memory, like those of a dict."""
    tokens = batch["tokens"]
    columns = [batch[name] for name in batch if name != "tokens"]
    return [column.clone() for column in (*columns, tokens.values, tokens.offsets)]


# ---- one copy ----


def _seconds(copy: Callable[[], object], rounds: int) -> list[float]:
    """Return the duration of copies, measured until the device has finished."""
    times = []
    for _ in range(3 + rounds * 5):
        torch.cuda.synchronize()
        start = time.perf_counter()
        copy()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return times[3:]


def _copy_all(columns: list[Tensor]) -> list[Tensor]:
    return [column.to("cuda", non_blocking=True) for column in columns]


def _copy_row(records: int, rounds: int) -> list[object]:
    batch = _make_batch(records)
    columns = _columns_of(batch)
    pinned, pinned_columns = batch.pin_memory(), [column.pin_memory() for column in columns]
    for name in batch:
        if name != "tokens":
            assert torch.equal(pinned.to("cuda")[name].cpu(), batch[name])
    ways: list[Callable[[], object]] = [
        functools.partial(_copy_all, columns),
        functools.partial(_copy_all, pinned_columns),
        functools.partial(batch.to, "cuda", non_blocking=True),
        functools.partial(pinned.to, "cuda", non_blocking=True),
    ]
    times = [statistics.median(_seconds(way, rounds)) for way in ways]
    size = batch.arena.numel()
    cells = [f"{seconds * 1e6:,.0f}" for seconds in times]
    return [f"{size / 1e6:.2f} MB", *cells, f"{size / times[-1] / 1e9:.1f}"]


# ---- copies during computation ----


class _Work:
    """Stand-in for a training step: matrix products that take about the given time."""

    def __init__(self, seconds: float) -> None:
        self._matrix = torch.randn(2048, 2048, device="cuda") / 2048
        self._steps = 1
        self._run()
        start = time.perf_counter()
        self._steps = 50
        self._run()
        self._steps = max(1, round(50 * seconds / (time.perf_counter() - start)))

    def _run(self) -> None:
        self(torch.zeros(1, device="cuda"))
        torch.cuda.synchronize()

    def __call__(self, column: Tensor) -> Tensor:
        for _ in range(self._steps):
            self._matrix = self._matrix @ self._matrix
        return column.sum()


def _moved(batches: Iterable[tio.Batch]) -> Iterator[tio.Batch]:
    for batch in batches:
        yield batch.to("cuda", non_blocking=True)


def _pinned(batches: Iterable[tio.Batch]) -> Iterator[tio.Batch]:
    for batch in batches:
        yield batch.pin_memory().to("cuda", non_blocking=True)


def _epoch(batches: Iterable[tio.Batch], work: _Work) -> float:
    torch.cuda.synchronize()
    start = time.perf_counter()
    sums = [work(batch["f00"]) for batch in batches]
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    assert len(sums) == _BATCHES
    return seconds


def _overlap_row(records: int, rounds: int) -> list[object]:
    batches = [_make_batch(records)] * _BATCHES
    ready = [batches[0].pin_memory()] * _BATCHES
    there = [batches[0].to("cuda")] * _BATCHES
    copy = statistics.median(_seconds(functools.partial(ready[0].to, "cuda"), rounds))
    work = _Work(copy)  # as long as a copy: this case gains most from overlap
    feeds: list[Callable[[], Iterable[tio.Batch]]] = [
        lambda: there,
        lambda: _moved(batches),
        lambda: _pinned(batches),
        lambda: _moved(ready),
        lambda: tio.DevicePrefetcher(ready, "cuda"),
    ]
    times: list[list[float]] = [[] for _ in feeds]
    for _ in range(1 + rounds):
        for number, feed in enumerate(feeds):
            times[number].append(_epoch(feed(), work) / _BATCHES * 1e6)
    medians = [statistics.median(each[1:]) for each in times]
    gains = [plain / ahead for plain, ahead in zip(times[3][1:], times[4][1:], strict=True)]
    size = batches[0].arena.numel()
    return [f"{size / 1e6:.2f} MB", *(f"{each:,.0f}" for each in medians), spread(gains)]


# ---- decoding on the device ----


def _write_photos(path: str) -> None:
    """Write JPEGs of 500x375 to a TFRecord file: parts of two photographs."""
    random = np.random.default_rng(0)
    pictures = [Image.fromarray(each) for each in load_sample_images().images]
    photos = []
    for number in range(_PHOTOS):
        left, top = random.integers(0, (640 - _WIDTH, 480 - _HEIGHT)).tolist()
        part = (left, top, left + _WIDTH, top + _HEIGHT)
        file = io.BytesIO()
        pictures[number % 2].resize((640, 480)).crop(part).save(file, "JPEG", quality=90)
        photos.append(file.getvalue())
    with tio.TFRecordWriter(path) as writer:
        for photo in photos * _REPEATS:
            writer.write({"image": [photo]})


def _photos_per_second(path: str, rounds: int) -> tuple[str, str]:
    """Return how many JPEGs a second this library decodes on the CPUs, and nvJPEG on the device."""
    on_cpus = tio.ImageFeature(size=(_HEIGHT, _WIDTH))
    on_device = tio.ImageFeature(size=(_HEIGHT, _WIDTH), decoder="cuda")
    loaders = [
        tio.make_loader(tio.TFRecordDataset(path, {"image": feature}, batch_size=64), device="cuda")
        for feature in (on_cpus, on_device)
    ]

    def rates(loader: Iterable[tio.Batch]) -> str:
        times = []
        for _ in range(1 + rounds):
            start = time.perf_counter()
            assert sum(len(batch["image"]) for batch in loader) == _PHOTOS * _REPEATS
            torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
        return spread([_PHOTOS * _REPEATS / each for each in times[1:]], 0)

    one, other = (next(iter(loader))["image"].float() for loader in loaders)
    assert float((one - other).abs().mean()) < _MOST_DIFFERENCE
    return rates(loaders[0]), rates(loaders[1])


def main() -> None:
    """Print the tables, or a message if there is no device."""
    args = arguments(__doc__).parse_args()
    if not torch.cuda.is_available():
        print("Nothing was measured: there is no CUDA device.")
        return
    print(f"On {torch.cuda.get_device_name()}, PyTorch {torch.__version__}.\n")
    print("A copy to the device, in µs:\n")
    ways = [
        "42 tensors",
        "42 page-locked tensors",
        "One arena",
        "One page-locked arena",
        "GB/s of the last",
    ]
    print(table(["Batch", *ways], [_copy_row(size, args.rounds) for size in _SIZES]))
    print("\nA step whose computation takes as long as its copy, in µs:\n")
    feeds = [
        "No copy",
        "Pageable",
        "Pinned in the loop",
        "Page-locked",
        "DevicePrefetcher",
        "Speedup",
    ]
    print(table(["Batch", *feeds], [_overlap_row(size, args.rounds) for size in _SIZES]))
    if importlib.util.find_spec("torchcodec") is None:
        print("\nNo images were decoded: torchcodec is not installed.")
        return
    print(f"\nJPEGs of {_WIDTH}x{_HEIGHT} decoded per second:\n")
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/photos.tfrecord"
        _write_photos(path)
        row = _photos_per_second(path, args.rounds)
    cpus = len(os.sched_getaffinity(0))
    print(table([f"On {cpus} CPUs, and copied to the GPU", "nvJPEG"], [row]))


if __name__ == "__main__":
    main()
