"""What does skipping cost? Half of the records are refused by ``valid_range``."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import torchrec_io as tio
from benchmarks.common import arguments

_RECORDS = 100_000
_BATCH_SIZE = 256
_THREADS = (1, 2)


def main() -> None:
    """Measure each case and print the ratio of its speeds."""
    parsed = arguments(__doc__).parse_args()
    print("| Records | Threads | All records | Half skipped | Speed |")
    print("| --- | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        for name, (values, schema) in _cases(int(_RECORDS * parsed.scale)).items():
            path = str(Path(folder) / name)
            _write(path, values)
            whole = tio.TFRecordDataset(path, schema, batch_size=_BATCH_SIZE)
            valid = tio.FixedLenFeature([], "int64", valid_range=(0, 0))
            half = whole.replace(schema={**schema, "label": valid}, on_error="skip")
            _check(whole, half)
            for threads in _THREADS:
                _compare(name, whole, half, threads, parsed.rounds)


def _cases(count: int) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Return values and the schema of each case. Half of the labels are 0, at random."""
    random = np.random.default_rng(0)
    labels = random.permutation(np.arange(count) % 2)
    scalar = tio.FixedLenFeature([], "float32")
    scalars: dict[str, Any] = {f"x{i}": random.random(count, np.float32) for i in range(39)}
    label = tio.FixedLenFeature([], "int64")
    images = random.integers(0, 256, (count, 28, 28), np.uint8)
    stored = {"label": labels, "image": [image.tobytes() for image in images]}
    return {
        "40 scalars": (
            {"label": labels, **scalars},
            {"label": label} | dict.fromkeys(scalars, scalar),
        ),
        "images of 28x28": (stored, {"label": label, "image": tio.RawFeature("uint8", [28, 28])}),
    }


def _write(path: str, values: dict[str, Any]) -> None:
    with tio.TFRecordWriter(path) as writer:
        for row in zip(*values.values(), strict=True):
            writer.write(dict(zip(values, row, strict=True)))


def _check(whole: tio.TFRecordDataset, half: tio.TFRecordDataset) -> None:
    """Check that skipping yields the records that are valid, in their order."""
    expected, found = _rows(whole), _rows(half)
    is_valid = expected["label"] == 0
    assert half.skipped == len(is_valid) - is_valid.sum()
    for name, values in expected.items():
        assert np.array_equal(found[name], values[is_valid]), name


def _rows(dataset: tio.TFRecordDataset) -> dict[str, Any]:
    batches = list(dataset)
    return {name: np.concatenate([batch[name].numpy() for batch in batches]) for name in batches[0]}


def _compare(name: str, whole: Any, half: Any, threads: int, rounds: int) -> None:
    datasets = [each.replace(num_threads=threads) for each in (whole, half)]
    seconds = [[_seconds_of(dataset) for dataset in datasets] for _ in range(rounds)]
    all_, skipping = map(statistics.median, zip(*seconds, strict=True))
    print(f"| {name} | {threads} | {all_:.3f} s | {skipping:.3f} s | {all_ / skipping:.2f} |")


def _seconds_of(dataset: tio.TFRecordDataset) -> float:
    begin = time.perf_counter()
    for _ in dataset:
        pass
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
