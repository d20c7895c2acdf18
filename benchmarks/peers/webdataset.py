"""webdataset: tar files with a member for each array or image, and scalars in a pickled dict."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial

import webdataset as wds

from benchmarks.peers.base import Batch, Peer
from benchmarks.peers.own_format import copy_once, folder_of, samples_of
from benchmarks.peers.records import Sample, loader, to_array
from benchmarks.workloads import Column, Workload

_SCALARS = "scalars.pyd"


class _WebDataset(Peer):
    def supports(self, workload: Workload, workers: int) -> str | None:  # noqa: ARG002
        return None

    def prepare(self, workload: Workload) -> None:
        copy_once(_folder(workload), partial(_copy, workload))

    def batches(self, workload: Workload, workers: int) -> Iterable[Batch]:
        folder = _folder(workload)
        files = [os.path.join(folder, name) for name in sorted(os.listdir(folder))]
        samples = (
            wds.WebDataset(files, shardshuffle=False, workersplitter=wds.split_by_worker)
            .decode(wds.handle_extension("jpg", _Decode(workload)))
            .map(_Joined(workload))
        )
        return loader(workload, samples, workers)


def _member(name: str, column: Column) -> str:
    """Return the member that stores a column."""
    if column.kind == "jpeg":
        return "jpg"
    return _SCALARS if column.shape == () else f"{name}.npy"


class _Decode:
    """Decoder of images, the same as for other peers."""

    def __init__(self, workload: Workload) -> None:
        self._columns = [c for c in workload.columns.values() if c.kind == "jpeg"]

    def __call__(self, stored: bytes) -> object:
        return to_array(stored, self._columns[0])


class _Joined:
    """Function that joins members to a sample."""

    def __init__(self, workload: Workload) -> None:
        self._members = {n: _member(n, c) for n, c in workload.columns.items()}

    def __call__(self, members: Sample) -> Sample:
        scalars = members[_SCALARS]
        return {
            name: scalars[name] if member == _SCALARS else members[member]
            for name, member in self._members.items()
        }


def _copy(workload: Workload, folder: str) -> None:
    suffix = ".tar.gz" if workload.compression else ".tar"
    for file in workload.files:
        name = os.path.basename(file).removesuffix(".tfrecord") + suffix
        with wds.TarWriter(os.path.join(folder, name)) as writer:
            for number, sample in enumerate(samples_of(workload, file)):
                writer.write({"__key__": f"{number:08}", **_members(workload, sample)})


def _members(workload: Workload, sample: Sample) -> Sample:
    members: Sample = {_SCALARS: {}}
    for name, column in workload.columns.items():
        member = _member(name, column)
        if member == _SCALARS:
            members[_SCALARS][name] = sample[name]
        else:
            members[member] = sample[name]
    return members


def _folder(workload: Workload) -> str:
    return folder_of(workload, "webdataset")


PEERS: list[Peer] = [_WebDataset("webdataset")]
