"""One library's part of ``imagenet_s3.py``: ``imagenet_case.py LIBRARY JSON``; prints JSON.

This library has its own decoder. For the others simplejpeg (libjpeg-turbo) decodes the images, and
PyTorch resizes them with antialiasing, as torchvision does: the fastest way in their environments.
"""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import interpolate
from torch.utils.data import DataLoader

from benchmarks.image_data import HEIGHT, MEAN, SIZE, STD, WIDTH
from benchmarks.peer_remote import (
    open_litdata,
    open_mosaicml,
    set_credentials,
    write_litdata,
    write_mosaicml,
)

BATCH = 256
GRID_STEP = 7  # of the pixels that are compared
_SHARDS = 16
_TICKS = os.sysconf("SC_CLK_TCK")
# Images and labels of a batch: float32 [B, 3, 224, 224] and int64 [B].
_Batches = Iterable[tuple[torch.Tensor, torch.Tensor]]


def main() -> None:
    """Write a library's copy of the images, check the library, or measure two epochs."""
    library, case = sys.argv[1], json.loads(sys.argv[2])
    write, open_loader = _LIBRARIES[library]
    if "prepare" in case:
        write(case["prepare"], samples_of(case["photos"], case["count"]))
        print("{}", flush=True)
        os._exit(0)
    set_credentials(case["config"])
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        start = _counters()
        epoch = open_loader(case, folder)
        if "grids" in case:
            _save_grids(epoch(), case["grids"])
            found = []
        else:
            found = [_measure(epoch(), start), _measure(epoch(), _counters())]
    print(json.dumps(found), flush=True)
    os._exit(0)  # threads of some libraries go on for long


def samples_of(photos: str, count: int) -> Iterator[dict[str, Any]]:
    """Yield samples: the files of a folder, in turns, with the number of the sample."""
    stored = [path.read_bytes() for path in sorted(Path(photos).iterdir())]
    for number in range(count):
        yield {"image": stored[number % len(stored)], "label": number}


# ---- measuring ----


def _measure(batches: _Batches, start: tuple[float, float]) -> dict[str, float]:
    """Return the images of an epoch, and the seconds and CPU-seconds since a start."""
    images = sum(len(labels) for _, labels in batches)
    seconds, cpu_seconds = (end - begin for begin, end in zip(start, _counters(), strict=True))
    return {"images": images, "seconds": seconds, "cpu_seconds": cpu_seconds}


def _counters() -> tuple[float, float]:
    return time.perf_counter(), cpu_seconds_of(os.getpid())


def cpu_seconds_of(process: int) -> float:
    """Return the CPU time of a process, of its children, and of theirs."""
    folder = Path("/proc", str(process))
    try:
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        children = [child for path in folder.glob("task/*/children") for child in _words(path)]
    except OSError:  # it has just ended, and its parent has its time
        return 0.0
    own = sum(map(int, fields[11:15])) / _TICKS  # with that of children that have ended
    return own + sum(cpu_seconds_of(int(child)) for child in children)


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:  # a thread that has just ended
        return []


def _save_grids(batches: _Batches, path: str) -> None:
    """Save some pixels of each image, in the order of the labels: uint8 ``[n, 3, 32, 32]``."""
    mean, std = (torch.tensor(values).reshape(3, 1, 1) for values in (MEAN, STD))
    grids, labels = [], []
    for images, numbers in batches:
        assert images.dtype == torch.float32, images.dtype
        assert images.shape[1:] == (3, SIZE, SIZE), images.shape
        levels = (images[:, :, ::GRID_STEP, ::GRID_STEP] * std + mean) * 255
        grids.append(levels.round().to(torch.uint8))
        labels.append(numbers.clone())
    order = torch.cat(labels).argsort()
    ordered = torch.cat(labels)[order]
    assert torch.equal(ordered, torch.arange(len(ordered))), "labels are missing or repeated"
    np.save(path, torch.cat(grids)[order].numpy())


# ---- this library ----


def _write_ours(folder: str, samples: Iterable[dict[str, Any]]) -> None:
    import torchrec_io as tio  # noqa: PLC0415  # not in the environments of other libraries

    with tio.ShardedWriter(f"{folder}/train", num_shards=_SHARDS, index=True) as writer:
        for sample in samples:
            writer.write(sample)


def _open_ours(case: dict[str, Any], folder: str) -> Callable[[], _Batches]:
    import torchrec_io as tio  # noqa: PLC0415

    augment = tio.RandomResizedCrop(**_crop_options(case))
    image = tio.ImageFeature(
        size=(SIZE, SIZE), augment=augment, dtype="float32", mean=MEAN, std=STD, layout="CHW"
    )
    dataset = tio.TFRecordDataset(
        f"{case['url']}train*",
        {"image": image, "label": tio.FixedLenFeature([], "int64")},
        batch_size=BATCH,
        shuffle=tio.Shuffle(block=40, window=640),  # blocks of 4 MiB
        num_threads=case["workers"],
        storage_options=case["config"],
        cache=tio.BlockCache(folder, max_bytes=1 << 40),
    )
    loader = tio.make_loader(dataset)
    return lambda: ((batch["image"], batch["label"]) for batch in loader)


# ---- other libraries ----


