"""Small datasets with predictable records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torchrec_io as tio
from tests.support.messages import Example
from tests.support.tfrecord import write_tfrecord

SCHEMA = {
    "id": tio.FixedLenFeature([], "int64"),
    "name": tio.FixedLenFeature([], "string"),
    "tokens": tio.VarLenFeature("int64"),
}


def record(number: int) -> bytes:
    """Return an Example whose values are computed from its number."""
    example = Example()
    features = example.features.feature
    features["id"].int64_list.value.append(number)
    features["name"].bytes_list.value.append(f"record {number}".encode())
    features["tokens"].int64_list.value.extend(range(number % 5))
    data: bytes = example.SerializeToString()
    return data


def write_files(folder: Path, sizes: list[int], compression: str | None = None) -> list[str]:
    """Write files with the given numbers of records, numbered across files."""
    paths = []
    first = 0
    for number, size in enumerate(sizes):
        path = folder / f"data-{number:05}-of-{len(sizes):05}"
        write_tfrecord(path, [record(first + i) for i in range(size)], compression)
        first += size
        paths.append(str(path))
    return paths


def ids_of(items: Any) -> list[Any]:
    """Return the ids of each batch or sample."""
    return [item["id"].tolist() for item in items]


def numbers_of(items: Any) -> list[int]:
    """Return the ids of all records of batches or samples, in one list."""
    return [number for item in items for number in item["id"].reshape(-1).tolist()]


def open_records(paths: Any, schema: Any = SCHEMA, *, stream: bool = False, **options: Any) -> Any:
    """Return a dataset or a stream of files."""
    open_as: Any = tio.TFRecordStream if stream else tio.TFRecordDataset
    return open_as(paths, schema, **options)
