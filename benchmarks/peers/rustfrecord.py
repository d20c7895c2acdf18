"""rustfrecord: a reader in Rust that gives a tensor or a list of bytes for each feature."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

# isort: split
import torch  # noqa: F401  # whose libraries the next needs
from rustfrecord import Reader

from benchmarks.peers.base import Batch, Peer
from benchmarks.peers.records import OfFiles, Sample, finisher, loader
from benchmarks.workloads import Workload


class _Rustfrecord(Peer):
    def supports(self, workload: Workload, workers: int) -> str | None:  # noqa: ARG002
        return "reads no SequenceExample" if workload.is_sequence else None

    def batches(self, workload: Workload, workers: int) -> Iterable[Batch]:
        finish = finisher(workload)

        def read(file: str) -> Iterator[Sample]:
            for record in Reader(file, compressed=bool(workload.compression)):
                yield finish(
                    {n: getattr(v, "numpy", lambda v=v: v[0])() for n, v in record.items()}
                )

        return loader(workload, OfFiles(workload.files, read), workers)


PEERS: list[Peer] = [_Rustfrecord("rustfrecord")]