def _crop_options(case: dict[str, Any]) -> dict[str, Any]:
    """Return what is cut out at random; for a check the whole image, not mirrored."""
    if "grids" not in case:
        return {"scale": (0.08, 1.0), "ratio": (3 / 4, 4 / 3), "flip": 0.5}
    return {"scale": (1.0, 1.0), "ratio": (WIDTH / HEIGHT, WIDTH / HEIGHT), "flip": 0.0}


class _Collate:
    """Function that makes a batch of stored images and labels, in a worker process."""

    def __init__(self, case: dict[str, Any]) -> None:
        self._crop = _crop_options(case)

    def __call__(self, samples: list[dict[str, Any]]) -> tuple[torch.Tensor, torch.Tensor]:
        import simplejpeg  # noqa: PLC0415  # not in the environment of this library's own part

        images = torch.empty(len(samples), 3, SIZE, SIZE)
        for image, sample in zip(images, samples, strict=True):
            decoded = torch.from_numpy(simplejpeg.decode_jpeg(sample["image"]))
            image.copy_(self._cut_out(decoded.permute(2, 0, 1)))
        mean, std = (255 * torch.tensor(values).reshape(3, 1, 1) for values in (MEAN, STD))
        labels = torch.tensor([int(sample["label"]) for sample in samples])
        return images.sub_(mean).div_(std), labels

    def _cut_out(self, image: torch.Tensor) -> torch.Tensor:
        """Cut a part out at random as ``torchvision.transforms.RandomResizedCrop`` does."""
        height, width = image.shape[1:]
        for _ in range(10):
            area = height * width * _uniform(*self._crop["scale"])
            ratio = math.exp(_uniform(*map(math.log, self._crop["ratio"])))
            columns, rows = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if columns <= width and rows <= height:
                left, top = _integer(width - columns + 1), _integer(height - rows + 1)
                image = image[:, top : top + rows, left : left + columns]
                break
        image = interpolate(image[None], (SIZE, SIZE), mode="bilinear", antialias=True)[0]
        return image.flip(-1) if _uniform(0, 1) < self._crop["flip"] else image


def _uniform(low: float, high: float) -> float:
    return low + (high - low) * torch.rand(()).item()


def _integer(end: int) -> int:
    return int(torch.randint(end, ()).item())


def _loader(
    case: dict[str, Any], dataset: Any, make: Callable[..., Any] = DataLoader
) -> Callable[[], _Batches]:
    workers = case["workers"]
    options = {"batch_size": BATCH, "num_workers": workers, "persistent_workers": True}
    loader = make(dataset, collate_fn=_Collate(case), **options)
    return lambda: loader


def _write_litdata(folder: str, samples: Iterable[dict[str, Any]]) -> None:
    # Of a chunk that two workers share, it reads the whole file for each sample.
    write_litdata(folder, samples, chunk_size=BATCH)


def _open_litdata(case: dict[str, Any], folder: str) -> Callable[[], _Batches]:
    from litdata import StreamingDataLoader  # noqa: PLC0415

    # It would decode a window of samples for each one of a shuffled chunk.
    os.environ["LITDATA_BATCH_DECODE"] = "0"
    dataset = open_litdata(case["url"], case["config"], folder, shuffle=True)
    return _loader(case, dataset, StreamingDataLoader)


def _write_mosaicml(folder: str, samples: Iterable[dict[str, Any]]) -> None:
    write_mosaicml(folder, samples, {"image": "bytes", "label": "int"})


def _open_mosaicml(case: dict[str, Any], folder: str) -> Callable[[], _Batches]:
    dataset = open_mosaicml(case["url"], folder, shuffle=True, batch_size=BATCH)
    return _loader(case, dataset)


def _write_webdataset(folder: str, samples: Iterable[dict[str, Any]]) -> None:
    import webdataset as wds  # noqa: PLC0415

    writers = [wds.TarWriter(f"{folder}/train-{number:03}.tar") for number in range(_SHARDS)]
    for sample in samples:
        number = sample["label"]
        files = {"jpg": sample["image"], "cls": number}
        writers[number % _SHARDS].write({"__key__": f"{number:08}", **files})
    for writer in writers:
        writer.close()


def _open_webdataset(case: dict[str, Any], folder: str) -> Callable[[], _Batches]:
    import webdataset as wds  # noqa: PLC0415

    config = case["config"]
    user = f"{config['access_key_id']}:{config['secret_access_key']}"
    curl = f"curl -s -f --aws-sigv4 aws:amz:{config['region']}:s3 --user {user}"
    prefix = case["url"].replace("s3:/", config["endpoint"])
    urls = [f"pipe:{curl} {prefix}train-{number:03}.tar" for number in range(_SHARDS)]
    samples = wds.WebDataset(urls, shardshuffle=_SHARDS, cache_dir=folder).shuffle(1000)
    return _loader(case, samples.rename(image="jpg", label="cls"))


_LIBRARIES: dict[str, tuple[Callable[..., None], Callable[..., Callable[[], _Batches]]]] = {
    "ours": (_write_ours, _open_ours),
    "litdata": (_write_litdata, _open_litdata),
    "webdataset": (_write_webdataset, _open_webdataset),
    "mosaicml": (_write_mosaicml, _open_mosaicml),
}


if __name__ == "__main__":
    main()
