"""Episodes for tests of steps: each value says which step of which episode it is of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torchrec_io as tio
from tests.support.examples import example_of
from tests.support.tfrecord import write_tfrecord

# No episode of a test has as many steps.
STRIDE = 1000

SCHEMA = {
    "episode": tio.FixedLenFeature([], "int64"),
    "steps/id": tio.VarLenFeature("int64"),
    "steps/text": tio.VarLenFeature("string"),
}


def episode(number: int, steps: int) -> bytes:
    """An Example of so many steps; step i has the id ``STRIDE * number + i``."""
    ids = [STRIDE * number + step for step in range(steps)]
    texts = [f"step {each}".encode() for each in ids]
    return uneven_episode(number, ids, texts)


def uneven_episode(number: int, ids: list[int], texts: list[bytes]) -> bytes:
    """An Example whose features may disagree in their number of steps."""
    values: dict[str, Any] = {"episode": [number], "steps/id": ids, "steps/text": texts}
    return example_of(**values)


def write_episodes(folder: Path, files: Sequence[Sequence[int]]) -> list[str]:
    """Files of episodes of so many steps each, numbered on from file to file."""
    paths = []
    first = 0
    for file, counts in enumerate(files):
        path = folder / f"episodes-{file:05}-of-{len(files):05}"
        write_tfrecord(path, [episode(first + i, count) for i, count in enumerate(counts)])
        first += len(counts)
        paths.append(str(path))
    return paths


def windows_of(files: Sequence[Sequence[int]], window: int) -> list[list[int]]:
    """The ids of each window of so many steps, in the order stored."""
    counts = [count for file in files for count in file]
    return [
        [STRIDE * number + begin + i for i in range(window)]
        for number, count in enumerate(counts)
        for begin in range(count - window + 1)
    ]


def steps_of(paths: list[str], window: int | None = None, **options: Any) -> tio.TFRecordDataset:
    """The steps of episodes, or windows of them, in batches of 4."""
    options = {"batch_size": 4, **options}
    return tio.TFRecordDataset(paths, SCHEMA, **options).steps(window=window)


def step_ids(batches: Iterable[Any]) -> list[Any]:
    """The id of each step, or the ids of each window."""
    return [each for batch in batches for each in batch["steps/id"].tolist()]
