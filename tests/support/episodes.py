"""Episodes for tests of steps. Each value identifies its episode and step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torchrec_io as tio
from tests.support.examples import example_of
from tests.support.tfrecord import write_tfrecord

# More than the number of steps of any episode in the tests.
STRIDE = 1000

SCHEMA = {
    "episode": tio.FixedLenFeature([], "int64"),
    "steps/id": tio.VarLenFeature("int64"),
    "steps/text": tio.VarLenFeature("string"),
}


def episode(number: int, steps: int) -> bytes:
    """Return an episode of some steps. Step i has the id ``STRIDE * number + i``."""
    ids = [STRIDE * number + step for step in range(steps)]
    texts = [f"step {each}".encode() for each in ids]
    return uneven_episode(number, ids, texts)


def uneven_episode(number: int, ids: list[int], texts: list[bytes]) -> bytes:
    """Return an episode whose features may have different numbers of steps."""
    values: dict[str, Any] = {"episode": [number], "steps/id": ids, "steps/text": texts}
    return example_of(**values)


def write_episodes(folder: Path, files: Sequence[Sequence[int]]) -> list[str]:
    """Write files of episodes with the given numbers of steps, numbered across files."""
    paths = []
    first = 0
    for file, counts in enumerate(files):
        path = folder / f"episodes-{file:05}-of-{len(files):05}"
        write_tfrecord(path, [episode(first + i, count) for i, count in enumerate(counts)])
        first += len(counts)
        paths.append(str(path))
    return paths


def windows_of(files: Sequence[Sequence[int]], window: int) -> list[list[int]]:
    """Return the step ids of each window of the given size, in stored order."""
    counts = [count for file in files for count in file]
    return [
        [STRIDE * number + begin + i for i in range(window)]
        for number, count in enumerate(counts)
        for begin in range(count - window + 1)
    ]


def steps_of(paths: list[str], window: int | None = None, **options: Any) -> tio.TFRecordDataset:
    """Return a dataset of steps, or windows of steps, in batches of 4."""
    options = {"batch_size": 4, **options}
    return tio.TFRecordDataset(paths, SCHEMA, **options).steps(range(window) if window else None)


def step_ids(batches: Iterable[Any]) -> list[Any]:
    """Return the id of each step, or the ids of each window."""
    return [each for batch in batches for each in batch["steps/id"].tolist()]
