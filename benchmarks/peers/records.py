"""Batching code that users write when a library reads records but makes no batches."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from benchmarks.peers.base import Batch
from benchmarks.workloads import Column, Workload

# Protobuf's message classes, created at run time. Nothing else of this library is loaded.
from torchrec_io.messages import Example, SequenceExample

# Numbers, arrays or bytes, by name.
Sample = dict[str, Any]

_FIELDS = {"int64": "int64_list", "float32": "float_list"}
_DTYPES = {"int64": np.int64, "float32": np.float32, "raw": np.uint8, "jpeg": np.uint8}


def decoder(workload: Workload, *, finished: bool = True) -> Callable[[bytes], Sample]:
    """Return a function that decodes a record with protobuf.

    Args:
        workload: Workload of the records.
        finished: Whether to decode images. Otherwise samples contain JPEG bytes.
    """
    fields = [
        (name, _FIELDS.get(column.kind, "bytes_list"), column)
        for name, column in workload.columns.items()
    ]
    finish = finisher(workload, ("raw", "jpeg") if finished else ("raw",))

    def decode_example(record: bytes) -> Sample:
        feature = Example.FromString(record).features.feature
        sample = {}
        for name, field, column in fields:
            values = getattr(feature[name], field).value
            is_one = column.shape == () or field == "bytes_list"
            sample[name] = values[0] if is_one else np.array(values, _DTYPES[column.kind])
        return finish(sample)

    def decode_sequence(record: bytes) -> Sample:
        message = SequenceExample.FromString(record)
        sample = {}
        for name, field, column in fields:
            if not column.in_lists:
                sample[name] = getattr(message.context.feature[name], field).value[0]
                continue
            steps = message.feature_lists.feature_list[name].feature
            values = [getattr(step, field).value[0] for step in steps]
            sample[name] = np.array(values, _DTYPES[column.kind])
        return sample

    return decode_sequence if workload.is_sequence else decode_example


def finisher(
    workload: Workload, kinds: Sequence[str] = ("raw", "jpeg")
) -> Callable[[Sample], Sample]:
    """Return a function that converts bytes of raw arrays and images to arrays, in place."""
    columns = {name: column for name, column in workload.columns.items() if column.kind in kinds}

    def finish(sample: Sample) -> Sample:
        for name, column in columns.items():
            sample[name] = to_array(sample[name], column)
        return sample

    return finish


def to_array(stored: bytes, column: Column) -> Any:
    """Convert the bytes of a raw array or an image to an array."""
    if column.kind == "jpeg":
        return np.asarray(Image.open(io.BytesIO(stored)).convert("RGB"))
    return np.frombuffer(stored, np.uint8).reshape(column.shape or ())


def collate(workload: Workload, samples: list[Sample]) -> dict[str, Any]:
    """Return a batch: a tensor, (values, row splits), or a list of bytes for each column."""
    return {
        name: _column([sample[name] for sample in samples], column)
        for name, column in workload.columns.items()
    }


def _column(values: list[Any], column: Column) -> Any:
    if column.kind == "string":
        return values
    if column.shape is None:
        splits = np.zeros(len(values) + 1, np.int64)
        np.cumsum([len(value) for value in values], out=splits[1:])
        return torch.from_numpy(np.concatenate(values)), torch.from_numpy(splits)
    if column.shape or isinstance(values[0], np.ndarray):
        join = np.stack if column.shape else np.concatenate
        return torch.from_numpy(join(values))
    return torch.from_numpy(np.array(values, _DTYPES[column.kind]))


def loader(workload: Workload, dataset: Dataset[Any], workers: int) -> Iterable[Batch]:
    """Return a DataLoader of samples."""
    return DataLoader(
        dataset,
        batch_size=workload.batch_size,
        num_workers=workers,
        collate_fn=partial(collate, workload),
    )


class OfFiles(IterableDataset[Sample]):
    """Samples of files. Each worker of a DataLoader reads some of the files."""

    def __init__(self, files: list[str], read: Callable[[str], Iterable[Sample]]) -> None:
        self._files = files
        self._read = read

    def __iter__(self) -> Iterator[Sample]:
        info = get_worker_info()
        files = self._files if info is None else self._files[info.id :: info.num_workers]
        for file in files:
            yield from self._read(file)
