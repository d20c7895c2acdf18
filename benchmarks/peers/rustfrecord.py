"""rustfrecord: a reader in Rust that returns an array for each feature, also for bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch  # noqa: F401  # imported first: rustfrecord needs its libraries
from rustfrecord import Reader

from benchmarks.peers.base import Batch, Peer
from benchmarks.peers.records import OfFiles, Sample, loader, to_array
from benchmarks.workloads import Workload


class _Rustfrecord(Peer):
    def supports(self, workload: Workload, workers: int) -> str | None:  # noqa: ARG002
        return "does not read SequenceExamples" if workload.is_sequence else None

    def batches(self, workload: Workload, workers: int) -> Iterable[Batch]:
        of_bytes = [
            (name, column)
            for name, column in workload.columns.items()
            if column.kind in ("string", "raw", "jpeg")
        ]

        def read(file: str) -> Iterator[Sample]:
            sample: Sample
            for sample in Reader(file, compressed=bool(workload.compression)):
                for name, column in of_bytes:
                    stored = sample[name].tobytes()
                    is_string = column.kind == "string"
                    sample[name] = stored if is_string else to_array(stored, column)
                yield sample

        return loader(workload, OfFiles(workload.files, read), workers)


PEERS: list[Peer] = [_Rustfrecord("rustfrecord")]
