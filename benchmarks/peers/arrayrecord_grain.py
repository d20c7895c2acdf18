"""ArrayRecord files of the same serialized records, read with grain, decoded with protobuf."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from functools import partial
from typing import Any

import grain
import torch
from absl import flags
from array_record.python.array_record_module import ArrayRecordWriter

from benchmarks.peers.base import Batch, HostBatch, Peer
from benchmarks.peers.own_format import copy_once, folder_of, records_of
from benchmarks.peers.records import collate, decoder
from benchmarks.workloads import Workload


class _Grain(Peer):
    def supports(self, workload: Workload, workers: int) -> str | None:  # noqa: ARG002
        return "has its own compression" if workload.compression else None

    def prepare(self, workload: Workload) -> None:
        copy_once(_folder(workload), partial(_copy, workload))

    def batches(self, workload: Workload, workers: int) -> Iterable[Batch]:
        if not flags.FLAGS.is_parsed():
            flags.FLAGS(sys.argv[:1])
        folder = _folder(workload)
        files = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
        records = grain.MapDataset.source(grain.sources.ArrayRecordDataSource(files))
        batches = (
            records.map(decoder(workload))
            .to_iter_dataset()
            .batch(workload.batch_size, drop_remainder=False, batch_fn=_Collate(workload, workers))
        )
        if workers:
            batches = batches.mp_prefetch(grain.MultiprocessingOptions(num_workers=workers))
        dataset: Iterable[Batch] = batches
        return dataset

    def to_host(self, workload: Workload, batch: Batch) -> HostBatch:
        tensors = any(isinstance(column, torch.Tensor) for column in batch.values())
        return super().to_host(workload, batch) if tensors else dict(batch)


class _Collate:
    """Collate function that returns tensors, or arrays in workers, which grain sends faster."""

    def __init__(self, workload: Workload, workers: int) -> None:
        self._workload = workload
        self._as_arrays = bool(workers)

    def __call__(self, samples: Any) -> dict[str, Any]:
        batch = collate(self._workload, samples)
        if not self._as_arrays:
            return batch
        return Peer("").to_host(self._workload, batch)


def _folder(workload: Workload) -> str:
    return folder_of(workload, "array_record")


def _copy(workload: Workload, folder: str) -> None:
    for file in workload.files:
        name = os.path.basename(file).removesuffix(".tfrecord") + ".array_record"
        writer = ArrayRecordWriter(os.path.join(folder, name), "group_size:1")
        for record in records_of(workload, file):
            writer.write(record)
        writer.close()


PEERS: list[Peer] = [_Grain("array_record + grain")]
