"""Cases of ``parse.py``: batches of 256 serialized records, and the specs of their features.

Uses only the standard library, because TensorFlow's process imports this module too.
"""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

BATCH_SIZE = 256


class Column(NamedTuple):
    """Spec of a feature: name of the class in both libraries, dtype, and shape if it has one."""

    spec: str
    dtype: Any
    shape: tuple[int, ...] = ()
    in_lists: bool = False


class Case(NamedTuple):
    """A batch to parse.

    Attributes:
        columns: Specs of the features, by name.
        target: Target speed, as a multiple of TensorFlow's.
    """

    columns: dict[str, Column]
    target: float

    @property
    def is_sequence(self) -> bool:
        """Whether the records are SequenceExamples."""
        return any(column.in_lists for column in self.columns.values())


_FIXED, _RAGGED, _STEPS = "FixedLenFeature", "RaggedFeature", "FixedLenSequenceFeature"

CASES: dict[str, Case] = {
    "tabular": Case(
        {
            **{f"i{k}": Column(_FIXED, "int64") for k in range(20)},
            **{f"f{k}": Column(_FIXED, "float32") for k in range(20)},
        },
        8.0,
    ),
    "mnist": Case(
        {"image": Column(_FIXED, "int64", (784,)), "label": Column(_FIXED, "int64")}, 8.0
    ),
    "ragged tokens": Case(
        {"tokens": Column(_RAGGED, "int64"), "weights": Column(_RAGGED, "float32")}, 5.0
    ),
    "ragged tokens, VarLen": Case(
        {"tokens": Column("VarLenFeature", "int64"), "weights": Column("VarLenFeature", "float32")},
        5.0,
    ),
    "sequence, padded": Case(
        {name: Column(_STEPS, "int64", (), in_lists=True) for name in ("tokens", "labels")}, 5.0
    ),
    "sequence, ragged": Case(
        {name: Column(_RAGGED, "int64", (), in_lists=True) for name in ("tokens", "labels")}, 5.0
    ),
    "embeddings": Case({"embedding": Column(_FIXED, "float32", (768,))}, 3.0),
}


def values_of(case: str) -> list[dict[str, Any]]:
    """Return the values of each record of a case. A sequence has a list with a value per step."""
    name = case.partition(",")[0]
    source = random.Random(name)  # noqa: S311  # not for secrets
    return [_MAKERS[name](source) for _ in range(BATCH_SIZE)]


def _tabular(source: random.Random) -> dict[str, Any]:
    ints = {f"i{k}": source.randrange(1000) for k in range(20)}
    return ints | {f"f{k}": source.random() for k in range(20)}


def _mnist(source: random.Random) -> dict[str, Any]:
    # As in MNIST, four of five pixels are zero.
    pixels = [source.randrange(256) if source.random() < 0.2 else 0 for _ in range(784)]
    return {"image": pixels, "label": source.randrange(10)}


def _tokens(source: random.Random) -> dict[str, Any]:
    count = source.randint(1, 256)
    return {
        "tokens": [source.randrange(30_000) for _ in range(count)],
        "weights": [source.random() for _ in range(count)],
    }


def _sequence(source: random.Random) -> dict[str, Any]:
    steps = source.randint(1, 64)
    return {
        "tokens": [source.randrange(30_000) for _ in range(steps)],
        "labels": [source.randrange(10) for _ in range(steps)],
    }


def _embedding(source: random.Random) -> dict[str, Any]:
    return {"embedding": [source.gauss(0, 1) for _ in range(768)]}


_MAKERS: dict[str, Callable[[random.Random], dict[str, Any]]] = {
    "tabular": _tabular,
    "mnist": _mnist,
    "ragged tokens": _tokens,
    "sequence": _sequence,
    "embeddings": _embedding,
}


def write_records(path: Path, records: list[bytes]) -> None:
    """Write records for the other process."""
    path.write_bytes(b"".join(struct.pack("<I", len(record)) + record for record in records))


def read_records(path: Path) -> list[bytes]:
    """Read records written by ``write_records``."""
    data = path.read_bytes()
    records = []
    at = 0
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at)
        records.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return records


def cpu_of(work: Callable[[], Any], repeats: int = 100) -> float:
    """Return the median CPU microseconds of a call, over all threads."""
    work()
    times = []
    for _ in range(repeats):
        start = time.process_time_ns()
        work()
        times.append((time.process_time_ns() - start) / 1000)
    return sorted(times)[repeats // 2]
