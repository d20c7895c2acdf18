"""tfrecord-dataset: records in random order, decoded with protobuf in its ``transform``."""

from __future__ import annotations

import os
from collections.abc import Iterable

from tfrecord_dataset.torch import TFRecordDataset

from benchmarks.peers.base import Batch, Peer
from benchmarks.peers.records import decoder, loader
from benchmarks.workloads import Workload


class _TfrecordDataset(Peer):
    def supports(self, workload: Workload, workers: int) -> str | None:
        if workload.compression:
            return "does not read compressed files"
        return "every worker yields every record" if workers else None

    def prepare(self, workload: Workload) -> None:
        for file in workload.files:
            if not os.path.lexists(_name(file)):
                os.symlink(os.path.basename(file), _name(file))

    def batches(self, workload: Workload, workers: int) -> Iterable[Batch]:
        pattern = f"{workload.folder / workload.name}@{workload.shards}"
        dataset = TFRecordDataset(pattern, transform=decoder(workload), num_epochs=1)
        return loader(workload, dataset, workers)


def _name(file: str) -> str:
    """Return a file's name without the suffix, which the package requires."""
    return file.removesuffix(".tfrecord")


PEERS: list[Peer] = [_TfrecordDataset("tfrecord-dataset")]
