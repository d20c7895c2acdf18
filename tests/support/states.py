"""States of datasets, as a checkpoint stores them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import torchrec_io as tio
from tests.support.datasets import ids_of


def through_json(state: Any) -> Any:
    """Convert a state to JSON and back, as a checkpoint may."""
    return json.loads(json.dumps(state))


def rest_of(whole: list[Any], following: list[Any], given: int) -> list[Any]:
    """Return what comes after some items of an iteration: its rest, or the next one at its end."""
    return whole[given:] or following


def iterations_of(dataset: Any, count: int, epoch: int = 0) -> list[list[Any]]:
    """Return the ids of the items of successive iterations, of which the first has an epoch."""
    dataset.set_epoch(epoch)
    return [ids_of(dataset) for _ in range(count)]


def states_of(dataset: tio.TFRecordDataset) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the state before the first and after each item, with the number of items so far."""
    iterator = iter(dataset)
    yield 0, through_json(dataset.state_dict())
    for count, _ in enumerate(iterator, 1):
        yield count, through_json(dataset.state_dict())
