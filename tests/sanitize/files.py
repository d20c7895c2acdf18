"""The data files of the scenarios."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

import torchrec_io as tio
from tests.support import every_kind
from tests.support.datasets import write_files
from tests.support.tfrecord import write_tfrecord

SIZES = [300, 200, 100]
COUNT = sum(SIZES)
WIDTH = 1000


@dataclass(frozen=True)
class Files:
    """Paths of data files.

    Attributes:
        folder: Folder for files that a scenario writes.
        small: Files of records that :data:`tests.support.datasets.SCHEMA` reads.
        compressed: The same records, in gzip files.
        wide: File of records with :data:`WIDTH` numbers. The batches have large arenas, which the
            core reuses.
        kinds: File of records that :data:`tests.support.every_kind.SCHEMA` reads.
    """

    folder: Path
    small: list[str]
    compressed: list[str]
    wide: str
    kinds: str


def write_all(folder: Path) -> Files:
    """Write the data files of all scenarios, or find those that were written before."""
    paths = [folder / name for name in ("small", "gzip", "wide", "kinds")]
    is_new = not all(path.exists() for path in paths)
    for path in paths[:2]:
        path.mkdir(exist_ok=True)
    if is_new:
        write_files(paths[0], SIZES)
        write_files(paths[1], SIZES, "gzip")
        write_tfrecord(paths[2], wide_records(COUNT))
        write_tfrecord(paths[3], [every_kind.record(i) for i in range(60)])
    small, compressed = (sorted(str(file) for file in path.iterdir()) for path in paths[:2])
    return Files(folder, small, compressed, str(paths[2]), str(paths[3]))


def wide_records(count: int) -> list[bytes]:
    """Encode records of :data:`WIDTH` numbers, which are all equal to the id."""
    values = [np.full(WIDTH, i, np.float32) for i in range(count)]
    return tio.encode_examples([{"id": i, "values": row} for i, row in enumerate(values)])
