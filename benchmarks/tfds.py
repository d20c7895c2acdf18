"""Cost of reading a TFDS directory, compared with the same files and a hand-written schema.

Reads decoded batches of the images of the JPEG workload. Then opens a directory of many shards in a
fresh process.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import torchrec_io as tio
from benchmarks.common import arguments, ensure_data, run_child, spread, table, tensorflow_python
from benchmarks.workloads import WORKLOADS, data_dir

_BATCH_SIZE = WORKLOADS["jpeg"].batch_size
_SHARDS = 1_000
_RECORDS_OF_A_SHARD = 100

_MOST_RATIO = 1.03
_MOST_OPENING_S = 0.5

_CORE = "tensorflow_datasets.core.features"
_IMAGES = {
    "image": {
        "pythonClassName": f"{_CORE}.image_feature.Image",
        "image": {
            "shape": {"dimensions": ["224", "224", "3"]},
            "dtype": "uint8",
            "encodingFormat": "jpeg",
        },
    },
    "label": {
        "pythonClassName": f"{_CORE}.class_label_feature.ClassLabel",
        "classLabel": {"numClasses": "1000"},
    },
    "number": {
        "pythonClassName": f"{_CORE}.tensor_feature.Tensor",
        "tensor": {"shape": {}, "dtype": "int64", "encoding": "none"},
    },
}
_NUMBERS = {"number": _IMAGES["number"]}


# ---- directories ----


def _write_json(folder: Path, features: dict[str, Any], lengths: Sequence[int], size: int) -> None:
    """Write the JSON files that TFDS stores with the shards of a split ``train``."""
    connectors = {
        "pythonClassName": f"{_CORE}.features_dict.FeaturesDict",
        "featuresDict": {"features": features},
    }
    split = {
        "name": "train",
        "shardLengths": [str(length) for length in lengths],
        "numBytes": str(size),
        "filepathTemplate": "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
    }
    info = {"name": "bench", "version": "1.0.0", "fileFormat": "tfrecord", "splits": [split]}
    (folder / "features.json").write_text(json.dumps(connectors))
    (folder / "dataset_info.json").write_text(json.dumps(info))


def _shard(folder: Path, number: int, shards: int) -> Path:
    return folder / f"bench-train.tfrecord-{number:05}-of-{shards:05}"


def _make_images(folder: Path) -> None:
    """Link the files of the JPEG workload under the names of shards."""
    lengths, size = [], 0
    files = WORKLOADS["jpeg"].files
    for number, path in enumerate(files):
        os.link(path, _shard(folder, number, len(files)))
        lengths.append(len(tio.RecordIndex.build(path)))
        size += os.path.getsize(path) - 16 * lengths[-1]
    _write_json(folder, _IMAGES, lengths, size)


def _make_shards(folder: Path) -> None:
    """Write many shards of a few records each."""
    for number in range(_SHARDS):
        with tio.TFRecordWriter(_shard(folder, number, _SHARDS)) as writer:
            for record in range(_RECORDS_OF_A_SHARD):
                writer.write({"number": number * _RECORDS_OF_A_SHARD + record})
    total = sum(path.stat().st_size for path in folder.iterdir())
    frames = 16 * _SHARDS * _RECORDS_OF_A_SHARD
    _write_json(folder, _NUMBERS, [_RECORDS_OF_A_SHARD] * _SHARDS, total - frames)


# ---- an epoch of images ----


def _epoch(dataset: tio.TFRecordDataset) -> tuple[float, float]:
    """Return the CPU and wall seconds of an epoch."""
    gc.collect()
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in dataset:
        pass
    return time.process_time() - cpu, time.perf_counter() - wall


def _assert_equal(one: tio.TFRecordDataset, other: tio.TFRecordDataset) -> None:
    """Compare all values of two datasets. This also builds the indexes."""
    for left, right in zip(one, other, strict=True):
        assert list(left) == list(right)
        for name in left:
            assert torch.equal(left[name], right[name])


def _reading(folder: Path, rounds: int) -> list[list[object]]:
    """Return the rows of the table of epochs."""
    images = tio.ImageFeature(size=(224, 224), layout="HWC")
    number = tio.FixedLenFeature([], "int64")
    by_hand = {"image": images, "label": number, "number": number}
    files = sorted(map(str, folder.glob("*.tfrecord-*")))
    options: Any = {"batch_size": _BATCH_SIZE}
    datasets = {
        "hand-written schema": tio.TFRecordDataset(files, by_hand, **options),
        "`from_tfds`": tio.TFRecordDataset.from_tfds(folder, "train", **options),
    }
    _assert_equal(*datasets.values())
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in datasets}
    for turn in range(rounds):
        # Reverse the order in every second round.
        for name in list(datasets) if turn % 2 else list(datasets)[::-1]:
            found[name].append(_epoch(datasets[name]))
    records = datasets["`from_tfds`"].num_records
    base = found["hand-written schema"]
    rows: list[list[object]] = []
    for name, times in found.items():
        ratios = [
            [mine[kind] / theirs[kind] for mine, theirs in zip(times, base, strict=True)]
            for kind in (0, 1)
        ]
        rows.append(
            [
                name,
                spread([records / cpu for cpu, _ in times], 0),
                spread([records / wall for _, wall in times], 0),
                *(["", ""] if times is base else map(spread, ratios)),
                f"< {_MOST_RATIO}" if name == "`from_tfds`" else "",
            ]
        )
    return [*rows, _theirs(folder, records, rounds)]


def _theirs(folder: Path, records: int, rounds: int) -> list[object]:
    """Return the row of TFDS itself."""
    try:
        times = run_child(
            "peer_tfds", str(folder), str(_BATCH_SIZE), str(rounds), python=tensorflow_python()
        )
    except RuntimeError as error:
        return [
            f"TFDS does not run here: {str(error).splitlines()[-1]}",
            "",
            "",
            "",
            "",
            "",
        ]
    cpu = spread([records / cpu for cpu, _ in times], 0)
    return [
        "TFDS, `as_dataset(batch_size=...)`",
        cpu,
        spread([records / s for _, s in times], 0),
        "",
        "",
        "",
    ]


# ---- opening many shards ----


def _open(folder: str) -> dict[str, float]:
    """Return the seconds to open a directory, and to its first batch."""
    from_tfds = tio.TFRecordDataset.from_tfds  # imported before the clock starts
    start = time.perf_counter()
    dataset = from_tfds(folder, "train", batch_size=_BATCH_SIZE)
    opened = time.perf_counter()
    batch = next(iter(dataset))
    end = time.perf_counter()
    assert batch["number"].tolist() == list(range(_BATCH_SIZE))
    assert dataset.num_records == _SHARDS * _RECORDS_OF_A_SHARD
    return {"open": opened - start, "first": end - opened}


def _opening(folder: Path, rounds: int) -> list[list[object]]:
    """Return the rows of the table of opening times."""
    found: dict[str, list[dict[str, float]]] = {"first run": [], "later run": []}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            for of in found.values():
                of.append(run_child("tfds", "--open", str(folder), TORCHREC_IO_CACHE=cache))
    return [
        [
            f"{_SHARDS:,} shards, {name}",
            spread([run["open"] for run in runs], 3),
            f"< {_MOST_OPENING_S}",
            f"{statistics.median(run['first'] for run in runs):.3f}",
        ]
        for name, runs in found.items()
    ]


def main() -> None:
    """Print the tables."""
    parser = arguments(__doc__)
    parser.add_argument("--open", help="open this directory and print the seconds as JSON")
    args = parser.parse_args()
    if args.open:
        print(json.dumps(_open(args.open)))
        return
    ensure_data(["jpeg"], args.scale)
    with tempfile.TemporaryDirectory(dir=data_dir()) as folder:
        _make_images(Path(folder))
        relative = "relative to the hand-written schema"
        headers = ["Reader", "Images per CPU-second", "Images/s", f"CPU time {relative}"]
        headers += [f"Wall time {relative}", "Target"]
        print(table(headers, _reading(Path(folder), args.rounds)), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        _make_shards(Path(folder))
        headers = ["Directory", "Opening, s", "Target", "First batch after opening, s"]
        print("\n" + table(headers, _opening(Path(folder), args.rounds)))


if __name__ == "__main__":
    main()
