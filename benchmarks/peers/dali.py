"""NVIDIA DALI without a GPU: ``fn.readers.tfrecord``, on as many threads as there are cores."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from nvidia.dali import fn, pipeline_def, types
from nvidia.dali import tfrecord as tfrec

from benchmarks.common import walk_frames
from benchmarks.peers.base import Batch, Epochs, Peer
from benchmarks.workloads import Column, Workload

_TYPES = {"int64": (tfrec.int64, 0), "float32": (tfrec.float32, 0.0)}
_READER = "reader"


class _Dali(Peer):
    def supports(self, workload: Workload, workers: int) -> str | None:
        if workload.is_sequence:
            return "does not read SequenceExamples"
        if workload.compression:
            return "does not read compressed files"
        return "uses threads, not worker processes" if workers else None

    def prepare(self, workload: Workload) -> None:
        """Write text indexes like those of tfrecord2idx: offset and size of each frame."""
        for file in workload.files:
            ends = [*walk_frames(file), os.path.getsize(file)]
            with open(_index_of(file), "w", encoding="ascii") as out:
                out.writelines(f"{a} {b - a}\n" for a, b in itertools.pairwise(ends))

    def batches(self, workload: Workload, workers: int) -> Iterable[Batch]:
        del workers
        return Epochs(partial(_epoch, workload))


def _epoch(workload: Workload) -> Iterator[Batch]:
    pipeline = _pipeline(workload)
    left = pipeline.epoch_size(_READER)
    while left > 0:
        outputs = pipeline.run()
        count = min(left, workload.batch_size)  # the last batch is padded
        left -= count
        yield {
            name: _column(output, column, count)
            for (name, column), output in zip(workload.columns.items(), outputs, strict=True)
        }


def _pipeline(workload: Workload) -> Any:
    @pipeline_def(  # type: ignore[untyped-decorator]  # has no types
        batch_size=workload.batch_size,
        num_threads=os.cpu_count(),
        device_id=None,
        prefetch_queue_depth=2,
    )
    def define() -> tuple[Any, ...]:
        features = {name: _feature(column) for name, column in workload.columns.items()}
        read = fn.readers.tfrecord(
            path=workload.files,
            index_path=[_index_of(file) for file in workload.files],
            features=features,
            name=_READER,
        )
        return tuple(_decoded(read[name], column) for name, column in workload.columns.items())

    pipeline = define()
    pipeline.build()
    return pipeline


def _feature(column: Column) -> Any:
    dtype, default = _TYPES.get(column.kind, (tfrec.string, ""))
    if column.shape is None:
        return tfrec.VarLenFeature(dtype, default)
    shape = list(column.shape) if column.kind in _TYPES else []
    return tfrec.FixedLenFeature(shape, dtype, default)


def _decoded(stored: Any, column: Column) -> Any:
    if column.kind == "raw":
        return fn.reshape(stored, shape=list(column.shape or ()))
    if column.kind == "jpeg":
        return fn.decoders.image(stored, device="cpu", output_type=types.RGB)
    return stored


def _column(output: Any, column: Column, count: int) -> Any:
    if column.kind == "string":
        return [np.asarray(output[i]).tobytes() for i in range(count)]
    if column.shape is not None:
        values = torch.from_numpy(output.as_array()[:count])
        return values if column.shape else values.reshape(-1)
    rows = [np.asarray(output[i]) for i in range(count)]
    splits = np.zeros(count + 1, np.int64)
    np.cumsum([len(row) for row in rows], out=splits[1:])
    return torch.from_numpy(np.concatenate(rows)), torch.from_numpy(splits)


def _index_of(file: str) -> str:
    return file + ".dali-index"


PEERS: list[Peer] = [_Dali("NVIDIA DALI (CPU)")]
