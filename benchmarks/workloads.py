"""Data sets of the benchmarks: contents, sizes and files.

Uses only the standard library, because TensorFlow's processes import this module too.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
BATCH_SIZE = 256


class Column(NamedTuple):
    """A feature of each record.

    Attributes:
        kind: "int64", "float32" or "string"; "raw" for a uint8 array stored as bytes; "jpeg" for a
            JPEG image that is decoded to uint8 ``[height, width, channels]``.
        shape: Shape of one record's value. None for a list of any length.
        in_lists: Whether the feature is a feature list of a SequenceExample, with one value per
            step.
    """

    kind: Any
    shape: tuple[int, ...] | None = ()
    in_lists: bool = False


@dataclass(frozen=True)
class Workload:
    """A data set.

    Attributes:
        name: Name of the data set and its folder.
        records: Number of records at scale 1.
        shards: Number of files.
        columns: Features of each record. The first has one value in each record.
        title: What a record holds, for the plot.
        compression: Compression of the files: "" or "GZIP".
        batch_size: Number of records in a batch.
    """

    name: str
    records: int
    shards: int
    columns: dict[str, Column]
    title: str
    compression: str = ""
    batch_size: int = BATCH_SIZE

    @property
    def folder(self) -> Path:
        """Folder of the files."""
        return data_dir() / self.name

    @property
    def files(self) -> list[str]:
        """Paths of the files, in order."""
        return [str(self.folder / self._shard_name(shard)) for shard in range(self.shards)]

    @property
    def is_sequence(self) -> bool:
        """Whether the records are SequenceExamples."""
        return any(column.in_lists for column in self.columns.values())

    def is_made(self, scale: float) -> bool:
        """Return whether the files exist at this scale."""
        try:
            return bool(json.loads(self._info.read_text())["scale"] == scale)
        except FileNotFoundError:
            return False

    def mark_made(self, scale: float) -> None:
        """Record that the files exist at this scale."""
        info = {"scale": scale, "records": int(self.records * scale)}
        self._info.write_text(json.dumps(info))

    @property
    def made_records(self) -> int:
        """Number of records in the files."""
        return int(json.loads(self._info.read_text())["records"])

    @property
    def _info(self) -> Path:
        return self.folder / "info.json"

    def _shard_name(self, shard: int) -> str:
        return f"{self.name}-{shard:05d}-of-{self.shards:05d}.tfrecord"


def data_dir() -> Path:
    """Return the folder of the data files: ``$BENCH_DATA``, or ``benchmarks/data``."""
    return Path(os.environ.get("BENCH_DATA") or ROOT / "benchmarks" / "data")


_SCALARS = {
    "label": Column("int64"),
    **{f"f{i}": Column("float32") for i in range(13)},
    **{f"c{i}": Column("int64") for i in range(26)},
}

WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        Workload("tabular", 500_000, 8, _SCALARS, title="40 scalars"),
        Workload(
            "mnist",
            200_000,
            4,
            {"label": Column("int64"), "image": Column("int64", (784,))},
            title="784 int64 (MNIST)",
        ),
        Workload(
            "image_raw",
            100_000,
            4,
            {
                "label": Column("int64"),
                "shape": Column("string"),
                "image": Column("raw", (64, 64, 3)),
            },
            title="64x64 images, raw",
        ),
        Workload(
            "jpeg",
            20_000,
            4,
            {
                "label": Column("int64"),
                "number": Column("int64"),
                "image": Column("jpeg", (224, 224, 3)),
            },
            title="224x224 JPEGs, decoded",
            batch_size=64,
        ),
        Workload(
            "embeddings",
            100_000,
            4,
            {"id": Column("string"), "vector": Column("float32", (768,))},
            title="768 floats",
        ),
        Workload(
            "ragged",
            200_000,
            4,
            {
                "label": Column("int64"),
                "tokens": Column("int64", None),
                "weights": Column("float32", None),
            },
            title="1 to 256 tokens",
        ),
        Workload(
            "sequence",
            200_000,
            4,
            {
                "length": Column("int64"),
                "tokens": Column("int64", None, in_lists=True),
                "labels": Column("int64", None, in_lists=True),
            },
            title="SequenceExamples",
        ),
        Workload("gzip", 200_000, 8, _SCALARS, title="40 scalars, gzip", compression="GZIP"),
    )
}
