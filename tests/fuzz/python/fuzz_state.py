"""Saved states of any content: the rest of the epoch, or an error.

Input: options (1 byte), a state as JSON.
"""

from __future__ import annotations

import contextlib
import functools
import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torchrec_io as tio
from tests.fuzz.python.inputs import cut_options
from tests.support.tfrecord import write_tfrecord
from torchrec_io.errors import StateMismatchError

_COUNT = 11
_MOST = 5 * _COUNT
_OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"shuffle": True, "batch_size": 3},
    {"shuffle": tio.Shuffle(block=2, window=4), "epochs": 2},
    {"batch_size": 2, "rank": 1, "world_size": 2, "uneven": "drop"},
    {
        "shuffle": tio.Shuffle(block=2, window=4, lanes=4),
        "rank": 1,
        "world_size": 2,
        "uneven": "drop",
    },
)


def check(data: bytes) -> None:
    (bits,), text = cut_options(data, 1)
    try:
        state = json.loads(text)
    except (ValueError, RecursionError):
        return
    number = bits % (len(_OPTIONS) + 1)
    dataset = _datasets()[number]
    dataset.set_epoch(0)
    try:
        dataset.load_state_dict(state)
        found = _take(dataset)
    except StateMismatchError as error:
        assert len(str(error)) < 10 * len(text) + 2000  # it may quote the state
        return
    assert set(state) >= {"version", "epoch", "order"}, "this is not a state"
    epochs = _OPTIONS[number].get("epochs", 1) if number < len(_OPTIONS) else 1
    assert _is_part(found, epochs), "records of no epoch, or too many"


def _take(dataset: Any) -> list[Any]:
    """Return the records of an iteration; a state may be in the middle of many epochs."""
    items = iter(dataset)
    found: list[bytes] = []
    with contextlib.closing(items) if hasattr(items, "close") else contextlib.nullcontext():
        for item in items:
            found += [bytes(item)] if isinstance(item, bytes | memoryview) else map(bytes, item)
            if len(found) > _MOST:
                break
    return found


def _is_part(found: list[bytes], epochs: int) -> bool:
    """Return whether these are records of the dataset, each at most once an epoch."""
    counts = Counter(found)
    return (
        set(counts) <= {b"%d" % n for n in range(_COUNT)}
        and max(counts.values(), default=0) <= epochs
    )


@functools.cache
def _datasets() -> list[Any]:
    folder = Path(tempfile.mkdtemp(prefix="torchrec_io-fuzz-"))
    path = write_tfrecord(folder / "data.tfrecord", [b"%d" % n for n in range(_COUNT)])
    made: list[Any] = [tio.TFRecordDataset(path, **options) for options in _OPTIONS]
    return [*made, tio.TFRecordStream(path)]


def seeds() -> Iterator[bytes]:
    for number, dataset in enumerate(_datasets()):
        dataset.set_epoch(0)
        items = iter(dataset)
        yield bytes([number]) + json.dumps(dataset.state_dict()).encode()
        for _ in range(2):
            next(items)
        yield bytes([number]) + json.dumps(dataset.state_dict()).encode()
        for _ in items:
            pass
        yield bytes([number]) + json.dumps(dataset.state_dict()).encode()
    yield b"\0[1]"
    yield b'\0{"version": 1}'
