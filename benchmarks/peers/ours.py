"""This library: TFRecordDataset in a DataLoader with default options, checksums verified."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from torch.utils.data import DataLoader, IterableDataset

import torchrec_io as tio
from benchmarks.peers.base import Batch, HostBatch, Peer
from benchmarks.workloads import Column, Workload
from torchrec_io._schema.feature import Feature

# Imported before the clock starts.
_LOADED = (tio.Batch, tio.Ragged, tio.BytesArray, tio.TFRecordDataset)


def schema_of(workload: Workload) -> tio.Schema:
    """Return the schema of a workload's records."""
    features = {name: _feature(column) for name, column in workload.columns.items()}
    if not workload.is_sequence:
        return tio.Schema(features)
    in_lists = {name for name, column in workload.columns.items() if column.in_lists}
    return tio.Schema(
        context={name: feature for name, feature in features.items() if name not in in_lists},
        sequence={name: features[name] for name in in_lists},
    )


def _feature(column: Column) -> Feature:
    if column.kind == "raw":
        return tio.RawFeature("uint8", column.shape)
    if column.kind == "jpeg" and column.shape is not None:
        return tio.ImageFeature(layout="HWC", size=column.shape[:2])
    if column.in_lists:
        return tio.FixedLenSequenceFeature((), column.kind)
    if column.shape is None:
        return tio.VarLenFeature(column.kind)
    return tio.FixedLenFeature(column.shape, column.kind)


class _Ours(Peer):
    def supports(self, workload: Workload, workers: int) -> str | None:  # noqa: ARG002
        return None

    def batches(self, workload: Workload, workers: int) -> Iterable[Batch]:
        return DataLoader(_dataset(workload), batch_size=None, num_workers=workers)

    def to_host(self, workload: Workload, batch: Any) -> HostBatch:
        host: HostBatch = {}
        for name, value in batch.items():
            if isinstance(value, tio.BytesArray):
                host[name] = value.tolist()
            elif isinstance(value, tio.Ragged):
                values: Any = value.values
                host[name] = (values.numpy(), value.offsets.numpy())
            elif workload.columns[name].in_lists:
                host[name] = (value.numpy(), batch.lengths[name].numpy())
            else:
                host[name] = value.numpy()
        return host


class _Samples(_Ours):
    """The line that most people write first: DataLoader makes the batches."""

    def batches(self, workload: Workload, workers: int) -> Iterable[Batch]:
        dataset = tio.TFRecordDataset(workload.files, schema_of(workload))
        return DataLoader(dataset, batch_size=workload.batch_size, num_workers=workers)


class _AsDicts(Peer):
    """The same batches, with each column sent as a separate tensor, like other datasets do."""

    def supports(self, workload: Workload, workers: int) -> str | None:
        if workload.name != "tabular" or not workers:
            return "only measured to compare ways to send batches from worker processes"
        return None

    def batches(self, workload: Workload, workers: int) -> Iterable[Batch]:
        dicts = _Dicts(_dataset(workload))
        return DataLoader(dicts, batch_size=None, num_workers=workers)


class _Dicts(IterableDataset[dict[str, Any]]):
    def __init__(self, dataset: tio.TFRecordDataset) -> None:
        self._dataset = dataset

    def __iter__(self) -> Iterator[dict[str, Any]]:
        batch: Mapping[str, Any]
        for batch in self._dataset:
            yield {name: column.clone() for name, column in batch.items()}


def _dataset(workload: Workload) -> tio.TFRecordDataset:
    return tio.TFRecordDataset(workload.files, schema_of(workload), batch_size=workload.batch_size)


PEERS: list[Peer] = [
    _Ours("torchrec_io"),
    _Samples("torchrec_io, DataLoader(batch_size=n)"),
    _AsDicts("torchrec_io, sent as a dict of tensors"),
]
