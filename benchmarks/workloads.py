"""The data sets that are measured: what is in them, how much, and in which files.

Nothing but the standard library here: TensorFlow's processes import this module too.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
BATCH_SIZE = 256


class Column(NamedTuple):
    """A feature of each record.

    Attributes:
        kind: "int64", "float32" or "string"; "raw": an array of uint8, stored as bytes.
        shape: Of one record's value.
    """

    kind: str
    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class Workload:
    """A data set.

    Attributes:
        name: Of the data set and its folder.
        records: How many there are at scale 1.
        shards: Files they are spread over.
        columns: What each record holds.
        target: How many times TensorFlow's throughput is aimed at.
    """

    name: str
    records: int
    shards: int
    columns: dict[str, Column]
    target: float

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return data_dir() / self.name

    @property
    def files(self) -> list[str]:
        """Its files, in order."""
        return [str(self.folder / self._shard_name(shard)) for shard in range(self.shards)]

    def is_made(self, scale: float) -> bool:
        """Whether the files exist, at this scale."""
        try:
            return bool(json.loads(self._info.read_text()) == {"scale": scale})
        except FileNotFoundError:
            return False

    def mark_made(self, scale: float) -> None:
        """Notes that the files exist, at this scale."""
        self._info.write_text(json.dumps({"scale": scale}))

    def mark_unmade(self) -> None:
        """Takes that note away."""
        self._info.unlink(missing_ok=True)

    @property
    def _info(self) -> Path:
        return self.folder / "info.json"

    def _shard_name(self, shard: int) -> str:
        return f"{self.name}-{shard:05d}-of-{self.shards:05d}.tfrecord"


def data_dir() -> Path:
    """Where data files are kept: ``$BENCH_DATA``, else ``benchmarks/data``."""
    return Path(os.environ.get("BENCH_DATA") or ROOT / "benchmarks" / "data")


WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        Workload(
            "tabular",
            1_000_000,
            8,
            {
                "label": Column("int64"),
                **{f"f{i}": Column("float32") for i in range(13)},
                **{f"c{i}": Column("int64") for i in range(26)},
            },
            target=5.0,
        ),
        Workload(
            "mnist",
            200_000,
            4,
            {"label": Column("int64"), "image": Column("int64", (784,))},
            target=5.0,
        ),
        Workload(
            "image_raw",
            50_000,
            4,
            {
                "label": Column("int64"),
                "shape": Column("string"),
                "image": Column("raw", (64, 64, 3)),
            },
            target=3.0,
        ),
    )
}
