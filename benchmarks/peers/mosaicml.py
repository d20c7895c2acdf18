"""mosaicml-streaming: MDS files, local, neither compressed nor shuffled."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import transformers  # noqa: F401  # must precede the stand-ins, which it would inspect

from benchmarks.peers.base import Batch, Peer
from benchmarks.peers.own_format import copy_once, folder_of, samples_of
from benchmarks.peers.records import Sample, loader, to_array
from benchmarks.workloads import Column, Workload


def _stand_in(name: str, **members: Any) -> None:
    """Install a stand-in for a torchvision module, which unused parts of streaming import."""
    module = ModuleType(name)
    module.__dict__.update(members)
    sys.modules[name] = module


_stand_in("torchvision")
_stand_in("torchvision.datasets", VisionDataset=object, CIFAR10=object)
_stand_in("torchvision.transforms")
_stand_in("torchvision.transforms.functional", to_tensor=None)

from streaming import MDSWriter, StreamingDataset  # noqa: E402
from streaming.base.util import clean_stale_shared_memory  # noqa: E402

_NUMBERS = {"int64": "int64", "float32": "float32"}


class _Mosaic(Peer):
    def supports(self, workload: Workload, workers: int) -> str | None:  # noqa: ARG002
        return "decompresses files to disk once" if workload.compression else None

    def prepare(self, workload: Workload) -> None:
        copy_once(_folder(workload), partial(_copy, workload))

    def batches(self, workload: Workload, workers: int) -> Iterable[Batch]:
        clean_stale_shared_memory()
        return loader(workload, _Samples(workload), workers)


class _Samples(StreamingDataset):  # type: ignore[misc]  # has no types
    def __init__(self, workload: Workload) -> None:
        super().__init__(local=_folder(workload), shuffle=False, batch_size=workload.batch_size)
        self._images = {n: c for n, c in workload.columns.items() if c.kind == "jpeg"}

    def __getitem__(self, number: Any) -> Sample:
        sample: Sample = super().__getitem__(number)
        for name, column in self._images.items():
            sample[name] = to_array(sample[name], column)
        return sample


def _type_of(column: Column) -> str:
    if column.kind in ("string", "jpeg"):
        return "bytes"
    if column.shape == ():
        return _NUMBERS[column.kind]
    dtype = _NUMBERS.get(column.kind, "uint8")
    shape = ",".join(map(str, column.shape or ()))
    return f"ndarray:{dtype}:{shape}" if shape else f"ndarray:{dtype}"


def _copy(workload: Workload, folder: str) -> None:
    types = {name: _type_of(column) for name, column in workload.columns.items()}
    with MDSWriter(out=folder, columns=types, exist_ok=True) as writer:
        for file in workload.files:
            for sample in samples_of(workload, file):
                writer.write({name: _plain(sample[name], of) for name, of in types.items()})


def _plain(value: Any, of: str) -> Any:
    """Convert a scalar to the type that the writer requires."""
    return np.dtype(of).type(value) if of in _NUMBERS else value


def _folder(workload: Workload) -> str:
    return folder_of(workload, "mds")


PEERS: list[Peer] = [_Mosaic("mosaicml-streaming")]
