"""tfrecord (vahidk): a TFRecordDataset for each file, chained. Does not verify checksums."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np
from tfrecord.tools.tfrecord2idx import create_index
from tfrecord.torch.dataset import TFRecordDataset
from torch.utils.data import ChainDataset

from benchmarks.peers.base import Batch, Peer
from benchmarks.peers.records import Sample, finisher, loader
from benchmarks.workloads import Workload

_TYPES = {"int64": "int", "float32": "float"}


class _Tfrecord(Peer):
    def supports(self, workload: Workload, workers: int) -> str | None:
        if workload.compression and workers:
            return "every worker yields every record without an index, and gzip files have none"
        return None

    def prepare(self, workload: Workload) -> None:
        if not workload.compression:
            for file in workload.files:
                if not os.path.exists(_index_of(file)):
                    create_index(file, _index_of(file))

    def batches(self, workload: Workload, workers: int) -> Iterable[Batch]:
        types = {n: _TYPES.get(c.kind, "byte") for n, c in workload.columns.items()}
        in_lists = {n: types[n] for n, c in workload.columns.items() if c.in_lists}
        context = {n: of for n, of in types.items() if n not in in_lists}
        files = [
            TFRecordDataset(
                file,
                _index_of(file) if workers else None,
                context,
                sequence_description=in_lists or None,
                transform=_joined if in_lists else finisher(workload),
                compression_type="gzip" if workload.compression else None,
            )
            for file in workload.files
        ]
        return loader(workload, ChainDataset(files), workers)


def _joined(parts: tuple[Sample, dict[str, list[Any]]]) -> Sample:
    """Join context and steps in one sample."""
    context, in_lists = parts
    return context | {name: np.concatenate(steps) for name, steps in in_lists.items()}


def _index_of(file: str) -> str:
    return file + ".tfrecord-index"


PEERS: list[Peer] = [_Tfrecord("tfrecord")]
