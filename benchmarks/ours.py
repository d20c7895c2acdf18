"""Our side: TFRecordDataset in a DataLoader, on one thread and in one process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch.utils.data import DataLoader

import torchrec_io as tio
from benchmarks import epoch
from benchmarks.workloads import BATCH_SIZE, Column, Workload
from torchrec_io.features.specs import Feature


def schema_of(workload: Workload) -> tio.Schema:
    """What our parser is told about a workload's records."""
    return tio.Schema({name: _feature(column) for name, column in workload.columns.items()})


def batches(workload: Workload) -> Iterable[Mapping[str, Any]]:
    """All records in order. The index is built, or found, before the first batch."""
    torch.set_num_threads(1)
    dataset = tio.TFRecordDataset(
        workload.files, schema_of(workload), batch_size=BATCH_SIZE, num_threads=1
    )
    return DataLoader(dataset, batch_size=None, num_workers=0)


def _feature(column: Column) -> Feature:
    if column.kind == "raw":
        return tio.RawFeature("uint8", column.shape)
    return tio.FixedLenFeature(column.shape, column.kind)


def _to_host(column: Any) -> Any:
    return column.tolist() if isinstance(column, tio.BytesArray) else column.numpy()


if __name__ == "__main__":
    epoch.main(batches, _to_host)
