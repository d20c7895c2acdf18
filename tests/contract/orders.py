"""Orders of records, and runs that are resumed, as ``orders.json`` has them.

``python -m tests.contract.orders`` writes that file again, for a change of the order or of states
that is intended, and is in the changelog.
"""

from __future__ import annotations

import collections
import hashlib
import itertools
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torchrec_io as tio
from tests.support.datasets import open_records, write_files

FILE = Path(__file__).with_name("orders.json")
SIZES = [30, 0, 21, 16]
# Identity of the files in states, which depends on their bytes.
NO_FILES: Any = collections.defaultdict(lambda: NO_FILES, files="")
_STEPS = 3  # after which a run is resumed

_BLOCKS = tio.Shuffle(block=6, window=18)
_LANES = tio.Shuffle(block=6, window=18, lanes=3)
_WEIGHTS = [number % 4 for number in range(sum(SIZES))]
_DRAWS = tio.Shuffle(weights=_WEIGHTS, num_samples=50)
_ALL_DRAWS = tio.Shuffle(weights=_WEIGHTS, replacement=False)
_PACK = tio.Pack(8, key="tokens", window=20)
_CHUNKS = tio.Pack(8, key="tokens", mode="chunk")
_TOKENS: dict[str, Any] = {"batch_tokens": 12, "length_key": "tokens", "shuffle": True}
_ROWS: dict[str, Any] = {"batch_size": 2, "shuffle": True, "on_error": "skip"}
_RAMP = tio.Ramp({0: 6, 2: 12, 9: 8})
CASES: dict[str, dict[str, Any]] = {
    "stored": {},
    "shuffled": {"shuffle": True, "seed": 5},
    "blocks": {"shuffle": _BLOCKS},
    "lanes": {"shuffle": _LANES, "batch_size": 3},
    "draws": {"shuffle": _DRAWS, "batch_size": 4},
    "draws of each record": {"shuffle": _ALL_DRAWS, "seed": 3},
    "batches": {"shuffle": True, "batch_size": 5},
    "whole batches": {"shuffle": True, "batch_size": 5, "drop_last": True},
    "two epochs": {"shuffle": True, "batch_size": 7, "epochs": 2},
    "ramp": {"shuffle": True, "batch_size": tio.Ramp({0: 3, 2: 7, 9: 4}), "epochs": 2},
    "ramp of tokens": {"batch_tokens": _RAMP, "length_key": "tokens", "shuffle": True, "epochs": 2},
    "ramp of lengths": {"pack": tio.Pack(_RAMP, "tokens", window=20), **_ROWS, "epochs": 2},
    "ramp of chunks": {"pack": tio.Pack(_RAMP, "tokens", mode="chunk"), **_ROWS, "epochs": 2},
    "ramp in virtual epochs": {
        "pack": tio.Pack(_RAMP, "tokens", window=20),
        **_ROWS,
        "steps_per_epoch": 3,
        "epochs": 3,
    },
    "virtual epochs": {"shuffle": True, "batch_size": 5, "steps_per_epoch": 6},
    "slice": {"split": "[25%:75%]", "shuffle": True},
    "tokens": _TOKENS,
    "packed": {"pack": _PACK, **_ROWS},
    "packed chunks": {"pack": _CHUNKS, **_ROWS},
    "virtual epochs of tokens": {**_TOKENS, "steps_per_epoch": 4},
    "virtual epochs of rows": {"pack": _PACK, **_ROWS, "steps_per_epoch": 4},
    "mixed": {"mix": [0.7, 0.3], "batch_size": 4, "on_error": "raise"},
    "mixed rows": {"mix": [0.7, 0.3], "rows": _PACK, "batch_size": 2},
    "stream": {"stream": True, "shuffle": 10, "seed": 2},
    "stream of batches": {"stream": True, "batch_size": 4},
}
WORLDS: list[tuple[int, str]] = [(1, "keep"), (3, "keep"), (3, "drop"), (3, "pad")]


def open_case(paths: list[str], name: str, world: tuple[int, str], rank: int = 0) -> Any:
    """Return the dataset of a case."""
    options = dict(CASES[name])
    layout: dict[str, Any] = {"rank": rank, "world_size": world[0], "uneven": world[1]}
    if (weights := options.pop("mix", None)) is not None:
        own: dict[str, Any] = {
            "pack": options.pop("rows", None),
            "on_error": "skip",
            "shuffle": True,
        }
        parts = [open_records(paths, split=split, **own) for split in ("[:50%]", "[50%:]")]
        return tio.mix(parts, weights=weights, **layout, **options)
    return open_records(paths, **layout, **options)


def has_case(name: str, world: tuple[int, str]) -> bool:
    """Return whether a case has a layout of ranks."""
    is_limited = name.startswith("ramp ")  # no repeated units
    no_ranks = CASES[name].get("stream")
    return world[1] == "keep" or not (no_ranks or (is_limited and world[1] == "pad"))


def content(item: Any) -> Any:
    """Return what identifies a sample or batch."""
    return item["tokens" if "id" not in item else "id"].tolist()


def with_files(state: Any, other: Any) -> Any:
    """Return a state with the identity of other files, and nothing else of the other state."""
    if not isinstance(state, dict):
        return state
    return {
        name: other[name]
        if name == "files"
        else with_files(value, other[name] if isinstance(value, dict) else None)
        for name, value in state.items()
    }


def digest(items: list[Any]) -> str:
    return hashlib.blake2b(json.dumps(items).encode(), digest_size=8).hexdigest()


def describe(paths: list[str], name: str, world: tuple[int, str]) -> dict[str, Any]:
    """Return the orders of two iterations of each rank, and how a run of it resumes."""
    orders, rests = [], []
    for rank in range(world[0]):
        dataset = open_case(paths, name, world, rank)
        orders.append([digest([content(item) for item in dataset]) for _ in range(2)])
        dataset.set_epoch(1)
        begun = iter(dataset)
        taken = [content(item) for item in itertools.islice(begun, _STEPS)]
        state = dataset.state_dict()
        del begun
        shown = with_files(state, NO_FILES)
        rests.append([digest(taken), shown, *resume(paths, name, world, rank, state)])
    return {"orders": orders, "resumed": rests}


def resume(
    paths: list[str], name: str, world: tuple[int, str], rank: int, state: dict[str, Any]
) -> list[str]:
    """Return the rest of a run that is resumed, and the next iteration."""
    dataset = open_case(paths, name, world, rank)
    dataset.load_state_dict(with_files(state, dataset.state_dict()))
    return [digest([content(item) for item in dataset]) for _ in range(2)]


def keys() -> Iterator[tuple[str, tuple[int, str]]]:
    return ((name, world) for name in CASES for world in WORLDS if has_case(name, world))


def key_of(name: str, world: tuple[int, str]) -> str:
    return f"{name}, {world[0]} {world[1]}"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        paths = write_files(Path(folder), SIZES)
        found = {key_of(name, world): describe(paths, name, world) for name, world in keys()}
    FILE.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
