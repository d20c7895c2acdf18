"""States of datasets, as a checkpoint keeps them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import torchrec_io as tio


def through_json(state: Any) -> Any:
    """A state as a checkpoint keeps it: only what any format holds."""
    return json.loads(json.dumps(state))


def states_of(dataset: tio.TFRecordDataset) -> Iterator[tuple[int, dict[str, Any]]]:
    """The state before the first item and behind each one, with the items given so far."""
    iterator = iter(dataset)
    yield 0, through_json(dataset.state_dict())
    for count, _ in enumerate(iterator, 1):
        yield count, through_json(dataset.state_dict())
