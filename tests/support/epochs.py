"""Loops over epochs that are left at random places, with random delays in loops and workers."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torchrec_io as tio
from tests.support.tfrecord import write_tfrecord

BATCHES = 6
COUNT = 2 * BATCHES


def write_numbers(folder: Path) -> str:
    """Write the numbers that :func:`slow_int` parses."""
    return str(write_tfrecord(folder / "numbers", [b"%d" % number for number in range(COUNT)]))


def slow_int(record: bytes) -> int:
    """Parse a number, after a delay."""
    pause()
    return int(record)


def pause() -> None:
    """Wait for a random time, which is often none."""
    time.sleep(max(0.0, random.random() - 0.5) * 0.004)


def open_numbers(path: str, **options: Any) -> tio.TFRecordDataset:
    """Return a shuffled dataset of batches."""
    return tio.TFRecordDataset(path, slow_int, **{"batch_size": 2, "shuffle": True, **options})


def items_of_epochs(dataset: Any, first: int = 0, count: int = 60) -> list[list[Any]]:
    """Return the items of each epoch, which is set explicitly."""
    found = []
    for epoch in range(first, first + count):
        dataset.set_epoch(epoch)
        found.append(list(dataset))
    return found


def take(loader: Iterable[Any], count: int | None) -> list[Any]:
    """Take items of a loop that is then left; None takes all and asks for more."""
    found = []
    for item in itertools.islice(loader, count):
        found.append(item)
        pause()
    return found


def check_nothing_is_left(
    make: Callable[[], Any], state: dict[str, Any], following: list[Any]
) -> None:
    """Check that nothing is left of epoch 0 if it is set beside a state at its end.

    Args:
        make: Makes a dataset or loader.
        state: The state.
        following: Items of the next epoch.
    """
    for is_set_first in (False, True):
        other = make()
        if is_set_first:
            other.set_epoch(0)
        other.load_state_dict(state)
        if not is_set_first:
            other.set_epoch(0)
        assert list(other) == []
        assert list(other) == following


def follow(
    loader: Iterable[Any], epochs: list[list[Any]], counts: Iterable[int | None], step: int = 1
) -> int:
    """Run loops that take some items each; return the epoch that comes next.

    Args:
        loader: What is iterated.
        epochs: The items of the iteration that starts with each epoch.
        counts: Number of items that each loop takes; None takes all and asks for more.
        step: Number of epochs of an iteration.

    Raises:
        AssertionError: If an iteration has not the items of its epoch.
    """
    epoch = 0
    for number, count in enumerate(counts):
        expected = epochs[epoch]
        assert take(loader, count) == expected[:count], (number, epoch, count)
        if count is None or count >= len(expected):
            epoch += step
    return epoch
